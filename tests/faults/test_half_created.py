"""The gateway is killed while it makes sessions: who was promised one gets it, and nothing is left."""

from __future__ import annotations

import time

import pytest

from tests.conftest import Gateway, only
from tests.faults.scene import sessions, wait_for


@only("embedded", "docker")
@pytest.mark.parametrize("delay", [0.0, 0.3, 0.9])
def test_every_session_that_was_promised_is_made(own_gateway: Gateway, delay: float) -> None:
    own_gateway.settings |= {"spares": "0", "max_creating": "2", "limits__disk_mb": "16"}
    own_gateway.settings["queue_seconds"] = "300"  # however slow the machine is
    own_gateway.start()
    with sessions(own_gateway) as s:
        promised = [s.create(wait=False) for _ in range(5)]
        # Not to wait for anything, but to be killed at another moment each time.
        time.sleep(delay)
    own_gateway.kill()
    own_gateway.start()
    with sessions(own_gateway) as s:
        for id in promised:
            wait_for(lambda id=id: s.read(id)["state"] == "ready", 60)
            assert s.run(id, "6 * 7")["text"] == "42"
        assert set(s.all()) == set(promised)
        runs = {path.name for path in (own_gateway.data / "run").iterdir()}
        spaces = {path.name.removesuffix(".img") for path in (own_gateway.data / "workspaces").iterdir()}
        assert runs == spaces == set(promised), "and nothing is left of what was half-made"


@only("embedded")
def test_a_session_that_was_being_started_again_is(own_gateway: Gateway) -> None:
    own_gateway.settings["spares"] = "0"
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        s.run(id, "open('kept', 'w').write('here'); import os; os.sync()")
        s.client.post(f"/v1/sessions/{id}/stop")
        with pytest.raises(Exception, match="timed out"):
            s.client.post(f"/v1/sessions/{id}/start", timeout=0.05)
        assert s.read(id)["state"] == "creating"
    own_gateway.kill()
    own_gateway.start()
    with sessions(own_gateway) as s:
        # It goes on being created, or had not been written down as such yet.
        wait_for(lambda: s.read(id)["state"] in ("ready", "stopped"))
        s.client.post(f"/v1/sessions/{id}/start")
        assert s.run(id, "open('kept').read()")["text"] == "'here'"
        assert len(list((own_gateway.data / "run").iterdir())) == 1
