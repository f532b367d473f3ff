"""Sending cells as a client does that must not lose one: with a key, again and again, in one of three
ways; and holding every answer against the model.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx

from chaos.api import Api
from chaos.follower import Follower, Shown
from chaos.model import FINAL, Cell, Violation, difference

MODES = ("wait", "leave", "stream")
PATIENCE = 180.0
"""Seconds after which a cell counts as stuck; pauses and restarts included."""


class Sender:
    """Sends cells of one run."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.drops = 0
        """Streams that were let go of and taken up again."""

    async def run(self, cell: Cell, rng: random.Random) -> None:
        """Returns when the cell has ended or was refused."""
        try:
            async with asyncio.timeout(PATIENCE):
                match cell.mode:
                    case "wait":
                        self._take(cell, *await self._post(cell))
                    case "leave":
                        await self._leave(cell, rng)
                    case "command":
                        await self._command(cell, rng)
                    case "stream":
                        await self._stream(cell, rng)
        except TimeoutError:
            raise Violation(f"{cell} has not ended") from None

    def _take(self, cell: Cell, status: int, answer: dict[str, Any]) -> None:
        if status == 200:
            cell.ended(answer)
        else:
            self._refuse(cell, status, answer)

    def _refuse(self, cell: Cell, status: int, answer: Any) -> None:
        if not cell.may_be_refused or status not in (404, 409, 503):
            raise Violation(f"{cell} was refused: {status} {answer}")
        cell.refused = True

    def _path(self, cell: Cell, rest: str = "") -> str:
        return f"/v1/sessions/{cell.session.id}/executions{rest}"

    def _request(self, cell: Cell, **options: Any) -> tuple[dict[str, Any], dict[str, str]]:
        script = cell.script
        about = {"code": script.code, "context": cell.context, "timeout": script.timeout}
        return {**about, **script.options, **options}, {"Idempotency-Key": cell.key}

    async def _post(self, cell: Cell, **options: Any) -> tuple[int, Any]:
        body, headers = self._request(cell, **options)
        return await self._api.ask("POST", self._path(cell), body, headers)

    async def _leave(self, cell: Cell, rng: random.Random) -> None:
        status, answer = await self._post(cell, wait=False)
        if status not in (200, 202):
            self._refuse(cell, status, answer)
            return
        await asyncio.sleep(rng.uniform(0, 0.5))
        await self._until_ended(cell)

    async def _command(self, cell: Cell, rng: random.Random) -> None:
        """Runs it and waits for its end, or leaves it and asks for the execution that it is."""
        script = cell.script
        body = {"command": script.code, "timeout": script.timeout, "background": rng.random() < 0.5}
        status, answer = await self._api.ask(
            "POST", f"/v1/sessions/{cell.session.id}/commands", body, {"Idempotency-Key": cell.key}
        )
        if status not in (200, 202):
            self._refuse(cell, status, answer)
            return
        if answer["status"] == "ok" and answer["stdout"] != script.stdout:
            raise Violation(f"{cell}: {difference('stdout', answer['stdout'], script.stdout)}")
        await self._until_ended(cell)

    async def _until_ended(self, cell: Cell) -> None:
        while True:
            status, answer = await self._api.ask("GET", self._path(cell, f"/{cell.id}?wait=true"))
            if status != 200:
                # It was accepted: only the end of its session takes it away.
                self._gone(cell, status, answer)
                return
            if answer["status"] in FINAL:
                cell.ended(answer)
                return
            await asyncio.sleep(0.05)  # nobody has it in memory: the session is paused

    def _gone(self, cell: Cell, status: int, answer: Any) -> None:
        if not (status == 404 and cell.session.deleting):
            raise Violation(f"{cell} was accepted, and is not there: {status} {answer}")
        cell.refused = True

    async def _stream(self, cell: Cell, rng: random.Random) -> None:
        """Streams it, lets go at any moment, and goes on from the last number seen."""
        shown, last, done = Shown(), 0, None
        while done is None:
            wanted = rng.choice((0, 1, 3, 20, 10**9))
            try:
                if last == 0:
                    body, headers = self._request(cell)
                    call = self._api.stream("POST", self._path(cell), body, headers)
                else:
                    headers = {"Last-Event-ID": str(last)}
                    call = self._api.stream("GET", self._path(cell, f"/{cell.id}/events"), None, headers)
                async with call as (status, events):
                    if status == 503:
                        await asyncio.sleep(0.05)
                        if not cell.may_be_refused or last:
                            continue
                    if status != 200:
                        (self._gone if last else self._refuse)(cell, status, "a stream")
                        return
                    async for seq, type, data in events:
                        if seq <= last:
                            raise Violation(f"{cell}: event {seq} came after {last}")
                        last = seq
                        shown.take(cell.id, type, data)
                        if type == "done":
                            done = data["execution"]
                            break
                        wanted -= 1
                        if wanted < 0:
                            break
                    else:
                        # Closed by the gateway: that it is over must be so.
                        status, answer = await self._api.ask("GET", self._path(cell, f"/{cell.id}"))
                        if cell.session.deleting:
                            cell.refused = True
                            return
                        if status == 200 and answer["status"] in FINAL and last and shown.done is None:
                            continue
            except httpx.TransportError:
                self._api.cut_off += 1
            self.drops += 1
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.05)))
        cell.ended(done)
        cell.streamed = shown.count

    def compare(self, cell: Cell, follower: Follower) -> None:
        """Who streamed a cell and who followed its session have seen as many events."""
        if cell.streamed and follower.shown[cell.id].count != cell.streamed:
            raise Violation(
                f"{cell}: a stream had {cell.streamed} events up to `done`, "
                f"and the session's has {follower.shown[cell.id].count}"
            )
