"""What changed in a directory while something was done to it: real files, real processes."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interpreter.workspace.watching import changes
from interpreter.workspace.watching import tree as limits
from interpreter.workspace.watching.changes import MOST_LISTED, Found
from interpreter.workspace.watching.recording import Recording
from interpreter.workspace.watching.watch import Watched, Watcher
from interpreter.workspace.watching.work import Flood

URL = "/v1/sessions/s-1/files/"


class Watching:
    """A directory that is watched."""

    def __init__(self, path: Path, watched: Watched) -> None:
        self.path = path
        self.watched = watched

    async def begin(self) -> Recording | None:
        for _ in range(3):
            if (waiting := self.watched.catch_up()) is None:
                break
            await waiting
        return self.watched.begin(URL)

    async def found(self, do: Callable[[], object]) -> Found | None:
        recording = await self.begin()
        await asyncio.to_thread(do)
        if recording is None:
            return None
        answer = self.watched.end(recording)
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def changes(self, do: Callable[[], object]) -> dict[str, str]:
        found = await self.found(do)
        assert found is not None
        assert found.left_out == 0
        return {change.path: change.change for change in found.files}


@pytest.fixture
async def watcher() -> AsyncIterator[Watcher]:
    before = descriptors()
    watcher = Watcher()
    yield watcher
    watcher.close()
    assert descriptors() == before


def descriptors() -> int:
    return sum("inotify" in link or "/" in link for link in links())


def links() -> Iterator[str]:
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if "inotify" in link or "/workspace" in link:
            yield link


@pytest.fixture
async def place(watcher: Watcher, tmp_path: Path) -> AsyncIterator[Watching]:
    path = tmp_path / "workspace"
    path.mkdir()
    async with watching(watcher, path) as place:
        yield place


class watching:
    def __init__(self, watcher: Watcher, path: Path) -> None:
        self._watcher, self._path = watcher, path

    async def __aenter__(self) -> Watching:
        watched = await self._watcher.watch(self._path)
        assert watched is not None
        self._watched = watched
        return Watching(self._path, watched)

    async def __aexit__(self, *_: object) -> None:
        await self._watched.close()


def shell(place: Watching, command: str) -> Callable[[], object]:
    return lambda: subprocess.run(["bash", "-euc", command], cwd=place.path, check=True)


def started(code: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder)


async def test_files_are_created_changed_and_deleted(place: Watching) -> None:
    assert await place.changes(shell(place, "echo 1 > a; echo 2 > b")) == {
        "a": "created",
        "b": "created",
    }
    assert await place.changes(shell(place, "echo 3 >> a; rm b; echo > c")) == {
        "a": "changed",
        "b": "deleted",
        "c": "created",
    }
    assert await place.changes(shell(place, "cat a; ls -lR; stat a")) == {}


async def test_a_change_says_where_the_file_is_and_what(place: Watching) -> None:
    found = await place.found(
        shell(place, "mkdir -p out; printf 12345 > 'out/a plot.png'; echo > raw.bin")
    )
    assert found is not None
    plot, raw = found.files
    assert (plot.path, plot.size, plot.mime_type) == ("out/a plot.png", 5, "image/png")
    assert plot.url == URL + "out/a%20plot.png"
    assert raw.mime_type == "application/octet-stream"
    found = await place.found(shell(place, "rm raw.bin"))
    assert found is not None
    assert (found.files[0].size, found.files[0].url) == (None, None)


async def test_what_comes_and_goes_is_nothing(place: Watching) -> None:
    await place.changes(shell(place, "echo > kept"))
    come_and_go = (
        "echo > t; rm t; mkdir d; echo > d/x; rm -r d; echo > u; mv u v; rm v; mkdir e; mv e f; rmdir f"
    )
    assert await place.changes(shell(place, come_and_go)) == {}


async def test_what_goes_and_comes_again_is_changed(place: Watching) -> None:
    await place.changes(shell(place, "echo > a; echo > b; mkdir d; echo > d/x"))
    assert await place.changes(shell(place, "rm a; echo > a; rm -r d; mkdir d; echo > d/x")) == {
        "a": "changed",
        "d/x": "changed",
    }


async def test_a_file_that_is_replaced_is_changed_and_a_new_name_is_created(place: Watching) -> None:
    await place.changes(shell(place, "echo > a"))
    assert await place.changes(shell(place, "echo 2 > .a.tmp; mv .a.tmp a")) == {"a": "changed"}
    assert await place.changes(shell(place, "echo 2 > .b.tmp; mv .b.tmp b")) == {"b": "created"}
    assert await place.changes(shell(place, "mv b c")) == {"b": "deleted", "c": "created"}


async def test_a_file_that_was_only_opened_for_writing_is_not_changed(place: Watching) -> None:
    await place.changes(shell(place, "echo > a; echo > b"))
    await asyncio.sleep(0.02)
    assert await place.changes(shell(place, "exec 3<>a; read -u 3; exec 3>&-; echo >> b")) == {
        "b": "changed"
    }


async def test_a_file_that_was_changed_just_before_is_not_taken_for_changed(place: Watching) -> None:
    (place.path / "a").write_text("1")
    for _ in range(20):
        assert await place.changes(lambda: (place.path / "a").write_text("2")) == {"a": "changed"}
        assert await place.changes(lambda: (place.path / "a").open("r+").close()) == {}


async def test_a_file_that_is_still_open_is_changed(place: Watching) -> None:
    with (place.path / "log").open("w", buffering=1) as file:
        await place.changes(lambda: file.write("a\n"))
        assert await place.changes(lambda: file.write("b\n")) == {"log": "changed"}


async def test_a_mapped_file_is_changed_when_the_mapping_ends(place: Watching) -> None:
    (place.path / "a").write_bytes(b"x" * 4096)
    await place.changes(lambda: None)
    await asyncio.sleep(0.02)

    def change() -> None:
        with (place.path / "a").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0] = 0

    assert await place.changes(change) == {"a": "changed"}


async def test_what_happened_between_cells_belongs_to_none(place: Watching) -> None:
    await place.changes(shell(place, "echo > a; mkdir d; echo > d/a"))
    shell(place, "echo > b; rm a; echo 2 > d/a; mkdir e; echo > e/x; mv d f")()
    assert await place.changes(lambda: None) == {}
    assert await place.changes(shell(place, "echo > e/x; echo 3 > f/a; rm b")) == {
        "b": "deleted",
        "e/x": "changed",
        "f/a": "changed",
    }


async def test_directories_that_are_moved(place: Watching) -> None:
    await place.changes(shell(place, "mkdir -p a/b; echo > a/x; echo > a/b/y; mkdir c"))
    assert await place.changes(shell(place, "mv a c/a")) == {
        "a/x": "deleted",
        "a/b/y": "deleted",
        "c/a/x": "created",
        "c/a/b/y": "created",
    }
    # Its watches went with it.
    assert await place.changes(shell(place, "echo 2 > c/a/b/y; echo > c/a/b/z")) == {
        "c/a/b/y": "changed",
        "c/a/b/z": "created",
    }
    assert await place.changes(shell(place, "mv c d; mv d e; mv e c; echo 3 > c/a/x")) == {
        "c/a/x": "changed"
    }
    assert await place.changes(shell(place, "mv c/a/b b; mv c b/c; echo > b/c/new")) == {
        "b/c/a/x": "created",
        "b/c/new": "created",
        "b/y": "created",
        "b/z": "created",
        "c/a/b/y": "deleted",
        "c/a/b/z": "deleted",
        "c/a/x": "deleted",
    }


async def test_names_that_are_exchanged(place: Watching) -> None:
    await place.changes(
        shell(place, "echo 1 > a; echo 2 > b; mkdir d e; echo > d/x; echo > e/x; echo > e/y")
    )

    def exchange() -> None:
        for one, other in (("a", "b"), ("d", "e")):
            paths = [os.fsencode(place.path / name) for name in (one, other)]
            assert ctypes.CDLL(None).renameat2(-100, paths[0], -100, paths[1], 2) == 0

    assert await place.changes(exchange) == {
        "a": "changed",
        "b": "changed",
        "d/x": "changed",
        "d/y": "created",
        "e/x": "changed",
        "e/y": "deleted",
    }
    assert await place.changes(shell(place, "echo > d/y; echo > e/x; rm b")) == {
        "b": "deleted",
        "d/y": "changed",
        "e/x": "changed",
    }


async def test_directories_that_come_from_outside_and_leave(place: Watching, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "d/e").mkdir(parents=True)
    (outside / "d/e/x").touch()
    assert await place.changes(lambda: (outside / "d").rename(place.path / "d")) == {"d/e/x": "created"}
    assert await place.changes(shell(place, "echo > d/e/x")) == {"d/e/x": "changed"}
    assert await place.changes(lambda: (place.path / "d").rename(outside / "d")) == {"d/e/x": "deleted"}
    assert await place.changes(lambda: (outside / "d/e/x").write_text("not ours")) == {}


async def test_links_lead_nowhere(place: Watching, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    found = await place.found(lambda: (place.path / "link").symlink_to(outside))
    assert found is not None
    assert [(f.path, f.change, f.size, f.url) for f in found.files] == [("link", "created", None, None)]
    assert await place.changes(lambda: (outside / "secret").write_text("t")) == {}
    assert await place.changes(lambda: (outside / "new").write_text("t")) == {}

    def swap() -> None:
        (place.path / "d").mkdir()
        (place.path / "d/x").touch()
        (place.path / "d/x").unlink()
        (place.path / "d").rmdir()
        (place.path / "d").symlink_to(outside)

    assert await place.changes(swap) == {"d": "created"}
    assert await place.changes(lambda: (outside / "more").write_text("t")) == {}


async def test_a_process_that_swaps_directories_for_links_learns_nothing(
    place: Watching, tmp_path: Path
) -> None:
    """It races with the look at what it makes; whatever is listed was in the workspace."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for i in range(50):
        (outside / f"secret-{i}").touch()
    hostile = f"""
import os, time
until = time.monotonic() + 2
while time.monotonic() < until:
    os.makedirs('d/e', exist_ok=True); open('d/e/x', 'w').close()
    os.rename('d/e', 'd/f'); os.symlink({str(outside)!r}, 'd/e')
    os.rename('d', 'g'); os.symlink({str(outside)!r}, 'd')
    os.unlink('d'); os.unlink('g/e'); os.unlink('g/f/x'); os.rmdir('g/f'); os.rmdir('g')
"""
    process = started(hostile, place.path)
    seen: set[str] = set()
    while process.poll() is None:
        found = await place.found(lambda: time.sleep(0.005))
        if found is not None:
            seen |= {change.path for change in found.files}
    assert process.returncode == 0
    assert not [path for path in seen if "secret" in path], seen
    assert await place.changes(shell(place, "rm -rf d g; echo > after")) == {"after": "created"}


async def test_links_to_the_same_file(place: Watching) -> None:
    await place.changes(shell(place, "echo > a"))
    assert await place.changes(shell(place, "ln a b")) == {"b": "created"}
    assert await place.changes(shell(place, "echo 2 > b")) == {"b": "changed"}


async def test_pipes_and_sockets_have_no_contents(place: Watching) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        found = await place.found(
            lambda: (os.mkfifo(place.path / "pipe"), listening.bind(str(place.path / "s")))
        )
    assert found is not None
    assert [(f.path, f.size, f.url) for f in found.files] == [("pipe", None, None), ("s", None, None)]


async def test_names_that_are_no_text(place: Watching) -> None:
    raw = b"\xff\xfe \n#?%\xe4"
    found = await place.found(lambda: open(os.fsencode(place.path) + b"/" + raw, "w").close())
    assert found is not None
    (change,) = found.files
    assert change.path == "\\xff\\xfe \n#?%\\xe4"
    assert change.url == URL + "%FF%FE%20%0A%23%3F%25%E4"
    assert await place.changes(lambda: os.unlink(os.fsencode(place.path) + b"/" + raw)) == {
        change.path: "deleted"
    }
    found = await place.found(shell(place, "echo > 'déjà vu.csv'"))
    assert found is not None
    assert (found.files[0].path, found.files[0].mime_type) == ("déjà vu.csv", "text/csv")


async def test_what_python_and_jupyter_keep_for_themselves_is_left_out(place: Watching) -> None:
    assert await place.changes(
        shell(
            place,
            "mkdir -p a/__pycache__ .ipynb_checkpoints; touch a/__pycache__/x .ipynb_checkpoints/y a/m",
        )
    ) == {"a/m": "created"}


async def test_a_workspace_with_files_in_it(watcher: Watcher, tmp_path: Path) -> None:
    path = tmp_path / "workspace"
    (path / "a/b/c").mkdir(parents=True)
    for i in range(100):
        (path / f"a/b/c/{i}").touch()
    async with watching(watcher, path) as place:
        assert await place.changes(lambda: (path / "a/b/c/5").write_text("x")) == {"a/b/c/5": "changed"}
        assert await place.changes(lambda: shutil.rmtree(path / "a/b")) == {
            f"a/b/c/{i}": "deleted" for i in range(100)
        }


async def test_two_cells_at_once_each_get_what_happened_meanwhile(place: Watching) -> None:
    def write(name: str) -> None:
        (place.path / name).write_text("x")

    first = await place.begin()
    write("a")
    second = await place.begin()
    write("b")
    (place.path / "d").mkdir()
    write("d/x")
    assert first is not None
    assert second is not None

    async def end(recording: object) -> dict[str, str]:
        answer = place.watched.end(recording)  # type: ignore[arg-type]
        found = await answer if isinstance(answer, asyncio.Future) else answer
        assert found is not None
        return {change.path: change.change for change in found.files}

    assert await end(first) == {"a": "created", "b": "created", "d/x": "created"}
    write("a")
    assert await end(second) == {"a": "changed", "b": "created", "d/x": "created"}


def queue_limit() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_more_than_the_queue_holds_is_found_by_looking(place: Watching) -> None:
    many = queue_limit() // 2
    await place.changes(
        shell(place, "mkdir -p old; echo > old/kept; echo > old/gone; echo > old/written")
    )
    unpack = f"""
import os
for d in range(20):
    os.makedirs(f'new/{{d}}')
    for i in range({many // 20}):
        open(f'new/{{d}}/{{i}}', 'w').write('x')
os.remove('old/gone'); open('old/written', 'w').write('y'); os.rename('old', 'moved')
os.rename('moved', 'old')
"""
    found = await place.found(
        lambda: subprocess.run([sys.executable, "-c", unpack], cwd=place.path, check=True)
    )
    assert found is not None
    assert len(found.files) == MOST_LISTED
    assert found.left_out == many // 20 * 20 + 2 - MOST_LISTED
    assert {f.change for f in found.files} == {"created"}
    # And it goes on as if nothing had been.
    assert await place.changes(shell(place, "echo > new/7/1; rm old/kept")) == {
        "new/7/1": "changed",
        "old/kept": "deleted",
    }
    found = await place.found(shell(place, "rm -r new; echo > old/written"))
    assert found is not None
    assert found.left_out == many // 20 * 20 + 1 - MOST_LISTED


async def test_more_between_cells_than_the_queue_holds_belongs_to_none(place: Watching) -> None:
    def churn() -> None:
        for i in range(queue_limit() // 2 + 10):
            (place.path / f"{i % 10}").write_text("x")
        (place.path / "d").mkdir()

    await place.changes(shell(place, "echo > 11"))
    churn()
    await asyncio.sleep(0.02)
    assert await place.changes(shell(place, "echo > d/mine; rm 3; echo > 5")) == {
        "3": "deleted",
        "5": "changed",
        "d/mine": "created",
    }


async def test_a_deep_tree(place: Watching) -> None:
    deep = "/".join(["d"] * 200)
    assert await place.changes(shell(place, f"mkdir -p {deep}; echo > {deep}/x")) == {
        f"{deep}/x": "created"
    }
    assert await place.changes(shell(place, f"echo > {deep}/x; mv d e")) == {
        f"{deep}/x": "deleted",
        f"e{deep[1:]}/x": "created",
    }


@pytest.mark.parametrize(
    "abuse",
    [
        "mkdir -p " + "/".join(["d"] * 300),
        "for i in $(seq 20); do mkdir -p $(seq -f $i/%g 1000); done",
    ],
    ids=["deep", "wide"],
)
async def test_a_tree_beyond_all_measure_is_given_up(
    place: Watching, abuse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await place.found(shell(place, abuse)) is None
    assert await place.found(shell(place, "echo > a")) is None
    assert place.watched.given_up


async def test_too_many_names_are_given_up(place: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BYTES", 100_000)
    assert await place.changes(shell(place, "seq 800 | xargs touch")) != {}
    assert await place.found(shell(place, "seq 2000 | xargs touch")) is None
    assert await place.found(lambda: None) is None


async def test_names_count_for_the_memory_that_they_take(
    place: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One character that is not of every day makes all of them take four bytes."""
    monkeypatch.setattr(limits, "MOST_BYTES", 1_000_000)

    def touch(first: str) -> None:
        for number in range(1500):
            (place.path / f"{first}{number:0200}").touch()

    assert (await place.found(lambda: touch("x"))) is not None
    assert await place.found(lambda: touch("🧪")) is None
    assert place.watched.given_up


async def test_what_is_kept_of_all_workspaces_together_is_bounded(tmp_path: Path) -> None:
    watcher = Watcher(most_bytes=4 * limits.GRANT)
    paths = [tmp_path / "workspace-1", tmp_path / "workspace-2", tmp_path / "workspace-3"]
    for path in paths:
        path.mkdir()
    async with watching(watcher, paths[0]) as one, watching(watcher, paths[1]) as other:
        assert await one.changes(shell(one, "seq 900 | xargs touch")) != {}
        assert await one.found(shell(one, "seq 6000 | xargs touch")) is not None
        assert await other.found(shell(other, "seq 6000 | xargs touch")) is None
        assert other.watched.given_up
        assert await one.changes(shell(one, "echo > x")) == {"x": "created"}
        assert await one.found(shell(one, "seq 6000 | xargs rm")) is not None
        async with watching(watcher, paths[2]) as third:
            found = await third.found(shell(third, "seq 3000 | xargs touch"))
            assert found is not None, "what others have let go of is free"
    async with watching(watcher, paths[1]) as again:
        assert await again.changes(shell(again, "echo > x")) == {"x": "created"}
    watcher.close()


def deep(place: Watching, names: list[bytes], files: int) -> None:
    """Makes directories in each other, deeper than a path can say, and files in every one."""
    at = os.open(place.path, os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
        for number in range(files):
            os.close(os.open(f"f{number}", os.O_CREAT, dir_fd=at))
    os.close(at)


def remove(place: Watching) -> None:
    """What is too deep for others."""
    subprocess.run(["rm", "-rf", *place.path.iterdir()], check=True)


async def test_what_is_too_deep_to_be_opened_is_not_told_of(place: Watching) -> None:
    """Names of a sandbox's, a few bytes each, do not become hundreds of megabytes in the gateway."""
    found = await place.found(lambda: deep(place, [b"\xff" * 255] * 250, 3))
    assert found is not None
    assert {len(change.path) for change in found.files} == {(255 * 4 + 1) * n + 2 for n in range(1, 16)}
    assert len(msgspec.json.encode(found.files)) < 2_000_000
    assert (len(found.files), found.left_out) == (45, 0)
    remove(place)


async def test_long_paths_are_listed_as_far_as_there_is_room(
    place: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await place.found(lambda: deep(place, [b"\xff" * 255] * 15, 60))
    assert found is not None
    assert len(found.files) + found.left_out == 900
    assert 0 < sum(len(change.path + (change.url or "")) for change in found.files) <= 1_000_000
    monkeypatch.setattr(changes, "MOST_BYTES", 1_000_000)
    assert await place.found(lambda: deep(place, [b"d" * 200, b"\xff" * 255] * 8, 200)) is None
    assert await place.changes(shell(place, "echo > a")) == {"a": "created"}
    remove(place)


async def test_what_cannot_be_watched_is_not_known(watcher: Watcher, tmp_path: Path) -> None:
    assert await watcher.watch(tmp_path / "nothing") is None


async def test_workspaces_that_come_and_go_leave_nothing(watcher: Watcher, tmp_path: Path) -> None:
    def used() -> int:
        return watcher._room._directories

    before = used()
    for i in range(200):
        path = tmp_path / f"{i}/workspace"
        (path / "a/b").mkdir(parents=True)
        async with watching(watcher, path) as place:
            assert len(list(links())) == 1
            assert await place.changes(shell(place, "mkdir -p c; echo > c/x")) == {"c/x": "created"}
    assert not list(links())
    assert used() == before


async def test_workspaces_that_share_a_queue(tmp_path: Path) -> None:
    watcher = Watcher(queues=2)
    paths = [tmp_path / f"{i}/workspace" for i in range(6)]
    for path in paths:
        path.mkdir(parents=True)
    places = [await watching(watcher, path).__aenter__() for path in paths]
    assert len(list(links())) == 2
    for place in places:
        await place.changes(shell(place, "mkdir d; echo > d/x"))

    flood = f"for i in range({queue_limit()}): open(str(i % 7), 'w').close()"

    async def quiet(place: Watching) -> None:
        assert await place.changes(shell(place, "echo > d/x; echo > y")) == {
            "d/x": "changed",
            "y": "created",
        }

    command = [sys.executable, "-c", flood]
    found = await places[0].found(lambda: subprocess.run(command, cwd=paths[0], check=True))
    assert found is not None
    assert [f.path for f in found.files] == [str(i) for i in range(7)]
    for place in places[1:]:
        await quiet(place)
    await asyncio.gather(*(place.watched.close() for place in places))
    assert not list(links())
    watcher.close()


async def test_a_hostile_neighbour_is_not_noticed(
    watcher: Watcher, place: Watching, tmp_path: Path
) -> None:
    path = tmp_path / "other/workspace"
    path.mkdir(parents=True)
    hostile = """
import os, itertools
for i in itertools.count():
    os.makedirs(f'{i % 50}/{i % 7}', exist_ok=True)
    open(f'{i % 50}/{i % 7}/{i % 1000}', 'w').close()
    if i % 50 == 49:
        os.rename('3', 'x'); os.rename('4', '3'); os.rename('x', '4')
"""
    async with watching(watcher, path) as other:
        process = started(hostile, path)
        try:
            took = []
            for i in range(30):
                ending = asyncio.create_task(other.found(lambda: time.sleep(0.02)))
                before = time.monotonic()
                assert await place.changes(lambda i=i: (place.path / "a").write_text(str(i)))  # type: ignore[misc]
                took.append(time.monotonic() - before)
                await ending
            assert sorted(took)[15] < 1
        finally:
            process.kill()
            process.wait()


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS),
    st.tuples(st.just("append"), PATHS),
    st.tuples(st.just("link"), PATHS),
    st.tuples(st.just("mkdir"), PATHS),
    st.tuples(st.just("delete"), PATHS),
    st.tuples(st.just("rmtree"), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("exchange"), PATHS, PATHS),
    st.tuples(st.just("replace"), PATHS, PATHS),
)
CELLS = st.lists(st.lists(OPERATIONS, max_size=12), min_size=1, max_size=5)


def operate(root: Path, operation: tuple[str, ...]) -> None:
    """Does it, or does not when it cannot be done."""
    path = root / operation[1]
    other = root / operation[-1]
    try:
        match operation[0]:
            case "write":
                path.write_text(str(random.random()))
            case "append":
                with path.open("r+") as file:
                    file.seek(0, 2)
                    file.write(str(random.random()))
            case "link":
                path.symlink_to(f"{random.random()}")
            case "mkdir":
                path.mkdir(parents=True)
            case "delete":
                path.unlink()
            case "rmtree":
                shutil.rmtree(path)
            case "rename":
                path.rename(other)
            case "exchange":
                libc = ctypes.CDLL(None)
                libc.renameat2(-100, os.fsencode(path), -100, os.fsencode(other), 2)
            case "replace":
                temporary = path.with_name("tmp")
                temporary.write_text(str(random.random()))
                temporary.rename(other)
    except OSError:
        pass


def snapshot(root: Path) -> dict[str, tuple[int, str]]:
    """Path → which file, and what is in it."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in files + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
            path = Path(folder, name)
            contents = os.readlink(path) if path.is_symlink() else path.read_text()
            found[str(path.relative_to(root))] = (path.lstat().st_ino, contents)
    return found


def compared(before: dict[str, tuple[int, str]], after: dict[str, tuple[int, str]]) -> dict[str, str]:
    changes = dict.fromkeys(before.keys() - after.keys(), "deleted")
    changes |= dict.fromkeys(after.keys() - before.keys(), "created")
    return changes | {
        path: "changed" for path in before.keys() & after.keys() if before[path] != after[path]
    }


def lose_events(place: Watching) -> None:
    """Loses all events, as a queue does that has run over."""
    with suppress(BlockingIOError):
        while os.read(place.watched._queue._worker.queue, 65536):
            place.watched._queue._steps.append(Flood())


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=CELLS,
    between=st.lists(OPERATIONS, max_size=6),
    how=st.sampled_from(["at once", "in pieces", "missed"]),
)
def test_it_is_what_a_comparison_of_before_and_after_says(
    cells: list[list[tuple[str, ...]]],
    between: list[tuple[str, ...]],
    how: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever is done, taken in at once, in pieces by the cells of another context, or by looking."""
    root = tmp_path_factory.mktemp("model")

    async def run() -> None:
        watcher = Watcher()
        async with watching(watcher, root) as place:
            for operations in cells:
                if how == "missed":
                    await asyncio.sleep(0.012)
                before = snapshot(root)
                recording = await place.begin()
                assert recording is not None
                for operation in operations:
                    operate(root, operation)
                    if how == "in pieces":
                        await place.found(lambda: None)
                if how == "missed":
                    lose_events(place)
                after = snapshot(root)
                answer = place.watched.end(recording)
                found = await answer if isinstance(answer, asyncio.Future) else answer
                assert found is not None
                ours = {change.path: change.change for change in found.files}
                expected = compared(before, after)
                # One that was taken away and put back again may count as changed.
                back = {
                    path: "changed"
                    for path in before.keys() & after.keys()
                    if path in ours and before[path] == after[path]
                }
                moved = any(o[0] in ("rename", "exchange", "replace") for o in operations)
                assert not back or moved, (operations, back)
                assert ours == expected | back, operations
                for operation in between:
                    operate(root, operation)
        watcher.close()

    asyncio.run(run())
    shutil.rmtree(root)


async def test_events_that_never_end_do_not_keep_the_loop(place: Watching) -> None:
    stop = threading.Event()

    def churn() -> None:
        i = 0
        while not stop.is_set():
            (place.path / f"{i % 3}").write_text("x")
            i += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        took = []
        for _ in range(50):
            recording = await place.begin()
            await asyncio.sleep(0.01)
            if recording is not None:
                before = time.monotonic()
                answer = place.watched.end(recording)
                took.append(time.monotonic() - before)
                if isinstance(answer, asyncio.Future):
                    await answer
        # A single one may be one in which the machine did something else.
        assert not took or sorted(took)[len(took) // 2] < 0.25
        assert max(took, default=0) < 10
    finally:
        stop.set()
        thread.join()
