"""What the gateway says while it runs, on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Any, TextIO

import structlog


class Unfailing:
    """A stream on which what cannot be written is left out: a log may be on the disk that is full,
    and whoever has something to say of that must not end by it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def stderr() -> TextIO:
    stream: Any = Unfailing(sys.stderr)
    return stream  # type: ignore[no-any-return]


def set_up() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            # Not the tracebacks that show every variable: the token is in one of them.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(stderr()),
        cache_logger_on_first_use=True,
    )
    # Tornado's own loggers speak of malformed requests, which are answered and no fault of ours.
    for name in ("tornado.access", "tornado.general"):
        logging.getLogger(name).setLevel(logging.ERROR)
