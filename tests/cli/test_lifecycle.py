"""The commands that look after sessions, against a live gateway."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter import Client, Session
from interpreter.models import SessionState
from tests.conftest import Gateway, only

from .terminal import Terminal, environment, interpreter

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def env_of(gateway: Gateway, folder: Path) -> dict[str, str]:
    return environment(
        INTERPRETER_URL=gateway.url,
        INTERPRETER_TOKEN=gateway.token,
        INTERPRETER_DATA_DIR=str(folder / "data"),
    )


@pytest.fixture
def run(gateway: Gateway, tmp_path: Path) -> Run:
    env = env_of(gateway, tmp_path)
    return lambda *arguments, stdin=None: interpreter(*arguments, env=env, cwd=tmp_path, stdin=stdin)


@pytest.fixture
def client(gateway: Any) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as client:
        yield client


@pytest.fixture
def session(client: Client) -> Iterator[Session]:
    with client.session(name="cli-life", labels={"team": "a", "n": "1"}) as session:
        yield session


def test_sessions_are_paused_resumed_stopped_started_and_deleted(run: Run, client: Client) -> None:
    one, two = client.create_session(), client.create_session()
    run("run", "x = 1; open('kept', 'w').close()", "-s", one.id)
    done = run("pause", one.id, two.id)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(
        f"paused {s.id}: memory is kept, the next cell resumes it\n" for s in (one, two)
    )
    assert one.refresh().state is SessionState.paused
    assert run("resume", one.id).stdout == f"resumed {one.id}: it is ready\n"
    assert run("run", "x", "-s", one.id).stdout == "1\n"
    assert run("stop", one.id).stdout.startswith(f"stopped {one.id}: ")
    refused = run("run", "x", "-s", one.id)
    assert refused.returncode == 3
    assert f"\n  'interpreter start {one.id}' starts it again" in refused.stderr
    assert run("start", one.id).stdout == f"started {one.id}: it is ready\n"
    assert run("run", "import os; os.path.exists('kept')", "-s", one.id).stdout == "True\n"
    deleted = run("delete", one.id, "s-missing", two.id)
    assert deleted.returncode == 3
    assert f"deleted {one.id}: 3 cells" in deleted.stdout
    assert f"deleted {two.id}: 0 cells" in deleted.stdout, "one that is not there stops nothing"
    assert deleted.stderr.startswith("error: There is no session 's-missing'.\n")


def test_sessions_are_listed_by_state_name_and_label(run: Run, session: Session) -> None:
    table = run("sessions", "--label", "team=a", "--label", "n=1").stdout
    header, row = table.splitlines()
    for title in ("id", "name", "state", "memory", "last used", "if idle", "ends in"):
        assert title in header
    assert re.match(rf"{session.id} +cli-life +ready .* pause in (1 h|\d\d min) +(1 d|23 h) *$", row)
    session.pause()
    found = json.loads(run("sessions", "--state", "paused", "--name", "cli-life", "--json").stdout)
    assert [s["id"] for s in found["sessions"]] == [session.id]
    nothing = run("sessions", "--state", "failed", "--name", "cli-life")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no such sessions.\n")
    for wrong in (["--state", "asleep"], ["--label", "team"]):
        assert run("sessions", *wrong).returncode == 2


def test_contexts_are_made_used_listed_and_ended(run: Run, session: Session) -> None:
    assert re.search(r"^b +ready ", run("contexts", session.id, "--create", "b").stdout, re.MULTILINE)
    run("run", "x = 'in b'", "-s", session.id, "--context", "b")
    assert run("run", "x", "-s", session.id, "-c", "b").stdout == "'in b'\n"
    assert run("run", "x", "-s", session.id).returncode == 1
    assert "\nb In [2]: x\n" in run("logs", session.id).stdout
    assert "\n-- contexts: context b was created\n" in run("logs", session.id).stdout
    assert run("restart", session.id, "--context", "b").returncode == 0
    assert run("interrupt", session.id, "--context", "b").returncode == 0
    run("contexts", session.id, "--delete", "b")
    there = json.loads(run("contexts", session.id, "--json").stdout)["contexts"]
    assert [c["name"] for c in there] == ["default"]
    missing = run("run", "x", "-s", session.id, "--context", "b")
    assert missing.returncode == 3
    assert "'interpreter contexts SESSION'" in missing.stderr


def test_variables_of_a_new_session_come_from_the_command_line(run: Run) -> None:
    code = "import os; print(os.environ['A'], os.environ['B'])"
    done = run("run", code, "--env", "A=1", "--env", "B=x=y", "--delete")
    assert (done.returncode, done.stdout) == (0, "1 x=y\n")
    assert run("run", code, "--env", "A").returncode == 2


def test_variables_cannot_be_given_to_a_session_that_is_there(run: Run, session: Session) -> None:
    refused = run("run", "1", "-s", session.id, "--env", "A=1")
    assert refused.returncode == 2
    assert "from the start" in refused.stderr


def test_status_says_how_full_the_gateway_is(run: Run, gateway: Gateway, session: Session) -> None:
    shown = run("status").stdout
    assert shown.startswith(gateway.url + "\n")
    assert re.search(r"^sessions +█*░* +\d+ +64 +\d+ .*ready", shown, re.MULTILINE)
    assert re.search(r"^memory, MB +█*░* +[\d,]+ +[\d,]+ +reserved", shown, re.MULTILINE)
    assert re.search(r"^python +\d+ +\d+ +\d+ +2 +8 *$", shown, re.MULTILINE)
    status = json.loads(run("status", "--json").stdout)
    assert status["sessions"]["ready"] >= 1
    assert status["max_sessions"] == 64


def test_the_audit_log_says_what_became_of_a_session_and_why(run: Run, client: Client) -> None:
    session = client.create_session()
    session.stop()
    session.delete()
    shown = run("audit", session.id).stdout.splitlines()
    assert [line.split()[3] for line in shown[1:]] == [
        *("session.creating", "session.ready", "session.stopped", "session.deleted")
    ]
    assert "it was stopped" in shown[3]
    entries = json.loads(run("audit", session.id, "--limit", "1", "--json").stdout)["entries"]
    assert [entry["action"] for entry in entries] == ["session.deleted"]


def test_warnings_are_shown_where_the_cell_is_and_in_the_log(run: Run, client: Client) -> None:
    with client.session(limits={"executions": 3}) as session:
        shown = [run("run", f"print({n})", "-s", session.id) for n in range(3)]
        assert [s.stdout for s in shown] == ["0\n", "1\n", "2\n"]
        assert shown[2].stderr == "warning: 0 more cells can be run in this session.\n"
        assert "warning: 0 more cells can be run" in run("logs", session.id).stdout
        refused = run("run", "1", "-s", session.id)
        assert refused.returncode == 3
        assert refused.stderr.startswith("error: This session has run its 3 cells.\n")


def test_the_repl_warns_too(client: Client, gateway: Gateway, tmp_path: Path) -> None:
    with (
        client.session(limits={"executions": 1}) as session,
        Terminal(["repl", "-s", session.id], env_of(gateway, tmp_path), tmp_path) as t,
    ):
        t.expect(r"In \[1\]: ")
        t.type("6 * 7\r")
        t.expect("warning: 0 more cells")
        t.expect(r"Out\[1\]: 42")
        t.expect(r"In \[2\]: ")
        t.type("%quit\r")
        assert t.exit_code() == 0


@only("embedded")
def test_a_full_gateway_says_what_to_do(own_gateway: Gateway, tmp_path: Path) -> None:
    own_gateway.settings |= {"max_sessions": "1", "queue_seconds": "0", "spares": "0"}
    own_gateway.start()
    env = env_of(own_gateway, tmp_path)
    assert interpreter("run", "1", env=env, cwd=tmp_path).returncode == 0
    refused = interpreter("run", "1", env=env, cwd=tmp_path)
    assert refused.returncode == 3
    assert re.search(r"\n  Try again in \d+ s, or make room: 'interpreter stop SESSION'", refused.stderr)
