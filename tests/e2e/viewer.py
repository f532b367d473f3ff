"""A viewer of a terminal, for tests: types, and waits for what it wants to see."""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.conftest import Gateway

SECONDS = 90.0
MOST = 200_000


class Viewer:
    """A WebSocket to a terminal, and all that was shown on it."""

    def __init__(self, gateway: Gateway, session: str, name: str = "main") -> None:
        url = gateway.url.replace("http", "ws", 1) + f"/v1/sessions/{session}/terminals/{name}"
        self._open = ExitStack()
        connecting = connect(
            url, additional_headers=gateway.headers, max_size=None, proxy=None, open_timeout=SECONDS,
            ping_interval=None,
        )  # fmt: skip
        self.socket: ClientConnection = self._open.enter_context(connecting)
        self.shown = ""
        self.all = ""
        """What was shown so far, up to a limit."""
        self.received = 0
        self.over = False
        assert self._next(time.monotonic() + SECONDS) == ["setup", {}]

    def type(self, text: str) -> None:
        self.socket.send(json.dumps(["stdin", text]))

    def resize(self, rows: int, columns: int) -> None:
        self.socket.send(json.dumps(["set_size", rows, columns]))

    def see(self, pattern: str, *, seconds: float = SECONDS) -> str:
        """Waits until this is shown after what was waited for before, and returns it."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.shown)):
            self._read(deadline, pattern)
        self.shown = self.shown[found.end() :]
        return found.group()

    def see_the_end(self) -> str:
        deadline = time.monotonic() + SECONDS
        while not self.over:
            self._read(deadline, "the end")
        return self.shown

    def _read(self, deadline: float, wanted: str) -> None:
        message = self._next(deadline, wanted)
        if message[0] == "stdout":
            self.shown += message[1]
            if len(self.all) < MOST:
                self.all += message[1]
            self.received += len(message[1])
        elif message == ["disconnect", 1]:
            self.over = True

    def _next(self, deadline: float, wanted: str = "") -> Any:
        left = deadline - time.monotonic()
        assert left > 0, f"{wanted!r} was not shown, but {self.shown[-2000:]!r}"
        try:
            return json.loads(self.socket.recv(timeout=left))
        except TimeoutError:
            raise AssertionError(f"{wanted!r} was not shown, but {self.shown[-2000:]!r}") from None

    def close(self) -> None:
        self._open.close()
