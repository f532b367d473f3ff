"""What is made out in a file: the types, the number of rows, and what is no table at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interpreter.sandbox import describe, tables

PROJECT = Path(__file__).parents[2]


def described(path: Path) -> dict[str, Any]:
    said = json.loads(describe.answer(str(path)))
    assert "description" in said, said
    return dict(said["description"])


def refused(path: Path) -> str:
    said = json.loads(describe.answer(str(path)))
    assert said["problem"] == "no table", said
    return str(said["why"])


def types(table: dict[str, Any]) -> dict[str, str]:
    return {column["name"]: column["type"] for column in table["columns"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


def test_the_types_of_a_csv_file_are_told(file: Path) -> None:
    file.write_text(
        "id,name,price,day,at,ok,none,odd\n"
        '1,"x, ""y""\nz",1.5,2024-01-02,2024-01-02T10:00:00Z,true,,1\n'
        "2,NA,3,2024-01-03,2024-01-03 11:00,False,,x\n\n"
        "3,w,,2024-02-01,2024-01-03,TRUE,NaN,\n"
    )
    table = described(file)
    assert (table["format"], table["rows"], table["rows_exact"]) == ("csv", 3, True)
    assert types(table) == {
        "id": "integer",
        "name": "text",
        "price": "number",
        "day": "date",
        "at": "datetime",
        "ok": "boolean",
        "none": "empty",
        "odd": "text",
    }
    assert [column["nulls"] for column in table["columns"]] == [0, 1, 1, 0, 0, 0, 3, 1]
    assert table["sample"][0][:2] == ["1", 'x, "y"\nz']


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(file: Path, delimiter: str) -> None:
    file.write_text("".join(f"{n}{delimiter}a b{delimiter}1.5\n" for n in ("id", 1, 2)))
    assert len(described(file)["columns"]) == 3


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("a,b\n1,é\n", "utf-8-sig"), ("a,b\n1,é\n", "utf-16"), ("a,b\n1,é\n", "cp1252")],
)
def test_other_encodings_are_read(file: Path, text: str, encoding: str) -> None:
    file.write_bytes(text.encode(encoding))
    table = described(file)
    assert (list(types(table)), table["rows"], table["sample"]) == (["a", "b"], 1, [["1", "é"]])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b", 0),
        ("a,b\n", 0),
        ("a,b\n1,2", 1),
        ("a,b\r\n1,2\r\n3,4\r\n", 2),
        ("a,b\r1,2\r3,4", 2),
        ("\n\na,b\n\n\n1,2\n\n\n", 1),
        ('a,b\n1,"2\n3"\n4,5\n', 2),
        ('a,b\n1,5" pipe\n2,x\n3,y"z\n', 3),
        ("a,b\r\n" + "1,2\r\n" * 500_000, 500_000),
        ("a,b\n" + "\n".join(["1,2"] * 300_000 + ['"x\ny",3'] * 2 + ["4,5"] * 300_000), 600_002),
    ],
)
def test_rows_are_counted_exactly(file: Path, text: str, rows: int) -> None:
    file.write_bytes(text.encode())
    table = described(file)
    assert (table["rows"], table["rows_exact"]) == (rows, True)


def test_when_there_is_no_time_rows_are_estimated(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "COUNT_SECONDS", 0.0)
    monkeypatch.setattr(tables, "CHUNK", 10_000)
    for line in ("12,34\n", '12,"4"\n'):
        file.write_text("a,b\n" + line * 100_000)
        table = described(file)
        assert not table["rows_exact"]
        assert abs(table["rows"] - 100_000) < 20_000
    file.write_text(json.dumps([{"a": 1}] * 100_000))
    table = described(file.rename(file.with_suffix(".json")))
    assert not table["rows_exact"]
    assert abs(table["rows"] - 100_000) < 20_000


def test_json_is_described(tmp_path: Path) -> None:
    array, lines = tmp_path / "a.json", tmp_path / "l.jsonl"
    values = [{"a": n, "b": None if n % 2 else 1.5, "c": {"d": [n]}} for n in range(20_000)]
    values[5]["late"] = True
    array.write_text(json.dumps(values, indent=1))
    lines.write_text("\n".join(map(json.dumps, values)))
    for path, format in ((array, "json"), (lines, "jsonl")):
        table = described(path)
        assert (table["format"], table["rows"], table["rows_exact"]) == (format, 20_000, True)
        assert types(table) == {"a": "integer", "b": "number", "c": "object", "late": "boolean"}
        assert table["columns"][1]["nulls"] == 500
        assert table["sample"][0] == ["0", "1.5", '{"d": [0]}', ""]
    plain = tmp_path / "data.json"
    plain.write_text("\n".join(map(json.dumps, values)))
    assert described(plain)["format"] == "jsonl", "lines are known by themselves, too"


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("[]", ["value"], 0),
        ("[1, 2.5, null, 123456]", ["value"], 4),
        ('[["a", 1], ["b"]]', ["column 1", "column 2"], 2),
        ('  [\n{"a": 1} ,\n{"a": 2}\n]\n', ["a"], 2),
    ],
)
def test_arrays_of_other_things_are_tables_too(
    tmp_path: Path, text: str, names: list[str], rows: int
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    table = described(path)
    assert (list(types(table)), table["rows"]) == (names, rows)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.csv", b"", "empty"),
        ("x.csv", b"\n\n", "empty"),
        ("x.csv", bytes(range(256)), "not text"),
        ("x.txt", b"Prose, as it\nis\nwritten.\n", "do not have columns"),
        ("x.json", b'{\n "a": 1\n}', "object"),
        ("x.json", b"[1, 2", "not whole"),
        ("x.json", b"[1, x]", "not whole"),
        ("x.json", b"[" * 100_000, ""),
        ("x.jsonl", b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("x.jsonl", b"\n", "empty"),
        ("x.xls", b"\xd0\xcf\x11\xe0" + b"\0" * 100, ".xlsx"),
        ("x.csv", b"\x1f\x8b" + b"\0" * 100, "compressed"),
        ("x.csv", b'a,b\n"' + b"x" * 9_000_000, "more than"),
        ("x.csv", b"x" * 9_000_000, "more than"),
        ("x.json", b'["' + b"x" * 20_000_000 + b'"]', "more than"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert why in refused(path)


def test_only_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert "not a file" in refused(tmp_path / "pipe.csv")
    assert json.loads(describe.answer("/dev/zero"))["problem"] == "no table"
    assert json.loads(describe.answer(str(tmp_path)))["problem"] == "no table"
    assert json.loads(describe.answer(str(tmp_path / "none")))["problem"] == "missing"


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pyarrow", "openpyxl"):  # also where the tests' own environment has them
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    (tmp_path / "x.parquet").write_bytes(b"PAR1" + b"\0" * 100)
    (tmp_path / "x.xlsx").write_bytes(b"PK\3\4" + b"\0" * 100)
    for name, package in (("x.parquet", "pyarrow"), ("x.xlsx", "openpyxl")):
        said = json.loads(describe.answer(str(tmp_path / name)))
        assert said == {"problem": "needs", "package": package}


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}", "\N{PILE OF POO}", '"', "\\"])
def test_however_wide_a_table_is_its_description_is_short(file: Path, letter: str) -> None:
    cell = letter.replace('"', '""') * 500
    row = ",".join([f'"{cell}"'] * 1500)
    file.write_text(f"{row}\n" * 3)
    answer = describe.answer(str(file))
    assert len(answer) <= describe.ANSWER_BYTES
    table = json.loads(answer)["description"]
    assert (len(table["columns"]), table["more_columns"], table["rows"]) == (1000, 500, 2)


def test_a_large_file_takes_little_memory(file: Path) -> None:
    with file.open("w") as out:
        for _ in range(100):
            out.write('1,"two",3.5\n' * 100_000)
    code = (
        "from interpreter.sandbox import describe\n"
        f"describe.answer({str(file)!r})\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT)
    assert int(done.stdout) < 64 * 1024, done.stderr
