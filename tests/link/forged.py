"""Frames that an honest end would not send."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from interpreter.link.frames import MAX_PAYLOAD, Kind, encode, join_parts
from interpreter.link.wire import CONTROL, WINDOW

SHELL = 1
"""The stream that is open where these frames are sent to."""

HELLO = {"version": 1, "received": 0, "handled": 0, "windows": {}, "streams": {}, "facts": {}}


def hello(**changes: Any) -> bytes:
    return encode(Kind.HELLO, 0, 0, json.dumps({**HELLO, **changes}).encode())


numbers = st.sampled_from([0, 1, 2, 3, WINDOW, WINDOW + 1, 2**63, 2**64 - 1]) | st.integers(0, 9)
streams = st.sampled_from([CONTROL, SHELL, SHELL, 2, 2**32 - 1])
payloads = st.one_of(
    st.sampled_from([b"", b"{}", b"[]", b"null", b"\xff", bytes(MAX_PAYLOAD), b'{"a": 1}']),
    st.lists(st.binary(max_size=20), max_size=4).map(join_parts),
    st.binary(max_size=40),
    st.just(hello()[17:]),
)
any_frame = st.builds(encode, st.sampled_from(Kind), streams, numbers, payloads)
likely_frame = st.builds(
    encode, st.sampled_from([Kind.PART, Kind.DATA]), st.just(SHELL), st.integers(1, 5), payloads
)
"""Frames that get past the first checks more often."""
