"""The files of a workspace, from outside: nothing in it leads out, and nobody sees half a file."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import os
import signal
import socket
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tornado.httputil import HTTPHeaders

from interpreter.errors import (
    FileChanged,
    FileConflict,
    FileNotFound,
    FileRefused,
    FileTooLarge,
    InterpreterError,
    InvalidPath,
    NoSpaceLeft,
    TooManyFiles,
)
from interpreter.gateway.file_headers import condition
from interpreter.models.files import Directory, FileType
from interpreter.workspace import OpenFile, Tree, archive, beneath, removal, tree, walk
from interpreter.workspace.allowance import Allowance
from interpreter.workspace.paths import checked
from tests.workspace.hostile import CHURN, Racing

OWNER = 12345
SECRET = b"the secret that is outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the workspace, with something that nobody may see or change."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_bytes(SECRET)
    return place


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "workspace"
    place.mkdir()
    os.chown(place, OWNER, OWNER)
    yield place
    subprocess.run(["rm", "-rf", place], check=True)  # it may be too deep for pytest


@pytest.fixture(params=["by_kernel", "by_walking"])
def files(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """Both ways to resolve a path keep the same promises."""
    monkeypatch.setattr(beneath, "way", lambda: getattr(beneath, request.param))
    before = open_descriptors()
    with Tree(root, Allowance(root, file_mb=10, disk_mb=20, capped=False)) as files:
        yield files
    assert open_descriptors() == before, "descriptors are left open"


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def read(files: Tree, path: str) -> bytes:
    found = files.read(checked(path))
    assert isinstance(found, OpenFile)
    try:
        return os.pread(found.descriptor, found.size, 0)
    finally:
        found.close()


def write(files: Tree, path: str, data: bytes, **how: Any) -> bool:
    arriving = files.receive(checked(path), files.budget())
    try:
        arriving.write(data)
        return files.store(arriving, **how)[2]
    finally:
        arriving.close()


def names(listed: Directory) -> list[str]:
    return [entry.name for entry in listed.entries]


def unpacked(files: Tree, path: str, format: Any) -> bytes:
    archive = files.archive(path, format)
    try:
        return b"".join(iter(archive.next, b""))
    finally:
        archive.close()


# -- reading and writing


def test_a_file_is_stored_read_listed_and_deleted(files: Tree, root: Path) -> None:
    assert write(files, "a/b/c.txt", b"hello")
    assert not write(files, "a/b/c.txt", b"hello again"), "it was there before"
    assert read(files, "a/b/c.txt") == b"hello again"
    (entry,) = files.list("a/b").entries
    assert (entry.name, entry.path, entry.type, entry.size) == ("c.txt", "a/b/c.txt", FileType.file, 11)
    assert entry.mime_type == "text/plain"
    assert [e.type for e in files.list("").entries] == [FileType.directory]
    for path in (root / "a", root / "a/b", root / "a/b/c.txt"):
        assert (path.stat().st_uid, path.stat().st_gid) == (OWNER, OWNER), "cells can change it"
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "a/b/c.txt").stat().st_mode) == 0o644
    files.delete("a/b/c.txt", recursive=False)
    assert files.list("a/b").entries == []


def test_what_breaks_off_leaves_nothing_not_even_directories(files: Tree, root: Path) -> None:
    arriving = files.receive("new/file", files.budget())
    arriving.write(b"half")
    assert list(root.iterdir()) == [], "nobody sees it before it is complete"
    arriving.close()
    assert list(root.iterdir()) == []


def test_where_files_need_a_name_it_is_hidden_and_goes_with_them(
    files: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)  # as on a file system that cannot do it
    arriving = files.receive("file", files.budget())
    assert len(list(root.iterdir())) == 1
    assert files.list("").entries == []
    arriving.close()
    assert list(root.iterdir()) == []
    assert write(files, "file", b"whole")
    assert [path.name for path in root.iterdir()] == ["file"]


def test_a_reader_keeps_the_version_it_has_opened(files: Tree) -> None:
    write(files, "f", b"old")
    found = files.read("f")
    assert isinstance(found, OpenFile)
    write(files, "f", b"new")
    assert os.pread(found.descriptor, 10, 0) == b"old"
    found.close()
    assert read(files, "f") == b"new"


def test_a_condition_is_given_the_version_that_is_there(files: Tree) -> None:
    seen: list[str | None] = []
    write(files, "f", b"1", condition=seen.append)
    write(files, "f", b"2", condition=seen.append)
    assert seen[0] is None
    assert seen[1]

    def refuse(etag: str | None) -> None:
        raise FileChanged("no")

    with pytest.raises(FileChanged):
        write(files, "f", b"3", condition=refuse)
    assert read(files, "f") == b"2"


def test_what_a_cell_wrote_is_another_version_whatever_date_it_gives_it(files: Tree, root: Path) -> None:
    def version() -> str:
        found = files.read("f")
        assert isinstance(found, OpenFile)
        found.close()
        return found.etag

    write(files, "f", b"1")
    before, now = version(), (root / "f").stat()
    while (root / "f").stat().st_ctime_ns == now.st_ctime_ns:  # the clock of files is slow
        (root / "f").write_bytes(b"2")
        os.utime(root / "f", ns=(now.st_atime_ns, now.st_mtime_ns))
    assert version() != before


def test_what_may_not_be_there_may_not_be_a_link_or_a_pipe_either(files: Tree, root: Path) -> None:
    os.symlink("nowhere", root / "link")
    os.mkfifo(root / "pipe")
    must = condition(HTTPHeaders({"If-None-Match": "*"}))
    for name in ("link", "pipe"):
        with pytest.raises(FileChanged):
            write(files, name, b"x", condition=must)
    assert os.readlink(root / "link") == "nowhere"
    assert stat.S_ISFIFO(os.lstat(root / "pipe").st_mode)
    assert write(files, "new", b"x", condition=must)


def test_files_and_directories_are_moved_and_copied(files: Tree, root: Path) -> None:
    write(files, "a/one", b"1")
    write(files, "two", b"2")
    with pytest.raises(FileConflict, match="already"):
        files.move("two", "a/one", overwrite=False)
    with pytest.raises(FileConflict, match="already"):
        files.copy("two", "a/one", overwrite=False)
    assert files.move("two", "new/place/two", overwrite=False).path == "new/place/two"
    assert files.copy("a/one", "new/place/two", overwrite=True).size == 1
    assert read(files, "new/place/two") == b"1"
    os.symlink("one", root / "a/link")
    assert files.copy("a", "b", overwrite=False).type is FileType.directory
    assert read(files, "b/one") == b"1"
    assert os.readlink(root / "b/link") == "one"
    assert (root / "b/one").stat().st_uid == OWNER
    with pytest.raises(FileConflict):
        files.copy("a", "b", overwrite=True)
    files.move("a", "c/d", overwrite=False)
    assert names(files.list("c/d")) == ["link", "one"]
    with pytest.raises(InvalidPath):
        files.move("c", "c/d/e", overwrite=False)
    assert not list(root.rglob(".interpreter-*"))


def test_a_full_directory_is_deleted_only_with_everything(files: Tree, root: Path) -> None:
    write(files, "a/b/c", b"")
    with pytest.raises(FileConflict, match="not empty"):
        files.delete("a", recursive=False)
    files.delete("a", recursive=True)
    assert list(root.iterdir()) == []
    with pytest.raises(FileNotFound):
        files.delete("a", recursive=True)


def test_a_directory_that_is_not_empty_in_time_can_be_deleted_later(
    files: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "d/a/b/c").mkdir(parents=True)
    with monkeypatch.context() as now:
        now.setattr(removal, "LONGEST_SECONDS", -1.0)
        with pytest.raises(FileConflict, match="keeps changing"):
            files.delete("d", recursive=True)
    assert (root / "d/a/b/c").is_dir()
    files.delete("d", recursive=True)
    assert list(root.iterdir()) == []


def test_the_workspace_itself_cannot_be_deleted_moved_or_written(files: Tree) -> None:
    for do in (
        lambda: files.delete("", recursive=True),
        lambda: files.move("", "a", overwrite=True),
        lambda: files.copy("", "a", overwrite=True),
        lambda: files.receive("", files.budget()),
    ):
        with pytest.raises(InvalidPath):
            do()


# -- limits


def test_a_file_is_as_large_as_the_session_allows(files: Tree, root: Path) -> None:
    with pytest.raises(FileTooLarge, match="10 MB"):
        files.receive("f", files.budget(11 << 20))
    arriving = files.receive("f", files.budget())
    arriving.write(bytes(9 << 20))
    with pytest.raises(FileTooLarge):
        arriving.write(bytes(2 << 20))
    arriving.close()
    assert list(root.iterdir()) == []


def test_a_plain_directory_holds_what_the_session_may_have(files: Tree) -> None:
    write(files, "one", os.urandom(8 << 20))
    write(files, "two", os.urandom(8 << 20))
    with pytest.raises(NoSpaceLeft, match="20 MB"):
        write(files, "three", os.urandom(8 << 20))
    with pytest.raises(NoSpaceLeft):
        files.copy("one", "three", overwrite=False)
    assert names(files.list("")) == ["one", "two"]


def test_what_cannot_be_counted_in_time_is_full(files: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpreter.workspace.allowance.COUNTING_SECONDS", -1.0)
    with pytest.raises(NoSpaceLeft, match="counted"):
        files.budget()


def test_the_machines_disk_is_not_filled(files: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interpreter.workspace.allowance.RESERVE", 1 << 60)
    with pytest.raises(NoSpaceLeft, match="machine"):
        files.receive("f", files.budget())


# -- hostile contents


@pytest.mark.parametrize("target", ["/", "..", "../outside", "../../..", "/proc/self/root"])
def test_links_that_lead_out_lead_nowhere(files: Tree, root: Path, outside: Path, target: str) -> None:
    os.symlink(target, root / "link")
    before = sorted(outside.iterdir())
    for path in ("link", "link/secret", "link/outside/secret", f"link{outside}/secret"):
        with pytest.raises(InterpreterError):
            read(files, path)
        with pytest.raises(InterpreterError):
            files.list(path)
        with pytest.raises(InterpreterError):
            files.archive(path, "zip")
    for path in ("link/new", "link/secret", "link/outside/new"):
        with pytest.raises(InterpreterError):
            write(files, path, b"written")
        with pytest.raises(InterpreterError):
            files.delete(path, recursive=True)
        with pytest.raises(InterpreterError):
            files.move(path, "stolen", overwrite=True)
    assert sorted(outside.iterdir()) == before
    assert (outside / "secret").read_bytes() == SECRET


def test_links_that_stay_inside_are_followed_on_reading_only(files: Tree, root: Path) -> None:
    write(files, "real/file", b"contents")
    os.symlink("real", root / "directory")
    os.symlink("real/file", root / "link")
    assert read(files, "directory/file") == b"contents"
    assert read(files, "link") == b"contents"
    write(files, "link", b"replaced the link")
    assert read(files, "real/file") == b"contents"
    assert not (root / "link").is_symlink()
    os.symlink("real", root / "again")
    files.delete("again", recursive=True)
    assert (root / "real/file").exists(), "the link is deleted, not what it leads to"
    os.symlink("circle", root / "circle")
    with pytest.raises(InvalidPath, match="circles"):
        files.read("circle")


def test_nothing_is_written_through_a_hard_link(files: Tree, root: Path, outside: Path) -> None:
    os.link(outside / "secret", root / "linked")
    write(files, "linked", b"other")
    assert (outside / "secret").read_bytes() == SECRET
    assert read(files, "linked") == b"other"


def test_pipes_sockets_and_devices_are_listed_and_never_opened(files: Tree, root: Path) -> None:
    os.mkfifo(root / "pipe")
    os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    assert {e.type for e in files.list("").entries} == {FileType.other}
    for name in ("pipe", "device", "socket"):
        with pytest.raises(FileConflict, match="neither"):
            files.read(name)
        with pytest.raises(FileConflict):
            files.copy(name, "copy", overwrite=True)
    assert zipfile.ZipFile(io.BytesIO(unpacked(files, "", "zip"))).namelist() == []
    write(files, "pipe", b"a file now")
    assert read(files, "pipe") == b"a file now"
    files.delete("device", recursive=False)


def test_names_that_are_not_text_are_listed_and_archived(files: Tree, root: Path) -> None:
    odd = os.fsencode(root) + b"/caf\xe9\xff\n.txt"
    with open(odd, "wb") as file:
        file.write(b"odd")
    (entry,) = files.list("").entries
    assert (entry.name, entry.path) == ("caf\\xe9\\xff\n.txt", None)
    assert b"caf" in msgspec.json.encode(entry)
    assert zipfile.ZipFile(io.BytesIO(unpacked(files, "", "zip"))).namelist() == ["caf_xe9_xff\n.txt"]
    with tarfile.open(fileobj=io.BytesIO(unpacked(files, "", "tar.gz"))) as tar:
        assert [os.fsencode(name) for name in tar.getnames()] == [b"caf\xe9\xff\n.txt"]
    os.unlink(odd)


def test_absurd_dates_are_told_as_something(files: Tree, root: Path) -> None:
    write(files, "f", b"")
    for seconds in (-(2**31), 2**33):
        os.utime(root / "f", (seconds, seconds))
        assert msgspec.json.encode(files.list(""))
        assert unpacked(files, "", "zip")
        assert unpacked(files, "", "tar.gz")


def test_a_tree_of_any_depth_is_no_trouble(files: Tree, root: Path) -> None:
    """Too deep for a path, for Python's stack, and for the descriptors a process may have."""
    make = (
        "import os\nfor _ in range(1500): os.mkdir('directory'); os.chdir('directory')\nopen('end', 'w')"
    )
    subprocess.run(["python3", "-c", make], cwd=root, check=True)
    write(files, "directory/file", b"x")
    assert names(files.list("directory")) == ["directory", "file"]
    assert b"PK" in unpacked(files, "", "zip")
    assert unpacked(files, "directory", "tar.gz")
    files.copy("directory", "copy", overwrite=False)
    files.delete("copy", recursive=True)
    files.delete("directory", recursive=True)
    assert list(root.iterdir()) == []


def test_a_directory_with_too_many_files_is_listed_in_part(
    files: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MOST_LISTED", 10)
    monkeypatch.setattr(walk, "MOST_ENTRIES", 15)
    for number in range(20):
        (root / f"{number:02}").touch()
    listed = files.list("")
    assert listed.more
    assert names(listed) == [f"{number:02}" for number in range(10)]
    with pytest.raises(TooManyFiles):
        files.archive("", "zip")
    files.delete("00", recursive=False)


def test_a_file_that_a_cell_keeps_leased_is_not_waited_for(files: Tree, root: Path) -> None:
    write(files, "f", b"x")
    with open(root / "f", "r+b") as held:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            with pytest.raises(FileConflict, match="locked"):
                files.read("f")
        finally:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            signal.signal(signal.SIGIO, before)


# -- archives


def test_archives_have_everything_but_links_that_lead_out(files: Tree, root: Path) -> None:
    write(files, "data/a.txt", b"a" * 3_000_000)
    write(files, "data/sub/b.bin", os.urandom(1_000_000))
    (root / "data/empty").mkdir()
    os.symlink("a.txt", root / "data/inner")
    os.symlink("/etc/passwd", root / "data/outer")
    with zipfile.ZipFile(io.BytesIO(unpacked(files, "data", "zip"))) as packed:
        assert packed.testzip() is None
        assert sorted(packed.namelist()) == [
            *("data/a.txt", "data/empty/", "data/sub/", "data/sub/b.bin")
        ]
        assert packed.read("data/a.txt") == b"a" * 3_000_000
        assert packed.read("data/sub/b.bin") == (root / "data/sub/b.bin").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(unpacked(files, "data", "tar.gz"))) as tar:
        assert sorted(tar.getnames()) == [
            *("data/a.txt", "data/empty", "data/inner", "data/sub", "data/sub/b.bin")
        ]
        assert tar.getmember("data/inner").linkname == "a.txt"
        member = tar.extractfile("data/a.txt")
        assert member is not None
        assert member.read() == b"a" * 3_000_000
    with zipfile.ZipFile(io.BytesIO(unpacked(files, "data/a.txt", "zip"))) as packed:
        assert packed.namelist() == ["a.txt"]


def test_no_name_in_a_zip_is_a_path_elsewhere_for_windows(files: Tree, root: Path) -> None:
    for name in ("..\\evil", "C:\\evil", "C:/evil", "a:b", "\\\\host\\share"):
        write(files, name, b"x")
    with zipfile.ZipFile(io.BytesIO(unpacked(files, "", "zip"))) as packed:
        names = sorted(packed.namelist())
    assert names == [".._evil", "C_/", "C_/evil", "C__evil", "__host_share", "a_b"]


def test_what_the_gateway_may_not_read_is_not_left_out_silently(files: Tree, root: Path) -> None:
    write(files, "d/open", b"x")
    write(files, "d/closed", b"x")
    (root / "d/locked").mkdir()
    os.chown(root / "d/locked", OWNER, OWNER)
    for name, mode in (("d/closed", 0o644), ("d/locked", 0o755)):
        (root / name).chmod(0)
        os.seteuid(OWNER)
        try:
            for format in ("zip", "tar.gz"):
                with pytest.raises(FileRefused, match=name):
                    files.archive("", format)
            with pytest.raises(FileRefused):
                files.copy("d", "copy", overwrite=False)
        finally:
            os.seteuid(0)
        assert unpacked(files, "", "zip"), "which root may"
        (root / name).chmod(mode)
    assert names(files.list("")) == ["d"]


def test_a_zip_does_not_remember_more_names_than_there_is_memory_for(
    files: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell can have the same file under many long names, which cost it nothing."""
    deep = root / "/".join(["d" * 250] * 15)
    deep.mkdir(parents=True)
    (deep / "0").touch()
    for number in range(1, 300):
        os.link(deep / "0", deep / str(number))
    assert len(unpacked(files, "", "zip")) > 1_000_000
    monkeypatch.setattr(archive, "MOST_NAMES", 1_000_000)
    packing = files.archive("d" * 250, "tar.gz")
    packing.close()
    with pytest.raises(TooManyFiles, match="too long for a zip"):
        files.archive("", "zip")
    late = archive.Archive(os.open(root, os.O_PATH), "", "zip")
    with pytest.raises(TooManyFiles):
        b"".join(iter(late.next, b""))
    late.close()


def test_an_archive_that_is_not_read_to_its_end_leaves_nothing_open(files: Tree) -> None:
    for number in range(5):
        write(files, f"d/{number}", os.urandom(500_000))
    for format in ("zip", "tar.gz"):
        for count in range(4):
            archive = files.archive("", format)
            for _ in range(count):
                archive.next()
            archive.close()


def test_a_file_that_is_cut_while_it_is_packed_does_not_spoil_the_archive(
    files: Tree, root: Path
) -> None:
    write(files, "a", os.urandom(8_000_000))
    archive = files.archive("a", "tar.gz")
    packed = archive.next()
    os.truncate(root / "a", 10)
    packed += b"".join(iter(archive.next, b""))
    archive.close()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.getmember("a").size == 8_000_000


# -- paths that mean no good

WORDS = st.one_of(
    st.sampled_from(
        ["..", ".", "", "/", "a", "link", "out", "secret", "\0", "~", "\\", "..\\", "%2e%2e"]
    ),
    st.text(max_size=5),
    st.integers(250, 260).map(lambda n: "x" * n),
    st.integers(80, 90).map(lambda n: "é" * n),
)
PATHS = st.one_of(
    st.lists(WORDS, max_size=8).map("/".join),
    st.text(max_size=20),
    st.text(alphabet=st.characters(), max_size=5),
    st.integers(2000, 2100).map(lambda n: "a/" * n),
)


@given(path=PATHS, other=PATHS)
@example(path="link/../../outside/secret", other="out/secret")
@example(path="\udcff", other="a\udc80")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_leads_out_and_none_is_a_fault(files: Tree, root: Path, path: str, other: str) -> None:
    outside = root.parent / "outside"
    if not outside.exists():
        outside.mkdir()
        (outside / "secret").write_bytes(SECRET)
    for name, target in (("link", "../outside"), ("out", str(outside)), ("a/up", "../..")):
        (root / name).parent.mkdir(exist_ok=True)
        if not os.path.lexists(root / name):
            os.symlink(target, root / name)
    with contextlib.suppress(InterpreterError):
        assert read_any(files, path) != SECRET
    for do in (
        lambda: write(files, path, b"written"),
        lambda: files.copy(checked(path), checked(other), overwrite=True),
        lambda: files.move(checked(path), checked(other), overwrite=True),
        lambda: files.delete(checked(other), recursive=True),
    ):
        with contextlib.suppress(InterpreterError):
            do()
    assert [entry.name for entry in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == SECRET
    assert sorted(p.name for p in root.parent.iterdir()) == ["outside", "workspace"]


def read_any(files: Tree, path: str) -> bytes | None:
    found = files.read(checked(path))
    if not isinstance(found, OpenFile):
        return None
    try:
        return os.pread(found.descriptor, 100, 0)
    finally:
        found.close()


# -- a sandbox that swaps things while they are opened


def test_whoever_swaps_directories_for_links_gains_nothing(
    files: Tree, root: Path, outside: Path
) -> None:
    (outside / "keep").mkdir()
    (outside / "keep/file").write_bytes(SECRET)
    before = sorted(str(path) for path in outside.rglob("*"))
    tried = 0
    with Racing(root, outside) as racing:
        while tried < 100:
            tried += 1
            with contextlib.suppress(InterpreterError):
                assert read(files, "d/secret") in (b"harmless", b"")
            with contextlib.suppress(InterpreterError):
                assert read(files, "d/keep/file") in (b"harmless", b"")
            with contextlib.suppress(InterpreterError):
                write(files, "d/secret", b"harmless")
            with contextlib.suppress(InterpreterError):
                write(files, f"d/new/{tried % 5}/file", b"harmless")
            with contextlib.suppress(InterpreterError):
                files.move("d/keep", "taken", overwrite=False)
            with contextlib.suppress(InterpreterError):
                files.move("taken", "d/keep", overwrite=False)
            with contextlib.suppress(InterpreterError):
                files.copy("d", "copy", overwrite=False)
                assert SECRET not in unpacked(files, "copy", "tar.gz")
            with contextlib.suppress(InterpreterError):
                files.delete("copy", recursive=True)
            with contextlib.suppress(InterpreterError):
                files.delete("d/new", recursive=True)
            with contextlib.suppress(InterpreterError):
                assert not any(e.path and "outside" in e.path for e in files.list("d").entries)
            with contextlib.suppress(InterpreterError), contextlib.suppress(tarfile.ReadError):
                packed = io.BytesIO(unpacked(files, "", "tar.gz"))
                with tarfile.open(fileobj=packed) as tar:
                    contents = [tar.extractfile(m) for m in tar if m.isreg()]
                    assert SECRET not in [file.read() for file in contents if file]
    assert racing.swaps > 1000, "there was a race"
    assert sorted(str(path) for path in outside.rglob("*")) == before
    assert {p.read_bytes() for p in outside.rglob("*") if p.is_file()} == {SECRET}


NAMES = st.sampled_from("abc")
NEAR = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
STEPS = st.tuples(
    st.sampled_from(
        ["read", "list", "write", "new", "directory", "delete", "move", "copy", "tar.gz", "zip"]
    ),
    st.one_of(NEAR, NEAR, NEAR, PATHS),
    st.one_of(NEAR, NEAR, NEAR, PATHS),
)


def do(files: Tree, what: str, path: str, other: str) -> None:
    """Does one thing of what the API can do; nothing of the outside may come of it."""
    match what:
        case "read":
            assert read_any(files, path) != SECRET
        case "list":
            assert "secret" not in names(files.list(checked(path)))
        case "write" | "new":
            write(files, path, b"harmless", new=what == "new")
        case "directory":
            files.make_directory(checked(path))
        case "delete":
            files.delete(checked(path), recursive=True)
        case "move":
            files.move(checked(path), checked(other), overwrite=True)
        case "copy":
            files.copy(checked(path), checked(other), overwrite=True)
        case "tar.gz":
            assert SECRET not in gzip.decompress(unpacked(files, checked(path), what))
        case "zip":
            with zipfile.ZipFile(io.BytesIO(unpacked(files, checked(path), what))) as packed:
                assert SECRET not in [packed.read(name) for name in packed.namelist()]


def test_whatever_is_asked_for_while_everything_is_swapped_nothing_leads_out(
    files: Tree, root: Path, outside: Path
) -> None:
    (outside / "a").mkdir()
    for name in ("a/a", "a/b", "a/c", "b", "c"):  # what the names inside would lead to
        (outside / name).write_bytes(SECRET)
    before = state_of(outside)

    @given(steps=st.lists(STEPS, min_size=10, max_size=20))
    @settings(max_examples=30, deadline=None, database=None, phases=[Phase.generate])
    def drive(steps: list[tuple[str, str, str]]) -> None:
        for step in steps * 5:  # each at other moments
            with contextlib.suppress(InterpreterError):
                do(files, *step)

    with Racing(root, outside, CHURN, OWNER) as racing:
        drive()
    assert racing.swaps > 1000, "there was a race"
    assert state_of(outside) == before
    assert sorted(p.name for p in root.parent.iterdir()) == ["outside", "workspace"]
    found = subprocess.run(["grep", "-rlF", "--devices=skip", SECRET, root], capture_output=True)
    assert found.stdout == b"", "something of the outside is inside"


def state_of(place: Path) -> list[tuple[str, int, int, int, bytes | None]]:
    """All that is there, and whether it was written, replaced, or given to somebody."""
    found = []
    for path in [place, *sorted(place.rglob("*"))]:
        now = path.lstat()
        contents = path.read_bytes() if path.is_file() else None
        found.append((str(path), now.st_ino, now.st_ctime_ns, now.st_nlink, contents))
    return found
