"""A Jupyter client made by hand, in either framing: it sees every frame."""

from __future__ import annotations

import asyncio
import json
import struct
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.conftest import Gateway

V1 = "v1.kernel.websocket.jupyter.org"
PATIENCE = 120.0


class Wire:
    """A connection to a kernel's channels."""

    def __init__(self, socket: WebSocketClientConnection, session_id: str, v1: bool) -> None:
        self.socket = socket
        self.session_id = session_id
        self.v1 = v1
        self.seen: list[dict[str, Any]] = []
        self._questions = asyncio.Event()
        socket.on_ping = lambda data: self._questions.set()  # type: ignore[method-assign]

    @classmethod
    async def open(
        cls,
        gateway: Gateway,
        kernel: str,
        *,
        v1: bool = True,
        session_id: str | None = None,
        by: str | None = None,
    ) -> Wire:
        """`by` is the address of something between it and the gateway."""
        session_id = session_id or uuid.uuid4().hex
        base = (by or gateway.url).replace("http", "ws")
        url = f"{base}/api/kernels/{kernel}/channels?session_id={session_id}"
        request = HTTPRequest(url, headers={"Authorization": f"token {gateway.token}"})
        subprotocols = [V1] if v1 else None
        socket = await websocket_connect(request, subprotocols=subprotocols, max_message_size=2**30)
        assert socket.selected_subprotocol == (V1 if v1 else None)
        return cls(socket, session_id, v1)

    def ask(
        self,
        type: str,
        content: dict[str, Any],
        channel: str = "shell",
        buffers: Any = (),
        metadata: dict[str, Any] | None = None,
        msg_id: str | None = None,
        date: str | None = None,
    ) -> str:
        metadata = metadata or {}
        header = {
            "msg_id": msg_id or uuid.uuid4().hex,
            "msg_type": type,
            "session": self.session_id,
            "username": "somebody",
            "date": datetime.now(UTC).isoformat() if date is None else date,
            "version": "5.3",
        }
        if self.v1:
            parts = [
                channel.encode(),
                *(json.dumps(p).encode() for p in (header, {}, metadata, content)),
                *buffers,
            ]
            offsets = [8 * (len(parts) + 2)]
            for part in parts:
                offsets.append(offsets[-1] + len(part))
            frame = struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)
            self.socket.write_message(frame, binary=True)
        else:
            message = {"header": header, "parent_header": {}, "metadata": metadata, "content": content}
            text = json.dumps({**message, "channel": channel, "buffers": []}).encode()
            if not buffers:
                self.socket.write_message(text)
            else:
                offsets = [4 * (len(buffers) + 2)]
                for part in (text, *buffers[:-1]):
                    offsets.append(offsets[-1] + len(part))
                table = struct.pack(f"!{len(offsets) + 1}I", len(offsets), *offsets)
                self.socket.write_message(b"".join((table, text, *buffers)), binary=True)
        return header["msg_id"]

    def execute(self, code: str, **more: Any) -> str:
        return self.ask("execute_request", {"code": code, "silent": False, "allow_stdin": False, **more})

    async def read(self) -> dict[str, Any] | None:
        """The next message, or None when the connection is over."""
        frame = await asyncio.wait_for(self.socket.read_message(), PATIENCE)
        if frame is None:
            return None
        message = self._read_v1(frame) if self.v1 else self._read_legacy(frame)
        self.seen.append(message)
        return message

    def _read_v1(self, frame: Any) -> dict[str, Any]:
        (count,) = struct.unpack_from("<Q", frame)
        offsets = struct.unpack_from(f"<{count}Q", frame, 8)
        channel, *parts = (frame[a:b] for a, b in pairwise(offsets))
        header, parent, metadata, content = (json.loads(part) for part in parts[:4])
        return _message(channel.decode(), header, parent, metadata, content, parts[4:])

    def _read_legacy(self, frame: Any) -> dict[str, Any]:
        buffers: list[bytes] = []
        if isinstance(frame, bytes):
            (count,) = struct.unpack_from("!I", frame)
            offsets = (*struct.unpack_from(f"!{count}I", frame, 4), len(frame))
            frame, *buffers = (frame[a:b] for a, b in pairwise(offsets))
        m = json.loads(frame)
        return _message(
            m["channel"], m["header"], m["parent_header"], m["metadata"], m["content"], buffers
        )

    async def confirmed(self) -> None:
        """Returns when it has been asked whether what it was sent arrived, has said so, and was heard."""
        self._questions.clear()
        while not self._questions.is_set():  # which takes reading on
            await self._ask_something()
        await self._ask_something()  # whose answer comes after what was said before was heard

    async def _ask_something(self) -> None:
        asked = self.ask("kernel_info_request", {}, channel="control")
        await self.until(lambda m: m["parent"] == asked and m["channel"] == "control")

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for message in self.seen:
            if wanted(message):
                return message
        while message := await self.read():
            if wanted(message):
                return message
        raise AssertionError(
            f"the connection ended: {self.socket.close_code} {self.socket.close_reason}"
        )

    async def reply(self, msg_id: str) -> dict[str, Any]:
        """The reply to a request, when the kernel is idle after it, too."""
        await self.until(
            lambda m: m["parent"] == msg_id and m["content"].get("execution_state") == "idle"
        )
        return await self.until(lambda m: m["parent"] == msg_id and m["channel"] in ("shell", "control"))

    def text(self, msg_id: str | None = None) -> str:
        """What was printed."""
        return "".join(
            m["content"]["text"]
            for m in self.seen
            if m["type"] == "stream" and (msg_id is None or m["parent"] == msg_id)
        )

    def of(self, msg_id: str, type: str) -> list[dict[str, Any]]:
        return [m for m in self.seen if m["parent"] == msg_id and m["type"] == type]

    def close(self) -> None:
        self.socket.close()

    async def closed(self) -> None:
        while await self.read() is not None:
            pass


def _message(
    channel: str, header: Any, parent: Any, metadata: Any, content: Any, buffers: list[bytes]
) -> dict[str, Any]:
    return {
        "channel": channel,
        "type": header["msg_type"],
        "header": header,
        "parent": parent.get("msg_id"),
        "parent_header": parent,
        "metadata": metadata,
        "content": content,
        "buffers": buffers,
    }
