"""What cells and sessions use is told, as their control group counts it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway

MEGABYTE = 1024 * 1024


@pytest.fixture
def grouped(http: httpx.Client, session: str) -> bool:
    """Whether there are control groups; without, executions have no usage."""
    return bool(http.get(f"/v1/sessions/{session}").json()["limits_enforced_by"] == "cgroup")


def transfers_are_counted() -> bool:
    """Version 2 always does; version 1 where it names a device for the machine as a whole."""
    v1 = Path("/sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes_recursive")
    return not v1.exists() or any(len(line.split()) == 3 for line in v1.read_text().splitlines())


def test_a_cell_says_how_much_processor_time_it_took(run: Any, grouped: bool) -> None:
    code = "import time\nwhile time.process_time() - began < 0.5: pass"
    used = run(f"import time; began = time.process_time()\n{code}")["usage"]
    nothing = run("pass")["usage"]
    if grouped:
        assert 0.48 < used["cpu_seconds"] < 1
        assert 0 <= nothing["cpu_seconds"] < 0.25
    else:
        assert used is None


def test_a_cell_counts_what_its_children_used(run: Any, grouped: bool) -> None:
    child = "import time\nwhile time.process_time() < 0.5: pass"
    result = run(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])")
    if grouped:
        assert 0.48 < result["usage"]["cpu_seconds"] < 2
    else:
        assert result["usage"] is None


def test_a_peak_of_memory_belongs_to_its_cell_and_stays_the_sessions(
    run: Any, http: httpx.Client, session: str, grouped: bool
) -> None:
    large = run("x = bytearray(200 << 20); del x")["usage"]
    small = run("1 + 1")["usage"]
    of_session = http.get(f"/v1/sessions/{session}").json()["usage"]
    if not grouped:
        assert (large, small, of_session["memory_peak_bytes"]) == (None, None, None)
        return
    assert large["memory_peak_bytes"] > 200 * MEGABYTE
    # Null where the kernel cannot forget an earlier peak.
    assert small["memory_peak_bytes"] is None or small["memory_peak_bytes"] < 200 * MEGABYTE
    assert of_session["memory_peak_bytes"] >= large["memory_peak_bytes"]
    assert of_session["memory_bytes"] < 200 * MEGABYTE


def test_what_a_cell_writes_to_disk_is_counted_where_anything_is(
    run: Any, http: httpx.Client, session: str, grouped: bool, gateway: Gateway
) -> None:
    code = "import os\nwith open('f', 'wb') as f: f.write(os.urandom(20 << 20)); f.flush(); os.fsync(f)"
    of_cell = run(code)["usage"]
    of_session = http.get(f"/v1/sessions/{session}").json()["usage"]
    if not grouped or not transfers_are_counted():
        assert of_cell is None or (of_cell["read_bytes"], of_cell["written_bytes"]) == (None, None)
        assert (of_session["read_bytes"], of_session["written_bytes"]) == (None, None)
        return
    on_a_block_device = os.major(os.stat(gateway.data).st_dev) != 0
    assert of_cell["written_bytes"] >= (20 * MEGABYTE if on_a_block_device else 0)
    assert of_session["written_bytes"] >= of_cell["written_bytes"]


@pytest.mark.parametrize(
    ("code", "status"),
    [("1 / 0", "error"), ("import time; time.sleep(60)", "timeout"), ("import os; os._exit(1)", "lost")],
)
def test_a_cell_that_fails_says_what_it_used_all_the_same(
    run: Any, grouped: bool, code: str, status: str
) -> None:
    result = run(code, timeout=0.5 if status == "timeout" else 60)
    assert result["status"] == status
    assert (result["usage"] is not None) == grouped
    assert (run("1 + 1")["usage"] is not None) == grouped


def test_a_cell_that_never_ran_used_nothing(http: httpx.Client, session: str) -> None:
    path = f"/v1/sessions/{session}/executions"
    codes = ["import time; time.sleep(60)", "'waiting'"]
    ids = [http.post(path, json={"code": code, "wait": False}).json()["id"] for code in codes]
    assert http.delete(f"{path}/{ids[1]}").json()["usage"] is None
    assert http.get(f"{path}/{ids[0]}").json()["usage"] is None, "it has not ended"
    http.delete(f"{path}/{ids[0]}")


def test_a_cell_during_which_the_gateway_was_restarted_is_not_measured(own_gateway: Gateway) -> None:
    own_gateway.start()
    waiting = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    with own_gateway.client() as client:
        session = client.post("/v1/sessions").json()
        path = f"/v1/sessions/{session['id']}/executions"
        bodies = [{"code": code, "wait": False, "timeout": 60} for code in (waiting, "1 + 1")]
        ids = [client.post(path, json=body).json()["id"] for body in bodies]
        client.get(path)  # answered when all of it is stored
    own_gateway.kill()
    own_gateway.start()
    (own_gateway.data / "workspaces" / session["id"] / "go").touch()
    with own_gateway.client() as client:
        began_before, began_after = (
            client.get(f"{path}/{id}", params={"wait": "true"}).json() for id in ids
        )
    assert (began_before["status"], began_after["status"]) == ("ok", "ok")
    assert began_before["usage"] is None
    assert (began_after["usage"] is not None) == (session["limits_enforced_by"] == "cgroup")
