"""Starts the kernel host: `python -m interpreter.sandbox '{"listen_fd": 3, …}'`."""

from __future__ import annotations

import os
import sys

from interpreter.sandbox.settings import Settings, apply_rlimits


def main() -> None:
    settings = Settings.parse(sys.argv[1])
    apply_rlimits(settings.rlimits)
    os.environ.pop("PYTHONPATH", None)
    from interpreter.sandbox.host import Host

    Host(settings).run()


if __name__ == "__main__":
    main()
