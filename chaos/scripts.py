"""What the cells of a run do. What a cell must print follows from its key alone, so that nothing
has to be believed of the gateway to know it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PATIENT = 300.0
"""A timeout that no cell of a run comes near."""


@dataclass(frozen=True)
class Script:
    """A cell's code, and what comes of it when nobody disturbs it."""

    kind: str
    code: str
    stdout: str = ""
    stderr: str = ""
    status: str = "ok"
    shown: tuple[str, ...] = ()
    """The plain text of its displays and its result, in order."""
    timeout: float = PATIENT
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def has_display(self) -> bool:
        return self.kind == "display"


def side_effect(key: str) -> str:
    """One line in a file of the workspace, written by one call: a cell that ran twice shows it."""
    return (
        "import os as _os\n"
        "_f = _os.open('ran', _os.O_WRONLY | _os.O_CREAT | _os.O_APPEND)\n"
        f"_os.write(_f, b'{key}\\n'); _os.close(_f)\n"
    )


def lines(key: str, count: int, width: int = 0) -> str:
    return "".join(f"{key} {i}{'.' * width}\n" for i in range(count))


def _short(key: str, rng: random.Random) -> Script:
    n = rng.choice((1, 3, 40))
    return Script("short", f"for i in range({n}): print('{key}', i)", lines(key, n))


def _slow(key: str, rng: random.Random) -> Script:
    n, pause = rng.randint(4, 25), rng.choice((0.01, 0.05, 0.15))
    code = f"import time\nfor i in range({n}):\n    print('{key}', i, flush=True); time.sleep({pause})\n"
    return Script("slow", code, lines(key, n))


def _large(key: str, rng: random.Random) -> Script:
    n, width = 50_000, 90
    code = f"for i in range({n}): print(f'{key} {{i}}' + '.' * {width})"
    return Script("large", code, lines(key, n, width), options={"max_output_bytes": 2**24})


def _mixed(key: str, rng: random.Random) -> Script:
    n = rng.randint(2, 30)
    code = f"import sys\nfor i in range({n}): print('{key}', i); print('{key}', i, file=sys.stderr)"
    return Script("mixed", code, lines(key, n), lines(key, n))


def _error(key: str, rng: random.Random) -> Script:
    n = rng.randint(0, 5)
    code = f"for i in range({n}): print('{key}', i)\nraise ValueError('{key}')"
    return Script("error", code, lines(key, n), status="error")


def _display(key: str, rng: random.Random) -> Script:
    n = rng.randint(1, 4)
    code = (
        "from IPython.display import display\n"
        f"_h = display({{'text/plain': '{key} 0'}}, raw=True, display_id='{key}')\n"
        f"for i in range(1, {n + 1}): _h.update({{'text/plain': f'{key} {{i}}'}}, raw=True)\n"
    )
    return Script("display", code, shown=(f"{key} {n}",))


def _result(key: str, rng: random.Random) -> Script:
    return Script("result", f"print('{key} 0')\n'{key}'", lines(key, 1), shown=(f"'{key}'",))


def _nap(key: str, rng: random.Random) -> Script:
    seconds = rng.choice((0.3, 1.0, 3.0))
    return Script("nap", f"import time; time.sleep({seconds})\nprint('{key} 0')", lines(key, 1))


def _timeout(key: str, rng: random.Random) -> Script:
    n = rng.randint(0, 3)
    code = f"import time\nfor i in range({n}): print('{key}', i, flush=True)\ntime.sleep(600)"
    return Script("timeout", code, lines(key, n), status="timeout", timeout=rng.choice((0.2, 1.0, 2.5)))


def _stubborn(key: str, rng: random.Random) -> Script:
    code = (
        f"import time\nprint('{key} 0', flush=True)\nwhile True:\n"
        "    try: time.sleep(600)\n    except KeyboardInterrupt: pass"
    )
    return Script("stubborn", code, lines(key, 1), status="timeout", timeout=0.5)


KINDS: dict[str, tuple[int, Callable[[str, random.Random], Script]]] = {
    "short": (30, _short),
    "slow": (20, _slow),
    "large": (3, _large),
    "mixed": (8, _mixed),
    "error": (10, _error),
    "display": (10, _display),
    "result": (10, _result),
    "nap": (8, _nap),
    "timeout": (5, _timeout),
    "stubborn": (1, _stubborn),
}


def make(key: str, rng: random.Random, *kinds: str) -> Script:
    """A cell of one of these kinds, or of any."""
    names = list(kinds or KINDS)
    (name,) = rng.choices(names, [KINDS[name][0] for name in names])
    return _with_effect(key, KINDS[name][1](key, rng))


def update(key: str, display_id: str) -> Script:
    """Changes what another cell shows."""
    code = (
        "from IPython.display import update_display\n"
        f"update_display({{'text/plain': '{key}'}}, raw=True, display_id='{display_id}')"
    )
    return _with_effect(key, Script("update", code))


def command(key: str, rng: random.Random) -> Script:
    """For a shell beside the kernels; what it writes to the file is one call, too."""
    n, pause = rng.randint(1, 15), rng.choice((0, 0.02, 0.2))
    code = (
        f"printf '{key}\\n' >> ran\n"
        f'i=0; while [ $i -lt {n} ]; do echo "{key} $i"; i=$((i+1)); sleep {pause}; done'
    )
    return Script("command", code, lines(key, n))


def look() -> Script:
    """Prints which cells ran, from the file they wrote to."""
    return Script(
        "look", "import os\nprint(open('ran').read() if os.path.exists('ran') else '', end='')"
    )


def birth() -> Script:
    """Prints something that stays as long as the kernel's memory does."""
    return Script("birth", "import os\nprint(globals().setdefault('_birth', os.urandom(8).hex()))")


def _with_effect(key: str, script: Script) -> Script:
    return Script(**{**vars(script), "code": side_effect(key) + script.code})
