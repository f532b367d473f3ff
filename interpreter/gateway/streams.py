"""Events as Server-Sent Events: numbered, resumable, kept alive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from tornado.iostream import StreamClosedError

from interpreter.errors import InvalidRequest
from interpreter.gateway.handler import ApiHandler
from interpreter.models import MOST, EventType
from interpreter.store import EventRow

KEEP_ALIVE = 15.0
WRITE_BYTES = 256 * 1024
EventNumber = Annotated[int, Meta(ge=0, le=MOST)]


class ServerSentEvent(Struct):
    """One event of a stream: its number, what kind it is, and what happened as JSON."""

    id: str
    event: EventType
    data: Annotated[str, Meta(extra_json_schema={"contentMediaType": "application/json"})]


class After(Struct, forbid_unknown_fields=True):
    """Where to go on: the number of the last event seen."""

    after: EventNumber = 0


class Follow(Struct, forbid_unknown_fields=True):
    """Where to go on, and whether to wait for more."""

    after: EventNumber = 0
    follow: bool = True


def last_seen(call: ApiHandler, after: int) -> int:
    """The number of the last event the client saw: a header that browsers send by themselves."""
    header = call.request.headers.get("Last-Event-ID")
    if header is None:
        return after
    try:
        return msgspec.convert(header, EventNumber, strict=False)
    except msgspec.ValidationError:
        raise InvalidRequest("Last-Event-ID is not the number of an event.") from None


async def send_events(
    call: ApiHandler, batches: AsyncIterator[list[EventRow]], *, until_done: bool
) -> None:
    """Writes events as they come; a client that reads slowly holds back only itself."""
    call.set_header("Content-Type", "text/event-stream")
    call.set_header("X-Accel-Buffering", "no")
    call.send_at_once()
    iterator = aiter(batches)
    # The first step checks that what is asked for exists, before the headers are out.
    step = asyncio.ensure_future(anext(iterator, None))
    gone = asyncio.get_running_loop().create_future()
    call.on_leave.append(gone.cancel)
    try:
        await asyncio.wait({step}, timeout=0.01)
        if step.done():
            step.result()
        with contextlib.suppress(StreamClosedError):
            await call.flush()
            while (left := call.seconds_left) > 0:
                timeout = min(KEEP_ALIVE, left)
                await asyncio.wait({step, gone}, timeout=timeout, return_when="FIRST_COMPLETED")
                if gone.done():
                    return
                if call.seconds_left <= 0:
                    break
                if not step.done():
                    call.write(b":\n\n")
                    await call.flush()
                    continue
                rows = step.result()
                if rows is None:
                    break
                step = asyncio.ensure_future(anext(iterator, None))
                if await _write(call, rows, until_done):
                    break
            await call.finish()
    finally:
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await iterator.aclose()  # type: ignore[attr-defined]


def without_request(row: EventRow) -> bytes:
    """An event as strangers may see it: what a command was given besides its line is not for them."""
    if row.type != "status":
        return row.data
    data = msgspec.json.decode(row.data)
    request = data.get("request")
    if isinstance(request, dict):
        data["request"] = {k: v for k, v in request.items() if k in ("context", "by")}
    return msgspec.json.encode(data)


async def _write(call: ApiHandler, rows: list[EventRow], until_done: bool) -> bool:
    """Returns whether this was the end."""
    pieces: list[bytes] = []
    size = 0
    for row in rows:
        data = without_request(row) if call.embedded else row.data
        pieces += (b"id: %d\nevent: %b\ndata: " % (row.seq, row.type.encode()), data, b"\n\n")
        size += len(data)
        if size >= WRITE_BYTES:
            call.write(b"".join(pieces))
            await call.flush()
            pieces, size = [], 0
        if until_done and row.type == "done":
            call.write(b"".join(pieces))
            return True
    call.write(b"".join(pieces))
    await call.flush()
    return False
