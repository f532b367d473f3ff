"""When to try again, and when to give up.

Pauses grow from 0.1 to 2 seconds until nothing has worked for `patience` seconds. What is tried
again depends on what is known: a gateway that says it is about to stop has done nothing, so
everything may be asked of it again; when a connection broke or was refused, only what is repeatable.
"""

from __future__ import annotations

import time

from interpreter.client.errors import ConnectionLost, GatewayUnreachable
from interpreter.errors import InterpreterError, ShuttingDown

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Also where the gateway names a longer one: it is often back sooner than it can promise."""
RETRIED = (GatewayUnreachable, ConnectionLost, ShuttingDown)


class Backoff:
    """The tries of one call, or of one stream."""

    def __init__(self, patience: float, *, repeatable: bool) -> None:
        self._patience = patience
        self._repeatable = repeatable
        self._failing_since: float | None = None
        self._pause = FIRST_PAUSE
        self._tried_at = time.monotonic()
        self._lost: ConnectionLost | None = None

    def trying(self) -> None:
        self._tried_at = time.monotonic()

    def works(self) -> None:
        self._failing_since = None
        self._pause = FIRST_PAUSE
        self._lost = None

    def pause_after(self, error: InterpreterError) -> float:
        """How long to wait before the next try; raises an error when patience is at its end."""
        if not self._may_try_again(error):
            raise error
        now = time.monotonic()
        if isinstance(error, ConnectionLost):
            # A wait that went on for a while before it was cut had reached the gateway.
            if now - self._tried_at > LONGEST_PAUSE:
                self.works()
            self._lost = error
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._patience:
            # What may have happened stays so, also when the gateway was gone afterwards.
            raise (self._lost or error) from None
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return min(error.retry_after or pause, LONGEST_PAUSE)

    def _may_try_again(self, error: InterpreterError) -> bool:
        if isinstance(error, ShuttingDown):
            return True
        # A gateway that said it would stop is being started again.
        gone = isinstance(error, GatewayUnreachable) and self._failing_since is not None
        return gone or (self._repeatable and isinstance(error, RETRIED))
