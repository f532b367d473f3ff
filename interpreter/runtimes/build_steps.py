"""Following the build of an image: which step it is at, and why it failed if it did."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from interpreter.errors import ConfigurationError

TAIL = 15
"""Lines of a failed build that are shown."""

WORK = {"pip install": "installing packages", "apt-get": "installing fonts", "compileall": "preparing"}
"""What a long RUN is doing, told by what is in it."""
UNREACHABLE = ("connection", "retrying", "certificate", "temporary failure", "no matching distribution")


@dataclass(frozen=True)
class Step:
    """Where a build is."""

    number: int
    """How many steps are done."""
    of: int
    """0 as long as that is not known."""
    doing: str


Report = Callable[[Step], None]


class Steps:
    """The steps of one build, told to `report` as they come."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._number, self._of = 0, 0
        self._tail: deque[str] = deque(maxlen=TAIL)

    def say(self, doing: str) -> None:
        self._report(Step(self._number, self._of, doing))

    def follow(self, name: str, answers: Iterable[Mapping[str, Any]]) -> None:
        """Reads the engine's answers to the end, or raises with the last it said."""
        for answer in answers:
            for line in str(answer.get("stream") or "").splitlines():
                self._read(line.strip())
            if "error" in answer:
                # The engine repeats the whole step before it says how it ended.
                how = re.sub(
                    r"^The command '.*' returned", "It returned", str(answer["error"]), flags=re.S
                )
                said = "\n".join([*self._tail, how])
                raise ConfigurationError(f"The image '{name}' could not be built:\n{said}", _hint(said))

    def _read(self, line: str) -> None:
        line = re.sub(r"\x1b\[[\d;]*m", "", line)
        if match := re.match(r"Step (\d+)/(\d+) : (.*)", line):
            self._number, self._of = int(match[1]) - 1, int(match[2])
            self._tail.clear()
            self.say(_doing(match[3]))
        elif match := re.match(r"(Collecting|Downloading) (\S+)", line):
            self.say(f"{match[1].lower()} {match[2].rpartition('/')[2]}")
        elif line.startswith("Installing collected packages"):
            self.say("unpacking packages")
        if line and not line.startswith(("--->", "Removing intermediate")):
            self._tail.append(line)


def _doing(instruction: str) -> str:
    for part, work in WORK.items():
        if part in instruction:
            return work
    return " ".join(instruction.split())[:60]


def _hint(said: str) -> str:
    if any(word in said.lower() for word in UNREACHABLE):
        return (
            "The build uses the package index, proxy and certificates that pip uses on this machine: "
            "set PIP_INDEX_URL, https_proxy or SSL_CERT_FILE if PyPI is not reached."
        )
    return "The lines above are the end of what the failing step said."
