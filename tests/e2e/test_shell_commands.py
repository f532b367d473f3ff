"""Commands beside the kernel: run, streamed, fed, cancelled, and found again after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway, only
from tests.e2e.conftest import read_events
from tests.e2e.test_restart_of_the_gateway import wait_for

Shell = Callable[..., dict[str, Any]]
DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
open('daemon', 'w').write(str(os.getpid()))
os.rename('daemon', 'daemon.pid')
for _ in range(10_000):
    time.sleep(0.05)
    print('still here', flush=True)
"""


class Commands:
    """The commands of a session over plain HTTP."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self.http = http
        self.session = f"/v1/sessions/{session}"
        self.path = f"{self.session}/commands"

    def __call__(self, command: str | list[str], **options: Any) -> dict[str, Any]:
        said = {"argv": command} if isinstance(command, list) else {"command": command}
        answer = self.http.post(self.path, json={"timeout": 120, **said, **options})
        assert answer.status_code in (200, 202), answer.text
        return dict(answer.json())

    def begin(self, command: str, **options: Any) -> str:
        return str(self(command, background=True, **options)["id"])

    def first_words(self, id: str) -> str:
        """What a command writes first, once it does."""
        with self.http.stream("GET", f"{self.path}/{id}/events") as events:
            return str(next(e for e in read_events(events) if e[1] == "stream")[2]["text"])

    def end_of(self, id: str) -> dict[str, Any]:
        return dict(self.http.get(f"{self.path}/{id}", params={"wait": "true"}).json())

    def cancel(self, id: str) -> dict[str, Any]:
        answer = self.http.delete(f"{self.path}/{id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def give(self, id: str, text: str = "", *, eof: bool = False) -> httpx.Response:
        return self.http.post(f"{self.path}/{id}/input", json={"text": text, "eof": eof})

    def alive(self, id: str) -> list[dict[str, Any]]:
        """What runs of what a command has started."""
        found = self.http.get(f"{self.session}/processes").json()["processes"]
        return [p for p in found if p["execution_id"] == id and p["state"] != "zombie"]


@pytest.fixture
def shell(http: httpx.Client, session: str) -> Commands:
    return Commands(http, session)


def test_a_command_has_its_output_its_exit_code_and_what_it_changed(shell: Commands) -> None:
    done = shell("echo out; echo err >&2; echo x > made; exit 3")
    assert (done["stdout"], done["stderr"], done["exit_code"]) == ("out\n", "err\n", 3)
    assert (done["status"], done["reason"]) == ("error", None)
    assert [(f["path"], f["change"]) for f in done["files"]] == [("made", "created")]
    assert done["duration_ms"] > 0
    assert done["id"].startswith("c-")
    assert shell("cat made")["stdout"] == "x\n"
    assert shell(["printf", "%s|", "a b", "$HOME", "*"])["stdout"] == "a b|$HOME|*|"
    execution = shell.http.get(f"{shell.session}/executions/{done['id']}").json()
    assert (execution["context"], execution["exit_code"], execution["code"]) == (
        None,
        3,
        done["command"],
    )


def test_what_cannot_be_started_says_why(shell: Commands) -> None:
    missing = shell(["no-such-program"])
    assert (missing["status"], missing["exit_code"]) == ("error", None)
    assert "could not be started: No such file or directory: no-such-program" in missing["reason"]
    assert "nowhere" in shell("true", cwd="nowhere")["reason"]
    assert shell("no-such-program")["exit_code"] == 127
    killed = shell("kill -9 $$")
    assert (killed["exit_code"], killed["reason"]) == (137, "it was ended by SIGKILL")


def test_a_command_gets_its_folder_its_variables_and_its_input(shell: Commands) -> None:
    shell("mkdir -p a/b")
    assert shell("pwd; echo $X", cwd="a/b", env={"X": "größer"})["stdout"].endswith("a/b\ngrößer\n")
    assert shell("cat", stdin="ein ä\n" * 50_000)["stdout"] == "ein ä\n" * 50_000
    assert shell("cat; echo end")["stdout"] == "end\n", "there is nothing to read, and no waiting for it"
    assert shell("pwd", cwd="/tmp")["stdout"] == "/tmp\n"


def test_characters_are_whole_however_they_are_written(shell: Commands) -> None:
    code = (
        "import sys, time\n"
        "for byte in 'aä€😀'.encode():\n"
        "    sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush(); time.sleep(0.02)\n"
        "sys.stdout.buffer.write(b'\\xff.\\xe2\\x82'); sys.stdout.flush()\n"
    )
    assert shell(["python3", "-c", code])["stdout"] == "aä€😀\ufffd.\ufffd"


def test_a_command_is_streamed_while_a_cell_runs(shell: Commands) -> None:
    cell = {"code": "import time\nwhile not __import__('os').path.exists('go'): time.sleep(0.02)"}
    id = shell.http.post(
        f"{shell.session}/executions", json={**cell, "wait": False, "timeout": 120}
    ).json()["id"]
    body = {
        "command": "echo one; while [ ! -e two ]; do sleep 0.02; done; echo two; touch go",
        "timeout": 120,
    }
    seen = []
    with shell.http.stream(
        "POST", shell.path, json=body, headers={"Accept": "text/event-stream"}
    ) as answer:
        for _, kind, data in read_events(answer):
            if kind == "stream":
                seen.append(data["text"])
                if len(seen) == 1:
                    shell("touch two")
    assert (seen, kind, data["execution"]["exit_code"]) == (["one\n", "two\n"], "done", 0)
    cell = shell.http.get(f"{shell.session}/executions/{id}", params={"wait": "true"}).json()
    assert cell["status"] == "ok"


def test_a_command_reads_what_it_is_sent_while_it_runs(shell: Commands) -> None:
    id = shell.begin("while read line; do echo got $line; done; echo end", interactive=True)
    assert shell.give(id, "one\n").status_code == 204
    assert shell.first_words(id) == "got one\n"
    assert shell.give(id, "two\n", eof=True).status_code == 204
    assert shell.end_of(id)["stdout"] == "got one\ngot two\nend\n"
    for refused in (shell.give(id, "three\n"), shell.give(shell.begin("sleep 0.1"), "x")):
        assert refused.json()["error"]["code"] == "input_not_expected"


def test_a_command_ends_with_its_process_and_its_daemon_goes_on(shell: Commands) -> None:
    done = shell(["python3", "-c", DAEMON])
    assert done["status"] == "ok"
    wait_for(lambda: shell("cat daemon.pid")["exit_code"] == 0, 60)
    pid = shell("cat daemon.pid")["stdout"]
    found = shell.http.get(f"{shell.session}/processes").json()["processes"]
    daemon = next(p for p in found if p["pid"] == int(pid))
    assert (daemon["execution_id"], daemon["orphan"]) == (done["id"], True)
    # It writes to a pipe that nobody waits for any more, and is not ended by that.
    assert shell(f"sleep 0.3; kill -0 {pid}")["exit_code"] == 0
    shell.http.delete(f"{shell.session}/processes/{pid}")


@pytest.mark.parametrize("ended_by", ["cancel", "deadline"])
def test_all_that_a_command_started_ends_with_it(shell: Commands, ended_by: str) -> None:
    started = "trap '' TERM INT; setsid sleep 600 & (setsid sh -c 'sleep 601 & sleep 602' &) ; echo on; sleep 603; sleep 604"
    id = shell.begin(started, timeout=3 if ended_by == "deadline" else 300)
    assert shell.first_words(id) == "on\n"
    if ended_by == "cancel":
        wait_for(lambda: len(shell.alive(id)) >= 5, 60)
        done = shell.cancel(id)
        assert (done["status"], done["reason"]) == ("cancelled", "it was cancelled")
    else:
        done = shell.end_of(id)
        assert (done["status"], done["reason"]) == ("timeout", "it ran longer than its timeout of 3 s")
    assert done["stdout"] == "on\n"
    wait_for(lambda: not shell.alive(id), 60)


def test_many_run_at_once_and_no_more_than_may(http: httpx.Client) -> None:
    session = http.post("/v1/sessions", json={"limits": {"commands": 4}}).json()["id"]
    shell = Commands(http, session)
    running = [shell.begin("echo on; sleep 600") for _ in range(4)]
    for id in running:
        assert shell.first_words(id) == "on\n"
    refused = http.post(shell.path, json={"command": "true"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_commands")
    assert http.get(f"/v1/sessions/{session}").json()["state"] == "busy"
    assert [c["id"] for c in http.get(shell.path).json()["commands"]] == running
    with ThreadPoolExecutor(4) as pool:
        assert {c["status"] for c in pool.map(shell.cancel, running)} == {"cancelled"}
    assert shell("echo again")["stdout"] == "again\n"
    http.delete(f"/v1/sessions/{session}")


def test_what_runs_is_listed_however_much_has_ended(shell: Commands) -> None:
    running = shell.begin("echo on; sleep 600")
    assert shell.first_words(running) == "on\n"
    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(lambda i: shell(["true"])["id"], range(110)))

    def listed(**query: Any) -> list[str]:
        return [c["id"] for c in shell.http.get(shell.path, params=query).json()["commands"]]

    assert listed() == [running]
    every = {"running": "false"}
    assert len(listed(**every)) == 100
    assert listed(**every)[0] == running
    newest = listed(**every, newest="true", limit=111)
    assert newest == listed(**every, limit=111)[::-1]
    assert set(newest[:-1]) == set(ended)
    assert listed(**every, newest="true", limit=2, after=newest[1]) == newest[2:4]
    another = shell.begin("sleep 600")
    assert listed() == [running, another], "however old"
    shell.cancel(running)
    shell.cancel(another)
    assert listed() == []


MAKEFILE = """
PARTS := $(foreach i,1 2 3 4 5 6 7 8,part$(i))
all: whole
whole: $(PARTS)
\tcat $(PARTS) > $@
part%:
\tseq $* 8 2000 > $@
"""


@only("embedded")
def test_a_build_with_parallel_children(shell: Commands) -> None:
    shell.http.put(f"{shell.session}/files/Makefile", content=MAKEFILE.encode())
    done = shell("make -s -j4 && wc -l < whole")
    assert (done["stdout"].strip(), done["stderr"], done["status"]) == ("2000", "", "ok")
    assert sorted(f["path"] for f in done["files"]) == [*(f"part{i}" for i in range(1, 9)), "whole"]
    assert done["usage"]["cpu_seconds"] > 0


def test_many_processes_compile_at_once(shell: Commands) -> None:
    write = "import pathlib\nfor i in range(40): pathlib.Path(f'm{i}.py').write_text(f'x = {i}')"
    assert (
        shell(["python3", "-c", f"import os; os.mkdir('m'); os.chdir('m')\n{write}"])["exit_code"] == 0
    )
    done = shell("python3 -m compileall -q -j 4 m && ls m/__pycache__ | wc -l")
    assert (done["stdout"].strip(), done["status"]) == ("40", "ok")
    assert done["usage"]["cpu_seconds"] > 0


def test_input_that_is_not_read_is_refused_when_it_is_too_much(shell: Commands) -> None:
    id = shell.begin("echo on; sleep 600", interactive=True)
    assert shell.first_words(id) == "on\n"
    taken = 0
    while (answer := shell.give(id, "語" * 300_000)).status_code == 204:
        taken += 1
        assert taken < 10
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "queue_full")
    assert shell.cancel(id)["status"] == "cancelled"


def test_a_command_that_says_too_much_is_ended(http: httpx.Client) -> None:
    session = http.post("/v1/sessions", json={"limits": {"recorded_mb": 2}}).json()["id"]
    shell = Commands(http, session)
    done = shell("yes 0123456789", max_output_bytes=10_000)
    assert (done["status"], done["reason"]) == ("error", "its output is over the limit of 2 MB")
    wait_for(lambda: not shell.alive(done["id"]), 60)
    assert shell("echo on")["stdout"] == "on\n"
    http.delete(f"/v1/sessions/{session}")


def test_a_restarted_kernel_leaves_commands_alone(shell: Commands) -> None:
    id = shell.begin("echo on; read x; echo $x", interactive=True)
    assert shell.first_words(id) == "on\n"
    assert shell.http.post(f"{shell.session}/restart").status_code == 200
    assert shell.give(id, "off\n").status_code == 204
    assert shell.end_of(id)["stdout"] == "on\noff\n"


def test_a_command_with_the_same_key_is_run_once(shell: Commands) -> None:
    body, key = {"command": "echo x >> once; cat once"}, {"Idempotency-Key": "k"}
    first, second = (shell.http.post(shell.path, json=body, headers=key).json() for _ in range(2))
    assert first == second
    assert first["stdout"] == "x\n"
    other = shell.http.post(shell.path, json={"command": "true"}, headers=key)
    assert other.json()["error"]["code"] == "key_reused"


def test_much_output_is_whole_in_the_stream_and_cut_in_the_result(shell: Commands) -> None:
    done = shell("seq 1000000", max_output_bytes=10_000)
    assert done["exit_code"] == 0
    assert done["truncated"]["total_bytes"] == 6_888_896
    whole = shell.http.get(done["truncated"]["url"]).text
    assert whole == "".join(f"{i}\n" for i in range(1, 1_000_001))


def test_a_stopped_session_loses_its_commands_and_says_so(http: httpx.Client) -> None:
    session = http.post("/v1/sessions").json()["id"]
    shell = Commands(http, session)
    id = shell.begin("echo on; sleep 600")
    assert shell.first_words(id) == "on\n"
    http.post(f"/v1/sessions/{session}/stop")
    done = shell.end_of(id)
    assert (done["status"], done["reason"], done["stdout"]) == ("lost", "it was stopped", "on\n")
    http.delete(f"/v1/sessions/{session}")


def test_commands_go_on_while_there_is_no_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    counting = (
        "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.05; done; touch finished; exit 7"
    )
    with own_gateway.client() as client:
        session = client.post("/v1/sessions").json()["id"]
        shell = Commands(client, session)
        counts = shell.begin(counting)
        asks = shell.begin("echo on; read x; echo $x", interactive=True)
        sleeps = shell.begin("echo on; sleep 600")
        late = shell.begin("echo on; sleep 600", timeout=2)
        for id in (counts, asks, sleeps, late):
            shell.first_words(id)
    own_gateway.kill()
    wait_for((own_gateway.data / "workspaces" / session / "finished").exists, 60)
    own_gateway.start()
    with own_gateway.client() as client:
        shell = Commands(client, session)
        done = shell.end_of(counts)
        assert (done["status"], done["exit_code"]) == ("error", 7)
        assert done["stdout"] == "".join(f"{i}\n" for i in range(40)), "once, and in order"
        with client.stream("GET", f"{shell.path}/{counts}/events") as events:
            assert "".join(_texts(read_events(events))) == done["stdout"]
        assert shell.give(asks, "answer\n").status_code == 204
        assert shell.end_of(asks)["stdout"] == "on\nanswer\n"
        assert shell.cancel(sleeps)["status"] == "cancelled"
        assert shell.end_of(late)["status"] == "timeout"
        wait_for(lambda: not shell.alive(sleeps) + shell.alive(late), 60)


def _texts(events: Iterator[tuple[int, str, dict[str, Any]]]) -> Iterator[str]:
    return (data["text"] for _, kind, data in events if kind == "stream")


def test_a_gateway_killed_at_any_moment_neither_loses_nor_repeats_a_command(
    own_gateway: Gateway,
) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        session = client.post("/v1/sessions").json()["id"]
    for turn in range(4):
        with own_gateway.client() as client:
            shell = Commands(client, session)
            ids = [shell.begin(f"echo x >> turn{turn}.{i}; echo {i}") for i in range(6)]
            time.sleep(0.01 * turn)  # another moment each time, whichever it is
        own_gateway.kill()
        own_gateway.start()
        with own_gateway.client() as client:
            shell = Commands(client, session)
            for i, id in enumerate(ids):
                done = shell.end_of(id)
                assert (done["status"], done["stdout"]) == ("ok", f"{i}\n")
                assert shell(f"cat turn{turn}.{i}")["stdout"] == "x\n"
