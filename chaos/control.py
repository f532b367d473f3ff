"""What clients ask of sessions. Each action leaves the model knowing what may have come of it."""

from __future__ import annotations

import asyncio
import random

from chaos.choice import with_session
from chaos.model import Session, Violation
from chaos.run import Run


@with_session
async def delete(run: Run, rng: random.Random, session: Session) -> None:
    if len(run.sessions) < 2:
        return
    await remove(run, rng, session, at_once=rng.random() < 0.5)


async def remove(run: Run, rng: random.Random, session: Session, *, at_once: bool) -> None:
    session.changing = True
    if not at_once:
        if session.paused:
            await run.api.ask("POST", f"/v1/sessions/{session.id}/resume")  # else its cells do not end
            session.paused = False
        while session.open_cells:
            await asyncio.sleep(0.05)
            run.raise_problems()
        if not session.paused:
            await run.followers[session.id].read_again()
    session.deleting = True
    with session.disturbed({"lost", "cancelled", "error", "ok"}, refuses=True):
        status, answer = await run.api.ask("DELETE", f"/v1/sessions/{session.id}")
        if status not in (200, 404):
            raise Violation(f"{session.id} cannot be deleted: {status} {answer}")
        await run.forget(session)
        while session.open_cells:
            await asyncio.sleep(0.02)
            run.raise_problems()


@with_session
async def pause(run: Run, rng: random.Random, session: Session) -> None:
    idle = not session.open_cells
    status, answer = await run.api.ask("POST", f"/v1/sessions/{session.id}/pause")
    if status == 409:  # a kernel is being started
        return
    if status != 200:
        raise Violation(f"{session.id} cannot be paused: {status} {answer}")
    if idle and not session.open_cells and answer["state"] != "paused":
        raise Violation(f"{session.id} was paused, and is {answer['state']}")
    session.paused = True


@with_session
async def resume(run: Run, rng: random.Random, session: Session) -> None:
    status, answer = await run.api.ask("POST", f"/v1/sessions/{session.id}/resume")
    session.paused = False
    if status != 200 or answer["state"] not in ("ready", "busy"):
        raise Violation(f"{session.id} was not resumed: {status} {answer}")


@with_session
async def stop_and_start(run: Run, rng: random.Random, session: Session) -> None:
    session.changing = True
    try:
        with session.disturbed({"lost", "cancelled"}, refuses=True):
            status, answer = await run.api.ask("POST", f"/v1/sessions/{session.id}/stop")
            if status != 200 or answer["state"] != "stopped":
                raise Violation(f"{session.id} was not stopped: {status} {answer}")
            await asyncio.sleep(rng.choice((0, 0, 0.5)))
            await start(run, session)
    finally:
        session.changing = False


async def start(run: Run, session: Session) -> None:
    status, answer = await run.api.ask("POST", f"/v1/sessions/{session.id}/start")
    if status != 200 or answer["state"] not in ("ready", "busy"):
        raise Violation(f"{session.id} was not started again: {status} {answer}")
    session.contexts = ["default"]
    session.births.clear()
    session.paused = False


@with_session
async def restart(run: Run, rng: random.Random, session: Session) -> None:
    context = rng.choice(session.contexts)
    session.paused = False
    with session.disturbed({"lost", "cancelled"}, context):
        session.births.pop(context, None)
        path = f"/v1/sessions/{session.id}/restart?context={context}"
        status, answer = await run.api.ask("POST", path)
        session.births.pop(context, None)
    if status != 200:
        raise Violation(f"{session.id} got no new kernel: {status} {answer}")


@with_session
async def add_context(run: Run, rng: random.Random, session: Session) -> None:
    if len(session.contexts) > 2:
        return
    name = f"c{run.step}"
    session.changing, session.paused = True, False
    try:
        status, answer = await run.api.ask("POST", f"/v1/sessions/{session.id}/contexts", {"name": name})
    finally:
        session.changing = False
    if status != 201 and (status, answer["error"]["code"]) != (409, "context_exists"):
        raise Violation(f"{session.id} got no context: {status} {answer}")
    session.contexts.append(name)


@with_session
async def drop_context(run: Run, rng: random.Random, session: Session) -> None:
    if len(session.contexts) < 2:
        return
    name = session.contexts.pop()
    session.changing, session.paused = True, False
    try:
        with session.disturbed({"lost", "cancelled"}, name, refuses=True):
            session.births.pop(name, None)
            status, answer = await run.api.ask("DELETE", f"/v1/sessions/{session.id}/contexts/{name}")
            while [cell for cell in session.open_cells if cell.context == name]:
                await asyncio.sleep(0.02)
                run.raise_problems()
    finally:
        session.changing = False
    if status not in (200, 204, 404):
        raise Violation(f"{session.id}: context {name} cannot be deleted: {status} {answer}")
