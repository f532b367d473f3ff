"""What a cell showed is shown once, wherever it was cut off and however it is told again."""

from __future__ import annotations

import json
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from interpreter.provisioner.shown import Shown

Output = tuple[str, str]
outputs = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(min_size=1, max_size=5))
    | st.tuples(st.just("display_data"), st.text(max_size=5))
)


def passed(shown: Shown, kind: str, text: str) -> Output | None:
    if kind == "display_data":
        type, content = "display_data", {"data": {"text/plain": text}}
    else:
        type, content = "stream", {"name": kind, "text": text}
    parts = shown.new(type, [b"{}", b"{}", b"{}", json.dumps(content).encode()])
    if parts is None:
        return None
    told = json.loads(parts[3])
    return kind, told["text"] if type == "stream" else told["data"]["text/plain"]


def begin(shown: Shown) -> bool:
    """Whether that it begins is passed on."""
    return shown.new("execute_input", [b"{}", b"{}", b"{}", b"{}"]) is not None


def joined(told: list[Output]) -> list[Output]:
    """As it is recorded: pieces of a stream that follow each other are one."""
    found: list[Output] = []
    for kind, pieces in groupby(told, key=lambda output: output[0]):
        texts = [text for _, text in pieces]
        found += [(kind, t) for t in texts] if kind == "display_data" else [(kind, "".join(texts))]
    return found


@given(outputs, st.data())
def test_everything_is_passed_on_once(all: list[Output], data: st.DataObject) -> None:
    shown = Shown()
    assert begin(shown)
    there = data.draw(st.integers(0, len(all)))
    told = [output for o in all[:there] if (output := passed(shown, *o)) is not None]
    for _ in range(data.draw(st.integers(0, 3))):
        assert not begin(shown)
        there = data.draw(st.integers(there, len(all)))
        again = joined(all[:there]) if data.draw(st.booleans()) else all[:there]
        told += [output for o in again if (output := passed(shown, *o)) is not None]
    told += [output for o in all[there:] if (output := passed(shown, *o)) is not None]
    assert joined(told) == joined(all)
