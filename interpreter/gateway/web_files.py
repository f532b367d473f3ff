"""The built files of the page, as the gateway serves them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

DIST = Path(__file__).parent / "web" / "dist"


class Asset(Struct, frozen=True):
    """A file whose name changes with what is in it, and how large it is compressed, if it is that."""

    type: str
    bytes: int
    br: int | None = None
    gz: int | None = None


class Manifest(Struct, frozen=True):
    """What the build has made."""

    assets: dict[str, Asset]


class WebFiles:
    """Finds files by their name; only those that the build has listed."""

    def __init__(self, folder: Path = DIST) -> None:
        self._folder = folder
        self._manifest = Manifest({})
        self._built = 0

    def page(self, name: str) -> str | None:
        """A page; None if it has not been built."""
        try:
            self._check()
            return self._read(f"{name}.html", self._built).decode()
        except FileNotFoundError:
            return None

    def asset(self, name: str, encodings: set[str]) -> tuple[Asset, str | None, bytes] | None:
        """A file, how it is encoded, and its contents; None if there is none of this name."""
        try:
            self._check()
            asset = self._manifest.assets.get(name)
            if asset is None:
                return None
            encoding = next((e for e, s in _SIZES.items() if e in encodings and getattr(asset, s)), None)
            suffix = f".{_SIZES[encoding]}" if encoding else ""
            return asset, encoding, self._read(f"assets/{name}{suffix}", self._built)
        except FileNotFoundError:
            return None

    def _check(self) -> None:
        """Reads the list again after another build."""
        file = self._folder / "manifest.json"
        built = file.stat().st_mtime_ns
        if built != self._built:
            self._manifest = msgspec.json.decode(file.read_bytes(), type=Manifest)
            self._built = built

    @lru_cache(maxsize=256)  # noqa: B019
    def _read(self, path: str, built: int) -> bytes:
        return (self._folder / path).read_bytes()


_SIZES = {"br": "br", "gzip": "gz"}
"""Encodings, the best first, and how a file that has one ends."""
