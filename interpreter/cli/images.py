"""Pictures become files, because a terminal cannot show them.

They are named plot-1.png, plot-2.png and so on, never over a file that is there already. A
picture that a cell updates keeps its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interpreter.client.result import SUFFIXES, images_in


class ImageFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stems: dict[str, Path] = {}

    def save(self, bundle: Mapping[str, Any], display_id: str | None) -> list[Path]:
        """Saves the pictures of one output; returns where they are."""
        images = images_in(bundle)
        if not images:
            return []
        stem = self._stems.get(display_id or "") or self._free_stem()
        if display_id:
            self._stems[display_id] = stem
        return [image.save(stem.with_name(stem.name + image.suffix)) for image in images]

    def _free_stem(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            stem = self._folder / f"plot-{number}"
            if not any(stem.with_name(stem.name + suffix).exists() for suffix in SUFFIXES.values()):
                return stem
            number += 1
