"""The descriptors that are waited for, and who is told when one is ready."""

from __future__ import annotations

import select
from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Reactor:
    """A thin layer over epoll: one callback for each descriptor."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._events: dict[int, int] = {}

    def watch(self, fd: int, on_ready: Callable[[], None], events: int = READ) -> None:
        """Calls back when one of the events is there; without any, the descriptor is let go.

        It would not do to wait for none: epoll tells of a connection's end all the same, for ever.
        """
        if not events:
            self.forget(fd)
        elif fd not in self._callbacks:
            self._epoll.register(fd, events)  # which fails where too much is waited for already
            self._callbacks[fd], self._events[fd] = on_ready, events
        elif self._events[fd] != events:
            self._events[fd] = events
            self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Does nothing for a descriptor that is not waited for."""
        if self._callbacks.pop(fd, None) is not None:
            del self._events[fd]
            self._epoll.unregister(fd)

    def turn(self, seconds: float | None) -> None:
        """Waits until something is ready, at most that long, and calls back."""
        for fd, _ in self._epoll.poll(seconds):
            # One callback can end what another descriptor belonged to.
            if on_ready := self._callbacks.get(fd):
                on_ready()
