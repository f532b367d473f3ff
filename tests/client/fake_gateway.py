"""A scripted HTTP server, for what a real gateway does not do when asked to.

It answers each request with the next step of its script, and can break off in the middle of an
event, refuse to answer, or hang up. Everything else is tested against the real gateway.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Callable[["Exchange"], None]


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class FakeGateway:
    steps: list[Step]
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def requests(self) -> list[str]:
        return [f"{s.method} {s.path}" for s in self.seen]


class Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway: FakeGateway

    def setup(self) -> None:
        super().setup()
        self.gateway.connections.append(self.connection)

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {k.lower(): v for k, v in self.headers.items()}
        self.gateway.seen.append(Seen(self.command, self.path, headers, body))
        self.gateway.steps.pop(0)(self)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def answer(body: Any, status: int = 200, content_type: str = "application/json", **headers: str) -> Step:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def step(exchange: Exchange) -> None:
        exchange.send_response(status)
        exchange.send_header("Content-Type", content_type)
        for name, value in headers.items():
            exchange.send_header(name.replace("_", "-"), value)
        if status != 204:
            exchange.send_header("Content-Length", str(len(raw)))
        exchange.end_headers()
        exchange.wfile.write(raw)

    return step


def hang_up(exchange: Exchange) -> None:
    exchange.hang_up()


def stream(*events: bytes, cut: bytes | None = None) -> Step:
    """An event stream; `cut` sends these bytes last and breaks the connection."""

    def step(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("Content-Type", "text/event-stream")
        exchange.send_header("Transfer-Encoding", "chunked")
        exchange.end_headers()
        for raw in (*events, *([cut] if cut else [])):
            exchange.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        if cut is None:
            exchange.wfile.write(b"0\r\n\r\n")
        else:
            exchange.hang_up()

    return step


def event(seq: int, kind: str, execution_id: str | None = "e-1", **data: Any) -> bytes:
    text = json.dumps({"execution_id": execution_id, **data})
    return f"id: {seq}\nevent: {kind}\ndata: {text}\n\n".encode()


def session(id: str = "s-1", name: str | None = None) -> dict[str, Any]:
    return {
        "id": id,
        "name": name,
        "state": "ready",
        "reason": None,
        "environment": "python",
        "runtime": "embedded",
        "isolation": "none",
        "warm": True,
        "labels": {},
        "limits": {},
        "limits_enforced_by": "rlimits",
        "disk_enforced_by": "nothing",
        "usage": None,
        "remaining": {"executions": 100},
        "contexts": ["default"],
        "created_at": "2030-01-01T00:00:00Z",
        "last_activity": "2030-01-01T00:00:00Z",
        "expires_at": None,
    }


def execution(status: str = "ok", **more: Any) -> dict[str, Any]:
    return {
        "id": "e-1",
        "session_id": "s-1",
        "code": "1",
        "status": status,
        "queued_at": "2030-01-01T00:00:00Z",
        **more,
    }


def done(seq: int, **more: Any) -> bytes:
    return event(seq, "done", execution=execution(**more))


def error(
    code: str, status: int, message: str = "It is so.", hint: str = "Do this.", **headers: str
) -> Step:
    return answer({"error": {"code": code, "message": message, "hint": hint}}, status, **headers)


@contextmanager
def fake_gateway(*steps: Step, port: int = 0) -> Iterator[FakeGateway]:
    gateway = FakeGateway(list(steps))
    handler = type("Handler", (Exchange,), {"gateway": gateway})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    gateway.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield gateway
    finally:
        server.shutdown()
        for connection in gateway.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()
