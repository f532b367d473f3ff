"""A kernel that is not ours: Deno's, whose results can come after it says it is idle."""

from __future__ import annotations

import pytest

from tests.conftest import Gateway, only
from tests.mounts import soon

DENO = """
[environments.deno]
packages = ["deno==2.9.8"]
transport = "tcp"
argv = ["deno", "jupyter", "--kernel", "--conn", "{connection_file}"]
"""


BEHIND_A_SHELL = """
[environments.deno]
packages = ["deno==2.9.8"]
transport = "tcp"
argv = ["sh", "-c", "deno jupyter --kernel --conn \\"$0\\"; exit $?", "{connection_file}"]
"""
"""The kernel proper is a child of the process that was started."""
SLEEP = "new Deno.Command('sleep', {args: ['600'], stdin: 'null', stdout: 'null'}).spawn().pid"


@only("embedded")
@pytest.mark.parametrize("environment", [DENO, BEHIND_A_SHELL], ids=["deno", "behind a shell"])
def test_processes_that_deno_started_belong_to_their_cells(
    own_gateway: Gateway, environment: str
) -> None:
    settings = own_gateway.data.parent / f"{own_gateway.data.name}.toml"
    settings.write_text(environment)
    own_gateway.flags = ("--config", str(settings))
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions", json={"environment": "deno"}).json()["id"]
        path = f"/v1/sessions/{id}"
        assert all(p["is_kernel"] for p in client.get(f"{path}/processes").json()["processes"])
        cells = [client.post(f"{path}/executions", json={"code": SLEEP}).json() for _ in range(2)]
        found = client.get(f"{path}/processes").json()["processes"]
        started = {str(p["pid"]): p["execution_id"] for p in found if not p["is_kernel"]}
        assert started == {cell["text"].strip(): cell["id"] for cell in cells}
        long = f"const child = {SLEEP}; console.log('on'); await new Promise(() => {{}})"
        answer = client.post(f"{path}/executions", json={"code": long, "timeout": 2}).json()
        assert answer["status"] == "timeout"
        left = client.get(f"{path}/processes").json()["processes"]
        assert answer["id"] not in [p["execution_id"] for p in left if p["state"] != "zombie"]


@only("embedded")
def test_every_result_of_deno_arrives_with_its_cell(own_gateway: Gateway) -> None:
    settings = own_gateway.data.parent / f"{own_gateway.data.name}.toml"
    settings.write_text(DENO)
    own_gateway.flags = ("--config", str(settings))
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with own_gateway.client() as client:
        session = client.post("/v1/sessions", json={"environment": "deno"}).json()
        assert session["environment"] == "deno"
        assert session["warm"] is False
        path = f"/v1/sessions/{session['id']}/executions"
        for i in range(40):
            result = client.post(path, json={"code": f"{i} + 1"}).json()
            assert result["status"] == "ok"
            assert result["text"].strip() == str(i + 1), result
        assert (
            client.post(path, json={"code": "const a = 5; console.log('hi')"}).json()["text"] == "hi\n"
        )
        assert client.post(path, json={"code": "throw new Error('no')"}).json()["status"] == "error"
        assert client.post(path, json={"code": "a * 2"}).json()["text"].strip() == "10"
        # What a notebook of it says, also after a restart of the gateway, and what its kernelspec says.
        own_gateway.kill()
        own_gateway.start()
    with own_gateway.client() as client:
        metadata = client.get(path.replace("executions", "notebook")).json()["metadata"]
        assert metadata["kernelspec"] == {
            "name": "deno",
            "display_name": "deno",
            "language": "typescript",
        }
        assert metadata["language_info"]["name"] == "typescript"
        assert metadata["language_info"]["file_extension"] == ".ts"
        specs = client.get("/api/kernelspecs").json()["kernelspecs"]
        languages = {name: spec["spec"]["language"] for name, spec in specs.items()}
        assert languages == {"python": "python", "python3": "python", "deno": "typescript"}


@only("embedded")
def test_a_kernel_that_stood_ready_gives_way_to_one_in_a_named_workspace(own_gateway: Gateway) -> None:
    """Nobody knows how to tell Deno to go to another folder; the sandbox stays, the kernel does not."""
    settings = own_gateway.data.parent / f"{own_gateway.data.name}.toml"
    settings.write_text(DENO + "pool_min = 1\n")
    own_gateway.flags = ("--config", str(settings))
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with own_gateway.client() as client:
        client.post("/v1/workspaces", json={"name": "mine", "disk_mb": 16})

        def is_ready() -> bool:
            pools = client.get("/v1/status").json()["pools"]
            return [pool["ready"] for pool in pools if pool["environment"] == "deno"] == [1]

        for expected in ("0", "1"):
            assert soon(is_ready, seconds=60)
            body = {"environment": "deno", "workspace": "mine"}
            session = client.post("/v1/sessions", json=body).json()
            assert session["warm"], session["cold_because"]
            path = f"/v1/sessions/{session['id']}"
            code = "const n = [...Deno.readDirSync('.')].length; Deno.writeTextFileSync(`f${n}`, 'x'); n"
            result = client.post(f"{path}/executions", json={"code": code}).json()
            assert result["text"].strip() == expected, result
            client.delete(path)
