"""What a measurement finds out: numbers of ours, numbers of the other side, and what was promised."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Target:
    """What the ratio of ours to theirs has to be."""

    sign: str
    """'≤' or '≥'."""
    ratio: float

    def met(self, ratio: float) -> bool:
        return ratio <= self.ratio if self.sign == "≤" else ratio >= self.ratio

    def __str__(self) -> str:
        return f"{self.sign} {self.ratio:g}"


@dataclass(frozen=True)
class Figure:
    """One row of the table. Both lists have a value for each round, in the order of the rounds."""

    name: str
    unit: str
    ours: list[float]
    theirs: list[float] = field(default_factory=list)
    against: str = ""
    """What the other side is."""
    target: Target | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The middle one of the rounds' ratios: what slows a whole round slows both sides of it."""
        if not self.theirs:
            return None
        return median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def met(self) -> bool | None:
        ratio = self.ratio
        return None if self.target is None or ratio is None else self.target.met(ratio)

    def to_json(self) -> dict[str, Any]:
        """All there is, with the medians and the verdict worked out."""
        return {
            **asdict(self),
            "target": str(self.target) if self.target else None,
            "median": median(self.ours),
            "their_median": median(self.theirs) if self.theirs else None,
            "ratio": self.ratio,
            "met": self.met,
        }
