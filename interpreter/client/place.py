"""Where the gateway is, and the token that opens it.

The URL is the argument, else INTERPRETER_URL, else this machine's port 8888. The token is the
argument, else INTERPRETER_TOKEN, else the file that a gateway on this machine keeps for its own
user. That file is read for loopback URLs only: it is never sent to another machine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from interpreter.client.errors import GatewayUnreachable

if TYPE_CHECKING:
    from interpreter.config import Config

DEFAULT_URL = "http://127.0.0.1:8888"


@dataclass(frozen=True)
class Place:
    """A gateway's address as requests need it."""

    url: str
    token: str | None
    loopback: bool

    @property
    def encrypted(self) -> bool:
        return self.url.startswith("https:")


def locate(url: str | None = None, token: str | None = None) -> Place:
    url = (url or os.environ.get("INTERPRETER_URL") or DEFAULT_URL).rstrip("/")
    loopback = _is_loopback(_host(url))
    token = token or os.environ.get("INTERPRETER_TOKEN") or (_kept_token() if loopback else None)
    return Place(url, token, loopback)


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts.hostname
    except ValueError:
        pass
    raise GatewayUnreachable(f"'{url}' is not the URL of a gateway.", f"Write it like {DEFAULT_URL}.")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def own_config() -> Config:
    """The settings that say where a gateway of this user keeps its data."""
    # Loaded late: a program that gives its own token has no need of it.
    from interpreter.config import Config

    data_dir = os.environ.get("INTERPRETER_DATA_DIR")
    return Config(data_dir=data_dir) if data_dir else Config()


def _kept_token() -> str | None:
    try:
        return own_config().token_path.read_text().strip() or None
    except OSError:
        return None
