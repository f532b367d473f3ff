"""What a kernel's message may contain."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpreter.kernel.messages import MAX_DEPTH, MAX_PARTS, MalformedMessage, parse
from interpreter.kernel.translate import MIME_TYPES, mime_bundle

HEAD = json.dumps({"msg_id": "1", "msg_type": "display_data"}).encode()


def parsed(content: bytes) -> dict[str, Any]:
    return parse("iopub", [b"<IDS|MSG>", b"", HEAD, b"{}", b"{}", content]).content


def nested(levels: int) -> bytes:
    """An object with so many levels below it, of either kind, and brackets in strings beside them."""
    value: Any = '[[["{\\'
    for level in range(levels):
        value = [value, "]", '"['] if level % 2 else {'{"': value, "\\": "}}\\"}
    return json.dumps({"a": value}).encode()


@given(st.integers(MAX_DEPTH - 30, MAX_DEPTH + 30))
def test_what_is_nested_too_deeply_is_refused_and_nothing_else(levels: int) -> None:
    if levels + 1 <= MAX_DEPTH:
        assert parsed(nested(levels)) == json.loads(nested(levels))
    else:
        with pytest.raises(MalformedMessage, match="nested"):
            parsed(nested(levels))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=400,
    )
)
def test_whatever_is_not_too_deep_comes_whole(value: Any) -> None:
    content = {"data": value, "brackets": "[" * (MAX_DEPTH + 1)}
    data = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    assert parsed(data) == json.loads(data)


def test_a_message_of_too_many_parts_is_refused() -> None:
    assert len(parsed(b'{"a":[' + b"[]," * (MAX_PARTS - 10) + b"[]]}")["a"]) == MAX_PARTS - 9
    with pytest.raises(MalformedMessage, match="more than"):
        parsed(b'{"a":[' + b"[]," * MAX_PARTS + b"[]]}")


def test_what_is_refused_is_not_made_first() -> None:
    content = b'{"data": {"application/json": [' + b"[]," * 3_000_000 + b"[]]}}"
    tracemalloc.start()
    with pytest.raises(MalformedMessage):
        parsed(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(content)


def test_an_output_has_a_bounded_number_of_types() -> None:
    bundle = mime_bundle({f"text/{n}": "x" for n in range(10 * MIME_TYPES)})
    assert list(bundle) == [f"text/{n}" for n in range(MIME_TYPES)]
