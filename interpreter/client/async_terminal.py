"""A terminal of a session: the same as `terminal`, with `await`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from interpreter.client import command_requests as requests
from interpreter.client import terminal_protocol as protocol
from interpreter.client.async_carrier import AsyncCarrier


class AsyncTerminal:
    """A terminal, to be awaited or entered with `async with`; see `shell.Terminal`."""

    def __init__(self, carrier: AsyncCarrier, session_id: str, name: str) -> None:
        self.name = name
        self._carrier = carrier
        self._session_id = session_id
        self._open = AsyncExitStack()

    async def open(self) -> AsyncTerminal:
        place = self._carrier.wire.place
        url = protocol.terminal_url(place, self._session_id, self.name)
        try:
            connecting = connect(url, **protocol.terminal_options(place))
            self._socket = await self._open.enter_async_context(connecting)
        except (OSError, WebSocketException) as e:
            raise protocol.refused(place, e) from None
        return self

    def __await__(self) -> Generator[Any, None, AsyncTerminal]:
        return self.open().__await__()

    async def send(self, text: str) -> None:
        """Types this; Enter is a carriage return."""
        for message in protocol.typed(text):
            await self._send(message)

    async def resize(self, rows: int, columns: int) -> None:
        await self._send(protocol.sized(rows, columns))

    async def _send(self, message: str) -> None:
        try:
            await self._socket.send(message)
        except ConnectionClosed as e:
            raise protocol.refused(self._carrier.wire.place, e) from None

    async def __aiter__(self) -> AsyncIterator[str]:
        """What it shows, from what is kept of earlier on, until it is over."""
        try:
            async for message in self._socket:
                text = protocol.shown(message)
                if text is None:
                    return
                if text:
                    yield text
        except ConnectionClosed as e:
            raise protocol.refused(self._carrier.wire.place, e) from None

    async def end(self) -> None:
        """Ends the terminal, with all that was started in it."""
        await self._carrier.send(requests.end_terminal(self._session_id, self.name))

    async def close(self) -> None:
        await self._open.aclose()

    async def __aenter__(self) -> AsyncTerminal:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()
