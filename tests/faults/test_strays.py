"""What belongs to no session is removed, at start and every so often; what is not ours never is."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import docker
import psutil
import pytest

from tests.conftest import Gateway, only
from tests.faults.scene import processes_of, sessions, wait_for
from tests.mounts import loop_devices_of, mounts_of
from tests.test_leftovers import groups_of

IMAGE = "interpreter/python"


def forget(gateway: Gateway, id: str) -> None:
    """The row of a session is lost, and with it all that is known of it."""
    with closing(sqlite3.connect(gateway.data / "interpreter.db", isolation_level=None)) as database:
        database.execute("DELETE FROM sessions WHERE id = ?", (id,))


def traces_of(gateway: Gateway, id: str) -> list[str]:
    """Whatever there is of a sandbox and its workspace."""
    found = [f"process {process.pid}" for process in processes_of(id)]
    found += groups_of([id]) + mounts_of(gateway.data) + loop_devices_of(gateway.data)
    for folder in ("workspaces", "run", "inputs"):
        found += map(str, (gateway.data / folder).iterdir())
    return [trace for trace in found if id in trace or trace.startswith("process")]


@only("embedded", "docker")
def test_a_sandbox_without_a_session_is_ended_at_start(own_gateway: Gateway) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id, kept = s.create(), s.create()
        s.run(kept, "x = 1")
        # A spare stands ready, too, and nothing is written down of those.
        spares = wait_for(lambda: {p.name for p in (own_gateway.data / "run").iterdir()} - {id, kept})
        wait_for(lambda: s.client.get("/v1/status").json()["pools"][0]["ready"])
        spares = {p.name for p in (own_gateway.data / "run").iterdir()} - {id, kept}
    own_gateway.kill()
    forget(own_gateway, id)
    assert traces_of(own_gateway, id)
    own_gateway.start()
    for stray in (id, *spares):
        wait_for(lambda stray=stray: traces_of(own_gateway, stray) == [])
    with sessions(own_gateway) as s:
        assert s.run(kept, "x")["text"] == "1"


@only("embedded", "docker")
def test_strays_are_found_while_the_gateway_runs(own_gateway: Gateway) -> None:
    own_gateway.settings |= {"reconcile_seconds": "0.5", "spares": "0"}
    own_gateway.start()
    with sessions(own_gateway) as s:
        kept = s.create()
        s.run(kept, "x = 1")
        for folder in ("workspaces", "run", "inputs"):
            (own_gateway.data / folder / "s-stray").mkdir()
        (own_gateway.data / "workspaces" / "s-other.img").write_bytes(b"nothing")
        wait_for(lambda: not traces_of(own_gateway, "s-stray"))
        wait_for(lambda: not traces_of(own_gateway, "s-other"))
        assert s.run(kept, "x")["text"] == "1"
        assert s.read(kept)["state"] == "ready"


@contextmanager
def container(engine: docker.APIClient, labels: dict[str, str]) -> Iterator[str]:
    """A container that only stands there."""
    made = engine.create_container(IMAGE, ["sleep", "1000"], labels=labels, network_disabled=True)["Id"]
    try:
        yield made
    finally:
        for one in engine.containers(all=True, filters={"id": made}):
            engine.remove_container(one["Id"], force=True)


@only("docker")
def test_only_containers_of_this_gateway_are_touched(
    own_gateway: Gateway, engine: docker.APIClient
) -> None:
    own_gateway.settings["reconcile_seconds"] = "0.5"
    own_gateway.start()
    owner = (own_gateway.data / "owner").read_text().strip()
    theirs = {"org.interpreter.owner": "somebody", "org.interpreter.sandbox": "s-theirs"}
    ours = {"org.interpreter.owner": owner, "org.interpreter.sandbox": "s-ours"}
    with (
        container(engine, {}) as plain,
        container(engine, theirs) as foreign,
        container(engine, ours) as stray,
    ):

        def there() -> set[str]:
            return {c["Id"] for c in engine.containers(all=True)} & {plain, foreign, stray}

        wait_for(lambda: there() == {plain, foreign})
        own_gateway.kill()
        own_gateway.start()
        assert there() == {plain, foreign}


@only("embedded", "docker")
def test_a_sweep_never_takes_what_is_being_made(own_gateway: Gateway) -> None:
    own_gateway.settings |= {"reconcile_seconds": "0.01", "max_sessions": "8"}
    own_gateway.start()
    problems: list[str] = []

    def hammer() -> None:
        with sessions(own_gateway) as s:
            for _ in range(2):
                id = s.create()
                said = s.run(id, "open('kept', 'w').write('here'); open('kept').read()")
                if said.get("text") != "'here'":
                    problems.append(str(said))
                stopped = s.client.post(f"/v1/sessions/{id}/stop").json()
                started = s.client.post(f"/v1/sessions/{id}/start").json()
                said = s.run(id, "open('kept').read()")
                if said.get("text") != "'here'":
                    problems.append(f"{stopped} {started} {said}")
                s.client.delete(f"/v1/sessions/{id}")

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert "could not" not in own_gateway.log.read_text()


@only("embedded", "docker")
def test_a_session_whose_sandbox_vanished_is_told(
    own_gateway: Gateway, request: pytest.FixtureRequest
) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        cell = s.begin(id, "import time\nwhile True: time.sleep(0.01)")
        wait_for(lambda: s.cell(id, cell)["status"] == "running")
        if own_gateway.settings["runtime"] == "docker":
            engine = request.getfixturevalue("engine")
            filters = {"label": f"org.interpreter.sandbox={id}"}
            (one,) = engine.containers(filters=filters)
            engine.remove_container(one["Id"], force=True)
        else:
            for process in processes_of(id):
                with contextlib.suppress(psutil.NoSuchProcess):  # it went with another
                    process.kill()
        assert s.cell(id, cell, wait=True)["status"] == "lost"
        wait_for(lambda: s.read(id)["state"] == "failed")
        assert s.read(id)["reason"]
        wait_for(lambda: not [t for t in traces_of(own_gateway, id) if "/run/" in t])
