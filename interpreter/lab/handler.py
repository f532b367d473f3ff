"""What all handlers share: who may ask, and how WebSockets are passed on.

JupyterLab's own server checks its own token, cookies and origins; the gateway's token is not among what
a page ever gets.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from interpreter.lab.session import LabSession

MOST_SENT = 1024 * 1024 * 1024
"""Bytes of one message of a page; what the gateway takes is for the gateway to say."""


allowed = web.authenticated
"""For whoever has this server's own token, or its cookie."""


class LabHandler(APIHandler):
    """Answers JSON about the session."""

    def initialize(self, lab: LabSession) -> None:
        self.lab = lab

    def body_as(self, type: type[Any]) -> Any:
        try:
            return msgspec.json.decode(self.request.body or b"{}", type=type)
        except (msgspec.MsgspecError, UnicodeDecodeError) as e:
            raise web.HTTPError(400, "The body is not what it should be.") from e

    def answer(self, value: Any, status: int = 200) -> None:
        self.set_status(status)
        self.finish(None if status == 204 else msgspec.json.encode(value))


class LabSocket(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """A page's WebSocket, passed on to one of the gateway message by message.

    Neither side is read faster than the other takes it, and no message is looked into.
    """

    def initialize(self, lab: LabSession) -> None:
        self.lab = lab
        self._gateway: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None

    async def address(self, name: str) -> str:
        """Where in the gateway the other end is; raises HTTPError."""
        raise NotImplementedError

    @property
    def max_message_size(self) -> int:
        return MOST_SENT

    def set_default_headers(self) -> None:
        """A WebSocket has none of those that a page has."""

    def get_compression_options(self) -> None:
        return None

    @ws_authenticated
    async def get(self, name: str) -> None:
        path = await self.address(name)
        offered = self.request.headers.get("Sec-WebSocket-Protocol", "")
        subprotocols = [one.strip() for one in offered.split(",") if one.strip()]
        self._gateway = await self.lab.socket(path, subprotocols)
        try:
            await super().get(name)
        finally:
            if self.ws_connection is None:
                await self._gateway.close()

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return None if self._gateway is None else self._gateway.subprotocol

    def open(self, *args: str) -> None:
        super().open(*args)
        self.set_nodelay(True)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._gateway is not None
        with contextlib.suppress(WebSocketClosedError):
            try:
                async for message in self._gateway:
                    await self.write_message(message, binary=isinstance(message, bytes))
            except ConnectionClosed:
                pass
            # A page takes 1000 and 1001 for the end of the kernel; after others it comes back.
            code = self._gateway.close_code
            self.close(code if code in (1000, 1007, 1013) else 1012, "the gateway hung up")

    async def on_message(self, message: str | bytes) -> None:
        assert self._gateway is not None
        with contextlib.suppress(ConnectionClosed):
            await self._gateway.send(message)

    def on_close(self) -> None:
        super().on_close()
        if self._reading is not None:
            self._reading.cancel()
        if self._gateway is not None:
            closing = asyncio.ensure_future(self._gateway.close())
            closing.add_done_callback(lambda done: done.exception())
