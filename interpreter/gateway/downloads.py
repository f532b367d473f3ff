"""Files and archives on their way to a client.

Large files go from the file cache to the socket without passing through this program (sendfile), in a
thread. A thread is only held while the client takes what it is sent: for one that is slow, the event
loop waits.
"""

from __future__ import annotations

import asyncio
import os
import select
from typing import TYPE_CHECKING

from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError

from interpreter.errors import FileConflict
from interpreter.orchestrator.files import SessionFiles
from interpreter.workspace.archive import Archive

if TYPE_CHECKING:
    from interpreter.gateway.handler import ApiHandler

SMALL = 256 * 1024
"""What is sent in one piece, from memory."""
TURN = 64 * 1024 * 1024
"""What one client gets before a thread is free for others."""
AT_ONCE = 8 * 1024 * 1024
PATIENCE_MS = 5
"""How long a thread waits for a client before the event loop does."""
STALL_SECONDS = 300.0
"""A client that takes nothing for so long is given up."""


class _Short(Exception):
    """The file was cut while it was sent."""


async def send_file(call: ApiHandler, files: SessionFiles, file: int, start: int, end: int) -> None:
    """Sends a part of a file as the body. The headers are set, Content-Length among them."""
    if call.request.method == "HEAD":
        await _send_headers(call)
    elif end - start <= SMALL:
        data = await files.run(os.pread, file, end - start, start)
        if len(data) != end - start:
            raise FileConflict("The file was cut short while it was read.", "Try again.")
        call.finish(data)
        return
    else:
        try:
            await call.flush()
            await _send_large(call, files, file, start, end)
        except (StreamClosedError, OSError, TimeoutError, _Short):
            # Half of an answer is on its way: only a connection that ends says that it is not all.
            call.hang_up()
            return
    call.finish()


async def _send_headers(call: ApiHandler) -> None:
    await call.flush()


async def _send_large(call: ApiHandler, files: SessionFiles, file: int, start: int, end: int) -> None:
    connection = call.request.connection
    assert isinstance(connection, HTTP1Connection)
    if connection.stream.closed():
        raise StreamClosedError
    # A descriptor of our own: Tornado may close its one while a thread still sends.
    socket = os.dup(connection.stream.socket.fileno())
    try:
        while start < end:
            start, waiting = await files.run(_push, socket, file, start, end)
            if waiting:
                await _writable(socket)
    finally:
        os.close(socket)
    # Tornado counts what it has written itself, and would miss all of this.
    connection._expected_content_remaining = 0


def _push(socket: int, file: int, start: int, end: int) -> tuple[int, bool]:
    """Sends as much as goes now: where it has got to, and whether the client has to be waited for."""
    ready = select.poll()
    ready.register(socket, select.POLLOUT)
    enough = min(end, start + TURN)
    while start < enough:
        try:
            sent = os.sendfile(socket, file, start, min(AT_ONCE, enough - start))
        except BlockingIOError:
            if not ready.poll(PATIENCE_MS):
                return start, True
            continue
        if sent == 0:
            raise _Short
        start += sent
    return start, False


async def _writable(socket: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(socket, ready.set)
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await ready.wait()
    finally:
        loop.remove_writer(socket)


async def send_archive(call: ApiHandler, files: SessionFiles, archive: Archive) -> None:
    """Sends an archive as it is made, and closes it."""
    try:
        if call.request.method != "HEAD":
            while piece := await files.run(archive.next):
                call.write(piece)
                async with asyncio.timeout(STALL_SECONDS):
                    await call.flush()
        else:
            await _send_headers(call)
    except (StreamClosedError, TimeoutError):
        call.hang_up()
        return
    except Exception:
        if not call._headers_written:
            raise
        call.hang_up()
        return
    finally:
        await files.run(archive.close)
    call.finish()
