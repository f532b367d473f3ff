"""What the headers of requests for files mean: which version, which part, which checksum."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from hmac import compare_digest
from typing import Any
from urllib.parse import quote

from tornado.httputil import HTTPHeaders

from interpreter.errors import FileChanged, InvalidRequest, RangeNotSatisfiable, WrongDigest

_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,19})-([0-9]{0,19})[ \t]*", re.ASCII)
_DIGEST = re.compile(r"[ \t]*([A-Za-z0-9-]+)=:?([A-Za-z0-9+/]*={0,2}):?[ \t]*(?:;.*)?", re.ASCII)
_HASHES: dict[str, Callable[[], Any]] = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
DIGEST_HEADERS = ("Content-Digest", "Repr-Digest", "Digest")
DIGESTS = {
    "Content-Digest": "The body's checksum: 'sha-256=:BASE64:'.",
    "Digest": "The same, the old way: 'sha-256=BASE64'.",
}
"""What people send, and what it means."""


def modified(seconds: float) -> str:
    try:
        return formatdate(max(0, int(seconds)), usegmt=True)
    except (OverflowError, ValueError, OSError):
        return formatdate(0, usegmt=True)


def disposition(kind: str, name: str) -> str:
    """Content-Disposition (RFC 6266): a name in ASCII for old programs, and the true one."""
    plain = "".join(c if " " <= c <= "~" and c not in '"\\%' else "_" for c in name) or "file"
    header = f'{kind}; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"


def matches(header: str, etag: str | None, *, weakly: bool) -> bool:
    """Whether a list of ETags, or '*', has this one; None is that of a file that is not there."""
    if etag is None:
        return False
    if header.strip() == "*":
        return True
    named = re.findall(r'(W/)?("[^"]*")', header)
    return any(tag == etag and (weakly or not weak) for weak, tag in named)


def unchanged(headers: HTTPHeaders, etag: str) -> bool:
    """Whether the client has this version already."""
    return "If-None-Match" in headers and matches(headers["If-None-Match"], etag, weakly=True)


def condition(headers: HTTPHeaders) -> Callable[[str | None], None] | None:
    """What has to hold of the file that is replaced: is given its ETag, None if there is none."""
    if_match, if_none_match = headers.get("If-Match"), headers.get("If-None-Match")
    if if_match is None and if_none_match is None:
        return None

    def check(etag: str | None) -> None:
        if if_match is not None and not matches(if_match, etag, weakly=False):
            raise FileChanged("The file that is there is not the one that If-Match names.")
        if if_none_match is not None and matches(if_none_match, etag, weakly=True):
            raise FileChanged("Something is there already, and If-None-Match says that it may not be.")

    return check


def part(headers: HTTPHeaders, size: int, etag: str, changed: str) -> tuple[int, int] | None:
    """Where the part that was asked for begins and ends; None for the whole file.

    Of several parts, and of a part of another version (If-Range), the whole is sent instead.
    """
    asked = _RANGE.fullmatch(headers.get("Range", ""))
    if asked is None or not (asked[1] or asked[2]):
        return None
    version = headers.get("If-Range")
    if version is not None and version not in (etag, changed):
        return None
    if not asked[1]:
        start, end = max(0, size - int(asked[2])), size
    else:
        start, end = int(asked[1]), min(size, int(asked[2]) + 1) if asked[2] else size
        if asked[2] and int(asked[2]) < start:
            return None  # not a range at all
    if start >= size or start == end:
        raise RangeNotSatisfiable(f"The file has {size:,} bytes.")
    return start, end


class Digest:
    """The checksums that a client sent along, and those of what arrives."""

    def __init__(self, headers: HTTPHeaders) -> None:
        self._wanted: list[tuple[str, bytes]] = []
        for header in DIGEST_HEADERS:
            for one in headers.get(header, "").split(","):
                self._want(one)
        self._found = {name: _HASHES[name]() for name, _ in self._wanted}

    def _want(self, text: str) -> None:
        given = _DIGEST.fullmatch(text)
        name = text.partition("=")[0].strip().lower()
        if name not in _HASHES:
            return  # one that is not checked here
        try:
            value = base64.b64decode(given[2], validate=True) if given else b""
        except binascii.Error:
            value = b""
        if len(value) != _HASHES[name]().digest_size:
            raise WrongDigest(f"The {name} checksum cannot be read.")
        self._wanted.append((name, value))

    def update(self, *pieces: bytes) -> None:
        for hash in self._found.values():
            for piece in pieces:
                hash.update(piece)

    async def checked(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A body, which ends with an error if it does not have them."""
        async for piece in body:
            self.update(piece)
            yield piece
        self.check()

    def check(self) -> None:
        for name, value in self._wanted:
            if not compare_digest(self._found[name].digest(), value):
                raise WrongDigest(f"What arrived does not have the {name} checksum that was sent.")


def body_length(headers: HTTPHeaders) -> int | None:
    """How long the body will be; None when that is not told."""
    if "Transfer-Encoding" in headers:
        return None
    return int(headers.get("Content-Length", "0"))


def boundary(content_type: str) -> bytes | None:
    """What separates the parts of a form; None if it is not a form."""
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        return None
    found = re.search(r'(?:^|;)\s*boundary=(?:"([^"]+)"|([^\s;"]+))', rest, re.IGNORECASE)
    text = (found[1] or found[2]) if found else ""
    if not 1 <= len(text) <= 200 or not text.isascii():
        raise InvalidRequest("The form has no boundary, or one that cannot be used.")
    return text.encode()
