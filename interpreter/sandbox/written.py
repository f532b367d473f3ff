"""Whether what a kernel has sent is out of its process.

libzmq takes a message and writes it a moment later, in a thread of its own. A kernel that is killed in
that moment takes the message along, though its cell had flushed it. libzmq does not tell when it has
written something; but its one thread does one thing after the other, so that a message of our own which
comes back has been overtaken by all that was sent before it, unless there was no room to write it to.
"""

from __future__ import annotations

import select
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message


class Written:
    """Of one socket that is about to be bound, and to which one peer will connect."""

    def __init__(self, socket: zmq.Socket[Any], address: str) -> None:
        """`address` is for a connection to itself, over which messages go through the same thread."""
        self._events = socket.get_monitor_socket(zmq.EVENT_ACCEPTED)
        self._ends = socket.context.socket(zmq.PAIR), socket.context.socket(zmq.PAIR)
        self._ends[0].bind(address)
        self._ends[1].connect(address)
        self._connection: select.poll | None = None

    def wait(self) -> None:
        """Returns when all that the socket was given before is with the system. Always called in the
        thread that uses the socket."""
        if self._connection is None:
            if not self._events.poll(0):
                return  # nobody listens
            fd = parse_monitor_message(self._events.recv_multipart())["value"]
            self._connection = select.poll()
            self._connection.register(fd, select.POLLOUT)
        self._turn()
        while not self._connection.poll(0):
            # It is full, and there may be more that waits to be written.
            self._connection.poll()
            self._turn()

    def _turn(self) -> None:
        self._ends[0].send(b"")
        self._ends[1].recv()
