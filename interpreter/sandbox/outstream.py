"""stdout and stderr of a kernel that neither flood nor forget.

ipykernel collects everything that is printed within 0.2 s into one message and never makes the
printing code wait: a gigabyte printed is a gigabyte in memory and then one message of that
size. Here a message carries at most `PIECE` characters, and code that prints faster than
its output is taken waits for it.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import sys
import termios
import threading
from typing import Any

from ipykernel import iostream
from ipykernel.iostream import OutStream

from interpreter.sandbox.written import Written

PIECE = 1024 * 1024


class BoundedOutStream(OutStream):
    """An OutStream with bounded messages and back-pressure."""

    flush_interval = 0.05
    written: Written | None = None
    """Tells when what was sent is out of this process."""
    in_child = False
    """Whether this process was forked from the kernel; asking for the pid each time costs more."""

    _pending = 0
    _printed = _flushed = 0
    """Pieces that were printed, and how many of those are known to be out of this process."""
    _last_key: tuple[Any, frozenset[Any]] = (None, frozenset())
    _previous: threading.Event | None = None

    def _setup_stream_redirects(self, name: str) -> None:
        self._pipe_lock = threading.RLock()
        super()._setup_stream_redirects(name)

    def write(self, string: str) -> int | None:  # type: ignore[override]
        if not isinstance(string, str) or self.echo is not None or self.in_child:
            return super().write(string)
        if self.pub_thread is None:
            raise ValueError("I/O operation on closed file")
        if not string.isascii():
            # Half a surrogate pair cannot be sent, and would take everything around it along.
            string = string.encode("utf-8", "backslashreplace").decode()
        if len(string) <= PIECE:
            self._write_piece(string)
        else:
            for start in range(0, len(string), PIECE):
                self._write_piece(string[start : start + PIECE])
        return len(string)

    def flush(self) -> None:
        """Waits until what was printed is out of this process, so that it is there though the process
        be killed; when nothing was printed, there is nothing to wait for.

        ipykernel flushes four times a cell, and each time would take a turn of the sending thread.
        """
        if self._fid is not None and not self.in_child:
            self._read_pipe()
        upto = self._printed
        if self._flushed == upto and self.echo is None and not self.in_child:
            return
        thread = self._other_thread()
        if thread is None or self.in_child:
            super().flush()
        elif self._send(thread, self.written).wait(self.flush_timeout):
            self._flushed = max(self._flushed, upto)
        else:
            print("IOStream.flush timed out", file=sys.__stderr__)

    def _watch_pipe_fd(self) -> None:
        """What child processes and C code print comes through a pipe, which this thread reads."""
        assert self._fid is not None
        poll = select.poll()
        poll.register(self._fid, select.POLLIN)
        try:
            while self._should_watch and poll.poll():
                self._read_pipe()
        except Exception:
            self._exc = sys.exc_info()

    def _read_pipe(self) -> None:
        """Takes what is in the pipe now. Also done when a cell ends: what its children printed before
        is its output, whether or not the thread has come to it."""
        with self._pipe_lock:
            while self._should_watch and self._fid is not None and _waiting(self._fid):
                data = os.read(self._fid, iostream.PIPE_BUFFER_SIZE)
                self.write(data.decode(errors="replace"))
                os.write(self._original_stdstream_copy, data)

    def _write_piece(self, string: str) -> None:
        try:
            parent = self._parent_header.get()
        except LookupError:
            parent = self._parent_header_global
        known, key = self._last_key
        if parent is not known:
            # Printing is mostly one cell's: the key of its buffer is made once, not every time.
            key = frozenset(parent.items())
            self._last_key = parent, key
        with self._buffer_lock:
            self._buffers[key].write(string)
            self._pending += len(string)
            self._printed += 1
        if not self._flush_pending:
            self._schedule_flush()
        if self._pending >= PIECE:
            self._pending = 0
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Sends what is buffered, and waits until what was sent before it is out.

        One piece may thus be on its way while the next is being printed.
        """
        thread = self._other_thread()
        if thread is None:
            return
        sent = self._send(thread)
        previous, self._previous = self._previous, sent
        if previous is not None:
            while not previous.wait(1.0) and thread.thread.is_alive():
                pass

    def _other_thread(self) -> iostream.IOPubThread | None:
        """The one that sends, if it is there and not this one."""
        thread: iostream.IOPubThread | None = self.pub_thread
        if thread is None or thread.thread is threading.current_thread() or not thread.thread.is_alive():
            return None
        return thread

    def _send(self, thread: iostream.IOPubThread, written: Written | None = None) -> threading.Event:
        """Has what is buffered sent; what is returned is set when it is, and `written` if so asked."""
        sent = threading.Event()

        def done() -> None:
            if written is not None:
                written.wait()
            sent.set()

        thread.schedule(self._flush)
        # `_flush` schedules the send itself, so only what is scheduled after it ran comes after it.
        thread.schedule(lambda: thread.schedule(done))
        return sent


def _waiting(fd: int) -> int:
    """How many bytes are in a pipe."""
    number = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, number)
    return number[0]


def watch_forks() -> None:
    """Called in the kernel's process: its children are to print in ipykernel's own, slower way."""
    os.register_at_fork(after_in_child=lambda: setattr(BoundedOutStream, "in_child", True))
