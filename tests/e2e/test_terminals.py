"""Terminals: real programs on a real TTY, several viewers, floods, and gateways that are killed."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosedOK, InvalidStatus

from tests import user_images
from tests.conftest import Gateway, only
from tests.e2e.test_restart_of_the_gateway import wait_for
from tests.e2e.test_shell_commands import MAKEFILE
from tests.e2e.viewer import Viewer
from tests.environments import configured
from tests.environments import session as environment_session

Open = Callable[..., Viewer]
PROMPT = r"[$#] (?:\x1b\[\?2004h)?"
FLOOD = 50_000_000
"""Characters: many times what may be kept of them anywhere."""
PROGRAMS = """
FROM interpreter/python
USER 0
COPY host* /build/
RUN set -eu; . /etc/os-release; \\
    if [ -f "/build/$VERSION_CODENAME.list" ]; then \\
        rm -rf /etc/apt/sources.list.d; \\
        cp "/build/$VERSION_CODENAME.list" /etc/apt/sources.list; \\
    fi; \\
    export APT_CONFIG=/build/apt.conf DEBIAN_FRONTEND=noninteractive; \\
    apt-get update -qq; \\
    apt-get install -qq --no-install-recommends vim-tiny less procps make
USER 1000:1000
"""

DAEMON = """
import os, time
ready, tell = os.pipe()
if os.fork():
    os.read(ready, 1)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
for fd in range(3):
    os.dup2(os.open(os.devnull, os.O_RDWR), fd)
open('daemon.pid', 'w').write(str(os.getpid()))
os.write(tell, b'x')
time.sleep(600)
"""


@pytest.fixture
def view(gateway: Gateway, session: str) -> Iterator[Open]:
    opened: list[Viewer] = []

    def view(name: str = "main") -> Viewer:
        opened.append(Viewer(gateway, session, name))
        return opened[-1]

    yield view
    for viewer in opened:
        viewer.close()


def terminals(http: httpx.Client, session: str) -> list[str]:
    found = http.get(f"/v1/sessions/{session}/terminals").json()["terminals"]
    return [terminal["name"] for terminal in found]


def test_a_terminal_is_a_tty_that_can_be_resized(view: Open) -> None:
    viewer = view()
    viewer.type("tty; stty size; echo $TERM\r")
    viewer.see(r"/dev/pts/\d+\r\n24 80\r\nxterm-256color\r\n")
    viewer.resize(40, 100)
    viewer.type("stty size; tput cols\r")
    viewer.see(r"40 100\r\n100\r\n")


def test_text_comes_whole_in_any_script(view: Open, http: httpx.Client, session: str) -> None:
    viewer = view()
    viewer.type("printf '%s|' ä € 😀 日本; echo\r")
    viewer.see("ä\\|€\\|😀\\|日本\\|\r\n")
    code = (
        "import sys\n"
        "for byte in ('é€😀' * 2000).encode():\n"
        "    sys.stdout.buffer.write(bytes([byte])); sys.stdout.flush()\n"
    )
    http.put(f"/v1/sessions/{session}/files/bytewise.py", content=code.encode())
    viewer.type("python3 bytewise.py; echo; echo done-$((40+2))\r")
    shown = viewer.see(r"(?s)é€😀.*done-42\r\n")
    assert shown.count("é€😀") == 2000
    assert "\ufffd" not in shown


def test_ctrl_c_ends_the_program_that_runs(view: Open) -> None:
    viewer = view()
    viewer.type("python3 -c \"print('run'+'ning', flush=True); import time; time.sleep(600)\"\r")
    viewer.see("running")
    viewer.type("\x03")
    viewer.see("KeyboardInterrupt")
    viewer.see(PROMPT)
    viewer.type("echo back-$((6*7))\r")
    viewer.see("back-42\r\n")


def kernel_host(line: str) -> psutil.Process:
    """The kernel host of the sandbox in which `yes` says this, as it is seen from outside."""
    (yes,) = (p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["yes", line])
    shell = yes.parent()
    host = None if shell is None else shell.parent()
    assert host is not None
    assert any("interpreter.sandbox" in word for word in host.cmdline())
    return host


def test_a_flood_costs_no_memory_and_ctrl_c_is_answered(
    view: Open, gateway: Gateway, session: str
) -> None:
    viewers = [view() for _ in range(4)]
    viewer = viewers[0]
    viewer.see(PROMPT)
    line = f"0123456789-{session}"
    viewer.type(f"yes {line}\r")
    viewer.see(f"({line}\r\n){{2}}")
    host = kernel_host(line)
    before, host_before = gateway.memory(), host.memory_info().rss
    turn = 0
    while viewer.received < FLOOD:
        turn += 1
        for one in viewers if turn % 4 == 0 else [viewer]:  # the others are slow
            one.see(f"{line}\r\n")
            one.shown = ""
    assert host.memory_info().rss - host_before < FLOOD // 4
    assert gateway.memory() - before < FLOOD // 4
    at = viewer.received
    viewer.type("\x03")
    viewer.see(r"\^C")
    viewer.see(PROMPT)
    # What was on its way is not much.
    assert viewer.received - at < 4_000_000
    viewer.type("echo back-$((6*7))\r")
    viewer.see("back-42\r\n")
    # Those who did not look meanwhile have missed something, and see how it goes on.
    for one in viewers[1:]:
        one.see("back-42\r\n")
        assert one.received < FLOOD


def test_several_see_the_same_and_who_comes_later_sees_what_was(
    view: Open, http: httpx.Client, session: str
) -> None:
    first, second = view(), view()
    first.type("echo one-$((1+1))\r")
    for viewer in (first, second):
        viewer.see("one-2\r\n")
    second.type("echo two-$((2+2))\r")
    first.see("two-4\r\n")
    first.close()
    second.close()
    later = view()
    later.see(r"(?s)one-2\r\n.*two-4\r\n")
    other = view("other")
    other.type("echo other-$((3+3))\r")
    other.see("other-6\r\n")
    assert terminals(http, session) == ["main", "other"]
    assert http.get(f"/v1/sessions/{session}/terminals/main").json()["viewers"] >= 1


def test_a_terminal_that_is_over_says_so(view: Open, http: httpx.Client, session: str) -> None:
    viewer = view()
    viewer.type("exit 5\r")
    assert "[this terminal is over: its shell exited with 5]" in viewer.see_the_end()
    wait_for(lambda: terminals(http, session) == [], 60)
    viewer = view()
    viewer.see(r"^\[the terminal before this one is over: its shell exited with 5\]\r\n")
    viewer.type("(setsid sleep 600 &); sleep 601 & echo on-$((1+1))\r")
    viewer.see("on-2\r\n")
    assert http.delete(f"/v1/sessions/{session}/terminals/main").status_code == 204
    assert "[this terminal is over: " in viewer.see_the_end()
    left = http.get(f"/v1/sessions/{session}/processes").json()["processes"]
    assert not [p for p in left if p["name"] == "sleep" and p["state"] != "zombie"]
    missing = http.delete(f"/v1/sessions/{session}/terminals/main")
    assert missing.json()["error"]["code"] == "terminal_not_found"


def test_who_sends_something_while_the_session_stops_is_told_that_it_is_over(
    view: Open, http: httpx.Client, session: str
) -> None:
    viewer = view()
    with ThreadPoolExecutor() as threads:
        stopping = threads.submit(http.post, f"/v1/sessions/{session}/stop")
        with contextlib.suppress(ConnectionClosedOK):
            while not stopping.done():
                viewer.resize(30, 90)
        assert stopping.result().status_code == 200
    assert "[this terminal is over: " in viewer.see_the_end()


def test_no_more_terminals_than_may_be(gateway: Gateway, http: httpx.Client) -> None:
    session = http.post("/v1/sessions", json={"limits": {"commands": 2}}).json()["id"]
    viewers = [Viewer(gateway, session, name) for name in ("one", "two")]
    with pytest.raises(InvalidStatus) as caught:
        Viewer(gateway, session, "three")
    assert caught.value.response.status_code == 429
    assert json.loads(caught.value.response.body)["error"]["code"] == "too_many_commands"
    for viewer in viewers:
        viewer.close()
    http.delete(f"/v1/sessions/{session}")


def test_a_terminal_that_is_looked_at_is_in_use(gateway: Gateway, http: httpx.Client) -> None:
    asked = {"limits": {"idle_seconds": 4}, "on_idle": "pause"}
    session = http.post("/v1/sessions", json=asked).json()["id"]
    viewer = Viewer(gateway, session)
    counting = "for i in $(seq 32); do echo at-$i; sleep 0.25; done"
    viewer.type(f"{counting}\r")
    viewer.see("at-32\r\n")  # after twice that time, and nobody would have resumed it
    wait_for(lambda: http.get(f"/v1/sessions/{session}").json()["state"] == "paused", 60)
    # A window that is resized does not wake it; who types does, and the size is what it is by then.
    viewer.resize(33, 99)
    http.get(f"/v1/sessions/{session}/terminals")
    assert http.get(f"/v1/sessions/{session}").json()["state"] == "paused"
    viewer.type("stty size\r")
    viewer.see("33 99\r\n")
    viewer.close()
    http.delete(f"/v1/sessions/{session}")


@only("embedded")
def test_what_vim_asked_is_not_asked_again(view: Open) -> None:
    """vim asks what the terminal is, for its colours, its cursor and its keys, and gets no answer here."""
    asked = [r"\x1b\[6n", r"\x1b\[>c", r"\x1b\]10;\?\x07", r"\x1b\]11;\?\x07", r"\x1b\[\?4m"]
    viewer = view()
    viewer.see(PROMPT)
    viewer.type("vim -n -N -u NONE written\r")
    for question in asked:
        viewer.see(question)
    later = view()
    later.see(r'"written"')
    later.type("ihello\x1b:q!\r")
    later.see(r"\x1b\[\?1049l")
    assert [question for question in asked if re.search(question, later.all)] == []


def use_programs(viewer: Viewer, http: httpx.Client, session: str) -> None:
    """Each is typed at when it is there, and left when it has shown what it should."""
    for name, content in {"Makefile": MAKEFILE, "daemon.py": DAEMON}.items():
        http.put(f"/v1/sessions/{session}/files/{name}", content=content.encode())
    viewer.see(PROMPT)
    viewer.resize(24, 80)
    viewer.type("python3 -q\r")
    viewer.see(">>> ")
    viewer.type("6 * 7\r")
    viewer.see(r"42\r\n")
    viewer.see(">>> ")
    viewer.type("\x04")
    viewer.see(PROMPT)
    viewer.type("seq 1000 > numbers; echo ready-$((1+1))\r")
    viewer.see("ready-2\r\n")
    viewer.see(PROMPT)
    viewer.type("top\r")
    viewer.see(r"PID.*USER")
    viewer.type("q")
    viewer.see(PROMPT)
    viewer.type("less numbers\r")
    viewer.see(r"\r\n20\r\n")
    viewer.type("G")
    viewer.see("1000")
    viewer.type("q")
    viewer.see(PROMPT)
    viewer.type("vim.tiny -u NONE written\r")
    viewer.see(r'"written"')
    viewer.type("ihello from vim\x1b:wq\r")
    viewer.see(r"15 bytes written|15B written")
    viewer.see(PROMPT)
    viewer.type("cat written\r")
    viewer.see(r"\nhello from vim\r\n|\rhello from vim\r\n")
    viewer.type("make -s -j4 && wc -l < whole\r")
    viewer.see(r"2000\r\n")
    viewer.type("python3 daemon.py; exit\r")
    viewer.see_the_end()
    asked = {"command": "kill -0 $(cat daemon.pid)"}
    daemon = http.post(f"/v1/sessions/{session}/commands", json=asked).json()
    assert daemon["exit_code"] == 0, "it outlives its terminal"


@only("embedded")
def test_programs_of_a_terminal(view: Open, http: httpx.Client, session: str) -> None:
    use_programs(view(), http, session)


def test_programs_of_an_image(engine: docker.APIClient, data_root: Path) -> None:
    image = user_images.build(engine, "programs", PROGRAMS)
    settings = f'[environments.programs]\nimage = "{image}"\n'
    with configured(data_root, settings) as gateway, environment_session(gateway, "programs") as cells:
        viewer = Viewer(gateway, cells.created["id"])
        with gateway.client() as client:
            use_programs(viewer, client, cells.created["id"])
        viewer.close()


def test_who_may_not_does_not_get_in(gateway: Gateway, session: str, http: httpx.Client) -> None:
    def refused(session: str, name: str, gateway: Gateway) -> tuple[int, str]:
        with pytest.raises(InvalidStatus) as caught:
            Viewer(gateway, session, name)
        answer = caught.value.response
        return answer.status_code, json.loads(answer.body)["error"]["code"]

    class Stranger(Gateway):
        headers = {}  # type: ignore[assignment]

    stranger = Stranger(gateway.data)
    stranger.url = gateway.url
    assert refused(session, "main", stranger) == (401, "unauthorized")
    assert refused("s-none", "main", gateway) == (404, "session_not_found")
    assert refused(session, "a.b", gateway) == (400, "invalid_request")
    assert terminals(http, session) == []


def test_a_terminal_outlives_the_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        session = client.post("/v1/sessions").json()["id"]
    viewer = Viewer(own_gateway, session)
    viewer.type("x=kept; echo before-$((1+1))\r")
    viewer.see("before-2\r\n")
    viewer.type("while [ ! -e go ]; do sleep 0.05; done; echo meanwhile-$((2+2)); touch went\r")
    viewer.see("touch went\r\n")
    own_gateway.kill()
    viewer.close()
    workspace = own_gateway.data / "workspaces" / session
    (workspace / "go").touch()
    wait_for((workspace / "went").exists, 60)
    own_gateway.start()
    viewer = Viewer(own_gateway, session)
    viewer.see(r"(?s)before-2\r\n.*meanwhile-4\r\n")
    viewer.type("echo $x-$((3+3))\r")
    viewer.see("kept-6\r\n")
    with own_gateway.client() as client:
        client.post(f"/v1/sessions/{session}/stop")
    assert "[this terminal is over: it was stopped]" in viewer.see_the_end()
    viewer.close()


def test_a_shell_that_ended_while_there_was_no_gateway_says_so(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        session = client.post("/v1/sessions").json()["id"]
    viewer = Viewer(own_gateway, session)
    viewer.type("while [ ! -e go ]; do sleep 0.05; done; touch went; exit 7\r")
    viewer.see("exit 7\r\n")
    own_gateway.kill()
    viewer.close()
    workspace = own_gateway.data / "workspaces" / session
    (workspace / "go").touch()
    wait_for((workspace / "went").exists, 60)
    own_gateway.start()
    viewer = Viewer(own_gateway, session)
    if "this terminal is over" in viewer.see(r"(this terminal|before this one) is over: [^\]]+\]"):
        viewer.close()  # it came before the shell's end was heard of
        viewer = Viewer(own_gateway, session)
        viewer.see(r"^\[the terminal before this one is over: its shell exited with 7\]")
    viewer.see(PROMPT)
    viewer.close()


def test_terminals_over_a_lowered_limit_are_ended_by_the_next_gateway(own_gateway: Gateway) -> None:
    own_gateway.start()
    with own_gateway.client() as client:
        session = client.post("/v1/sessions").json()["id"]
        for name in ("one", "two", "three"):
            viewer = Viewer(own_gateway, session, name)
            viewer.see(PROMPT)
            viewer.close()
        lowered = client.patch(f"/v1/sessions/{session}", json={"limits": {"commands": 1}})
        assert lowered.status_code == 200
    own_gateway.kill()
    own_gateway.start()
    with own_gateway.client() as client:
        assert terminals(client, session) == ["one"]

        def shells() -> int:
            found = client.get(f"/v1/sessions/{session}/processes").json()["processes"]
            return sum(p["name"] in ("bash", "sh") and p["state"] != "zombie" for p in found)

        wait_for(lambda: shells() == 1, 60)
