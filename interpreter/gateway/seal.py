"""Short facts that only this gateway can have written, and that end by themselves.

The key is made from the token: facts outlive a restart, and a new token makes all of them void.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

LONGEST = 500


class Seal:
    """Seals facts for one purpose; what was sealed for another one is nothing to it."""

    def __init__(self, token: str, purpose: str) -> None:
        self._purpose = purpose
        self._key = hmac.digest(token.encode(), f"interpreter {purpose}".encode(), hashlib.sha256)

    def write(self, fact: str, seconds: float) -> tuple[str, float]:
        """What to hand out, and when it ends."""
        until = int(time.time() + seconds)
        text = f"{self._purpose}.{fact}.{until}"
        return f"{text}.{self._signature(text)}", float(until)

    def read(self, sealed: str) -> tuple[str, float] | None:
        """The fact and when it ends, if it was sealed here and has not ended."""
        if len(sealed) > LONGEST or not sealed.isascii():
            return None
        text, _, signature = sealed.rpartition(".")
        if not hmac.compare_digest(signature, self._signature(text)):
            return None
        _, fact, until = text.split(".")
        return (fact, float(until)) if time.time() < int(until) else None

    def claims(self, given: str) -> bool:
        """Whether something looks as if it had been sealed for this purpose, by whomever."""
        return given.startswith(f"{self._purpose}.")

    def _signature(self, text: str) -> str:
        digest = hmac.digest(self._key, text.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
