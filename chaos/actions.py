"""What clients do with cells. Each action leaves the model knowing what may have come of it."""

from __future__ import annotations

import asyncio
import random

from chaos import scripts
from chaos.choice import Action, create, with_session
from chaos.control import (
    add_context,
    delete,
    drop_context,
    pause,
    restart,
    resume,
    stop_and_start,
)
from chaos.model import Cell, Session, Violation
from chaos.run import Run

MOST_OPEN, MOST_COMMANDS = 25, 4


@with_session
async def one(run: Run, rng: random.Random, session: Session) -> None:
    if len(session.open_cells) < MOST_OPEN:
        session.paused = False
        run.send(session, rng)


@with_session
async def burst(run: Run, rng: random.Random, session: Session) -> None:
    context = rng.choice(session.contexts)
    session.paused = False
    for _ in range(rng.randint(2, 8)):
        if len(session.open_cells) < MOST_OPEN:
            run.send(session, rng, context=context)


@with_session
async def command(run: Run, rng: random.Random, session: Session) -> None:
    """Runs beside the kernels, and knows nothing of what is done to them."""
    if sum(cell.script.kind == "command" for cell in session.open_cells) < MOST_COMMANDS:
        key = run.new_key()
        session.paused = False
        run.send(session, rng, scripts.command(key, rng), context="", mode="command", key=key)


@with_session
async def update(run: Run, rng: random.Random, session: Session) -> None:
    """Another cell's display is changed."""
    shown = [
        cell
        for cell in session.cells.values()
        if cell.script.has_display
        and cell.final is not None
        and cell.final["status"] == "ok"
        and (cell.updated_by is None or not cell.updated_by.open)
    ]
    if not shown:
        key = run.new_key()
        run.send(session, rng, scripts.make(key, rng, "display"), key=key)
        return
    target, key = rng.choice(shown), run.new_key()
    target.shows.add(key)
    session.paused = False
    cell, task = run.send(session, rng, scripts.update(key, target.key), key=key)
    target.updated_by = cell

    def ended(_: object) -> None:
        if cell.refused:
            target.shows.discard(key)
        elif cell.final is not None and cell.final["status"] == "ok":
            # Until everyone is told, it may still show what it showed before.
            target.became = key

    task.add_done_callback(ended)


@with_session
async def birth(run: Run, rng: random.Random, session: Session) -> None:
    """A kernel's memory is what it was, unless something was done to the kernel."""
    context = rng.choice(session.contexts)
    before = session.births.get(context)
    session.births.setdefault(context, "")
    session.paused = False
    cell, task = run.send(session, rng, scripts.birth(), context=context, mode="wait")
    await asyncio.wait({task})
    if cell.final is None or cell.final["status"] != "ok" or context not in session.births:
        return
    found = cell.text.strip()
    if before and found != before and session.births[context] == before:
        raise Violation(f"{session.id}, context {context}: its memory was {before} and is {found}")
    session.births[context] = found


@with_session
async def look(run: Run, rng: random.Random, session: Session) -> None:
    await look_at(run, rng, session)


async def look_at(run: Run, rng: random.Random, session: Session) -> None:
    """Which cells ran, by what they did and not by what is told of them."""
    certain = {key for key, cell in session.cells.items() if not cell.open}
    session.paused = False
    cell, task = run.send(session, rng, scripts.look(), context="default", mode="wait")
    await asyncio.wait({task})
    if cell.final is not None and cell.final["status"] == "ok":
        session.check_effects(cell.text, certain)


def _open(session: Session, rng: random.Random) -> Cell | None:
    cells = session.open_cells
    return rng.choice(cells) if cells else None


@with_session
async def interrupt(run: Run, rng: random.Random, session: Session) -> None:
    context = rng.choice(session.contexts)
    with session.disturbed({"error", "interrupted"}, context):
        path = f"/v1/sessions/{session.id}/interrupt?context={context}"
        status, answer = await run.api.ask("POST", path)
    session.paused = False
    if status != 200:
        raise Violation(f"{session.id} cannot be interrupted: {status} {answer}")


@with_session
async def cancel(run: Run, rng: random.Random, session: Session) -> None:
    cell = _open(session, rng)
    if cell is None:
        cell, _ = run.send(session, rng)
        await asyncio.sleep(rng.choice((0, 0.02, 0.3)))
    cell.allowed.add("cancelled")
    session.paused = False
    path = f"/v1/sessions/{session.id}/executions/{cell.id}"
    status, answer = await run.api.ask("DELETE", path)
    if status == 200:
        cell.ended(answer)
    elif status != 404:  # it was not there yet
        raise Violation(f"{cell} cannot be cancelled: {status} {answer}")


@with_session
async def extend(run: Run, rng: random.Random, session: Session) -> None:
    cell = _open(session, rng)
    if cell is None or cell.script.status == "timeout":
        return
    session.paused = False
    path = f"/v1/sessions/{session.id}/executions/{cell.id}"
    wanted = scripts.PATIENT + rng.randint(1, 100)
    status, answer = await run.api.ask("PATCH", path, {"timeout": wanted})
    if status == 200 and answer["timeout"] != wanted:
        raise Violation(f"{cell} was given {wanted} s, and has {answer['timeout']}")
    if status not in (200, 404, 409):
        raise Violation(f"{cell} cannot be extended: {status} {answer}")
    if status == 200:
        cell.timeout = wanted


async def wait(run: Run, rng: random.Random) -> None:
    await asyncio.sleep(rng.uniform(0, 0.8))


WEIGHTS: dict[Action, int] = {
    one: 25,
    burst: 25,
    command: 10,
    update: 6,
    birth: 4,
    look: 3,
    interrupt: 4,
    cancel: 5,
    extend: 3,
    create: 5,
    delete: 2,
    pause: 5,
    resume: 3,
    stop_and_start: 2,
    restart: 3,
    add_context: 3,
    drop_context: 2,
    wait: 8,
}
