"""Runs measurements, shows them as a table, and keeps them as JSON.

Ends with 1 if something could not be measured or missed its target; what a quick run finds says nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
import time
import traceback
from pathlib import Path

from rich.console import Console

from benchmarks import machine, table
from benchmarks.figures import Figure

NAMES = (
    *("cell", "create", "stdout", "many", "containers", "warm", "crowd", "files", "changes"),
    *("commands", "websocket", "layers", "cpu", "link", "page"),
)
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="just see that it works")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to put the JSON file")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    # Whatever ends a run, what it started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console()
    console = console if console.is_terminal else Console(width=140)
    about = {"at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "quick": given.quick, **machine.facts()}
    found: dict[str, list[Figure]] = {}
    failed = False
    for name in given.names or NAMES:
        console.print(f"measuring {name} …", style="dim")
        try:
            found[name] = importlib.import_module(f"benchmarks.{name}").measure(given.quick)
        except KeyboardInterrupt:
            console.print("stopped; this is what there is so far")
            failed = True
            break
        except Exception:
            # The others are still worth knowing.
            console.print(traceback.format_exc(), markup=False, highlight=False)
            failed = True
    rows = [figure for figures in found.values() for figure in figures]
    table.show(console, rows)
    given.results.mkdir(parents=True, exist_ok=True)
    file = given.results / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    figures = {name: [figure.to_json() for figure in measured] for name, measured in found.items()}
    file.write_text(json.dumps({"machine": about, "figures": figures}, indent=2, ensure_ascii=False))
    console.print(f"written to {file}")
    missed = [figure for figure in rows if figure.met is False]
    for figure in missed:
        console.print(f"missed: {figure.name}, {figure.ratio:.2f} instead of {figure.target}")
    return 1 if failed or (missed and not given.quick) else 0


if __name__ == "__main__":
    sys.exit(main())
