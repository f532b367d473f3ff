"""One who follows a session's events from its beginning to its end, over any number of connections,
and believes nothing: numbers count without a gap, states change as the tables say, and what the
events fold to is what the history has.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from typing import Any

import httpx

from chaos.api import Api, Event
from chaos.model import FINAL, Violation, digest
from interpreter.kernel.outputs import Fold
from interpreter.models import EventType, ExecutionStatus, SessionState
from interpreter.orchestrator import states

NEVER_CUT = 2**30
OUTPUTS = {"stream", "display", "update", "clear", "error"}


class Shown:
    """One execution, as its events tell it."""

    def __init__(self) -> None:
        self.status = ""
        self.count = 0
        """Events up to `done`."""
        self.fold: Fold | None = Fold(NEVER_CUT)
        self.done: str | None = None
        """The status it ended with."""
        self.done_outputs = ""
        self.files: list[Any] = []

    def take(self, id: str, type: str, data: dict[str, Any]) -> None:
        if self.done is None:
            self.count += 1
        if type == "status":
            self._change(id, data["status"])
        elif type == "done":
            if self.done is not None:
                raise Violation(f"{id} was done twice")
            execution = data["execution"]
            self._change(id, execution["status"])
            self.done = execution["status"]
            self.done_outputs = digest(execution["outputs"])
            if self.files != (execution["files"] or []):
                raise Violation(f"{id}: the events before `done` tell of other files than it has")
            if self.done_outputs != self.outputs:
                raise Violation(f"{id}: the events before `done` fold to other outputs than it has")
        elif type == "files":
            self.files = data["files"]
        elif type in OUTPUTS and self.fold is not None:
            self.fold.apply(EventType(type), data)

    def _change(self, id: str, new: str) -> None:
        old = self.status
        if old == new and new not in FINAL:
            return  # a running cell says more of itself
        allowed = states.EXECUTION[ExecutionStatus(old)] if old else {ExecutionStatus.queued}
        if ExecutionStatus(new) not in allowed:
            raise Violation(f"{id} changed from {old or 'nothing'} to {new}")
        self.status = new

    @property
    def outputs(self) -> str | None:
        """None when it is not known any more."""
        return None if self.fold is None else digest(self.fold.outputs())


class Follower:
    """Follows one session until it is deleted. `problem` is what it found."""

    def __init__(self, api: Api, session: str, seed: str) -> None:
        self.seq = 0
        self.shown: dict[str, Shown] = {}
        self.deleted = False
        self.connections = 0
        self.state = ""
        self._api = api
        self._session = session
        self._rng = random.Random(seed)
        self._chain = hashlib.sha256()
        self._moved = asyncio.Event()
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        path = f"/v1/sessions/{self._session}/events"
        while not self.deleted:
            self.connections += 1
            wanted = self._rng.choice((1, 10, 100, 10_000))
            try:
                headers = {"Last-Event-ID": str(self.seq)}
                async with self._api.stream("GET", path, headers=headers) as (status, events):
                    if status == 404:
                        return
                    async for event in events:
                        self.take(event)
                        wanted -= 1
                        if wanted == 0:
                            break
            except httpx.TransportError:
                await asyncio.sleep(0.01)

    def take(self, event: Event) -> None:
        seq, type, data = event
        if seq != self.seq + 1:
            raise Violation(f"{self._session}: event {seq} came after {self.seq}")
        self.seq = seq
        _add(self._chain, event)
        id = data["execution_id"]
        if id is not None:
            self.shown.setdefault(id, Shown()).take(id, type, data)
        elif type == "status" and "state" in data:
            self._change(data["state"])
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _change(self, new: str) -> None:
        old = SessionState(self.state or new)
        if new != old.value and SessionState(new) not in states.SESSION[old]:
            raise Violation(f"{self._session} changed from {self.state} to {new}")
        self.state = new

    async def caught_up(self) -> None:
        """Returns when it has seen everything that is recorded now."""
        last = self.seq
        path = f"/v1/sessions/{self._session}/events?follow=false"
        while True:
            try:
                headers = {"Last-Event-ID": str(self.seq)}
                async with self._api.stream("GET", path, headers=headers) as (_, events):
                    async for seq, _, _ in events:
                        last = seq
                break
            except httpx.TransportError:
                await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(30):
                while self.seq < last and not self.task.done():
                    await self._moved.wait()
        except TimeoutError:
            raise Violation(
                f"{self._session}: a follower was not told of events {self.seq + 1} to {last}"
            ) from None

    async def read_again(self) -> None:
        """Reads all events once more: those that were seen have not changed."""
        await self.caught_up()
        chain, last, upto = hashlib.sha256(), 0, self.seq
        seen = self._chain.hexdigest()
        path = f"/v1/sessions/{self._session}/events?follow=false"
        while last < upto:
            try:
                headers = {"Last-Event-ID": str(last)}
                async with self._api.stream("GET", path, headers=headers) as (_, events):
                    async for event in events:
                        if event[0] != last + 1:
                            raise Violation(f"{self._session}: event {event[0]} is stored after {last}")
                        last = event[0]
                        _add(chain, event)
                        if last == upto:
                            break
                    else:
                        if last < upto:
                            raise Violation(f"{self._session}: events after {last} are gone")
            except httpx.TransportError:
                await asyncio.sleep(0.01)
        if chain.hexdigest() != seen:
            raise Violation(f"{self._session}: its events are not those that were seen")

    def check(self, execution: dict[str, Any]) -> None:
        """The events of an execution that has ended say the same as the history."""
        id = execution["id"]
        shown = self.shown.get(id)
        if shown is None or shown.done is None:
            raise Violation(f"{id} is {execution['status']}, and its events do not say so")
        if shown.done != execution["status"]:
            raise Violation(f"{id} is {execution['status']}, and its events say {shown.done}")
        if shown.outputs is not None and shown.outputs != digest(execution["outputs"]):
            raise Violation(
                f"{id}: its events fold to {str(shown.fold and shown.fold.outputs())[:1000]}, "
                f"and the history has {str(execution['outputs'])[:1000]}"
            )


def _add(chain: Any, event: Event) -> None:
    chain.update(json.dumps(event, sort_keys=True).encode())
