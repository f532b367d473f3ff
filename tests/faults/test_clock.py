"""The clock on the wall jumps by years: spans of time do not notice, only what people read does.

The jump is seen by the gateway alone, through libfaketime, which reads the offset from a file.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from tests.conftest import Gateway, only
from tests.faults.scene import Sessions, sessions, wait_for

pytestmark = only("embedded")
LIBRARIES = "faketime/libfaketimeMT.so.1"
WAITS = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n'gone on'"


class WallClock:
    """The clock that a gateway sees on the wall."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set("+0d")

    def set(self, offset: str) -> None:
        self._file.write_text(offset + "\n")


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    (library,) = Path("/usr/lib").glob(f"*/{LIBRARIES}")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(tmp_path / "offset"))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    monkeypatch.setenv("DONT_FAKE_MONOTONIC", "1")
    return WallClock(tmp_path / "offset")


def year_of(s: Sessions, id: str) -> int:
    return datetime.fromisoformat(s.read(id)["created_at"]).year


def left(s: Sessions, id: str) -> dict[str, float]:
    remaining = s.read(id)["remaining"]
    return {name: remaining[name] for name in ("lifetime_seconds", "idle_seconds")}


def test_nothing_ends_early_when_it_jumps(own_gateway: Gateway, clock: WallClock) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        # Less than the machine is up: the span counts from the start of the session.
        short = {"lifetime_seconds": 300, "idle_seconds": 300}
        idle, busy = s.create(on_idle="stop", limits=short), s.create()
        this_year = year_of(s, idle)
        cell = s.begin(busy, WAITS, timeout=600)
        wait_for(lambda: s.cell(busy, cell)["status"] == "running")
        before = left(s, idle)
        for jump, years in (("+3660d", 10), ("-3660d", -10)):
            clock.set(jump)
            new = s.create()
            assert abs(year_of(s, new) - this_year - years) <= 1, "the gateway sees the jump"
            assert s.run(new, "6 * 7")["text"] == "42"
            assert s.run(new, "import time; time.sleep(0.1)")["duration_ms"] < 60_000
            assert s.read(idle)["state"] == "ready"
            assert s.cell(busy, cell)["status"] == "running"
            for name, seconds in left(s, idle).items():
                assert before[name] - 300 < seconds <= before[name]
            s.client.delete(f"/v1/sessions/{new}")
        (own_gateway.data / "workspaces" / busy / "go").touch()
        ended = s.cell(busy, cell, wait=True)
        assert (ended["status"], ended["text"]) == ("ok", "'gone on'")
        assert 0 <= ended["duration_ms"] < 600_000
        for id in (idle, busy):
            numbers = s.numbers(id)
            assert numbers == list(range(1, len(numbers) + 1))


def test_nothing_ends_late_when_it_jumps_back(own_gateway: Gateway, clock: WallClock) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        idle = s.create(on_idle="stop", limits={"idle_seconds": 2})
        old = s.create(on_idle="nothing", limits={"lifetime_seconds": 3})
        busy = s.create()
        cell = s.begin(busy, "import time; time.sleep(600)", timeout=2)
        clock.set("-3660d")
        assert s.cell(busy, cell, wait=True)["status"] == "timeout"
        wait_for(lambda: s.read(idle)["state"] == "stopped")
        assert "nobody used it" in s.read(idle)["reason"]
        wait_for(lambda: s.read(old)["state"] == "stopped")
        assert "lifetime" in s.read(old)["reason"]


@pytest.mark.parametrize("jump", ["+3660d", "-3660d"])
def test_spans_hold_when_it_jumps_while_there_is_no_gateway(
    own_gateway: Gateway, clock: WallClock, jump: str
) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id, soon = s.create(), s.create(on_idle="nothing", limits={"lifetime_seconds": 10})
        cell = s.begin(id, WAITS, timeout=600)
        short = s.begin(soon, "import time; time.sleep(600)", timeout=3)
        wait_for(lambda: s.cell(id, cell)["status"] == "running")
        before = left(s, id)["lifetime_seconds"]
        numbers = s.numbers(id)
    own_gateway.kill()
    clock.set(jump)
    own_gateway.start()
    with sessions(own_gateway) as s:
        assert before - 600 < left(s, id)["lifetime_seconds"] <= before
        assert s.cell(id, cell)["status"] == "running"
        assert s.cell(soon, short, wait=True)["status"] in ("timeout", "lost")
        wait_for(lambda: s.read(soon)["state"] == "stopped")
        (own_gateway.data / "workspaces" / id / "go").touch()
        assert s.cell(id, cell, wait=True)["text"] == "'gone on'"
        assert s.numbers(id)[: len(numbers)] == numbers
        again = s.numbers(id)
        assert again == list(range(1, len(again) + 1))
