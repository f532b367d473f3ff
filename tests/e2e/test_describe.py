"""Tables in the files of a session, described by its sandbox."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Gateway
from tests.e2e.conftest import Run
from tests.environments import configured
from tests.environments import session as session_of


@pytest.fixture
def describe(http: httpx.Client, session: str) -> Any:
    def describe(path: str) -> httpx.Response:
        return http.get(f"/v1/sessions/{session}/describe", params={"path": path})

    return describe


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def test_files_of_the_workspace_are_described(run: Run, describe: Any) -> None:
    run(
        "import pandas as pd, os\nos.mkdir('sub')\n"
        "df = pd.DataFrame({'id': range(5000), 'price': 1.5, 'city': ['Köln', None] * 2500})\n"
        "df.to_csv('sub/t.csv', index=False)\n"
        "df.to_json('t.json', orient='records')\n"
        "df.to_json('t.jsonl', orient='records', lines=True)"
    )
    columns = [
        {"name": "id", "type": "integer", "nulls": 0},
        {"name": "price", "type": "number", "nulls": 0},
        {"name": "city", "type": "text", "nulls": 500},
    ]
    for path, format in (("sub/t.csv", "csv"), ("t.json", "json"), ("/workspace/t.jsonl", "jsonl")):
        answer = describe(path)
        assert answer.status_code == 200, answer.text
        table = answer.json()
        assert table["columns"] == columns
        assert (table["format"], table["rows"], table["rows_exact"]) == (format, 5000, True)
        assert table["sample"][0] == ["0", "1.5", "Köln"]


def test_inputs_are_described(http: httpx.Client, session: str, describe: Any) -> None:
    http.put("/v1/datasets/sales", params={"filename": "q1.csv"}, content=b"day,sum\n2024-01-01,5\n")
    http.post(f"/v1/sessions/{session}/inputs", json={"dataset": "sales"})
    table = describe("/data/input/sales/q1.csv").json()
    assert [(c["name"], c["type"]) for c in table["columns"]] == [("day", "date"), ("sum", "integer")]
    http.delete("/v1/datasets/sales")


def test_a_session_that_is_busy_or_paused_is_described_as_well(
    http: httpx.Client, session: str, run: Run, describe: Any
) -> None:
    run("open('t.csv', 'w').write('a,b\\n1,2\\n')")
    http.post(f"/v1/sessions/{session}/pause")
    assert describe("t.csv").json()["rows"] == 1
    path = f"/v1/sessions/{session}/executions"
    cell = http.post(path, json={"code": "while True: pass", "wait": False, "timeout": 60}).json()
    assert describe("t.csv").json()["rows"] == 1
    http.delete(f"{path}/{cell['id']}")


def test_what_cannot_be_described_is_told(run: Run, describe: Any) -> None:
    run(
        "import os\nos.mkfifo('pipe.csv')\nopen('prose.txt', 'w').write('Just\\nwords.\\n')\n"
        "open('t.parquet', 'wb').write(b'PAR1')\nos.symlink('/proc/self/mem', 'link.csv')"
    )
    assert refusal(describe("none.csv"))[:2] == (404, "file_not_found")
    assert refusal(describe("prose.txt"))[:2] == (422, "cannot_describe")
    status, code, message = refusal(describe("t.parquet"))
    assert (status, code) == (422, "cannot_describe")
    assert "'pyarrow'" in message
    for path in ("pipe.csv", "link.csv", "."):
        assert refusal(describe(path))[:2] == (422, "cannot_describe")
    for path in ("/etc/passwd", "../x"):
        assert refusal(describe(path))[:2] == (400, "invalid_path")


def test_a_file_that_takes_too_long_is_given_up(http: httpx.Client, session: str, run: Run) -> None:
    """A hostile session stops the process that describes; the kernel host and others go on."""
    run("open('t.csv', 'w').write('a,b\\n1,2\\n')")
    hostile = (
        "import os, signal, time\nstopped = []\nuntil = time.time() + 30\n"
        "while not stopped and time.time() < until:\n"
        "    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "        try: line = open(f'/proc/{pid}/cmdline').read()\n"
        "        except OSError: continue\n"
        "        if 'sandbox.describe' in line:\n"
        "            os.kill(int(pid), signal.SIGSTOP); stopped.append(pid)\n"
        "stopped"
    )
    path = f"/v1/sessions/{session}"
    http.post(f"{path}/executions", json={"code": hostile, "wait": False, "timeout": 60})
    began = time.monotonic()
    answer = http.get(f"{path}/describe", params={"path": "t.csv"})
    if answer.status_code != 200:  # it was quicker than whoever looked for it
        assert refusal(answer)[:2] == (422, "cannot_describe")
        assert "too long" in refusal(answer)[2]
        assert 15 < time.monotonic() - began < 40
    run("'over'", timeout=60)
    assert http.get(f"{path}/describe", params={"path": "t.csv"}).json()["rows"] == 1


def test_memory_that_runs_out_ends_the_description_and_not_the_kernel(
    http: httpx.Client, session: str, run: Run, describe: Any
) -> None:
    run("x = 42\nopen('t.json', 'w').write('[' + '[' * 5_000_000)")
    assert describe("t.json").status_code == 422
    assert run("x")["text"] == "42"


@pytest.fixture(scope="module")
def tabular(data_root: Path) -> Iterator[Gateway]:
    """A gateway whose environment has what Parquet and Excel need."""
    settings = (
        'default_environment = "tables"\n'
        '[environments.tables]\npackages = ["pyarrow==26.0.1", "openpyxl==3.1.5"]\n'
    )
    kernels = str(data_root / "kernels-with-tables")
    with configured(data_root, settings, runtime="embedded", kernels_dir=kernels) as gateway:
        yield gateway


def test_parquet_and_excel_are_described_where_their_packages_are(tabular: Gateway) -> None:
    with session_of(tabular, "tables") as cells:
        cells.text(
            "import pyarrow as pa, pyarrow.parquet as pq, openpyxl, datetime\n"
            "pq.write_table(pa.table({'n': range(100_000), 's': [None, 'x'] * 50_000}), 't.parquet')\n"
            "book = openpyxl.Workbook()\nsheet = book.active\nsheet.title = 'Main'\n"
            "sheet.append(['day', 'sum', 'note'])\n"
            "for n in range(2000): sheet.append([datetime.date(2024, 1, 1), n, None])\n"
            "book.create_sheet('Other')\nbook.save('t.xlsx')\n"
            "import zipfile; zipfile.ZipFile('z.xlsx', 'w').writestr('a', 'b')\n"
            "open('broken.parquet', 'wb').write(open('t.parquet', 'rb').read()[:-100])"
        )

        def describe(path: str) -> httpx.Response:
            return cells.client.get(f"{cells.path}/describe", params={"path": path})

        parquet = describe("t.parquet").json()
        assert (parquet["format"], parquet["rows"], parquet["rows_exact"]) == ("parquet", 100_000, True)
        assert [c["type"] for c in parquet["columns"]] == ["int64", "string"]
        assert [c["nulls"] for c in parquet["columns"]] == [0, 50_000]
        assert parquet["sample"][:2] == [["0", ""], ["1", "x"]]
        excel = describe("t.xlsx").json()
        assert (excel["format"], excel["rows"], excel["sheets"]) == ("xlsx", 2000, ["Main", "Other"])
        assert [(c["name"], c["type"]) for c in excel["columns"]] == [
            ("day", "datetime"),
            ("sum", "integer"),
            ("note", "empty"),
        ]
        assert describe("z.xlsx").json()["error"]["code"] == "cannot_describe"
        assert describe("broken.parquet").json()["error"]["code"] == "cannot_describe"
