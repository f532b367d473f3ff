"""A large file up and down: into a session's workspace, and into nginx's folder on such a file system.

A workspace is a file system of fixed size, which costs something to write to; so nginx has the same.
What it does in a plain folder is told besides.

The same client takes both: it sends a file from the page cache with `sendfile`, and throws away what it
receives. What is sent is compared with what comes back.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import time
from contextlib import ExitStack, closing
from typing import BinaryIO

from benchmarks import gateway, nginx, rest
from benchmarks.figures import Figure, Target
from benchmarks.plain_http import END, Address

MEGABYTE = 1_000_000
CHUNK = 1024 * 1024


def measure(quick: bool) -> list[Figure]:
    rounds, size = (1, 20 * MEGABYTE) if quick else (7, 1000 * MEGABYTE)
    room = 2 * size // MEGABYTE
    up: dict[str, list[float]] = {"ours": [], "same": [], "plain": []}
    down: dict[str, list[float]] = {"ours": [], "same": [], "plain": []}
    with ExitStack() as stack:
        enter = stack.enter_context
        file = enter(tempfile.TemporaryFile())  # noqa: SIM115
        digest = _fill(file, size)
        us = enter(gateway.running())
        session = us.create(limits={"disk_mb": room, "file_mb": room})
        sides = {
            "ours": (us.address, f"/v1/sessions/{session}/files/big.bin"),
            "same": (enter(nginx.running(room)), "/big.bin"),
            "plain": (enter(nginx.running()), "/big.bin"),
        }
        for number in range(rounds + 1):
            # One after the other, and the other way round in the next round.
            for name, (address, path) in sorted(sides.items(), reverse=number % 2 == 1):
                os.sync()  # what another side has written is not in this one's time
                rest.wait_for(us.pid)
                up[name].append(size / MEGABYTE / _upload(address, path, file, size))
                rest.wait_for(us.pid)
                took, received = _download(address, path, check=number == 0)
                assert number or received == digest, f"{name}: another file came back"
                down[name].append(size / MEGABYTE / took)
    note = f"{size // MEGABYTE:,} MB; the first round only warms up"
    sides_of = (("same", f"{nginx.NAME}, the same file system", Target("≥", 0.5)),
                ("plain", f"{nginx.NAME}, a plain folder", None))  # fmt: skip
    return [
        Figure(f"file, {what}", "MB/s", rates["ours"][1:], rates[side][1:], against, target, note)
        for what, rates in (("upload", up), ("download", down))
        for side, against, target in sides_of
    ]


def _fill(file: BinaryIO, size: int) -> str:
    digest, block = hashlib.sha256(), os.urandom(CHUNK)
    left = size
    while left:
        piece = block[:left]
        file.write(piece)
        digest.update(piece)
        left -= len(piece)
    file.flush()
    return digest.hexdigest()


def _upload(address: Address, path: str, file: BinaryIO, size: int) -> float:
    """Seconds until the server has answered that it has it."""
    with closing(socket.create_connection((address.host, address.port))) as connection:
        head = address.request("PUT", path).replace(b"Content-Length: 0", b"Content-Length: %d" % size)
        start = time.perf_counter()
        connection.sendall(head)
        file.seek(0)
        connection.sendfile(file)
        answer = _head(connection)[0]
        took = time.perf_counter() - start
    assert answer.startswith((b"HTTP/1.1 20",)), answer
    return took


def _download(address: Address, path: str, *, check: bool) -> tuple[float, str | None]:
    digest = hashlib.sha256()
    buffer = bytearray(CHUNK)
    with closing(socket.create_connection((address.host, address.port))) as connection:
        start = time.perf_counter()
        connection.sendall(address.request("GET", path))
        head, rest_of_it = _head(connection)
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        digest.update(rest_of_it)
        left = length - len(rest_of_it)
        while left:
            count = connection.recv_into(buffer)
            assert count, "the connection ended too early"
            left -= count
            if check:
                digest.update(memoryview(buffer)[:count])
        took = time.perf_counter() - start
    return took, digest.hexdigest() if check else None


def _head(connection: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while END not in data:
        piece = connection.recv(64 * 1024)
        assert piece, "the connection ended without an answer"
        data += piece
    head, _, rest_of_it = data.partition(END)
    return head, rest_of_it
