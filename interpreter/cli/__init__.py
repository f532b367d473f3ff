"""The command line.

`app` says what commands there are; each is in a module of its own that is loaded when it is
used, so that a short cell is not kept waiting for imports. An error is one sentence and a hint on
stderr, never a traceback of ours.
"""

from __future__ import annotations

import sys


def main() -> None:
    # httpx loads a command line of its own, with all of rich, where it can; that takes 50 ms.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]

    from interpreter.cli.app import app
    from interpreter.cli.exits import report
    from interpreter.errors import InterpreterError

    try:
        app(prog_name="interpreter")
    except InterpreterError as error:
        sys.exit(report(error))
