"""The command line against a live gateway, on pipes and on a terminal."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreter import Client

from .terminal import Terminal, environment, interpreter

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def env(gateway: Any, tmp_path: Path) -> dict[str, str]:
    """Where the gateway is; what the command line keeps goes to a directory of the test."""
    return environment(
        INTERPRETER_URL=gateway.url,
        INTERPRETER_TOKEN=gateway.token,
        INTERPRETER_DATA_DIR=str(tmp_path / "data"),
    )


@pytest.fixture
def run(env: dict[str, str], tmp_path: Path) -> Run:
    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return interpreter(*arguments, env=env, cwd=tmp_path, stdin=stdin)

    return run


@pytest.fixture
def client(gateway: Any) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as client:
        yield client


@pytest.fixture
def session(client: Client) -> Iterator[str]:
    with client.session(name="cli-live") as session:
        yield session.id


@pytest.fixture
def terminal(env: dict[str, str], tmp_path: Path) -> Callable[..., Terminal]:
    return lambda *arguments: Terminal(arguments, env, tmp_path)


def test_a_session_is_made_named_and_gone_on_with(run: Run, client: Client) -> None:
    first = run("run", "x = 40")
    assert (first.returncode, first.stdout) == (0, "")
    found = re.fullmatch(r"session (\S+) \(keep using it: --session \1\)\n", first.stderr)
    assert found
    second = run("run", "x + 2", "--session", found[1], "--delete")
    assert (second.returncode, second.stdout, second.stderr) == (0, "42\n", "")
    assert found[1] not in [s.id for s in client.sessions()]


def test_code_comes_from_a_file_or_a_pipe(run: Run, session: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("y = 'from a file'\nprint(y)\n")
    assert run("run", "-f", "script.py", "-s", session).stdout == "from a file\n"
    assert run("run", "-", "-s", session, stdin="for i in range(2):\n    print(i)\n").stdout == "0\n1\n"


def test_streams_results_and_errors_go_their_ways(run: Run, session: str) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1/0"
    done = run("run", code, "-s", session)
    assert (done.returncode, done.stdout) == (1, "out\n")
    assert done.stderr.startswith("err\n")
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_timeout_has_its_exit_code(run: Run, session: str) -> None:
    done = run("run", "import time; time.sleep(60)", "-s", session, "--timeout", "0.5")
    assert done.returncode == 124
    assert "\nerror: " in done.stderr


def test_a_kernel_that_dies_says_why(run: Run, session: str) -> None:
    done = run("run", "import os; os._exit(7)", "-s", session)
    assert done.returncode == 1
    assert re.search(r"^error: .*7", done.stderr, re.MULTILINE)
    assert run("run", "'alive'", "-s", session).stdout == "'alive'\n"


def test_json_is_the_whole_execution_and_nothing_else(run: Run, session: str) -> None:
    done = run("run", "print('a'); 1/0", "-s", session, "--json")
    execution = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert (execution["status"], execution["error"]["ename"]) == ("error", "ZeroDivisionError")


def test_pictures_are_saved_and_named(run: Run, session: str, tmp_path: Path) -> None:
    code = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"
    done = run("run", code, "-s", session, "--images", "pictures")
    assert (done.stdout, done.stderr) == ("", "image saved: pictures/plot-1.png\n")
    assert (tmp_path / "pictures/plot-1.png").read_bytes().startswith(b"\x89PNG")


def test_input_without_a_terminal_fails_clearly(run: Run, session: str) -> None:
    done = run("run", "input('name? ')", "-s", session)
    assert done.returncode == 1
    assert "StdinNotImplementedError" in done.stderr


def test_sessions_are_listed_and_found_by_prefix_or_name(run: Run, session: str) -> None:
    table = run("sessions").stdout
    assert re.search(rf"^{session}\s+cli-live\s+ready", table, re.MULTILINE)
    assert re.search(rf"^{session} .* \d+ of 2,048 MB +\d+\.\d s ", table, re.MULTILINE)
    assert session in [s["id"] for s in json.loads(run("sessions", "--json").stdout)["sessions"]]
    assert run("run", "1", "-s", session[:-2]).stdout == "1\n"
    assert run("run", "2", "-s", "cli-live").stdout == "2\n"


def test_sessions_are_restarted_and_deleted(run: Run, client: Client) -> None:
    one, two = client.create_session(), client.create_session()
    run("run", "x = 1", "-s", one.id)
    assert run("restart", one.id).returncode == 0
    assert run("run", "x", "-s", one.id).returncode == 1
    assert run("interrupt", one.id).returncode == 0
    assert run("sessions", "delete", one.id).stdout.startswith(f"deleted {one.id}: 2 cells")
    assert run("delete", two.id).returncode == 0
    gone = run("delete", two.id)
    assert gone.returncode == 3
    assert gone.stderr.startswith(f"error: There is no session '{two.id}'.\n  'interpreter sessions'")


def test_processes_are_shown_with_their_cells_and_orphans_ended(run: Run, session: str) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True).pid"
    cell = json.loads(run("run", code, "-s", session, "--json").stdout)
    pid = cell["text"]
    table = run("ps", session).stdout
    assert re.search(rf"^{pid} .* {cell['id']} \(ended\) +sleep 600", table, re.MULTILINE)
    assert re.search(r"^\d+ .* kernel ", table, re.MULTILINE)
    listed = json.loads(run("ps", session, "--json").stdout)["processes"]
    assert cell["id"] in [process["execution_id"] for process in listed]
    assert run("ps", session, "--end-orphans").stdout == f"ended {pid}: sleep 600\n"
    assert json.loads(run("ps", session, "--end-orphans", "--json").stdout)["ended"] == []


def test_logs_read_like_a_notebook(run: Run, session: str) -> None:
    run("run", "x = 40\nx + 2", "-s", session)
    run("run", "print('hi'); 1/0", "-s", session)
    run("run", "import os; os._exit(7)", "-s", session)
    shown = run("logs", session)
    assert shown.stderr == ""
    assert "In [1]: x = 40\n   ...: x + 2\nOut[1]: 42\n" in shown.stdout
    assert "In [2]: print('hi'); 1/0\nhi\n" in shown.stdout
    assert "ZeroDivisionError: division by zero" in shown.stdout
    assert re.search(r"^-- lost: .*7", shown.stdout, re.MULTILINE)
    events = [json.loads(line) for line in run("logs", session, "--json").stdout.splitlines()]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))


def test_ctrl_c_interrupts_the_cell(terminal: Callable[..., Terminal], session: str, run: Run) -> None:
    code = "x = 5\nprint('started', flush=True)\nimport time\ntime.sleep(60)"
    with terminal("run", code, "-s", session) as t:
        t.expect("started")
        t.expect("running, [1-9]")
        t.type("\x03")
        t.expect("KeyboardInterrupt")
        assert t.exit_code() == 130
    assert run("run", "x", "-s", session).stdout == "5\n"


def test_a_second_ctrl_c_leaves_the_cell(terminal: Callable[..., Terminal], session: str) -> None:
    code = (
        "print('started', flush=True)\nimport time\n"
        "while True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: print('no', flush=True)"
    )
    with terminal("run", code, "-s", session) as t:
        t.expect("started")
        t.type("\x03")
        t.expect("no")
        t.type("\x03")
        t.expect("may still run")
        assert t.exit_code() == 130


def test_a_cell_asks_at_the_terminal(terminal: Callable[..., Terminal], session: str) -> None:
    code = "import getpass\nn = input('name? ')\np = getpass.getpass('pw: ')\nprint(n.upper(), len(p))"
    with terminal("run", code, "-s", session) as t:
        t.expect(r"name\? ")
        t.type("ada\n")
        t.expect("pw: ")
        t.type("geheim\n")
        t.expect("ADA 6")
        assert t.exit_code() == 0
    assert "geheim" not in t.raw


def test_ctrl_c_at_a_question_interrupts_the_cell(
    terminal: Callable[..., Terminal], session: str
) -> None:
    with terminal("run", "input('name? ')", "-s", session) as t:
        t.expect(r"name\? ")
        t.type("\x03")
        assert t.exit_code() == 130


def test_the_repl_keeps_a_conversation(
    terminal: Callable[..., Terminal], client: Client, tmp_path: Path
) -> None:
    with terminal("repl") as t:
        session = t.expect(r"session (\S+),").split()[1].rstrip(",")
        t.expect(r"In \[1\]: ")
        t.type("x = 20\r")
        t.expect(r"In \[2\]: ")
        t.type("x + 22\r")
        t.expect(r"Out\[2\]: 42")
        t.expect(r"In \[3\]: ")
        t.type("for i in range(2):\rprint('line', i)\r\r")
        t.expect("line 0\nline 1\n")
        t.expect(r"In \[4\]: ")
        t.type("1/0\r")
        t.expect("ZeroDivisionError: division by zero")
        assert "\x1b[" in t.raw
        t.expect(r"In \[5\]: ")
        t.type("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()\r")
        t.expect(r"image saved: plot-1\.png")
        t.expect(r"In \[6\]: ")
        t.type("%quit\r")
        assert t.exit_code() == 0
    assert session not in [s.id for s in client.sessions()]
    assert (tmp_path / "plot-1.png").exists()
    assert "x + 22" in (tmp_path / "data" / "repl_history").read_text()


def test_the_repl_survives_ctrl_c_restart_and_a_dead_kernel(
    terminal: Callable[..., Terminal], client: Client, session: str
) -> None:
    client.session(session).run("x = 1")
    with terminal("repl", "-s", session) as t:
        t.expect(r"In \[2\]: ")
        t.type("print('started', flush=True); import time; time.sleep(60)\r")
        t.expect("\nstarted")
        t.type("\x03")
        t.expect("KeyboardInterrupt")
        t.expect(r"In \[3\]: ")
        t.type("unfinished\x03")
        t.expect(r"In \[3\]: ")
        t.type("x\r")
        t.expect(r"Out\[3\]: 1")
        t.expect(r"In \[4\]: ")
        t.type("import os; os._exit(7)\r")
        t.expect("error: .*7")
        t.expect(r"In \[\d\]: ")
        t.type("%restart\r")
        t.expect("The kernel is fresh")
        t.expect(r"In \[1\]: ")
        t.type("\x04")
        t.expect(f"session {session} stays")
        assert t.exit_code() == 0
    assert session in [s.id for s in client.sessions()]
