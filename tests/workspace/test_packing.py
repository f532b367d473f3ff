"""A workspace as one file: what comes out is what went in, and no archive gets out of its folder."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from interpreter.errors import FilesUnreachable, InvalidArchive, NoSpaceLeft
from interpreter.workspace import pack as packer
from interpreter.workspace import packing, turns
from tests.workspace.archives import HOSTILE, TOO_MUCH, archive, entry, folder, pieces
from tests.workspace.hostile import Racing

SOMEBODY = 0x70000042


def run(*words: str | Path, **settings: Any) -> bytes:
    return bytes(subprocess.run(words, check=True, stdout=subprocess.PIPE, **settings).stdout)


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="interpreter-tests-") as path:
        yield Path(path)


def make(path: Path) -> Path:
    path.mkdir()
    os.chown(path, SOMEBODY, SOMEBODY)
    return path


async def packed(source: Path) -> tuple[bytes, int]:
    async with packing.packed(source) as made:
        return b"".join([piece async for piece in made.pieces()]), made.uncompressed


def fill(path: Path) -> None:
    """With everything that there can be in a workspace."""
    (path / "deep/er").mkdir(parents=True)
    (path / "empty").mkdir(mode=0o700)
    (path / "data.csv").write_text("".join(f"{i},{i * i}\n" for i in range(100_000)))
    (path / "deep/er/noise").write_bytes(os.urandom(300_000))
    (path / "program").write_text("#!/bin/sh\n")
    (path / "program").chmod(0o755)
    (path / "closed").write_text("closed")
    (path / "closed").chmod(0)
    os.utime(path / "program", (1_000_000_000, 1_000_000_000))
    os.link(path / "deep/er/noise", path / "same")
    (path / "link").symlink_to("deep/er")
    (path / "out").symlink_to("/etc/passwd")
    (path / "nowhere").symlink_to("no/such/thing")
    with (path / "sparse").open("wb") as file:
        file.seek(30 * 2**20)
        file.write(b"end")
        file.truncate(40 * 2**20)
    os.close(os.open(os.fsencode(path) + b"/\xff\xfe\n\x1b[31m", os.O_CREAT | os.O_WRONLY, 0o644))
    (path / ("n" * 255)).mkdir()
    (path / ("n" * 255) / ("m" * 255)).write_text("long")


def described(path: Path) -> dict[bytes, tuple[int, bytes]]:
    found = {}
    for at, folders, files in os.walk(os.fsencode(path)):
        for name in folders + files:
            full = os.path.join(at, name)
            info = os.lstat(full)
            content = b""
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(full)
            elif stat.S_ISREG(info.st_mode):
                content = Path(os.fsdecode(full)).read_bytes()
            assert (info.st_uid, info.st_gid) in ((SOMEBODY, SOMEBODY), (0, 0))
            found[os.path.relpath(full, os.fsencode(path))] = (info.st_mode, content)
    return found


async def test_what_comes_out_is_what_went_in(place: Path) -> None:
    source, target, other = (make(place / name) for name in ("source", "target", "other"))
    fill(source)
    data, uncompressed = await packed(source)
    assert 0.95 < len(gzip.decompress(data)) / uncompressed < 1.1
    await packing.restore(target, pieces(data), 64)
    await packing.copy(source, other, 64)
    for restored in (target, other):
        assert described(restored) == described(source)
        assert (restored / "program").stat().st_mtime == 1_000_000_000
        assert (restored / "same").stat().st_ino == (restored / "deep/er/noise").stat().st_ino
        assert (restored / "sparse").stat().st_blocks * 512 < 2**20, "holes stay holes"
        owners = {os.lstat(path).st_uid for path in restored.rglob("*")}
        assert owners == {SOMEBODY}
    listed = run("tar", "-tz", input=data)
    assert b"deep/er/noise\n" in listed, "other programs can read it"
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert {(info.uid, info.uname) for info in tar} == {(1000, "")}, (
            "it tells nothing of this machine"
        )


async def test_devices_sockets_and_pipes_are_left_out(place: Path) -> None:
    source, target = make(place / "source"), make(place / "target")
    (source / "file").write_text("x")
    os.mkfifo(source / "pipe")
    os.mknod(source / "null", 0o20666, os.makedev(1, 3))
    run("python3", "-c", "import socket; socket.socket(socket.AF_UNIX).bind('socket')", cwd=source)
    data, _ = await packed(source)
    await packing.restore(target, pieces(data), 16)
    assert [path.name for path in target.iterdir()] == ["file"]


async def test_archives_of_other_programs_are_restored(place: Path) -> None:
    source = place / "source"
    (source / "a").mkdir(parents=True)
    (source / "a/file").write_text("x" * 1000)
    with (source / "sparse").open("wb") as file:
        file.truncate(2**20)
    for name, options in {
        "gnu": ["-z", "--sparse"],
        "old": ["--format=v7"],
        "ustar": ["--format=ustar"],
    }.items():
        data = run("tar", "-c", *options, "-C", source, ".")
        target = make(place / name)
        await packing.restore(target, pieces(data, 999), 16)
        assert (target / "a/file").read_text() == "x" * 1000
        assert (target / "sparse").stat().st_size == 2**20


async def test_of_a_file_that_is_there_twice_the_last_one_counts(place: Path) -> None:
    target = make(place / "target")
    data = archive(entry("a", b"first"), entry("./a", b"last"), folder("b", mode=0), entry("b/c", b"x"))
    await packing.restore(target, pieces(data), 16)
    assert (target / "a").read_bytes() == b"last"
    assert (target / "b/c").read_bytes() == b"x", "a closed folder can be filled"
    assert not (target / "a").stat().st_mode & 0o7000


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_hostile_archive_is_refused(place: Path, what: str) -> None:
    target = make(place / "target")
    data, word = HOSTILE[what]
    with pytest.raises(InvalidArchive, match=word):
        await packing.restore(target, pieces(data), 64)
    assert sorted(path.name for path in place.iterdir()) == ["target"]
    assert not Path("/tmp/evil").exists()
    assert not Path("/etc/evil").exists()
    assert children() == []


@pytest.mark.parametrize("what", TOO_MUCH)
async def test_what_does_not_fit_is_refused(place: Path, what: str) -> None:
    target = make(place / "target")
    with pytest.raises(NoSpaceLeft, match="does not fit"):
        await packing.restore(target, pieces(TOO_MUCH[what]), 16)
    assert children() == []


def children() -> list[str]:
    """Processes that pack or restore; the tests may have others."""
    found = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    return [words for words in found if "interpreter/workspace/" in words]


SWAPS = """
import ctypes, os, sys
outside, names = sys.argv[1], [f"{n:02}" for n in range(50)]
libc = ctypes.CDLL(None)
def write(path):
    with open(path, "w") as file:
        file.write("harmless")
for n in names:
    os.mkdir("d" + n)
    write(f"d{n}/secret")
    write("f" + n)
    os.symlink(outside, "l" + n)
    os.symlink(outside + "/secret", "m" + n)
pairs = [(a + n, b + n) for n in map(str.encode, names) for a, b in ((b"d", b"l"), (b"f", b"m"))]
count = 0
print("ready", flush=True)
while True:
    for _ in range(50):
        for one, other in pairs:
            libc.renameat2(-100, one, -100, other, 2)
    count += 50 * len(pairs)
    print(count, flush=True)
"""
"""Exchanges folders and files for links, so often that each is met at any moment."""


@pytest.mark.parametrize("shut_in", [True, False])
async def test_no_race_leads_out_of_a_workspace(
    place: Path, monkeypatch: pytest.MonkeyPatch, shut_in: bool
) -> None:
    """A sandbox swaps folders and files for links while it is packed."""
    if not shut_in:
        # What protects then is how names are opened.
        powerless = place / "python"
        powerless.write_text(
            f'#!/bin/sh\nexec setpriv --bounding-set=-sys_chroot "{sys.executable}" "$@"\n'
        )
        powerless.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(powerless))
    source, outside = make(place / "source"), place / "outside"
    outside.mkdir()
    (outside / "secret").write_text("SECRET")
    seen = set()
    with Racing(source, Path("../outside"), SWAPS) as racing:
        for _ in range(5):
            data, _ = await packed(source)
            assert b"SECRET" not in gzip.decompress(data)
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                seen |= {(entry.name[0], entry.type) for entry in tar}
    assert racing.swaps > 1000, "there was a race"
    assert {("d", tarfile.DIRTYPE), ("d", tarfile.SYMTYPE)} <= seen, "both were met"


async def test_what_is_something_else_when_it_is_packed_is_left_out(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(place / "source")
    (source / "link").symlink_to("file")
    for name in ("file", "folder/file", "last"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("x")
    root = os.open(source, os.O_RDONLY)
    walked = [found for found in packer.walk(root) if "/" not in found.path]
    os.unlink(source / "link")
    os.rename(source / "file", source / "link")
    (source / "file").symlink_to("file")
    monkeypatch.setattr(packer, "walk", lambda root: iter(walked))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        packer.pack(root, tar)
    os.close(root)
    made.seek(0)
    with tarfile.open(fileobj=made) as tar:
        assert sorted(tar.getnames()) == ["folder", "last"]


async def test_only_so_many_work_on_archives_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(place / "source")
    (source / "noise").write_bytes(os.urandom(3_000_000))
    monkeypatch.setattr(turns, "MOST", 2)
    start, others = asyncio.create_subprocess_exec, []

    async def started(*words: Any, **how: Any) -> Any:
        others.append(len(children()))
        return await start(*words, **how)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    made = await asyncio.gather(*(packed(source) for _ in range(6)))
    assert len({data for data, _ in made}) == 1
    assert (len(others), max(others)) == (6, 1)


async def test_whoever_packs_has_limits(place: Path) -> None:
    source = make(place / "source")
    (source / "noise").write_bytes(os.urandom(30_000_000))
    async with packing.packed(source):
        (child,) = (c for c in psutil.Process().children() if "pack.py" in " ".join(c.cmdline()))
        assert child.rlimit(psutil.RLIMIT_CPU) == (packer.CPU_SECONDS, packer.CPU_SECONDS)
        assert child.rlimit(psutil.RLIMIT_AS) == (packer.MEMORY_BYTES, packer.MEMORY_BYTES)


async def test_files_that_change_while_they_are_packed_make_a_whole_archive(place: Path) -> None:
    source, target = make(place / "source"), make(place / "target")
    names = [f"f{i}" for i in range(20)]
    for name in names:
        (source / name).write_bytes(b"x" * 2_000_000)
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            for name in names:
                os.truncate(source / name, 1_000)
                with (source / name).open("ab") as file:
                    file.write(b"y" * 3_000_000)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        data, _ = await packed(source)
    finally:
        over.set()
        changing.join()
    await packing.restore(target, pieces(data), 128)
    assert sorted(path.name for path in target.iterdir()) == sorted(names)


async def test_a_tree_that_is_too_deep_is_refused_before_anything_is_sent(place: Path) -> None:
    source = make(place / "source")
    run("sh", "-c", "for i in $(seq 1200); do mkdir d && cd d || exit 1; done", cwd=source)
    with pytest.raises(FilesUnreachable, match="1,000 folders deep"):
        await packed(source)
    run("rm", "-rf", source)


async def test_whoever_does_not_read_holds_back_only_the_process(place: Path) -> None:
    source = make(place / "source")
    (source / "noise").write_bytes(os.urandom(30_000_000))
    async with packing.packed(source) as made:
        stream = made.pieces()
        await anext(stream)
        before = psutil.Process().memory_info().rss
        await asyncio.sleep(1.0)
        assert psutil.Process().memory_info().rss - before < 15_000_000
        await stream.aclose()  # type: ignore[attr-defined]
    assert children() == []


async def test_whoever_gives_up_leaves_no_process(place: Path) -> None:
    target = make(place / "target")

    async def endless():  # type: ignore[no-untyped-def]
        yield archive(entry("a", b"x" * 100))[:50]
        await asyncio.sleep(3600)

    restoring = asyncio.create_task(packing.restore(target, endless(), 16))
    await asyncio.sleep(0.3)
    restoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert children() == []


async def test_where_no_process_can_be_shut_in_the_same_holds(place: Path) -> None:
    """What protects then is how names are opened."""
    script = (
        "import asyncio, pathlib, sys\nfrom interpreter.workspace import packing\n"
        "from tests.workspace.archives import HOSTILE, pieces\n"
        "from interpreter.errors import InvalidArchive\n"
        "async def main():\n"
        "    for number, (what, (data, word)) in enumerate(HOSTILE.items()):\n"
        "        target = pathlib.Path(sys.argv[1], str(number)); target.mkdir()\n"
        "        try: await packing.restore(target, pieces(data), 64)\n"
        "        except InvalidArchive as e: assert word in e.message, (what, e.message)\n"
        "        else: raise AssertionError(what)\n"
        "    source = pathlib.Path(sys.argv[1], 'source'); source.mkdir(); (source / 'f').write_text('x')\n"
        "    copy = pathlib.Path(sys.argv[1], 'copy'); copy.mkdir()\n"
        "    await packing.copy(source, copy, 16)\n"
        "    print((copy / 'f').read_text())\n"
        "asyncio.run(main())"
    )
    powerless = ("setpriv", "--bounding-set=-sys_chroot,-setuid,-setgid")
    paths = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
    said = run(*powerless, sys.executable, "-c", script, place, env={**os.environ, "PYTHONPATH": paths})
    assert said == b"x\n"
    assert not Path("/tmp/evil").exists()
