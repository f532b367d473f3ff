"""The session's terminals as JupyterLab asks for them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from tornado.web import HTTPError

from interpreter.lab.handler import LabHandler, LabSocket, allowed
from interpreter.lab.session import LabSession
from interpreter.models.commands import TerminalList

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


async def models(lab: LabSession) -> list[dict[str, Any]]:
    """Those there are, and those that a page has asked for and not yet opened: opening makes them."""
    found = await lab.get("GET", lab.own("terminals"), TerminalList)
    now = datetime.now(UTC)
    there = {terminal.name: now for terminal in found.terminals}
    new = {name: when for name, when in lab.new_terminals.items() if name not in there}
    lab.new_terminals = new
    return [{"name": name, "last_activity": when} for name, when in (there | new).items()]


class Terminals(LabHandler):
    """`/api/terminals`"""

    @allowed
    async def get(self) -> None:
        self.answer(await models(self.lab))

    @allowed
    async def post(self) -> None:
        taken = {model["name"] for model in await models(self.lab)}
        name = str(next(n for n in range(1, len(taken) + 2) if str(n) not in taken))
        self.lab.new_terminals[name] = datetime.now(UTC)
        self.answer({"name": name, "last_activity": self.lab.new_terminals[name]})


class Terminal(LabHandler):
    """`/api/terminals/{name}`"""

    @allowed
    async def get(self, name: str) -> None:
        found = [model for model in await models(self.lab) if model["name"] == name]
        if not found:
            raise HTTPError(404, "There is no such terminal.")
        self.answer(found[0])

    @allowed
    async def delete(self, name: str) -> None:
        self.lab.new_terminals.pop(name, None)
        await self.lab.get("DELETE", self.lab.own("terminals", _checked(name)), object)
        self.answer(None, 204)


class TerminalSocket(LabSocket):
    """`/terminals/websocket/{name}`"""

    async def address(self, name: str) -> str:
        return self.lab.own("terminals", _checked(name))


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise HTTPError(404, "There is no such terminal.")
    return name
