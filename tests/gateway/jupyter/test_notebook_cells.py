"""A client that says which cell of a notebook it runs finds that cell again."""

from __future__ import annotations

from typing import Any

import httpx

from tests.conftest import Gateway
from tests.gateway.jupyter.wire import Wire


async def test_a_picture_that_is_too_large_for_a_result_is_in_the_notebook(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    picture = "from IPython.display import Image; Image(b'\\x89PNG' + bytes(3_000_000), format='png')"
    path = f"/v1/sessions/{own_kernel['session']}"
    of_agent = (await api.post(f"{path}/executions", json={"code": picture})).json()
    assert of_agent["truncated"], "a result carries less"
    wire = await Wire.open(gateway, own_kernel["id"])
    assert (await wire.reply(wire.execute(picture)))["content"]["status"] == "ok"
    of_person = (await api.get(f"{path}/executions")).json()["executions"][-1]
    assert of_person["truncated"] is None
    cells = (await api.get(f"{path}/notebook")).json()["cells"]
    assert [len(cell["outputs"][0]["data"]["image/png"]) > 4_000_000 for cell in cells] == [True, True]
    wire.close()


async def test_what_a_client_ran_silently_is_no_cell_of_the_notebook(
    gateway: Gateway, api: httpx.AsyncClient, own_kernel: dict[str, Any]
) -> None:
    path = f"/v1/sessions/{own_kernel['session']}"
    wire = await Wire.open(gateway, own_kernel["id"])
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    silent = wire.execute(code, silent=True)
    await wire.until(lambda m: m["parent"] == silent and m["type"] == "status")
    reloaded = await Wire.open(gateway, own_kernel["id"])
    await reloaded.until(lambda m: m["parent"] == silent)
    await api.put(f"{path}/files/go", content=b"")
    assert (await wire.reply(silent))["content"]["status"] == "ok"
    await reloaded.until(
        lambda m: m["parent"] == silent and m["content"].get("execution_state") == "idle"
    )
    assert not reloaded.of(silent, "execute_input")
    [execution] = (await api.get(f"{path}/executions")).json()["executions"]
    assert execution["silent"]
    assert (await api.get(f"{path}/notebook")).json()["cells"] == []
    wire.close()
    reloaded.close()


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
