"""What nobody asks for: the gateway, kernels, sandboxes and the engine are killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import psutil

from chaos import processes, scripts
from chaos.choice import Action, with_session
from chaos.control import start
from chaos.model import Session, Violation
from chaos.run import Run


async def kill_gateway(run: Run, rng: random.Random) -> None:
    await run.kill_gateway(rng)


async def terminate(run: Run, rng: random.Random) -> None:
    await run.restart_gateway()


@with_session
async def answer_and_kill(run: Run, rng: random.Random, session: Session) -> None:
    """The gateway is killed within milliseconds of an answer."""
    key = run.new_key()
    kinds = ("short", "short", "error", "display", "result", "mixed", "timeout", "large")
    script = scripts.make(key, rng, *kinds)
    session.paused = False
    _, task = run.send(session, rng, script, mode=rng.choice(("wait", "stream")), key=key)
    await asyncio.wait({task})
    await asyncio.sleep(rng.choice((0.0, 0.0, 0.003, 0.02)))
    await run.kill_gateway(rng)


@with_session
async def kill_kernel(run: Run, rng: random.Random, session: Session) -> None:
    session.changing, session.paused = True, False
    try:
        with session.disturbed({"lost", "cancelled"}):
            session.births.clear()
            sandbox = run.gateway.sandbox_of(session.id)
            kernels = await asyncio.to_thread(processes.kernels_of, sandbox) if sandbox else []
            if kernels:
                with contextlib.suppress(psutil.Error):
                    rng.choice(kernels).kill()
                    run.counts["kill of a kernel"] += 1
            for context in session.contexts:
                await _until_it_runs(run, rng, session, context)
            session.births.clear()
    finally:
        session.changing = False


async def _until_it_runs(run: Run, rng: random.Random, session: Session, context: str) -> None:
    """A cell that is ok has run in a kernel that is alive."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        cell, task = run.send(session, rng, scripts.birth(), context=context, mode="wait")
        await asyncio.wait({task})
        run.raise_problems()
        if cell.final is not None and cell.final["status"] == "ok":
            return
    raise Violation(f"{session.id}: the context {context} gets no kernel")


@with_session
async def kill_sandbox(run: Run, rng: random.Random, session: Session) -> None:
    session.changing = True
    try:
        with session.disturbed({"lost", "cancelled"}, refuses=True):
            sandbox = run.gateway.sandbox_of(session.id)
            if sandbox is None:
                return
            for process in await asyncio.to_thread(lambda: list(processes.of_sandbox(sandbox))):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            run.counts["kill of a sandbox"] += 1
            # Processes that are frozen die when they are thawed.
            await run.api.ask("POST", f"/v1/sessions/{session.id}/resume")
            await _until_it_is_told(run, session)
            await start(run, session)
    finally:
        session.changing = False


async def _until_it_is_told(run: Run, session: Session) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        _, answer = await run.api.ask("GET", f"/v1/sessions/{session.id}")
        if answer["state"] in ("failed", "stopped"):
            return
        await asyncio.sleep(0.05)
    raise Violation(f"{session.id} lost its sandbox, and is {answer['state']}")


async def _until_it_has_a_sandbox(run: Run, session: Session) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        _, answer = await run.api.ask("GET", f"/v1/sessions/{session.id}")
        if answer["state"] != "creating":
            return
        await asyncio.sleep(0.05)
    raise Violation(f"{session.id} is still being created")


async def kill_engine(run: Run, rng: random.Random) -> None:
    """The engine is killed and started again; it keeps its containers meanwhile."""
    if run.engine is None:
        await run.kill_gateway(rng)
        return
    for session in run.sessions:
        await _until_it_has_a_sandbox(run, session)  # one that the engine was about to make would fail
    with contextlib.ExitStack() as stack:
        for session in run.sessions:
            # One that is paused cannot be resumed without it.
            stack.enter_context(session.disturbed(set(), refuses=True))
        run.say("kill -9 of the engine")
        await asyncio.to_thread(run.engine.kill)
        run.counts["kill of the engine"] += 1
        await asyncio.sleep(rng.choice((0.0, 0.3, 1.0)))
        await asyncio.to_thread(run.engine.start)
        run.say("the engine is back")


VIOLENCE: dict[Action, int] = {
    kill_gateway: 10,
    answer_and_kill: 8,
    kill_kernel: 5,
    kill_sandbox: 2,
    kill_engine: 4,
    terminate: 2,
}

KINDS: dict[str, Action] = {
    "kill of the gateway": kill_gateway,
    "kill of a kernel": kill_kernel,
    "kill of a sandbox": kill_sandbox,
    "kill of the engine": kill_engine,
    "orderly restart": terminate,
}


def missing(run: Run) -> list[Action]:
    """What was not killed yet, of what there is."""
    there = {name: kind for name, kind in KINDS.items() if run.engine or kind is not kill_engine}
    return [kind for name, kind in there.items() if not run.counts[name]]
