"""A process that is killed takes nothing with it that it was told is written."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import msgspec

from interpreter.store import Store

WRITE_UNTIL_KILLED = """
import asyncio, itertools, pathlib, sys
import msgspec
from interpreter.store import EventRow, SessionRecord, Store

async def main():
    store = await Store.open(pathlib.Path(sys.argv[1]))
    await store.save_session(msgspec.json.decode(sys.argv[2], type=SessionRecord))
    for first in itertools.count(1, 10):
        rows = [EventRow(seq, "stream", "e1", b"x" * 1000) for seq in range(first, first + 10)]
        written = store.append_events("s1", rows, received=first + 9)
        store.append_events("s1", [EventRow(-first, "status", None, b"nobody waits")])
        await written
        print(first + 9, flush=True)

asyncio.run(main())
"""


def write_until_killed(path, record):
    """The last number that was acknowledged before the process was killed."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, path, msgspec.json.encode(record)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as writer:
        said = b""
        for line in writer.stdout:
            said += line
            if int(line) == 500:
                writer.kill()
        assert writer.wait() == -signal.SIGKILL
    return int(said.split()[-1])


async def test_what_was_acknowledged_is_there_after_kill_9(path, record):
    acknowledged = await asyncio.to_thread(write_until_killed, path, record())
    store = await Store.open(path)
    rows = await store.events("s1", 0, max_rows=100_000, max_bytes=1_000_000_000)
    received = await store.received("s1")
    assert await store.session("s1") == record()
    await store.close()

    assert len(rows) >= acknowledged
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    # What the sandbox was told to forget is exactly what is there.
    assert received == len(rows)
