"""Who gets a sandbox, and when: so many at once, within the machine's memory and processors.

Whoever does not fit now waits in a queue, first come, first served: a small one does not overtake a
large one for ever. The queue is bounded, and so is the wait.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from interpreter.config import Config
from interpreter.errors import LimitTooHigh, TooManySessions
from interpreter.models import Limits
from interpreter.runtimes.base import Capacity

LONGEST_RETRY = 60.0


class Reservation:
    """Room for one session, until it is released."""

    def __init__(self, admission: Admission, limits: Limits) -> None:
        self.limits = limits
        self._admission: Admission | None = admission

    def release(self) -> None:
        admission, self._admission = self._admission, None
        if admission is not None:
            admission._release(self)

    def change(self, limits: Limits) -> bool:
        """Reserves more or less; False, and as it was, when there is not that much room."""
        return self._admission is not None and self._admission._change(self, limits)


class Waiter:
    """A request that waits for room."""

    def __init__(self, limits: Limits, queue: deque[Waiter], seconds: float) -> None:
        self.limits = limits
        self.deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        """When it is refused if there is no room by then."""
        self.admitted: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()
        self._queue = queue

    def position(self) -> int | None:
        """Its place in the queue, from 1."""
        return self._queue.index(self) + 1 if self in self._queue else None

    def is_admitted(self) -> bool:
        return self.admitted.done() and not self.admitted.cancelled()

    def give_up(self) -> None:
        """Nobody wants it any more: whoever awaits it is cancelled."""
        self.admitted.cancel()


OnWait = Callable[[Waiter], None]
"""Is told when somebody has to wait."""
NO_LIMIT = Capacity(memory_mb=sys.maxsize, cpus=sys.maxsize)


class Admission:
    """The room there is for sessions; or, with no limit but their number, for those being started."""

    def __init__(
        self,
        config: Config,
        most: int,
        capacity: Capacity = NO_LIMIT,
        why: str = "sessions run",
    ) -> None:
        self._most, self._why = most, why
        self.memory_limit_mb = int(capacity.memory_mb * config.memory_overcommit)
        self.cpus_limit = capacity.cpus * config.cpu_overcommit
        self._config = config
        self._held: set[Reservation] = set()
        self._queue: deque[Waiter] = deque()
        self._released_at = time.monotonic()
        self._between = config.queue_seconds
        """Seconds from one release to the next, on average."""

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def memory_mb(self) -> int:
        return sum(reservation.limits.memory_mb for reservation in self._held)

    @property
    def cpus(self) -> float:
        return sum(reservation.limits.cpus for reservation in self._held)

    def take(self, limits: Limits) -> Reservation:
        """Room for a sandbox that is there already: it is not asked whether it fits."""
        reservation = Reservation(self, limits)
        self._held.add(reservation)
        return reservation

    async def admit(self, limits: Limits, on_wait: OnWait) -> Reservation:
        """Waits for room. Raises LimitTooHigh for what can never be, TooManySessions after a while.

        `on_wait` is told when there is none yet.
        """
        if limits.memory_mb > self.memory_limit_mb or limits.cpus > self.cpus_limit:
            raise LimitTooHigh(
                f"All sessions together get {self.memory_limit_mb:,} MB and {self.cpus_limit:g} CPUs "
                "on this machine."
            )
        if not self._queue and self._fits(limits):
            return self.take(limits)
        if len(self._queue) >= self._config.max_queued_sessions:
            raise self._refusal(f"{len(self._queue)} requests wait for a session already")
        waiter = Waiter(limits, self._queue, self._config.queue_seconds)
        self._queue.append(waiter)
        on_wait(waiter)
        try:
            async with asyncio.timeout(self._config.queue_seconds):
                return await waiter.admitted
        except asyncio.CancelledError:
            if waiter.is_admitted():  # just as the caller gave up
                waiter.admitted.result().release()
            raise
        except TimeoutError:
            if waiter.is_admitted():  # just as the time was over
                return waiter.admitted.result()
            waited = f"no room within {self._config.queue_seconds:g} s"
            raise self._refusal(f"{self._why_not(limits)}, and there was {waited}") from None
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)
            self._advance()

    def _fits(self, limits: Limits) -> bool:
        return (
            len(self._held) < self._most
            and self.memory_mb + limits.memory_mb <= self.memory_limit_mb
            and self.cpus + limits.cpus <= self.cpus_limit
        )

    def _why_not(self, limits: Limits) -> str:
        if len(self._held) >= self._most:
            return f"{self._most} {self._why}, and no more may"
        if self.memory_mb + limits.memory_mb > self.memory_limit_mb:
            return f"{self.memory_mb:,} of {self.memory_limit_mb:,} MB are reserved"
        return f"{self.cpus:g} of {self.cpus_limit:g} CPUs are reserved"

    def _refusal(self, why: str) -> TooManySessions:
        error = TooManySessions(f"There is no room for another session: {why}.")
        wait = self._between * (len(self._queue) + 1)
        error.retry_after = float(math.ceil(min(LONGEST_RETRY, max(1.0, wait))))
        return error

    def _advance(self) -> None:
        while self._queue and self._fits(self._queue[0].limits):
            waiter = self._queue.popleft()
            if not waiter.admitted.done():
                waiter.admitted.set_result(self.take(waiter.limits))

    def _release(self, reservation: Reservation) -> None:
        self._held.discard(reservation)
        now = time.monotonic()
        self._between, self._released_at = (self._between + now - self._released_at) / 2, now
        self._advance()

    def _change(self, reservation: Reservation, limits: Limits) -> bool:
        self._held.discard(reservation)
        shrinks = (
            limits.memory_mb <= reservation.limits.memory_mb and limits.cpus <= reservation.limits.cpus
        )
        fits = shrinks or self._fits(limits)
        if fits:
            reservation.limits = limits
        self._held.add(reservation)
        self._advance()
        return fits
