"""What a result picks out of notebook outputs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from interpreter import CellError, Result
from interpreter.models import Execution, ExecutionError, ExecutionStatus, Output

from .fake_gateway import execution

PNG = b"\x89PNG\r\n\x1a\n"


def result(*outputs: Output, **more: Any) -> Result:
    import msgspec

    return Result(msgspec.convert(execution(outputs=list(outputs), **more), Execution))


def shown(**bundle: Any) -> Output:
    data = {k.replace("__", "/"): v for k, v in bundle.items()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def printed(name: str, text: str) -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def test_streams_are_told_apart() -> None:
    r = result(printed("stdout", "a"), printed("stderr", "b"), printed("stdout", "c"))
    assert (r.stdout, r.stderr) == ("ac", "b")


def test_the_last_of_each_kind_is_given() -> None:
    r = result(
        shown(text__html="<p>1"), shown(text__html=["<p>", "2"]), shown(application__json={"a": [1]})
    )
    assert (r.html, r.json, r.latex, r.markdown) == ("<p>2", {"a": [1]}, None, None)


def test_images_of_every_output_can_be_saved(tmp_path: Path) -> None:
    svg = "<svg></svg>"
    r = result(
        shown(image__png=base64.b64encode(PNG).decode() + "\n"),
        shown(**{"image__svg+xml": svg, "image__jpeg": base64.b64encode(b"j").decode()}),
    )
    assert [(i.mime, i.data) for i in r.images] == [
        ("image/png", PNG),
        ("image/jpeg", b"j"),
        ("image/svg+xml", svg.encode()),
    ]
    assert r.images[0].save(tmp_path / "p.png").read_bytes() == PNG


def test_an_image_that_is_none_is_left_out() -> None:
    assert result(shown(image__png="!")).images == []


def test_a_failing_cell_raises_only_when_asked() -> None:
    r = result(status="error", error={"ename": "ValueError", "evalue": "no", "traceback": []})
    assert not r.ok
    assert r.error == ExecutionError(ename="ValueError", evalue="no", traceback=[])
    with pytest.raises(CellError, match="ValueError: no") as caught:
        r.raise_for_error()
    assert caught.value.result is r


def test_a_cell_without_an_exception_raises_its_reason() -> None:
    with pytest.raises(CellError, match="out of memory"):
        result(status="lost", reason="out of memory").raise_for_error()


@pytest.mark.parametrize("status", ["ok", "queued", "running"])
def test_a_cell_that_went_well_or_has_not_ended_does_not_raise(status: str) -> None:
    r = result(status=status)
    assert r.raise_for_error() is r
    assert r.status is ExecutionStatus(status)
