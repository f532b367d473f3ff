"""nbclient with the kernels of Jupyter Server's gateway client, which the environment says where to find."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import nbformat
import websocket
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

# This client of Jupyter Server's sends its token with every request, but not with the WebSocket.
token = f"Authorization: token {os.environ['JUPYTER_GATEWAY_AUTH_TOKEN']}"
websocket.create_connection = partial(websocket.create_connection, header=[token])

SOURCES = ["x = 40", "print('said')\nx + 2", "from IPython.display import HTML; HTML('<b>b</b>')"]


async def run(*sources: str) -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=cells), kernel_manager_class=GatewayKernelManager
    )
    return await client.async_execute()


async def main() -> None:
    ran = await run(*SOURCES)
    assert ran.cells[1].outputs[0]["text"] == "said\n"
    assert ran.cells[1].outputs[1]["data"]["text/plain"] == "42"
    assert ran.cells[2].outputs[0]["data"]["text/html"] == "<b>b</b>"
    failure = None
    try:
        await run("1 / 0")
    except CellExecutionError as e:
        failure = e.ename
    assert failure == "ZeroDivisionError"


asyncio.run(main())
