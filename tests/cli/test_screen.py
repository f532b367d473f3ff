"""How events look in a terminal, and what becomes of pictures."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest

from interpreter.cli.images import ImageFolder
from interpreter.cli.screen import Screen
from interpreter.models import Event, EventType

PNG = base64.b64encode(b"first").decode()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(*events: Event, folder: Path | None = None, labels: bool = False) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, ImageFolder(folder) if folder else None, labels=labels)
    for event in events:
        screen.show(event)
    return out.getvalue(), err.getvalue()


def happened(kind: str, **data: Any) -> Event:
    return Event(seq=1, type=EventType(kind), execution_id="e-1", data=data)


def printed(text: str, name: str = "stdout") -> Event:
    return happened("stream", name=name, text=text)


def result(**bundle: str) -> Event:
    data = {k.replace("__", "/"): v for k, v in bundle.items()}
    return happened("display", output_type="execute_result", data=data, metadata={}, execution_count=3)


RAISED = happened(
    "error", ename="ValueError", evalue="no", traceback=["----", "\x1b[31mValueError\x1b[39m: no"]
)


def test_streams_go_where_they_were_printed() -> None:
    assert show(printed("a\n"), printed("b\n", "stderr")) == ("a\n", "b\n")


def test_a_result_is_a_line_of_its_own() -> None:
    assert show(result(text__plain="42"))[0] == "42\n"
    assert show(printed("a"), result(text__plain="42"))[0] == "a\n42\n"


def test_a_line_that_is_not_ended_concerns_only_the_file_it_is_in() -> None:
    assert show(printed("a"), RAISED, result(text__plain="42")) == ("a\n42\n", "----\nValueError: no\n")


def test_on_a_terminal_everything_shares_the_lines() -> None:
    terminal = Terminal()
    screen = Screen(terminal, terminal, None)
    screen.show(printed("a"))
    assert screen.cursor_in_line
    screen.show(result(text__plain="42"))
    assert terminal.getvalue() == "a\n42\n"
    assert not screen.cursor_in_line


def test_results_can_be_numbered() -> None:
    assert show(result(text__plain="42"), labels=True)[0] == "Out[3]: 42\n"
    assert show(result(text__plain="a\nb"), labels=True)[0] == "Out[3]:\na\nb\n"


def test_what_has_no_text_is_named() -> None:
    assert show(result(text__html="<p>"))[0] == "[text/html]\n"


def test_a_traceback_goes_to_stderr_without_colour() -> None:
    assert show(RAISED) == ("", "----\nValueError: no\n")


@pytest.mark.parametrize("no_color", [False, True])
def test_a_traceback_keeps_its_colour_on_a_terminal(
    no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    err = Terminal()
    Screen(io.StringIO(), err, None).show(RAISED)
    assert ("\x1b[31mValueError" in err.getvalue()) is not no_color


def test_pictures_are_saved_and_named(tmp_path: Path) -> None:
    (tmp_path / "plot-1.svg").write_text("mine")
    out, err = show(result(image__png=PNG, text__plain="<Figure>"), folder=tmp_path)
    assert out == ""
    assert err == f"image saved: {tmp_path / 'plot-2.png'}\n"
    assert (tmp_path / "plot-2.png").read_bytes() == b"first"


def test_a_picture_that_is_updated_keeps_its_file(tmp_path: Path) -> None:
    second = base64.b64encode(b"second").decode()
    show(
        happened("display", data={"image/png": PNG}, display_id="d"),
        happened("update", data={"image/png": second}, display_id="d"),
        folder=tmp_path,
    )
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"second"]


def test_what_a_terminal_cannot_show_does_not_end_the_command() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    Screen(out, out, None).show(printed("é\ud800"))
    assert raw.getvalue() == b"\\xe9\\ud800"


def test_a_warning_is_a_line_of_its_own_on_stderr() -> None:
    warning = happened("warning", what="timeout", message="The cell ends in 10 s.", left=10)
    assert show(printed("a"), warning, printed("b\n")) == ("ab\n", "warning: The cell ends in 10 s.\n")


def test_changed_files_are_named_on_a_terminal_and_nowhere_else() -> None:
    files = [
        {"path": "out/plot.png", "change": "created", "size": 12_345},
        {"path": "gone\x1b[2J\n", "change": "deleted", "size": None},
    ]
    changed = happened("files", files=files, left_out=1_999)
    assert show(changed) == ("", "")
    terminal = Terminal()
    Screen(terminal, terminal, None).show(changed)
    shown = terminal.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert shown == (
        "created out/plot.png (12.3 kB)\n"
        "deleted gone\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}\nand 1,999 more files\n"
    )
