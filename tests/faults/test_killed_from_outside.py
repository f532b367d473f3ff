"""Somebody on the host kills a part of a sandbox: the cell says so, and the session goes on or not."""

from __future__ import annotations

from tests.conftest import Gateway, only
from tests.faults.scene import kernel_of, processes_of, sessions, wait_for, zygote_of

WAITS = "print('before', flush=True)\nimport time\nwhile True: time.sleep(0.01)"


def test_a_kernel_that_is_killed_takes_its_cell_and_nothing_else(gateway: Gateway) -> None:
    with sessions(gateway) as s:
        id = s.create()
        s.run(id, "x = 1; open('kept', 'w').write('here')")
        pid = int(s.run(id, "import os; os.getpid()")["text"])
        cell = s.begin(id, WAITS)
        wait_for(lambda: s.cell(id, cell)["text"] == "before\n")
        kernel_of(id, pid).kill()
        ended = s.cell(id, cell, wait=True)
        assert (ended["status"], ended["text"]) == ("lost", "before\n")
        assert "SIGKILL" in ended["reason"]
        assert s.run(id, "'x' in globals(), open('kept').read()")["text"] == "(False, 'here')"
        assert "SIGKILL" in s.read(id)["reason"]
        s.client.delete(f"/v1/sessions/{id}")


def test_a_killed_zygote_is_not_missed(gateway: Gateway) -> None:
    with sessions(gateway) as s:
        id = s.create()
        s.run(id, "x = 1")
        pid = int(s.run(id, "import os; os.getpid()")["text"])
        kernel = kernel_of(id, pid)
        zygote_of(id, kernel).kill()
        assert s.run(id, "x")["text"] == "1", "kernels do not need it"
        assert s.client.post(f"/v1/sessions/{id}/restart").status_code == 200
        assert s.run(id, "'x' in globals()")["text"] == "False", "and a new one makes new kernels"
        s.client.delete(f"/v1/sessions/{id}")


def test_a_killed_kernel_host_ends_the_session_with_the_reason(gateway: Gateway) -> None:
    with sessions(gateway) as s:
        id = s.create()
        s.run(id, "open('kept', 'w').write('here')")
        pid = int(s.run(id, "import os; os.getpid()")["text"])
        cell = s.begin(id, WAITS)
        wait_for(lambda: s.cell(id, cell)["text"] == "before\n")
        host = kernel_of(id, pid).parent()
        assert host is not None
        host.kill()
        ended = s.cell(id, cell, wait=True)
        assert (ended["status"], ended["text"]) == ("lost", "before\n")
        assert ended["reason"]
        wait_for(lambda: s.read(id)["state"] == "failed")
        assert s.read(id)["reason"]
        assert not processes_of(id), "what was left of it is ended"
        assert s.client.post(f"/v1/sessions/{id}/start").json()["state"] == "ready"
        assert s.run(id, "open('kept').read()")["text"] == "'here'"
        s.client.delete(f"/v1/sessions/{id}")


@only("embedded")
def test_a_kernel_that_is_killed_while_there_is_no_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with sessions(own_gateway) as s:
        id = s.create()
        pid = int(s.run(id, "import os; os.getpid()")["text"])
        cell = s.begin(id, WAITS)
        wait_for(lambda: s.cell(id, cell)["text"] == "before\n")
    own_gateway.kill()
    kernel_of(id, pid).kill()
    own_gateway.start()
    with sessions(own_gateway) as s:
        ended = s.cell(id, cell, wait=True)
        assert (ended["status"], ended["text"]) == ("lost", "before\n")
        assert s.run(id, "6 * 7")["text"] == "42"
