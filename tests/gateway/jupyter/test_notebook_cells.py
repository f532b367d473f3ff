"""A client that says which cell of a notebook it runs finds that cell again."""

from __future__ import annotations

from typing import Any

import httpx

from tests.conftest import Gateway
from tests.gateway.jupyter.wire import Wire


async def test_an_execution_knows_the_cell_of_the_notebook_that_it_was_run_from(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    wire = await Wire.open(gateway, own_kernel["id"])
    other = await Wire.open(gateway, own_kernel["id"], v1=False)
    for cell in ({"cellId": "cell-1"}, {"cellId": "cell-1"}, {"cellId": "../no"}, {"cellId": 5}, {}):
        asked = wire.ask("execute_request", {"code": "print(1)"}, metadata=cell)
        assert (await wire.reply(asked))["content"]["status"] == "ok"
    path = f"/v1/sessions/{own_kernel['session']}"
    executions = (await api.get(f"{path}/executions")).json()["executions"]
    assert [e.get("cell_id") for e in executions] == ["cell-1", "cell-1", None, None, None]

    # Others are told as well: with the client's own header, and which execution and cell it is.
    shown = await other.until(lambda m: m["type"] == "stream")
    names = {key: shown["parent_header"][key] for key in ("execution_id", "cell_id", "session")}
    wanted = {"execution_id": executions[0]["id"], "cell_id": "cell-1", "session": wire.session_id}
    assert names == wanted

    cells = (await api.get(f"{path}/notebook")).json()["cells"]
    assert len({cell["id"] for cell in cells}) == 5, "ids stay unique, however often a cell ran"
    assert [c["metadata"]["interpreter"].get("cell_id") for c in cells[:3]] == ["cell-1", "cell-1", None]
    wire.close()
    other.close()
