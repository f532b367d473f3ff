"""Who may ask: everyone who has the token, from a page of this host or no page at all."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
from functools import lru_cache
from pathlib import Path

from tornado.httputil import HTTPServerRequest, split_host_and_port

from interpreter.errors import ConfigurationError, ForbiddenHost, Unauthorized

_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9A-Fa-f:]+\](:[0-9]+)?")


def load_token(configured: str | None, path: Path) -> str:
    """The configured token; else the one in the file, which is made at the first start."""
    if configured is not None:
        if not configured.isascii() or not configured.isprintable() or len(configured) < 8:
            raise ConfigurationError("The token must be at least 8 printable ASCII characters.")
        return configured
    if path.exists():
        token = path.read_text().strip()
        if not token:
            raise ConfigurationError(f"{path} is empty.", "Delete it to have a new token made.")
        path.chmod(0o600)
        return token
    token = secrets.token_urlsafe(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    return token


class Guard:
    """Checks the token and the Host header of requests."""

    def __init__(self, token: str, host: str) -> None:
        self._token = token.encode()
        self._only_loopback = is_loopback(host)

    def check_host(self, request: HTTPServerRequest) -> None:
        """A page elsewhere can make its own name mean 127.0.0.1, but cannot change what it is."""
        if self._only_loopback and not is_loopback(request.host_name):
            raise ForbiddenHost(f"This gateway is not '{request.host_name[:100]}'.")

    def lets_in(self, host: str, authorization: str) -> bool:
        """Whether these two headers say at once that a request may be answered."""
        if not _PLAIN_HOST.fullmatch(host) or (self._only_loopback and not _is_loopback_header(host)):
            return False
        scheme, _, given = authorization.partition(" ")
        return scheme in ("Bearer", "bearer", "token") and hmac.compare_digest(
            given.encode("utf-8", "replace"), self._token
        )

    def check_token(self, request: HTTPServerRequest) -> None:
        header = request.headers.get("Authorization", "")
        scheme, _, given = header.partition(" ")
        if scheme.lower() not in ("bearer", "token"):
            given = ""
        if not given:
            given = (request.query_arguments.get("token") or [b""])[0].decode("latin-1")
        if not given:
            raise Unauthorized("This needs a token.")
        if not hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token):
            raise Unauthorized("The token is wrong.")


@lru_cache(maxsize=64)
def _is_loopback_header(host: str) -> bool:
    return is_loopback(split_host_and_port(host.lower())[0])


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
