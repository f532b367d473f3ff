"""Archives for tests: right ones, and such as only somebody makes who means harm."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Callable
from typing import Any

Build = Callable[[tarfile.TarFile], None]


def archive(*builds: Build, compress: bool = True) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for build in builds:
            build(tar)
    return gzip.compress(out.getvalue(), 1) if compress else out.getvalue()


def entry(name: str, content: bytes = b"", **settings: Any) -> Build:
    """A file, or whatever else the settings make of it."""

    def build(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        for key, value in settings.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(content))

    return build


def symlink(name: str, target: str) -> Build:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> Build:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def folder(name: str, mode: int = 0o755) -> Build:
    return entry(name, type=tarfile.DIRTYPE, mode=mode)


def header_without_end() -> bytes:
    """It says that a name of two gigabytes follows, and goes on as long as it is read."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 2 * 2**30
    return gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(800 * 2**20), 1)


def hole(size: int) -> Build:
    """A file of nothing, of which the archive has only the size."""

    def build(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("hole")
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": "hole",
            "GNU.sparse.realsize": str(size),
        }
        content = f"1\n{size}\n0\n".encode().ljust(512, b"\0")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))

    return build


async def pieces(data: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


HOSTILE: dict[str, tuple[bytes, str]] = {
    "an absolute name": (archive(entry("/etc/evil", b"x")), "absolute"),
    "a name that leads out": (archive(entry("a/../../evil", b"x")), "leads out"),
    "a folder that leads out": (archive(folder("..")), "leads out"),
    "a file behind a link": (
        archive(symlink("out", "/tmp"), entry("out/evil", b"x")),
        "not a folder",
    ),
    "a folder behind a link": (
        archive(symlink("out", ".."), folder("out/evil")),
        "not a folder",
    ),
    "a link in the place of a folder": (
        archive(folder("a"), entry("a/b", b"x"), symlink("a", "/tmp"), entry("a/evil", b"x")),
        "folder and something else",
    ),
    "a second name for a file outside": (archive(hard_link("evil", "/etc/passwd")), "absolute"),
    "a second name that leads out": (archive(hard_link("evil", "../../evil")), "leads out"),
    "a second name for a link": (
        archive(symlink("link", "/etc/passwd"), hard_link("evil", "link")),
        "not a file",
    ),
    "a second name behind a link": (
        archive(symlink("etc", "/etc"), hard_link("evil", "etc/passwd")),
        "not a folder",
    ),
    "a second name for nothing": (archive(hard_link("evil", "nothing")), "not in the archive"),
    "a device": (archive(entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)), "neither"),
    "a disk": (archive(entry("sda", type=tarfile.BLKTYPE, devmajor=8)), "neither"),
    "a pipe": (archive(entry("pipe", type=tarfile.FIFOTYPE)), "neither"),
    "a name that is too long": (archive(entry("x" * 300, b"x")), "cannot be used"),
    "a tree that is too deep": (archive(entry("d/" * 1001 + "x", b"x")), "deep"),
    "a link without a target": (archive(symlink("link", "")), "leads nowhere"),
    "a header without an end": (header_without_end(), "archive is not restored"),
    "no archive": (b"hello" * 1000, "damaged"),
    "nothing": (b"", "damaged"),
    "not a tar file": (gzip.compress(b"hello" * 1000), "damaged"),
    "half of one": (archive(entry("a", b"x" * 100_000))[:-20], "damaged"),
    "one with a broken middle": (
        archive(entry("a", b"x"), compress=False)[:1024] + b"?" * 512 + bytes(4096),
        "damaged",
    ),
    "one without its end": (archive(entry("a", b"x"), compress=False)[:1024], "damaged"),
    "a wrong checksum": (
        (lambda whole: whole[:-8] + b"\0\0\0\0" + whole[-4:])(archive(entry("a", b"x" * 1000))),
        "damaged",
    ),
}
"""What it is → the archive, and a word that the refusal has."""

TOO_MUCH: dict[str, bytes] = {
    "zeros": archive(entry("zeros", bytes(400 * 2**20))),
    "a hole": archive(hole(2**50)),
    "contents": archive(entry("x", b"x" * (20 * 2**20))),
    "many files": archive(*(entry(f"f{i}") for i in range(16 * 64 + 2))),
    "zeros behind the end": archive() + gzip.compress(bytes(400 * 2**20), 1),
}
"""What does not fit into 16 MB, however small it is on its way."""
