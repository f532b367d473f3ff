"""Clients that others wrote, as they come."""

from __future__ import annotations

from typing import Any

from jupyter_kernel_client import JupyterKernelClient

from tests.conftest import Gateway


def test_jupyter_kernel_client(gateway: Gateway, kernel: dict[str, Any]) -> None:
    place = {"server_url": gateway.url, "token": gateway.token}
    with JupyterKernelClient(kernel_id=kernel["id"], **place) as client:
        reply = client.execute("x = 6 * 7\nprint('hello')\nx")
        assert reply["status"] == "ok"
        kinds = [output["output_type"] for output in reply["outputs"]]
        assert kinds == ["stream", "execute_result"]
        assert reply["outputs"][1]["data"]["text/plain"] == "42"
        failed = client.execute("1 / 0")
        assert failed["status"] == "error"
        assert failed["outputs"][0]["ename"] == "ZeroDivisionError"
