"""A terminal of a session, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import connect

from interpreter.client import command_requests as requests
from interpreter.client import terminal_protocol as protocol
from interpreter.client.carrier import Carrier


class Terminal:
    """A terminal of a session. It goes on when this is closed; `end` ends it."""

    def __init__(self, carrier: Carrier, session_id: str, name: str) -> None:
        self.name = name
        self._carrier = carrier
        self._session_id = session_id
        self._open = ExitStack()
        place = carrier.wire.place
        url = protocol.terminal_url(place, session_id, name)
        try:
            connecting = connect(url, **protocol.terminal_options(place))
            self._socket = self._open.enter_context(connecting)
        except (OSError, WebSocketException) as e:
            raise protocol.refused(place, e) from None

    def send(self, text: str) -> None:
        """Types this; Enter is a carriage return."""
        for message in protocol.typed(text):
            self._send(message)

    def resize(self, rows: int, columns: int) -> None:
        self._send(protocol.sized(rows, columns))

    def _send(self, message: str) -> None:
        try:
            self._socket.send(message)
        except ConnectionClosed as e:
            raise protocol.refused(self._carrier.wire.place, e) from None

    def __iter__(self) -> Iterator[str]:
        """What it shows, from what is kept of earlier on, until it is over."""
        try:
            for message in self._socket:
                text = protocol.shown(message)
                if text is None:
                    return
                if text:
                    yield text
        except ConnectionClosed as e:
            raise protocol.refused(self._carrier.wire.place, e) from None

    def end(self) -> None:
        """Ends the terminal, with all that was started in it."""
        self._carrier.send(requests.end_terminal(self._session_id, self.name))

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
