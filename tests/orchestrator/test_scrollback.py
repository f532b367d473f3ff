"""What a terminal showed last: in pieces of any size, and without what it asked."""

from __future__ import annotations

import time

import pytest

from interpreter.orchestrator.scrollback import BLOCK, KEPT, PIECE, Scrollback


def all_of(shown: Scrollback, place: int = 0) -> str:
    text, place = "", shown.start(place)
    while piece := shown.read(place):
        text, place = text + piece, place + len(piece)
    return text


def old(text: str) -> str:
    shown = Scrollback()
    shown.add(text)
    said, place = "", 0
    while place < shown.end:
        piece, place = shown.read_old(place, shown.end)
        said += piece
    return said


def test_tiny_pieces_are_kept_in_few_blocks_and_the_last_of_them_is_there() -> None:
    shown, said = Scrollback(), []
    for i in range(3 * KEPT):
        said.append("😀\n"[i % 2])
        shown.add(said[-1])
    assert len(shown._blocks) <= KEPT // BLOCK + 2, "each message would be copied with all before it"
    assert all(len(block) <= BLOCK for block in shown._blocks)
    assert KEPT <= shown.end - shown.first <= KEPT + BLOCK
    kept = all_of(shown)
    assert kept == "".join(said)[-len(kept) :]
    assert kept[0] == "😀", "what is left begins with a line"


def test_who_is_too_slow_goes_on_with_what_is_kept() -> None:
    shown = Scrollback()
    shown.add("first\n")
    assert all_of(shown) == "first\n"
    for _ in range(20):
        shown.add("x" * 99 + "\n" + "y" * (PIECE - 100))
    assert shown.first > 6
    assert all_of(shown, 6).startswith("y"), "not from the middle of a line"
    shown.replace("again\nand more")
    assert all_of(shown, 6) == "again\nand more", "all of it, also to who had seen more"


@pytest.mark.parametrize(
    "asked",
    [
        *("\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[=c", "\x9bc", "\x1bZ", "\x05"),
        *("\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?996n"),
        *("\x1b[?12$p", "\x1b[4$p", "\x1b[>q", "\x1b[>0q", "\x1b[?u", "\x1b[?4m", "\x1b[1x"),
        *("\x1b[14t", "\x1b[18t", "\x1b[21t", "\x1b[?2;1;0S"),
        *("\x1b]10;?\x07", "\x1b]11;?\x1b\\", "\x1b]4;1;?\x07", "\x1b]52;c;?\x07", "\x9d11;?\x9c"),
        *("\x1bP$q q\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_Gi=1,a=q;AAAA\x1b\\"),
    ],
)
def test_what_was_asked_is_not_asked_again(asked: str) -> None:
    assert old(f"before{asked}after") == "beforeafter"
    long = "x" * (PIECE - len(asked) // 2) + asked + "after"
    assert old(long) == long.replace(asked, ""), "nor where two pieces meet"


@pytest.mark.parametrize(
    "said",
    [
        *("\x1b[1;31mred\x1b[m", "\x1b[2J\x1b[H", "\x1b[?1049h", "\x1b[?25l", "\x1b[4 q", "\x1b[!p"),
        *("\x1b]0;what?\x07", "\x1b]2;a ? b\x1b\\", "\x1b[22;0t", "\x1b[>4;2m", "\x1b[>4n", "\x1b(B"),
        *("\x1b]8;;http://x/?a;b\x07link\x1b]8;;\x07", "\x1b]52;c;dGV4dA==\x07", "\x1b7\x1b8", "\x1b[1"),
    ],
)
def test_everything_else_is_shown_as_it_was(said: str) -> None:
    assert old(said) == said


@pytest.mark.parametrize(
    "said",
    [
        *("\x9d", "\x90", "\x9f", "\x9b", "\x98", "\x9e", "\x9d\x90\x9f", "\x9d0;x", "\x90$q", "\x9fG"),
        *("\x1b]", "\x1bP", "\x1b_", "\x1b[", "\x1b", "\x1b]0;", "\x1b\x9d", "\x9d\x1b", "\x9d\x9b0"),
        *("\x9b0", "\x9b0!", "\x1b[0;", "\x1b[!", "\x9b6n", "\x05"),
    ],
)
@pytest.mark.parametrize("first", ["", "\x9d", "\x9b", "\x1b[", "\x90", "\x9f"])
def test_hostile_text_costs_no_more_than_other_text(first: str, said: str) -> None:
    """What could go on for ever is not looked for again from every character of it: that would be as
    many seconds as these are milliseconds."""
    text = first + said * (KEPT // len(said))
    before = time.process_time()
    old(text)
    assert time.process_time() - before < 2


def test_a_question_inside_of_what_never_ends_is_a_question() -> None:
    assert old("\x9d0;title\x9b6n\x07") == "\x9d0;title\x07"
    assert old("\x9d0;title\x9d11;?\x07after") == "\x9d0;titleafter"
