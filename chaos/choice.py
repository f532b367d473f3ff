"""Which session an action is for; when there is none, one is made."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import httpx

from chaos.model import Session, Violation
from chaos.run import Run

MOST_SESSIONS = 5
Action = Callable[[Run, random.Random], Awaitable[None]]


def pick(run: Run, rng: random.Random) -> Session | None:
    """A session that is there and that no other action is at."""
    free = [s for s in run.sessions if not (s.changing or s.stopped or s.deleting)]
    return rng.choice(free) if free else None


def with_session(action: Callable[[Run, random.Random, Session], Awaitable[None]]) -> Action:
    async def act(run: Run, rng: random.Random) -> None:
        session = pick(run, rng)
        if session is None:
            await create(run, rng)
            return
        run.say(f"{action.__name__} {session.id}")
        await action(run, rng, session)

    act.__name__ = action.__name__
    return act


async def create(run: Run, rng: random.Random) -> None:
    if len(run.sessions) >= MOST_SESSIONS:
        return
    await _create(run, f"{run.seed}-{run.step}-{len(run.sessions)}", wait=rng.random() < 0.6)


async def _create(run: Run, name: str, *, wait: bool) -> None:
    while True:
        try:
            status, answer = await run.api.once("POST", "/v1/sessions", {"name": name, "wait": wait})
        except httpx.TransportError:
            run.api.cut_off += 1
            _, listed = await run.api.ask("GET", f"/v1/sessions?name={name}")
            if len(listed["sessions"]) > 1:
                raise Violation(f"{len(listed['sessions'])} sessions were made for one") from None
            if not listed["sessions"]:
                continue
            status, answer = 201, listed["sessions"][0]
        if status == 503 and answer["error"]["code"] == "shutting_down":
            await asyncio.sleep(0.05)
            continue
        if status not in (201, 202):
            raise Violation(f"no session: {status} {answer}")
        run.say(f"session {answer['id']} is there, {answer['state']}")
        run.counts["sessions"] += 1
        run.follow(Session(answer["id"], name))
        return
