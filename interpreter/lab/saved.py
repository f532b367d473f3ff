"""The session's notebook: the file that a person saved, put together with what has been run since.

The sandbox can write any file there, of any size, and this is a person's machine: a large one is not
read, and what was not read is not written over.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec
from tornado.web import HTTPError

from interpreter.lab.notebook import Cell, merge, unsaved, with_facts, without_outputs, without_trust
from interpreter.lab.session import LabSession, check
from interpreter.lab.tidy import read

Model = dict[str, Any]
MOST_BYTES = 32 * 1024 * 1024


async def read_notebook(lab: LabSession) -> bytes:
    """The session's notebook as it is now, as JSON."""
    cells, settled = await lab.recorded(None)
    saved = await _saved(lab)
    if not saved and lab.was_replayed:
        whole = await lab.get("GET", lab.own("notebook"), Model)
        saved = await asyncio.to_thread(lambda: msgspec.json.encode(unsaved(whole)))
    facts = {"session": lab.id, "settled": settled}
    return await asyncio.to_thread(put_together, saved, cells, lab.environment, facts)


def put_together(saved: bytes, cells: list[Cell], environment: str, facts: Model) -> bytes:
    """What was saved, whatever it is, and what was run, as one valid notebook."""

    def with_saved(saved: bytes) -> bytes:
        notebook = merge(read(saved, environment), cells)
        return msgspec.json.encode(with_facts(without_trust(notebook), **facts))

    try:
        return with_saved(saved)
    except RecursionError:  # it could just be read
        return with_saved(b"")


async def _saved(lab: LabSession) -> bytes:
    """What is in the notebook's file; nothing if there is none, or one too large to be looked into."""
    data = bytearray()
    response = await lab.open(lab.file(lab.notebook), {})
    try:
        if response.status_code == 404:
            return b""
        if response.status_code >= 400:
            check(response.status_code, await response.aread())
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > MOST_BYTES:
                return b""
    except httpx.TransportError:
        raise HTTPError(503, "The gateway does not answer.") from None
    finally:
        await response.aclose()
    return bytes(data)


async def check_was_read(lab: LabSession) -> None:
    """Raises HTTPError if the file that is there is one that no page was shown."""
    there = await lab.ask("GET", lab.contents(lab.notebook), params={"content": "false"})
    model = msgspec.json.decode(there.content, type=Model) if there.status_code == 200 else {}
    if (model.get("size") or 0) > MOST_BYTES:
        said = "was not read, as it has over 32 MiB. Move it away in a terminal, then save again."
        said = f"{lab.notebook} in the workspace {said}"
        raise HTTPError(409, said, reason="The notebook's file is too large.")


async def without_recorded(lab: LabSession, notebook: Any) -> Any:
    """A notebook that is too large to be read again, without the outputs that come from the record."""
    if not isinstance(notebook, dict):
        return notebook
    return without_outputs(notebook, await lab.recorded_ids())


def check_fits(data: bytes) -> None:
    """Raises HTTPError if a notebook is too large to be read again."""
    if len(data) > MOST_BYTES:
        said = (
            "A notebook of over 32 MiB is not saved. Clear outputs that were not made in this session."
        )
        raise HTTPError(413, said, reason="The notebook is too large.")
