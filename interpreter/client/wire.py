"""How calls become HTTP: what httpx is told, and what its errors mean.

Connections stay open between calls. Connecting may take 5 seconds; after that an ordinary answer
has the client's timeout, and one that waits for a sandbox has none. A gateway on this machine is
spoken to directly, whatever proxies the environment names.
"""

from __future__ import annotations

from typing import Any

import httpx

from interpreter.client.call import Call
from interpreter.client.errors import ConnectionLost, GatewayUnreachable
from interpreter.client.place import Place
from interpreter.errors import InterpreterError

CONNECT_SECONDS = 5.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Wire:
    """One gateway, as arguments for either kind of httpx client."""

    def __init__(self, place: Place, timeout: float, by: str) -> None:
        self.place = place
        self.by = by
        """Who runs cells and commands, for others to see."""
        self._timeout = timeout

    def settings(self) -> dict[str, Any]:
        """Arguments of the httpx client."""
        # Streams are read as they come on the wire, so they must not be compressed.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self.place.token:
            headers["Authorization"] = f"Bearer {self.place.token}"
        return {
            "headers": headers,
            "trust_env": not self.place.loopback,
            # Reading the certificates of all authorities takes longer than a cell.
            "verify": self.place.encrypted,
            "limits": httpx.Limits(max_keepalive_connections=100, keepalive_expiry=60.0),
        }

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """Arguments of the httpx client's `request` or `stream`."""
        headers = dict(call.headers)
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        elif call.content is not None:
            headers["Content-Type"] = "application/octet-stream"
        silence = None if call.waits else call.silence or self._timeout
        return {
            "method": call.method,
            "url": self.place.url + call.path,
            "params": call.params or None,
            "content": call.body if call.content is None else call.content(),
            "headers": headers,
            "timeout": httpx.Timeout(
                connect=CONNECT_SECONDS, read=silence, write=self._timeout, pool=None
            ),
        }

    def explain(self, error: httpx.TransportError) -> InterpreterError:
        """The error to raise for one of httpx: was the request sent or not?"""
        if isinstance(error, _NOT_SENT):
            hint = None if self.place.loopback else "Check INTERPRETER_URL and the network."
            return GatewayUnreachable(f"No gateway answers at {self.place.url}.", hint)
        if isinstance(error, httpx.ReadTimeout):
            return ConnectionLost(f"The gateway at {self.place.url} has been silent for too long.")
        return ConnectionLost(f"The connection to {self.place.url} broke: {error}")
