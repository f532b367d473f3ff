"""Runs chaos against a gateway of its own until something is wrong or the time is over."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chaos.driver import Driver, Plan
from chaos.gateway import Gateway
from chaos.model import Violation
from chaos.run import Engine

PLACES = {
    "embedded": {"runtime": "embedded"},
    "docker": {"runtime": "docker", "link": "socket"},
    "docker-attach": {"runtime": "docker", "link": "attach"},
}
console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=500, help="at least so many")
    parser.add_argument("--steps", type=int, help="so many steps instead of a time")
    parser.add_argument("--runtime", choices=PLACES, default="embedded")
    given = parser.parse_args()
    plan = Plan(given.seed, given.minutes * 60, given.kills, given.steps)
    with _engine(given.runtime) as engine:
        folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        return asyncio.run(_run(plan, folder, PLACES[given.runtime], engine))


@contextlib.contextmanager
def _engine(runtime: str) -> Iterator[Engine | None]:
    """An engine that keeps its containers when it is killed, as `DOCKER_HOST`."""
    if runtime == "embedded":
        yield None
        return
    from tests import engine
    from tests.engines.own_engine import OwnEngine

    with engine.running() as client:
        own = OwnEngine("--live-restore").start()
        try:
            own.have_image_of(client)
            before = os.environ["DOCKER_HOST"]
            os.environ["DOCKER_HOST"] = own.host
            yield own
            os.environ["DOCKER_HOST"] = before
        finally:
            own.close()


async def _run(plan: Plan, folder: Path, place: dict[str, str], engine: Engine | None) -> int:
    console.print(f"seed {plan.seed}, in {folder}")
    task = asyncio.current_task()
    assert task is not None
    # Whatever ends a run, what it started is ended too.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    gateway = Gateway(folder / "data", **place)
    driver = Driver(gateway, plan, console.print, engine)
    try:
        await driver.drive()
    except BaseException as problem:
        if gateway.runs:
            gateway.kill()
        _keep(folder)
        if not isinstance(problem, Exception):
            raise
        _report(driver, problem)
        return 1
    finally:
        await driver.run.close()
        await gateway.clear()
    _table(driver)
    shutil.rmtree(folder)
    return 0


def _keep(folder: Path) -> None:
    """What the gateway had written down when it happened; its sandboxes are ended afterwards."""
    for file in (folder / "data").glob("interpreter.*"):
        shutil.copy(file, folder)


def _report(driver: Driver, problem: Exception) -> None:
    run = driver.run
    console.rule("violation")
    console.print(f"{type(problem).__name__}: {problem}", markup=False)
    if not isinstance(problem, Violation):
        console.print("".join(traceback.format_exception(problem)), markup=False)
    console.rule("the last actions")
    console.print("\n".join(run.recent), markup=False)
    console.rule("the end of the gateway's log")
    console.print(run.gateway.log_tail(), markup=False)
    console.rule()
    console.print(f"seed {driver.plan.seed}, step {run.step}, {run.kills} kills")
    console.print(f"to try it again: python -m chaos --seed {driver.plan.seed} --steps {run.step}")
    console.print(f"the database, the journal and the log are in {run.gateway.data.parent}")


def _table(driver: Driver) -> None:
    table = Table("what", "how much", title="0 violations")
    for row in driver.rows():
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
