"""The page: its documents, their parts, and how a browser logs in.

A document has no secrets in it, so anybody may have it; what it shows it asks the API for. Each comes
with a policy that lets it load what the gateway serves as its parts, and nothing else.
"""

from __future__ import annotations

import re
import secrets
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from tornado.httputil import HTTPServerRequest

from interpreter.errors import NotFound, Unauthorized
from interpreter.gateway.auth import LOGIN_SECONDS, cookie_name, plain_host
from interpreter.gateway.handler import ApiHandler
from interpreter.gateway.operation import Operation

NOT_BUILT = b"""<!doctype html>
<html lang="en">
<title>Interpreter</title>
<p>The page has not been built. Run <code>make serve</code> in the checkout, or
<code>python interpreter/gateway/web/build_page.py</code>, and reload. The API works: see
<a href="/docs">/docs</a>.</p>
</html>
"""
_REFUSED = re.compile(r";\s*q=0(\.0*)?$")
FOR_EVER = "public, max-age=31536000, immutable"


def page_policy(request: HTTPServerRequest, nonce: str) -> str:
    """Scripts are ours. Styles are ours, or have been made by a script of ours."""
    assets, host = _assets(request), plain_host(request)
    sockets = f" ws://{host} wss://{host}" if host else ""
    return (
        f"default-src 'none'; script-src {assets}; style-src {assets} 'nonce-{nonce}'; "
        f"img-src 'self' data: blob:; media-src 'self' blob:; font-src {assets}; "
        f"connect-src 'self'{sockets}; frame-src 'self'; form-action 'none'; base-uri 'none'"
    )


def frame_policy(request: HTTPServerRequest) -> str:
    """For a document that shows what a stranger has made: of no origin, and without a network."""
    return (
        "sandbox allow-scripts; default-src 'none'; "
        f"script-src 'unsafe-inline' 'unsafe-eval' {_assets(request)}; "
        f"style-src 'unsafe-inline' {_assets(request)}; img-src data: blob:; "
        f"font-src data: {_assets(request)}; media-src data: blob:; "
        "connect-src 'none'; webrtc 'block'; form-action 'none'; frame-src 'none'; base-uri 'none'"
    )


def _assets(request: HTTPServerRequest) -> str:
    """The parts of the page, and not the files of sessions that are on the same host."""
    host = plain_host(request)
    return f"{host}/assets/" if host else "'self'"


# -- documents


async def page(call: ApiHandler) -> Any:
    if "token" in call.request.query_arguments:
        _log_in_by_address(call)
        return
    nonce = secrets.token_urlsafe(16)
    policy = page_policy(call.request, nonce) + "; frame-ancestors 'none'"
    call.set_header("Cross-Origin-Opener-Policy", "same-origin")
    _send_document(call, "index", policy, nonce)


async def embedded_page(call: ApiHandler) -> Any:
    """The outputs of one session, which any page may show in a frame."""
    nonce = secrets.token_urlsafe(16)
    _send_document(call, "embed", page_policy(call.request, nonce), nonce)


async def output_frame(call: ApiHandler) -> Any:
    """Where the page shows outputs that are documents, or run scripts."""
    _send_document(call, "frame", frame_policy(call.request))


def _send_document(call: ApiHandler, name: str, policy: str, nonce: str = "") -> None:
    call.set_header("Content-Type", "text/html; charset=utf-8")
    call.set_header("Content-Security-Policy", policy)
    # No policy speaks of names: looking one up would tell its server something.
    call.set_header("X-DNS-Prefetch-Control", "off")
    document = call.gateway.web.page(name)
    if document is None:
        call.set_status(503)
        call.finish(NOT_BUILT)
    else:
        call.finish(document.replace("{{nonce}}", nonce))


async def page_asset(call: ApiHandler) -> Any:
    accepted = _accepted(call.request.headers.get("Accept-Encoding", ""))
    found = call.gateway.web.asset(call.path["name"], accepted)
    if found is None:
        raise NotFound(f"The page has no part '{call.path['name'][:100]}'.")
    asset, encoding, content = found
    call.set_header("Content-Type", asset.type)
    call.set_header("Cache-Control", FOR_EVER)
    call.set_header("Vary", "Accept-Encoding")
    # Documents of no origin load them, too.
    call.set_header("Access-Control-Allow-Origin", "*")
    call.set_header("Cross-Origin-Resource-Policy", "cross-origin")
    if encoding is not None:
        call.set_header("Content-Encoding", encoding)
    call.finish(content)


def _accepted(header: str) -> set[str]:
    """The encodings that a client takes."""
    given = (entry.strip().lower() for entry in header.split(","))
    return {entry.partition(";")[0].strip() for entry in given if not _REFUSED.search(entry)}


# -- logging in


class Login(Struct, forbid_unknown_fields=True):
    """The token, once."""

    token: str


async def log_in(call: ApiHandler) -> Any:
    if not call.gateway.guard.is_token(call.body(Login).token.strip()):
        raise Unauthorized("The token is wrong.")
    _set_cookie(call)


async def log_out(call: ApiHandler) -> Any:
    _set_cookie(call, "", 0)


def _log_in_by_address(call: ApiHandler) -> None:
    """The address that the gateway prints has the token in it; it does not stay in the browser's."""
    given = call.get_query_arguments("token")[-1]
    others = {name: call.get_query_arguments(name) for name in call.request.query_arguments}
    del others["token"]
    if call.gateway.guard.is_token(given.strip()):
        _set_cookie(call)
    else:
        others["login"] = ["wrong"]
    query = urlencode(others, doseq=True)
    path = call.request.path
    call.set_status(303)
    call.set_header("Location", f"{path}?{query}" if query else path)
    call.clear_header("Content-Type")
    call.finish()


def _set_cookie(call: ApiHandler, value: str | None = None, seconds: int = LOGIN_SECONDS) -> None:
    if value is None:
        value, _ = call.gateway.guard.logins.write("page", seconds)
    forwarded = call.request.headers.get("X-Forwarded-Proto", "")
    secure = "https" in (call.request.protocol, forwarded.strip().lower())
    call.set_header(
        "Set-Cookie",
        f"{cookie_name(call.request)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        + ("; Secure" if secure else ""),
    )


OPERATIONS = [
    Operation("GET", "/", "The page", page, public=True),
    Operation("GET", "/sessions/{path}", "A place in the page", page, public=True),
    Operation("GET", "/embed/{session_id}", "One session's outputs", embedded_page, public=True),
    Operation("GET", "/frame", "A frame for outputs", output_frame, public=True),
    Operation("GET", "/assets/{name}", "A part of the page", page_asset, public=True),
    Operation("POST", "/login", "Log in", log_in, body=Login, answers={204: None}, public=True),
    Operation("POST", "/logout", "Log out", log_out, answers={204: None}),
]
