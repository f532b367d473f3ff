"""Who may ask: who has the token, who has logged in with it, and who was given less than it.

A browser that has logged in has a cookie, and sends it with whatever it asks of this host, whoever
has it ask. So a cookie counts only where the browser says that a page of this very gateway asks. A page
on another port of the same host is another page, though it is sent the same cookies.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from tornado.httputil import HTTPServerRequest, split_host_and_port

from interpreter.errors import ConfigurationError, Forbidden, ForbiddenHost, Unauthorized
from interpreter.gateway.seal import Seal

LOGIN_SECONDS = 30 * 86400
PAGE_HEADER = "X-Interpreter"
"""Its presence shows that a page of ours asks: others would have to ask for permission to send it."""
SAFE = ("GET", "HEAD")

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
    """Checks who sends a request, and to which host."""

    def __init__(self, token: str, host: str, allowed_hosts: Iterable[str] = ()) -> None:
        self._token = token.encode()
        self._only_loopback = is_loopback(host)
        self._allowed_hosts = frozenset(name.lower() for name in allowed_hosts)
        self._is_ours = lru_cache(maxsize=64)(self._find_out)
        self.logins = Seal(token, "login")
        self.embeds = Seal(token, "embed")
        """Tokens that let see the outputs of one session."""

    # -- to whom

    def check_host(self, request: HTTPServerRequest) -> None:
        """A page elsewhere can make its own name mean 127.0.0.1, but cannot change what it is."""
        if not self._is_ours(request.host_name):
            raise ForbiddenHost(f"This gateway is not '{request.host_name[:100]}'.")

    def _find_out(self, name: str) -> bool:
        if not self._only_loopback and not self._allowed_hosts:
            return True
        return name in self._allowed_hosts or is_loopback(name)

    # -- from whom

    def lets_in(self, host: str, authorization: str) -> bool:
        """Whether these two headers say at once that a request may be answered."""
        if not _PLAIN_HOST.fullmatch(host) or not self._is_ours(split_host_and_port(host.lower())[0]):
            return False
        scheme, _, given = authorization.partition(" ")
        return scheme in ("Bearer", "bearer", "token") and self.is_token(given)

    def check_token(self, request: HTTPServerRequest, outputs_of: str | None = None) -> float | None:
        """`outputs_of` is the session whose outputs are asked for, if it is only that. Returns when the
        token ends, if it is good for no more."""
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        given = given.strip() if scheme.lower() in ("bearer", "token") else ""
        if given and not self.is_token(given) and self.embeds.claims(given):
            return self._check_embed(given, outputs_of)
        if not given:
            given = (request.query_arguments.get("token") or [b""])[0].decode("latin-1").strip()
        if given:
            if not self.is_token(given):
                raise Unauthorized("The token is wrong.")
        elif self.is_logged_in(request):
            _check_origin(request)
        else:
            raise Unauthorized("This needs a token.")
        return None

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    def _check_embed(self, given: str, outputs_of: str | None) -> float:
        found = self.embeds.read(given)
        if found is None:
            raise Unauthorized("The token is wrong, or has expired.")
        session, until = found
        if session != outputs_of:
            raise Forbidden(
                "This token is for reading the outputs of one session.", "Use the gateway's own token."
            )
        return until

    def is_logged_in(self, request: HTTPServerRequest) -> bool:
        cookie = request.cookies.get(cookie_name(request))
        return cookie is not None and self.logins.read(cookie.value) is not None


def cookie_name(request: HTTPServerRequest) -> str:
    """A host has one jar of cookies for all its ports, so each has a name of its own."""
    port = split_host_and_port(request.host)[1]
    return f"interpreter-{port or request.protocol}"


def plain_host(request: HTTPServerRequest) -> str | None:
    """Host and port as a policy can name them; None where it cannot."""
    return request.host if _PLAIN_HOST.fullmatch(request.host) and "[" not in request.host else None


def is_own_origin(request: HTTPServerRequest, origin: str) -> bool:
    """Whether an Origin header names this very host and port."""
    try:
        return urlsplit(origin).netloc.lower() == request.host.lower()
    except ValueError:
        return False


def _check_origin(request: HTTPServerRequest) -> None:
    """Whether it is a page of this gateway that has a browser ask."""
    headers, safe = request.headers, request.method in SAFE
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
    if headers.get("Upgrade", "").lower() == "websocket":
        fine = origin is not None and is_own_origin(request, origin)
    elif site is not None:
        # 'none': somebody typed the address, or opened a bookmark.
        fine = site == "same-origin" or (site == "none" and safe)
    elif origin is not None:
        fine = is_own_origin(request, origin)
    elif PAGE_HEADER in headers:
        fine = True
    else:
        # Browsers say where a request comes from, except to another machine without encryption. There
        # they let no page but ours read the answer, so what changes nothing may be asked.
        fine = safe and not is_loopback(request.host_name)
    if not fine:
        raise Forbidden(
            "Whoever has logged in here is asked to do this by a page elsewhere.",
            "Use the gateway's own page, or send 'Authorization: Bearer TOKEN'.",
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
