"""What the link's own format costs, next to what else could have carried it."""

from __future__ import annotations

import importlib
import importlib.util

from benchmarks.figures import Figure

CHOICES = "benchmarks.link_choices"


def measure(quick: bool) -> list[Figure]:
    if importlib.util.find_spec(CHOICES) is None:
        return []
    found: dict[str, float] = importlib.import_module(CHOICES).measure()
    return [Figure(f"link: {name}", "", [value]) for name, value in found.items()]
