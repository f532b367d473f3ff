"""A kernel that is not ours: Deno's, whose results can come after it says it is idle."""

from __future__ import annotations

from tests.conftest import Gateway, only

DENO = """
[environments.deno]
packages = ["deno==2.9.8"]
transport = "tcp"
argv = ["deno", "jupyter", "--kernel", "--conn", "{connection_file}"]
"""


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
