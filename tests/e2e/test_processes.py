"""Which process belongs to which cell, whom an interrupt reaches, and what is left is ended."""

from __future__ import annotations

import resource
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.e2e.conftest import read_events

SLEEP = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True).pid"
HIDE = """
import os, shutil
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    pid = os.fork()
    if pid:
        os.write(tell, str(pid).encode())
        os._exit(0)
    os.execve(shutil.which('sleep'), ['sleep', '600'], {})
pid = int(os.read(told, 20))
pid
"""
"""Two forks, a session of its own, another program, nothing of the environment."""
DEAF = """
import subprocess
deaf = ['sh', '-c', "trap '' INT TERM; echo on; exec sleep 600"]
child = subprocess.Popen(deaf, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
"""
CATCH = """
import signal, subprocess, sys, time
code = '''
import signal, sys
def caught(*_):
    open('caught', 'w').write('by the child')
    sys.exit()
signal.signal(signal.SIGINT, caught)
print('on', flush=True)
signal.pause()
'''
child = subprocess.Popen([sys.executable, '-c', code], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print('on', flush=True)
time.sleep(60)
"""


class Processes:
    """The processes of a session."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self._http = http
        self._path = f"/v1/sessions/{session}/processes"

    def all(self) -> dict[int, dict[str, Any]]:
        answer = self._http.get(self._path)
        assert answer.status_code == 200, answer.text
        return {process["pid"]: process for process in answer.json()["processes"]}

    def alive(self) -> set[int]:
        """Those that are no kernel and have not ended."""
        all = self.all().values()
        return {p["pid"] for p in all if p["state"] != "zombie" and not p["is_kernel"]}

    def end(self, pid: int) -> httpx.Response:
        return self._http.delete(f"{self._path}/{pid}")

    def end_orphans(self) -> dict[str, Any]:
        answer = self._http.delete(self._path, params={"orphans": "true"})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@pytest.fixture
def processes(http: httpx.Client, session: str) -> Processes:
    return Processes(http, session)


def begin(http: httpx.Client, session: str, code: str) -> tuple[str, str]:
    """Starts a cell and returns its id and what it printed first."""
    path = f"/v1/sessions/{session}/executions"
    id = http.post(path, json={"code": code, "wait": False, "timeout": 60}).json()["id"]
    with http.stream("GET", f"{path}/{id}/events") as events:
        return id, next(e for e in read_events(events) if e[1] == "stream")[2]["text"]


def test_a_process_belongs_to_its_cell_however_it_hides(run: Any, processes: Processes) -> None:
    cells = [run(code) for code in (SLEEP, HIDE, SLEEP)]
    run("1 + 1")
    found = processes.all()
    for cell in cells:
        process = found[int(cell["text"])]
        assert process["execution_id"] == cell["id"]
        assert (process["name"], process["command"]) == ("sleep", "sleep 600")
        assert process["orphan"]
        assert process["memory_bytes"] > 0
    kernels = [p for p in found.values() if p["is_kernel"]]
    assert [p["pid"] for p in kernels] == [int(run("import os; os.getpid()")["text"])]
    started = {int(cell["text"]) for cell in cells}
    assert processes.alive() == started, "the kernel host is nobody's business"


def test_an_interrupt_reaches_a_child_in_a_session_of_its_own(
    run: Any, http: httpx.Client, session: str, processes: Processes
) -> None:
    earlier = int(run(SLEEP)["text"])
    in_the_group = int(run("import subprocess\nsubprocess.Popen(['sleep', '600']).pid")["text"])
    id, _ = begin(http, session, CATCH)
    assert http.post(f"/v1/sessions/{session}/interrupt").status_code == 200
    cell = http.get(f"/v1/sessions/{session}/executions/{id}", params={"wait": "true"}).json()
    assert cell["error"]["ename"] == "KeyboardInterrupt"
    assert run("child.wait(20), open('caught').read()")["text"] == "(0, 'by the child')"
    assert processes.alive() == {earlier, in_the_group}, "those of earlier cells are not meant"


def test_orphans_are_ended_and_those_of_the_running_cell_are_not(
    run: Any, http: httpx.Client, session: str, processes: Processes
) -> None:
    left = {int(run(code)["text"]) for code in (SLEEP, HIDE, DEAF)}
    id, said = begin(http, session, DEAF + "import time\ntime.sleep(60)")
    its_own = int(said)
    assert {pid for pid, p in processes.all().items() if p["orphan"]} == left
    done = processes.end_orphans()
    assert {process["pid"] for process in done["ended"]} == left
    assert (done["left"], done["more"]) == ([], False)
    assert processes.alive() == {its_own}
    assert http.get(f"/v1/sessions/{session}/executions/{id}").json()["status"] == "running"
    http.delete(f"/v1/sessions/{session}/executions/{id}")
    http.get(f"/v1/sessions/{session}/executions/{id}", params={"wait": "true"})
    assert [process["pid"] for process in processes.end_orphans()["ended"]] == [its_own]
    assert processes.end_orphans()["ended"] == []
    assert run("'and the memory is still here', pid")["status"] == "ok"


def test_one_process_is_ended_and_a_kernel_is_not(run: Any, processes: Processes) -> None:
    ended, stays = int(run(SLEEP)["text"]), int(run(HIDE)["text"])
    assert [p["pid"] for p in processes.end(ended).json()["ended"]] == [ended]
    assert processes.alive() == {stays}
    assert processes.end(ended).json()["error"]["code"] == "process_not_found"
    kernel = int(run("os.getpid()")["text"])
    assert processes.end(kernel).json()["error"]["code"] == "wrong_state"
    assert processes.end(1).json()["error"]["code"] == "process_not_found"
    assert run("os.getpid()")["text"] == str(kernel)


def test_a_restart_ends_all_that_the_kernel_ever_started(
    run: Any, http: httpx.Client, session: str, processes: Processes
) -> None:
    for code in (SLEEP, HIDE, DEAF):
        run(code)
    begin(http, session, DEAF + "import time\ntime.sleep(60)")
    assert len(processes.alive()) == 4
    assert http.post(f"/v1/sessions/{session}/restart").json()["state"] == "ready"
    assert processes.alive() == set()
    assert run("6 * 7")["text"] == "42"


def test_a_killed_cell_takes_what_it_started_with_it(run: Any, processes: Processes) -> None:
    ignore = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    cell = run(HIDE + DEAF + ignore + "while True: time.sleep(1)", timeout=1)
    assert cell["status"] == "timeout"
    assert "killed" in cell["reason"]
    assert run("1 + 1")["text"] == "2"
    assert processes.alive() == set()


FORGE = """
import os, resource, subprocess
def forge(value, pid=0, hard=resource.RLIM_INFINITY):
    resource.prlimit(pid, resource.RLIMIT_RSS, (value, hard))
own, _ = resource.getrlimit(resource.RLIMIT_RSS)
for value in (0, 1, own - 1, own + 1, own + 1000, own ^ (1 << 40), 2**62, resource.RLIM_INFINITY):
    child = subprocess.Popen(['sleep', '600'], start_new_session=True)
    forge(value, child.pid)
for pid in (1, os.getppid()):
    try:
        forge(own - 1, pid)
    except OSError:
        pass
forge(0, os.getpid(), 0)
hidden = subprocess.Popen(['sleep', '600'], start_new_session=True).pid
"""


def test_a_forged_mark_deceives_only_its_own_session(
    run: Any, http: httpx.Client, session: str, processes: Processes
) -> None:
    other = http.post("/v1/sessions").json()["id"]
    try:
        answer = http.post(f"/v1/sessions/{other}/executions", json={"code": SLEEP})
        neighbour, its_cell = int(answer.json()["text"]), answer.json()["id"]
        first = run("1")["id"]
        assert run(FORGE)["status"] == "ok"
        found = processes.all()
        assert len(found) == 10
        assert {p["execution_id"] for p in found.values()} <= {None, first}
        assert run("1 + 1")["text"] == "2"
        assert processes.end_orphans()["left"] == []
        assert Processes(http, other).all()[neighbour]["execution_id"] == its_cell
        http.post(f"/v1/sessions/{session}/restart")
        assert processes.alive() == set()
        cell = run(SLEEP)
        assert processes.all()[int(cell["text"])]["execution_id"] == cell["id"]
    finally:
        http.delete(f"/v1/sessions/{other}")


NAMES = [") R 1 1 (", "a\nb\tc\x1b[2J", "\u202ereversed", "\udcff\udcfe", "((((", "e-0123456789abcd"]
NAMED = f"""
import os, signal, subprocess
pids = []
for name in {NAMES!r}:
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with open('/proc/self/comm', 'wb') as comm:
            comm.write(name.encode(errors='surrogateescape'))
        os.write(tell, b'x')
        signal.sigwait([signal.SIGTERM])
        os._exit(0)
    os.read(told, 1)
    pids.append(pid)
pids.append(subprocess.Popen(['sh', '-c', 'sleep 600; true', '\\x1b\\n' * 50_000]).pid)
print(*pids, os.getpid())
"""


def test_hostile_names_and_command_lines_are_bounded_and_clean(run: Any, processes: Processes) -> None:
    cell = run(NAMED)
    assert cell["status"] == "ok", cell["text"]
    *pids, kernel = map(int, cell["text"].split())
    found = processes.all()
    for pid in pids:
        process = found[pid]
        assert process["parent"] == kernel
        assert process["execution_id"] == cell["id"]
        for text in (process["name"], process["command"]):
            assert 0 < len(text) <= 400
            assert text.isprintable()
    assert found[pids[0]]["name"] == NAMES[0]


BOMB = """
import subprocess, sys
bomb = 'import os\\nwhile True:\\n    try: os.fork()\\n    except OSError: pass'
subprocess.Popen([sys.executable, '-c', bomb], start_new_session=True).pid
"""


def test_a_fork_bomb_is_listed_and_ended(http: httpx.Client) -> None:
    created = http.post("/v1/sessions", json={"limits": {"processes": 40}}).json()
    path = f"/v1/sessions/{created['id']}"
    processes = Processes(http, created["id"])
    cell = http.post(f"{path}/executions", json={"code": BOMB}).json()
    for _ in range(1000):
        if len(found := processes.all()) >= 15:  # each listing is an answer in time
            break
    assert len(found) >= 15
    assert {p["execution_id"] for p in found.values() if not p["is_kernel"]} == {cell["id"]}
    assert processes.end_orphans()["left"] == []
    assert processes.alive() == set()
    assert http.post(f"{path}/executions", json={"code": "1 + 1"}).json()["text"] == "2"
    http.delete(path)


@only("embedded")
def test_where_marks_cannot_be_set_all_that_is_said_is_true(own_gateway: Gateway) -> None:
    own_gateway.settings["spares"] = "0"
    gateway = own_gateway.start().process
    assert gateway is not None
    # Sandboxes have the limits of the gateway, and a hard one is what a mark cannot go beyond.
    resource.prlimit(gateway.pid, resource.RLIMIT_RSS, (2**40, 2**40))
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        processes = Processes(client, id)
        path = f"/v1/sessions/{id}/executions"
        hidden, child = (int(client.post(path, json={"code": c}).json()["text"]) for c in (HIDE, SLEEP))
        found = processes.all()
        assert {found[pid]["execution_id"] for pid in (hidden, child)} == {None}
        assert found[child]["kernel"] == "default.1"
        assert processes.end_orphans()["ended"] == []
        running, _ = begin(client, id, "print('on', flush=True)\nsubprocess.run(['sleep', '60'])")
        client.post(f"/v1/sessions/{id}/interrupt")
        cell = client.get(f"{path}/{running}", params={"wait": "true"}).json()
        assert cell["error"]["ename"] == "KeyboardInterrupt"
        assert processes.alive() == {hidden, child}
        client.post(f"/v1/sessions/{id}/restart")
        assert processes.alive() == set()


@only("embedded", "docker")
def test_what_belongs_to_which_cell_survives_a_killed_gateway(own_gateway: Gateway) -> None:
    def run(client: httpx.Client, code: str) -> dict[str, Any]:
        return dict(client.post(f"/v1/sessions/{id}/executions", json={"code": code}).json())

    own_gateway.start()
    with own_gateway.client() as client:
        id = client.post("/v1/sessions").json()["id"]
        before = run(client, SLEEP)
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        after = run(client, HIDE)
        processes = Processes(client, id)
        for cell in (before, after):
            process = processes.all()[int(cell["text"])]
            assert (process["execution_id"], process["orphan"]) == (cell["id"], True)
        assert len(processes.end_orphans()["ended"]) == 2
