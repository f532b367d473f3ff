"""What a message costs on our wire and on HTTP/2 through h2, both ends in this process.

Neither does I/O here: bytes go from one end's hands into the other's. h2 is given every
advantage: one stream, no headers after the first, a frame size and windows as large as ours, and
nothing on top of it. Our wire numbers, keeps and acknowledges every message besides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.settings import SettingCodes
from rich.console import Console
from rich.table import Table

from interpreter.link.wire import WINDOW, Connected, Wire

SMALL = 300
LARGE = 256 * 1024
FLOOD = 100 * 1024 * 1024
ECHOES = 5000
ROUNDS = 5


class Ends(Protocol):
    """Two ends, a and b, of one stream."""

    def send(self, to_b: bool, data: bytes) -> bool:
        """Sends, if the window allows it."""

    def deliver(self, to_b: bool) -> int:
        """Carries what was sent; returns how many bytes of messages arrived."""


class OurWire:
    def __init__(self) -> None:
        self.a, self.b = Wire(opens=True), Wire(opens=False)
        self.a.connect()
        self.b.connect()
        self.stream = 0
        self.deliver(True)
        self.deliver(False)
        self.stream = self.a.open({"channel": "iopub"})
        self.deliver(True)

    def send(self, to_b: bool, data: bytes) -> bool:
        end = self.a if to_b else self.b
        if not end.writable(self.stream):
            return False
        end.send(self.stream, [data])
        return True

    def deliver(self, to_b: bool) -> int:
        sender, receiver = (self.a, self.b) if to_b else (self.b, self.a)
        arrived = 0
        for event in receiver.receive(sender.take()):
            if not isinstance(event, Connected):
                receiver.handled(event.number)
                arrived += sum(map(len, getattr(event, "parts", [])))
        return arrived


class H2:
    def __init__(self) -> None:
        self.a = H2Connection(H2Configuration(client_side=True))
        self.b = H2Connection(H2Configuration(client_side=False))
        for end in (self.a, self.b):
            end.initiate_connection()
            end.update_settings(
                {SettingCodes.INITIAL_WINDOW_SIZE: WINDOW, SettingCodes.MAX_FRAME_SIZE: LARGE}
            )
            end.increment_flow_control_window(WINDOW)
        for _ in range(2):
            self.deliver(True)
            self.deliver(False)
        ask = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "sandbox")]
        self.a.send_headers(1, ask)
        self.deliver(True)
        self.b.send_headers(1, [(":status", "200")])
        self.deliver(False)

    def send(self, to_b: bool, data: bytes) -> bool:
        end = self.a if to_b else self.b
        if end.local_flow_control_window(1) < len(data):
            return False
        end.send_data(1, data)
        return True

    def deliver(self, to_b: bool) -> int:
        sender, receiver = (self.a, self.b) if to_b else (self.b, self.a)
        arrived = 0
        for event in receiver.receive_data(sender.data_to_send()):
            if isinstance(event, DataReceived):
                arrived += len(event.data)
                receiver.acknowledge_received_data(event.flow_controlled_length, 1)
        return arrived


def echo(ends: Ends) -> float:
    """Microseconds for a small message there and back."""
    data = bytes(SMALL)
    start = time.perf_counter()
    for _ in range(ECHOES):
        assert ends.send(True, data)
        assert ends.deliver(True) == SMALL
        assert ends.send(False, data)
        assert ends.deliver(False) == SMALL
    return (time.perf_counter() - start) / ECHOES * 1e6


def flood(ends: Ends) -> float:
    """Megabytes a second of large messages from b to a, as fast as the windows allow."""
    data = bytes(LARGE)
    sent = arrived = 0
    start = time.perf_counter()
    while arrived < FLOOD:
        while sent < FLOOD and ends.send(False, data):
            sent += LARGE
        arrived += ends.deliver(False)
        ends.deliver(True)
    return FLOOD / 1e6 / (time.perf_counter() - start)


def measure() -> dict[str, float]:
    """The medians of several rounds; in each round everything is measured once, in turn."""
    kinds: dict[str, Callable[[], Ends]] = {"wire": OurWire, "h2": H2}
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, kind in kinds.items():
            found.setdefault(f"echo of 300 bytes, {name}, µs", []).append(echo(kind()))
            found.setdefault(f"flood of 256 KiB messages, {name}, MB/s", []).append(flood(kind()))
    return {name: median(values) for name, values in found.items()}


def main() -> None:
    found = measure()
    table = Table("both ends in one process, no I/O", "wire", "h2")
    for what, unit in (("echo of 300 bytes", "µs"), ("flood of 256 KiB messages", "MB/s")):
        wire, h2 = (found[f"{what}, {name}, {unit}"] for name in ("wire", "h2"))
        table.add_row(f"{what}, {unit}", f"{wire:.0f}", f"{h2:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
