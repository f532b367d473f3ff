"""Events folded into notebook outputs."""

from __future__ import annotations

from typing import Any

import nbformat
from hypothesis import given, settings
from hypothesis import strategies as st

from interpreter.kernel.outputs import Fold
from interpreter.kernel.plaintext import settle, strip_ansi, to_text
from interpreter.models import EventType


def stream(name: str, text: str) -> tuple[EventType, dict[str, Any]]:
    return EventType.stream, {"name": name, "text": text}


def display(text: str, display_id: str | None = None) -> tuple[EventType, dict[str, Any]]:
    data = {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}
    return EventType.display, data | ({"display_id": display_id} if display_id else {})


def fold(*events: tuple[EventType, dict[str, Any]], limit: int = 1_000_000) -> Fold:
    folded = Fold(limit)
    for type, data in events:
        folded.apply(type, data)
    return folded


def texts(folded: Fold) -> list[str]:
    return [o.get("text") or o["data"]["text/plain"] for o in folded.outputs()]


def test_streams_are_joined_across_each_other_but_not_across_a_display() -> None:
    folded = fold(
        stream("stdout", "a"), stream("stderr", "x"), stream("stdout", "b"),
        display("D"), stream("stdout", "c"),
    )  # fmt: skip
    assert texts(folded) == ["ab", "x", "D", "c"]


def test_an_update_changes_every_display_of_its_id() -> None:
    folded = fold(display("one", "d"), display("other"), display("one", "d"))
    folded.apply(EventType.update, {"display_id": "d", "data": {"text/plain": "two"}, "metadata": {}})
    assert texts(folded) == ["two", "other", "two"]


def test_an_update_changes_the_newest_hundred_displays_of_its_id() -> None:
    update = EventType.update, {"display_id": "d", "data": {"text/plain": "two"}, "metadata": {}}
    assert texts(fold(*[display("one", "d")] * 103, update)) == ["one"] * 3 + ["two"] * 100


def test_an_update_leaves_displays_alone_that_were_cut() -> None:
    shown = [display(f"{number:0>100}", "d") for number in range(1000)]
    update = EventType.update, {"display_id": "d", "data": {"text/plain": "x" * 100}, "metadata": {}}
    folded, more = fold(*shown, limit=10_000), fold(*shown, update, limit=10_000)
    assert (more.kept_bytes, more.cut_bytes) == (folded.kept_bytes, folded.cut_bytes)
    assert texts(more)[-1] == "x" * 100
    more.apply(EventType.clear, {"wait": False})
    more.apply(*update)
    assert (more.kept_bytes, more.cut_bytes) == (0, 0)


def test_clear_waits_for_the_next_output_when_asked_to() -> None:
    folded = fold(stream("stdout", "a"))
    folded.apply(EventType.clear, {"wait": True})
    assert texts(folded) == ["a"]
    folded.apply(*stream("stdout", "b"))
    assert texts(folded) == ["b"]
    folded.apply(EventType.clear, {"wait": False})
    assert folded.outputs() == []


def test_the_head_and_the_tail_of_too_much_are_kept() -> None:
    folded = fold(*(stream("stdout", f"{i:04}\n") for i in range(10_000)), limit=1000)
    text = to_text(folded.outputs())
    assert text.startswith("0000\n0001\n")
    assert text.endswith("9998\n9999\n")
    assert f"{50_000 - folded.kept_bytes:,} bytes of output cut" in text
    assert folded.kept_bytes <= 1000
    assert folded.total_bytes == 50_000


events = st.lists(
    st.one_of(
        st.tuples(
            st.just(EventType.stream),
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["stdout", "stderr"]),
                    "text": st.text(min_size=1, max_size=300),
                }
            ),
        ),
        st.builds(display, st.text(max_size=300), st.sampled_from([None, "a", "b"])),
        st.tuples(
            st.just(EventType.update),
            st.fixed_dictionaries(
                {
                    "display_id": st.sampled_from(["a", "b"]),
                    "data": st.dictionaries(st.just("text/plain"), st.text(max_size=2000)),
                    "metadata": st.just({}),
                }
            ),
        ),
        st.tuples(st.just(EventType.clear), st.fixed_dictionaries({"wait": st.booleans()})),
        st.tuples(
            st.just(EventType.error),
            st.fixed_dictionaries(
                {
                    "ename": st.text(max_size=10),
                    "evalue": st.text(max_size=3000),
                    "traceback": st.lists(st.text(max_size=3000), max_size=3),
                }
            ),
        ),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(events, st.sampled_from([2048, 10_000, 10_000_000]))
def test_whatever_comes_the_outputs_are_valid_and_bounded(
    events: list[tuple[EventType, dict[str, Any]]], limit: int
) -> None:
    folded = fold(*events, limit=limit)
    outputs = folded.outputs()
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.from_dict(o) for o in outputs])
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    assert folded.kept_bytes <= 2 * limit + 4096
    assert folded.cut_bytes >= 0
    to_text(outputs)


@given(st.lists(st.text(max_size=50), max_size=50))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_nothing_is_cut_from_what_fits(pieces: list[str]) -> None:
    folded = fold(*(stream("stdout", piece) for piece in pieces if piece))
    assert "".join(o["text"] for o in folded.outputs()) == "".join(pieces)
    assert folded.cut_bytes == 0


def test_text_reads_as_on_a_terminal() -> None:
    assert settle("10%\r50%\r100%\ndone") == "100%\ndone"
    assert settle("longer\rshort") == "shortr"
    assert settle("windows\r\nline") == "windows\nline"
    assert strip_ansi("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07") == "red link"


@given(st.text(alphabet="ab\r\n", max_size=60))
def test_carriage_returns_write_over_a_line(text: str) -> None:
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = ""
        for layer in line.split("\r"):
            shown = layer + shown[len(layer) :]
        lines.append(shown)
    assert settle(text) == "\n".join(lines)


def test_hundreds_of_thousands_of_carriage_returns_are_no_trouble() -> None:
    assert settle("x" * 1_000_000 + "\rab" * 300_000) == "ab" + "x" * 999_998


def test_the_largest_parts_of_a_display_are_left_out() -> None:
    data = {"output_type": "display_data", "metadata": {}}
    data["data"] = {f"text/{n}": "x" * 1000 for n in range(1000)} | {"text/html": "y" * 200_000}
    output = fold((EventType.display, data), limit=1_000_000).outputs()[0]
    assert "text/html" not in output["data"]
    assert "text/html of 200," in output["data"]["text/plain"]
    assert 400 < len(output["data"]) < 500


def test_a_picture_that_is_left_out_is_missed_beside_its_text() -> None:
    data = {"text/plain": "<Figure size 640x480>", "image/png": "x" * 3_000_000}
    shown = {"output_type": "display_data", "metadata": {"a": 1}, "data": data}
    output = fold((EventType.display, shown), limit=4_000_000).outputs()[0]
    size = 3_000_000 + len('{"image/png":""}')
    note = f"[image/png of {size:,} bytes is over the limit and was left out]"
    assert output["data"] == {"text/plain": f"<Figure size 640x480>\n{note}"}
    assert output["metadata"] == {"a": 1, "interpreter": {"left_out": {"image/png": size}}}


def test_an_update_of_many_displays_is_bounded() -> None:
    shown = [display(str(n), "one") for n in range(2000)]
    update = (
        EventType.update,
        {"display_id": "one", "data": {"text/plain": "z" * 300_000}, "metadata": {}},
    )
    folded = fold(*shown, update, limit=1_000_000)
    assert folded.kept_bytes <= 2_000_000
    assert "z" * 300_000 in texts(folded)


def test_a_stream_is_one_text_where_nothing_is_cut() -> None:
    fold = Fold(limit=20)
    for text in ("a" * 10, "b", "c"):
        fold.apply(EventType.stream, {"name": "stdout", "text": text})
    assert fold.outputs() == [{"output_type": "stream", "name": "stdout", "text": "a" * 10 + "bc"}]
