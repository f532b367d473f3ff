"""The format of the bytes: whatever is cut, lost or forged, frames come out or FrameError."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interpreter.link.frames import (
    HEADER,
    MAX_PARTS,
    MAX_PAYLOAD,
    Frame,
    FrameError,
    FrameReader,
    Kind,
    encode,
    join_parts,
    split_parts,
)

quick = settings(max_examples=150, derandomize=True, deadline=None)

payloads = st.binary(max_size=80) | st.sampled_from([bytes(MAX_PAYLOAD), b"x" * 70_000])
frames = st.lists(
    st.builds(
        Frame, st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), payloads
    ),
    max_size=6,
)
parts = st.lists(st.binary(max_size=60), max_size=8)


def encoded(sent: list[Frame]) -> bytes:
    return b"".join(encode(*frame) for frame in sent)


def cut(data: bytes, rng: random.Random, pieces: int) -> list[bytes]:
    """The same bytes as so many reads, cut at random places."""
    places = sorted(rng.randint(0, len(data)) for _ in range(pieces - 1))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@quick
@given(frames, st.randoms(use_true_random=False), st.integers(1, 20))
def test_frames_are_the_same_wherever_the_reads_end(
    sent: list[Frame], rng: random.Random, pieces: int
) -> None:
    reader = FrameReader()
    read = [frame for piece in cut(encoded(sent), rng, pieces) for frame in reader.feed(piece)]
    assert read == sent


@quick
@given(frames)
def test_frames_are_the_same_byte_by_byte(sent: list[Frame]) -> None:
    sent = [frame for frame in sent if len(frame.payload) <= 80]
    reader = FrameReader()
    assert [frame for byte in encoded(sent) for frame in reader.feed(bytes([byte]))] == sent


@quick
@given(frames, st.data())
def test_a_truncated_stream_gives_only_its_whole_frames(sent: list[Frame], data: st.DataObject) -> None:
    whole = encoded(sent)
    end = data.draw(st.integers(0, len(whole)))
    count = next(n for n in range(len(sent), -1, -1) if len(encoded(sent[:n])) <= end)
    assert FrameReader().feed(whole[:end]) == sent[:count]


@quick
@given(frames, st.randoms(use_true_random=False))
def test_reads_in_the_wrong_order_end_in_frames_or_a_frame_error(
    sent: list[Frame], rng: random.Random
) -> None:
    pieces = cut(encoded(sent), rng, 8)
    rng.shuffle(pieces)
    reader = FrameReader()
    try:
        for piece in pieces:
            reader.feed(piece)
    except FrameError:
        pass


@quick
@given(st.lists(st.binary(max_size=300), max_size=10))
def test_arbitrary_bytes_end_in_frames_or_a_frame_error(pieces: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for piece in pieces:
            for frame in reader.feed(piece):
                assert frame.kind in Kind
                assert len(frame.payload) <= MAX_PAYLOAD
    except FrameError:
        pass


@quick
@given(st.integers(MAX_PAYLOAD + 1, 2**32 - 1), st.sampled_from(Kind))
@example(MAX_PAYLOAD + 1, Kind.DATA)
def test_an_oversized_frame_is_refused_by_its_header_alone(length: int, kind: Kind) -> None:
    with pytest.raises(FrameError, match="over the limit"):
        FrameReader().feed(HEADER.pack(length, kind, 1, 1))


@quick
@given(st.integers(0, 255).filter(lambda kind: kind not in set(Kind)), st.integers(0, MAX_PAYLOAD))
def test_an_unknown_kind_is_refused_by_its_header_alone(kind: int, length: int) -> None:
    with pytest.raises(FrameError, match="no frame kind"):
        FrameReader().feed(HEADER.pack(length, kind, 1, 1))


def test_a_frame_that_never_ends_holds_no_more_than_itself() -> None:
    reader = FrameReader()
    tracemalloc.start()
    try:
        for _ in range(200):
            reader.feed(encode(Kind.DATA, 1, 1, bytes(MAX_PAYLOAD)))
        reader.feed(HEADER.pack(MAX_PAYLOAD, Kind.DATA, 1, 1))
        for _ in range(MAX_PAYLOAD // 1024 - 1):
            assert reader.feed(bytes(1024)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * MAX_PAYLOAD


@quick
@given(parts)
def test_the_parts_of_a_message_come_back_the_same(sent: list[bytes]) -> None:
    assert split_parts(join_parts(sent)) == sent


@quick
@given(parts, st.data())
def test_a_message_cut_short_is_refused_and_its_whole_parts_can_be_had(
    sent: list[bytes], data: st.DataObject
) -> None:
    whole = join_parts(sent)
    lengths = 4 + 8 * len(sent)
    short = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(FrameError):
        split_parts(short)
    if len(short) < lengths:
        with pytest.raises(FrameError):
            split_parts(short, partial=True)
    else:
        kept = split_parts(short, partial=True)
        assert kept == sent[: len(kept)]
        following = sent[len(kept) : len(kept) + 1]
        assert lengths + sum(map(len, [*kept, *following])) > len(short)


@quick
@given(parts, st.binary(min_size=1, max_size=9))
def test_a_message_with_more_than_its_parts_is_refused(sent: list[bytes], more: bytes) -> None:
    with pytest.raises(FrameError):
        split_parts(join_parts(sent) + more)


@quick
@given(
    st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=5), st.binary(max_size=40)
)
@example(MAX_PARTS + 1, [], b"")
@example(2, [2**64 - 1, 1], b"")
@example(1, [2**63], b"x")
def test_forged_counts_and_lengths_end_in_a_frame_error(
    count: int, lengths: list[int], rest: bytes
) -> None:
    message = struct.pack(f">I{len(lengths)}Q", count, *lengths) + rest
    try:
        kept = split_parts(message, partial=True)
        assert len(b"".join(kept)) <= len(message)
        split_parts(message)
    except FrameError:
        return
    assert join_parts(split_parts(message)) == message


@quick
@given(st.binary(max_size=200))
def test_any_message_is_split_into_what_joins_to_it_or_refused(message: bytes) -> None:
    try:
        split = split_parts(message)
    except FrameError:
        return
    assert join_parts(split) == message
