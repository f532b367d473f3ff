"""Requests that are not HTTP, or end in the middle: the gateway answers or hangs up, and goes on."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from tests.conftest import Gateway

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
LAST = GET + b"Connection: close\r\n\r\n"


def exchange(gateway: Gateway, *pieces: bytes) -> bytes:
    """Sends bytes, and returns everything that comes until the gateway hangs up."""
    place = urlsplit(gateway.url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        received = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            while data := connection.recv(65536):
                received += data
        except (BrokenPipeError, ConnectionResetError):
            pass
        return received


def leave(gateway: Gateway, sent: bytes) -> None:
    """Sends bytes and goes away without waiting for an answer."""
    place = urlsplit(gateway.url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(sent)


def post(gateway: Gateway, headers: bytes, body: bytes = b"") -> bytes:
    token = gateway.token.encode()
    start = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token
    return start + b"\r\n" + headers + b"\r\n\r\n" + body


def assert_well(gateway: Gateway) -> None:
    with gateway.client() as client:
        assert client.get("/healthz", timeout=10).json()["status"] == "ok"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        GET + b"Host: evil.example\r\n\r\n",
        GET + b"no colon\r\n\r\n",
        GET + b"Nul: \x00\r\n\r\n",
        GET + b" folded\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: lo cal\xff\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(small: Gateway, sent: bytes) -> None:
    answer = exchange(small, sent)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Traceback" not in answer
    assert_well(small)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Content-Length: -1", b"400"),
        (b"Content-Length: 1e9", b"400"),
        (b"Content-Length: 5\r\nContent-Length: 6", b"400"),
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"400"),
        (b"Content-Length: 1000000000", b"413"),
        (b"Content-Length: " + b"9" * 5000, b"413"),
        (b"Expect: 100-continue\r\nContent-Length: 1000000000", b"413"),
        (b"Transfer-Encoding: gzip", b"400"),
    ],
)
def test_a_length_that_cannot_be_is_refused(small: Gateway, headers: bytes, status: bytes) -> None:
    answer = exchange(small, post(small, headers))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.count(b"HTTP/1.1") == 1
    assert_well(small)


def test_headers_without_end_are_not_read_to_the_end(small: Gateway) -> None:
    assert exchange(small, GET, *[b"X: " + b"a" * 10_000 + b"\r\n"] * 100) == b""
    assert exchange(small, b"GET /" + b"a" * 1_000_000) == b""
    assert_well(small)


BODY = b'{"name": "half"}'
PARTS = [
    (b"Content-Length: %d" % len(BODY), BODY[:-1]),
    (b"Transfer-Encoding: chunked", b"zz\r\n"),
    (b"Transfer-Encoding: chunked", b"-1\r\n"),
    (b"Transfer-Encoding: chunked", b"10\r\n" + BODY + b"\r\n"),
    (b"Transfer-Encoding: chunked", b"f" * 100 + b"\r\n"),
]


@pytest.mark.parametrize(("headers", "part"), PARTS)
def test_half_a_request_does_nothing(small: Gateway, headers: bytes, part: bytes) -> None:
    whole = post(small, headers, part)
    with small.client() as client:
        before = client.get("/healthz").json()
        for length in (1, 20, 80, len(whole) - len(part), len(whole)):
            for _ in range(5):
                leave(small, whole[:length])
        assert client.get("/healthz").json() == before


def test_requests_sent_together_are_answered_in_order(small: Gateway) -> None:
    unknown = b"GET /v1/sessions/s-%d HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
    token = small.token.encode() + b"\r\n\r\n"
    sent = [GET + b"\r\n", unknown % 1 + token, b"GET /nothing" + (unknown % 2 + token)[19:], LAST]
    answers = exchange(small, b"".join(sent)).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"404", b"404", b"200"]
    codes = [json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] for answer in answers[1:3]]
    assert codes == ["session_not_found", "not_found"]


def test_many_idle_connections_do_not_keep_others_waiting(small: Gateway) -> None:
    place = urlsplit(small.url)
    idle = [socket.create_connection((place.hostname, place.port)) for _ in range(200)]
    try:
        for connection in idle[::2]:
            connection.sendall(b"GET /hea")
        assert_well(small)
    finally:
        for connection in idle:
            connection.close()


def test_an_answer_that_nobody_reads_does_not_stop_the_gateway(small: Gateway) -> None:
    leave(small, (GET + b"\r\n") * 100)
    leave(small, b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert_well(small)
    assert httpx.get(f"{small.url}/docs/assets/swagger-ui-bundle.js").status_code == 200
