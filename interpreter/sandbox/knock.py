"""Tries the door: takes over the gateway's socket, or exits with the code it was given for that.

The runtime runs this in a trial container before it relies on that way.
"""

from __future__ import annotations

import sys

from interpreter.sandbox.doors import take_over

if __name__ == "__main__":
    try:
        take_over(sys.argv[1]).close()
    except OSError:
        sys.exit(int(sys.argv[2]))
