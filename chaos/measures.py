"""Memory and descriptors of the gateway: at the start of each of its lives, and within a long one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.model import Violation

MB = 1024 * 1024
LEAST = 0.25
"""A life that begins with the unfinished output of a large cell takes more, and not every one does."""
FEW = 12
"""With fewer samples than this there is nothing to say."""


@dataclass
class Measures:
    """Samples, oldest first."""

    at_start: list[int] = field(default_factory=list)
    """Memory at the start of each life, in bytes."""
    long_life: list[tuple[int, int]] = field(default_factory=list)
    """Memory and descriptors within one life, while it worked."""

    def check(self) -> None:
        _flat("memory at the start of a life, MB", [n / MB for n in self.at_start], 1.15, 8, LEAST)
        _flat("memory within a life, MB", [rss / MB for rss, _ in self.long_life], 1.15, 16)
        _flat("descriptors within a life", [float(n) for _, n in self.long_life], 1.3, 40)

    def rows(self) -> list[tuple[str, str]]:
        rows = []
        starts, life = [n / MB for n in self.at_start], [rss / MB for rss, _ in self.long_life]
        if starts:
            rows.append(("memory at the start of a life", _from_to(starts, "MB")))
        if life:
            rows.append(("memory within the last life", _from_to(life, "MB")))
            rows.append(("descriptors within it", _from_to([float(n) for _, n in self.long_life], "")))
        return rows


def _parts(samples: Sequence[float], part: float = 0.5) -> tuple[float, float]:
    """What so large a part of the first third does not exceed, and of the last."""
    third = max(1, len(samples) // 3)
    at = int(third * part)
    return sorted(samples[:third])[at], sorted(samples[-third:])[at]


def _from_to(samples: Sequence[float], unit: str) -> str:
    first, last = _parts(samples)
    most = f"most {max(samples):.0f}"
    return f"{first:.0f} {unit} in the first third, {last:.0f} {unit} in the last; {most}"


def _flat(what: str, samples: Sequence[float], factor: float, more: float, part: float = 0.5) -> None:
    if len(samples) < FEW:
        return
    first, last = _parts(samples, part)
    if last > first * factor + more:
        raise Violation(f"{what}: {first:.1f} in the first third and {last:.1f} in the last")
