"""The kernel host's terminals, asked for over a link of the test's own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter.link.wire import CONTROL, Closed, Connected, Event, Message, Opened, Wire
from interpreter.sandbox.census import Census
from interpreter.sandbox.doors import SocketDoor
from interpreter.sandbox.endings import Endings
from interpreter.sandbox.offspring import Offspring
from interpreter.sandbox.reactor import Reactor
from interpreter.sandbox.settings import Settings
from interpreter.sandbox.terminals import CHUNK, KEPT, LAST_READS, Terminals
from interpreter.sandbox.uplink import Uplink

SECONDS = 60.0


class Sandbox:
    """The terminals of a kernel host that has nothing else, and the gateway's end of its link."""

    def __init__(self, place: Path) -> None:
        self.reactor = Reactor()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place / "s"))
        listener.listen()
        self.uplink = Uplink(SocketDoor(listener), self.reactor, self._handle)
        census = Census({})
        settings = Settings(scratch=str(place), workspace=str(place))
        self.endings = Endings(census, {}, self.uplink.answer)
        self.offspring = Offspring(settings, census, self.endings)
        self.offspring.environment = dict(os.environ)
        self.terminals = Terminals(self.offspring, self.reactor, self.uplink)
        self.wire = Wire(opens=True)
        self.answers: dict[int, dict[str, Any]] = {}
        self.shown: dict[int, bytes] = {}
        self.closed: dict[int, dict[str, Any]] = {}
        self.pids: list[int] = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(place / "s"))
        self.socket.setblocking(False)
        self.wire.connect()
        self._ids = iter(range(1, 1000))
        self._unsent = b""
        self.until(lambda: not self.wire._fresh)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Opened):
            self.terminals.opened(event.info["terminal"], event.stream)
        elif isinstance(event, Message):
            asked = json.loads(event.parts[0])
            do = {"terminal": "start"}.get(asked["do"], asked["do"])
            getattr(self.terminals, do)(asked)

    def ask(self, do: str, **arguments: Any) -> int:
        id = next(self._ids)
        self.wire.send(CONTROL, [json.dumps({"id": id, "do": do, **arguments}).encode()])
        return id

    def open(self, name: str) -> int:
        stream = self.wire.open({"terminal": name})
        id = self.ask("terminal", terminal=name, env={}, rows=24, cols=80)
        self.until(lambda: id in self.answers)
        self.pids.append(self.answers[id]["pid"])
        return stream

    def until(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not there():
            assert time.monotonic() < deadline, self.shown
            self._unsent += self.wire.take()
            try:
                while self._unsent:
                    self._unsent = self._unsent[self.socket.send(self._unsent) :]
            except BlockingIOError:
                pass
            self.reactor.turn(0.005)
            self.terminals.step()
            self.endings.step()
            self.uplink.flush()
            try:
                data = self.socket.recv(1 << 20)
            except BlockingIOError:
                continue
            for event in self.wire.receive(data):
                self._take_in(event)
            self.wire.acknowledge()

    def _take_in(self, event: Event) -> None:
        if isinstance(event, Connected):
            return
        if isinstance(event, Closed):
            self.closed[event.stream] = event.info
        elif isinstance(event, Message) and event.stream == CONTROL:
            answer = json.loads(event.parts[0])
            self.answers[answer["id"]] = answer
        elif isinstance(event, Message):
            self.shown[event.stream] = self.shown.get(event.stream, b"") + event.parts[1]
        self.wire.handled(event.number)

    def end(self) -> None:
        for pid in self.pids:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path)
    yield sandbox
    sandbox.end()


def test_what_is_typed_waits_for_room_and_is_read_whole(sandbox: Sandbox, tmp_path: Path) -> None:
    stream = sandbox.open("main")
    wait = "while [ ! -e go ]; do sleep 0.02; done"
    line = f"stty raw -echo; echo re''ady; {wait}; head -c 3000000 | sha256sum\r"
    sandbox.ask("type", terminal="main", text=line)
    sandbox.until(lambda: b"ready" in sandbox.shown.get(stream, b""))
    texts = [letter * 1_000_000 for letter in "abc"]
    typed = [sandbox.ask("type", terminal="main", text=text) for text in texts]
    resized = sandbox.ask("resize", terminal="main", rows=30, cols=90)
    sandbox.until(lambda: resized in sandbox.answers)
    assert [id in sandbox.answers for id in typed] == [True, False, False]
    refused = [sandbox.ask("type", terminal="main", text="x") for _ in range(20)]
    sandbox.until(lambda: refused[-1] in sandbox.answers)
    assert sandbox.answers[refused[-1]]["refused"] == "full"
    (tmp_path / "go").touch()
    sandbox.until(lambda: all(id in sandbox.answers for id in typed))
    digest = hashlib.sha256("".join(texts).encode()).hexdigest().encode()
    sandbox.until(lambda: digest in sandbox.shown[stream])


def test_a_name_that_is_used_again_leaves_nothing_of_the_terminal_before(sandbox: Sandbox) -> None:
    first = sandbox.open("main")
    open_files = len(os.listdir("/proc/self/fd"))
    second = sandbox.open("main")
    sandbox.until(lambda: first in sandbox.closed)
    assert len(os.listdir("/proc/self/fd")) == open_files
    sandbox.ask("type", terminal="main", text="stty -a | grep -o [-]*iutf8; echo second-$((1+1))\r")
    sandbox.until(lambda: b"second-2\r\n" in sandbox.shown.get(second, b""))
    assert re.search(rb"[\r\n]iutf8\r\n", sandbox.shown[second]), "Backspace takes away characters"


def test_what_is_shown_again_begins_with_a_character(sandbox: Sandbox) -> None:
    stream = sandbox.open("main")
    sandbox.ask(
        "type", terminal="main", text="python3 -c \"print('x' + 100000*'€')\"; echo end-$((1+1))\r"
    )
    sandbox.until(lambda: b"end-2" in sandbox.shown.get(stream, b""))
    sandbox.shown.clear()
    replayed = sandbox.ask("replay", terminal="main")
    sandbox.until(lambda: replayed in sandbox.answers and stream in sandbox.shown)
    again = sandbox.shown[stream]
    assert KEPT - 4 < len(again) <= KEPT
    assert again.decode().startswith("€")


def test_a_terminal_ends_with_its_shell_although_what_that_left_shows_something_for_ever(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = sandbox.open("main")
    shown, read = sandbox.terminals._all["main"].fd, os.read
    monkeypatch.setattr(os, "read", lambda fd, n: b"x" * n if fd == shown else read(fd, n))
    sandbox.shown.clear()
    sandbox.terminals.reaped(sandbox.pids[0], 5 << 8)
    sandbox.until(lambda: stream in sandbox.closed)
    assert sandbox.closed[stream] == {"exit_code": 5, "signal": None}
    assert len(sandbox.shown[stream]) <= LAST_READS * CHUNK


def test_a_shell_that_has_ended_is_not_signalled_by_a_number_that_may_be_anothers(
    sandbox: Sandbox,
) -> None:
    stream = sandbox.open("main")
    sandbox.terminals._all["main"].number = -1  # its shell is somebody else from now on
    sandbox.offspring.reaped(sandbox.pids[0])
    hung_up = sandbox.ask("hang_up", terminal="main")
    sandbox.until(lambda: hung_up in sandbox.answers)
    assert sandbox.answers[hung_up]["ended"] == []
    sandbox.ask("type", terminal="main", text="echo here-$((1+1))\r")
    sandbox.until(lambda: b"here-2\r\n" in sandbox.shown.get(stream, b""))
