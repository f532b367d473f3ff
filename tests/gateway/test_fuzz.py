"""Requests made from the description, right and wrong ones, by the thousand: never a fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template

import httpx
import pytest

from tests.conftest import Gateway

ROOT = Path(__file__).parents[2]
EXAMPLES = 25

# A real session and execution are asked for most of the time. The session is not deleted, and
# streams are not followed, as they would not end. Policy may refuse what the types allow.
SETTINGS = Template("""
hooks = "tests.gateway.fuzz_checks"
request-timeout = 30.0
warnings = false
[auth.openapi.token]
bearer = "$token"
[dictionaries]
sessions = { values = ["$session"] }
executions = { values = ["$execution"] }
workspaces = { values = ["fuzzed"] }
[parameters]
"path.session_id" = { dictionary = "sessions", probability = 0.8 }
"path.execution_id" = { dictionary = "executions", probability = 0.8 }
"path.workspace" = { dictionary = "workspaces", probability = 0.8 }
"query.follow" = false
[[operations]]
include-operation-id = ["delete_session", "stop_session"]
parameters = { "path.session_id" = "s-none" }
[[operations]]
include-operation-id = ["upload_dataset", "describe_file", "attach_input", "detach_input"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "409", "422"]
[[operations]]
include-operation-id = "delete_workspace"
parameters = { "path.workspace" = "none" }
[[operations]]
include-operation-id = ["create_workspace", "update_workspace", "copy_workspace", "restore_workspace"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "409"]
[[operations]]
include-operation-id = ["create_session", "run_cell", "run_command", "send_input", "update_execution"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "409", "429"]
[[operations]]
include-operation-id = ["list_files", "read_file", "write_file", "write_files", "delete_file", "change_file"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "400", "404", "409", "412", "416", "422"]
[operations.checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "412", "415", "422", "428", "429", "5xx"]
[[operations]]
include-operation-id = ["complete_code", "inspect_code", "create_embed"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "409"]
[[operations]]
include-operation-id = "update_session"
parameters = { "path.session_id" = "$stopped" }
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "409", "429"]
""")


@pytest.fixture
def full(data_root: Path) -> Iterator[Gateway]:
    """A gateway with room for one session only, so that asking for more costs nothing."""
    gateway = Gateway(data_root / "fuzzed", spares="0", max_sessions="1", queue_seconds="0").start()
    yield gateway
    gateway.stop()


def test_no_request_made_from_the_description_finds_a_fault(full: Gateway, tmp_path: Path) -> None:
    with full.client() as client:
        # Limits are changed of one that has no sandbox, lest its time be over in the middle of it all.
        stopped = client.post("/v1/sessions").json()["id"]
        client.post(f"/v1/sessions/{stopped}/stop")
        session = client.post("/v1/sessions").json()["id"]
        client.post("/v1/workspaces", json={"name": "fuzzed", "disk_mb": 16})
        path = f"/v1/sessions/{session}/executions"
        execution = client.post(path, json={"code": "print('x')\n6 * 7"}).json()["id"]
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(
        SETTINGS.substitute(token=full.token, session=session, execution=execution, stopped=stopped)
    )
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"]
    options = ["--phases=coverage,fuzzing", f"--max-examples={EXAMPLES}", "--seed=1", "--no-color"]
    ended = subprocess.run(
        [*command, f"{full.url}/openapi.json", *options, "--generation-database=none"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in full.log.read_text()
    with full.client() as client:
        state = client.get(f"/v1/sessions/{session}").json()["state"]
        assert state in ("ready", "busy"), "the session that was asked for everything is still there"


def test_names_and_labels_may_be_any_text(http: httpx.Client) -> None:
    texts = [
        "\0",
        "\n",
        "'\"\\",
        "[red]",
        "\u202e",
        "\U0001f9ea" * 100,
        "\ufffe",
        "e\u0301",
        "{}",
        "../..",
    ]
    request = {"name": "".join(texts)[:100], "labels": {text: text for text in texts}}
    session = http.post("/v1/sessions", json=request).json()
    path = f"/v1/sessions/{session['id']}"
    assert {key: session[key] for key in request} == request
    assert {key: http.get(path).json()[key] for key in request} == request
    assert http.delete(path).status_code == 200
