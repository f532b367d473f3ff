"""Paths as people write them, and names as sandboxes make them.

A path from outside is relative, UTF-8, and without '..'; anything else is refused before the file
system sees it. A name from a sandbox can be any bytes.
"""

from __future__ import annotations

import os
import re
import secrets

from interpreter.errors import InvalidPath

LONGEST_PATH = 4095
LONGEST_NAME = 255
_OURS = re.compile(r"\.interpreter-[0-9a-f]{16}")


def checked(path: str) -> str:
    """The path with every needless '.' and '/' left out; raises InvalidPath. The top is ''."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise InvalidPath("The path is not UTF-8.") from None
    if "\0" in path:
        raise InvalidPath("The path has a NUL in it.")
    if path.startswith("/"):
        raise InvalidPath(f"'{shown(path)}' is absolute.")
    if len(encoded) > LONGEST_PATH:
        raise InvalidPath(f"The path has {len(encoded):,} bytes; {LONGEST_PATH:,} are possible.")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise InvalidPath(f"'{shown(path)}' has '..' in it.")
    if any(len(name.encode()) > LONGEST_NAME for name in names):
        raise InvalidPath(f"A name in the path is longer than {LONGEST_NAME} bytes.")
    return "/".join(names)


def shown(path: str) -> str:
    """For messages: not too long, and nothing in it that a terminal would obey."""
    readable = "".join(c if c.isprintable() else "?" for c in path[:200])
    return readable if len(path) <= 200 else readable + "…"


def split(path: str) -> tuple[str, str]:
    """The directory and the name in it."""
    parent, _, name = path.rpartition("/")
    return parent, name


def joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def is_utf8(name: str) -> bool:
    """Whether a name that the file system gave is text; odd bytes came as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def readable(name: str) -> str:
    """A name as text, with bytes that are not UTF-8 written as \\xNN."""
    return name if is_utf8(name) else os.fsencode(name).decode("utf-8", "backslashreplace")


def temporary() -> str:
    """A name for what is not complete yet. Listings and archives leave such names out."""
    return f".interpreter-{secrets.token_hex(8)}"


def is_temporary(name: str) -> bool:
    return _OURS.fullmatch(name) is not None
