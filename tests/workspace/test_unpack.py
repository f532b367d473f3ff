"""Archives of people who mean no good: refused in a sentence, and nothing of them is left."""

from __future__ import annotations

import gzip
import io
import os
import resource
import stat
import struct
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpreter.errors import DatasetNotFound, DatasetsFull, InvalidArchive
from interpreter.workspace import archives
from interpreter.workspace.datasets import Datasets

MEGABYTE = 1024 * 1024
Pack = Callable[[dict[str, bytes]], bytes]


async def chunked(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 65536):
        yield content[start : start + 65536]


@pytest.fixture
async def datasets(tmp_path: Path) -> Datasets:
    made = Datasets(tmp_path / "datasets", 64)
    await made.prepare()
    return made


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def plain_tar(files: dict[str, bytes]) -> bytes:
    return tarred(files, "w:")


def tar_with(*infos: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for info in infos:
            archive.addfile(info, io.BytesIO(b"\0" * info.size) if info.isreg() else None)
    return packed.getvalue()


def tar_info(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_with(name: str, mode: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, b"/etc/passwd")
    return packed.getvalue()


async def refused(datasets: Datasets, archive: bytes, *words: str) -> str:
    with pytest.raises(InvalidArchive) as caught:
        await datasets.upload_archive("d", chunked(archive))
    for word in words:
        assert word in caught.value.message
    assert_nothing_is_left(datasets)
    return caught.value.message


def assert_nothing_is_left(datasets: Datasets) -> None:
    assert datasets.room.taken == 0
    assert os.listdir(datasets.path("")) == []
    with pytest.raises(DatasetNotFound):
        datasets.get("d")


@pytest.mark.parametrize("pack", [zipped, tarred, plain_tar])
async def test_files_and_folders_are_unpacked(datasets: Datasets, pack: Pack) -> None:
    files = {"a": b"1", "./b/c": b"22", "b//d/e \N{SNOWMAN}": b"x" * 3_000_000, "empty": b""}
    version = await datasets.upload_archive("d", chunked(pack(files)))
    assert (version.bytes, version.file_count) == (3_000_003, 4)
    found = await datasets.files(version.version)
    assert {f.path: f.size for f in found} == {"a": 1, "b/c": 2, "b/d/e ☃": 3_000_000, "empty": 0}
    root = datasets.path(version.version)
    for path in root.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o444)
    assert (root / "b/c").read_bytes() == b"22"
    assert datasets.room.taken == version.bytes
    assert sorted(os.listdir(root.parent)) == [version.version, f"{version.version}.json"]


@pytest.mark.parametrize("pack", [zipped, tarred, plain_tar])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("/etc/passwd", "absolute"),
        ("../up", "leads out"),
        ("a/../../up", "leads out"),
        ("a/..", "leads out"),
        ("./../up", "leads out"),
        ("/".join(["d"] * 70), "cannot be used"),
        ("n" * 256, "too long"),
        ("/".join(["n" * 200] * 6), "too long"),
    ],
)
async def test_names_that_lead_elsewhere_are_refused(
    datasets: Datasets, pack: Pack, name: str, problem: str
) -> None:
    await refused(datasets, pack({"fine": b"1", name: b"x"}), problem)


@pytest.mark.parametrize(
    "info",
    [
        tar_info("link", tarfile.SYMTYPE, "/etc/passwd"),
        tar_info("link", tarfile.LNKTYPE, "../../token"),
        tar_info("device", tarfile.CHRTYPE),
        tar_info("device", tarfile.BLKTYPE),
        tar_info("pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda info: f"{info.name}-{info.type.decode()}",
)
async def test_links_and_devices_are_refused(datasets: Datasets, info: tarfile.TarInfo) -> None:
    await refused(datasets, tar_with(tarfile.TarInfo("fine"), info), f"'{info.name}' is neither")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
async def test_links_and_devices_in_a_zip_are_refused(datasets: Datasets, kind: int) -> None:
    await refused(datasets, zip_with("odd", kind | 0o777), "'odd' is neither a file nor a folder")


@pytest.mark.parametrize(
    "order", [("x", "x"), ("x", "x/y"), ("x/y", "x"), ("x/", "x"), ("a/./b", "a/b")]
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_a_name_that_is_there_twice_is_refused(datasets: Datasets, order: tuple[str, str]) -> None:
    infos = [tarfile.TarInfo(name) for name in order]
    for info in infos:
        info.type = tarfile.DIRTYPE if info.name.endswith("/") else tarfile.REGTYPE
    await refused(datasets, tar_with(*infos), "twice" if order[1] != "x/y" else "a file and a folder")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in order:
            archive.writestr(name, b"")
    await refused(datasets, packed.getvalue())


@pytest.mark.parametrize("pack", [zipped, tarred])
async def test_a_bomb_is_stopped_at_the_limit(datasets: Datasets, pack: Pack) -> None:
    bomb = pack({"zeros": b"\0" * (70 * MEGABYTE)})
    assert len(bomb) < MEGABYTE
    with pytest.raises(DatasetsFull, match="64 MB"):
        await datasets.upload_archive("d", chunked(bomb))
    assert_nothing_is_left(datasets)


@pytest.mark.parametrize("pack", [zipped, tarred])
async def test_too_many_files_are_refused(
    datasets: Datasets, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_ENTRIES", 50)
    await refused(datasets, pack({str(n): b"" for n in range(51)}), "more than 50 files and folders")
    await refused(datasets, pack({f"{n}/x": b"" for n in range(26)}), "more than 50 files and folders")
    await datasets.upload_archive("d", chunked(pack({str(n): b"" for n in range(50)})))


async def test_headers_that_claim_gigabytes_end_only_the_unpacking(datasets: Datasets) -> None:
    """What Python's own reader would hold in memory: the name of a file that is 2 GB long."""
    info = tar_info("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    info.size = 2048 * MEGABYTE
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as stream:
        stream.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(512):
            stream.write(b"n" * (4 * MEGABYTE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await refused(datasets, packed.getvalue(), "not unpacked")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


async def test_a_directory_of_a_zip_that_claims_gigabytes_is_refused(datasets: Datasets) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 2, 0, 0)
    await refused(datasets, b"PK\3\4" + b"\0" * 100 + end)


async def test_an_encrypted_or_oddly_compressed_zip_is_refused(datasets: Datasets) -> None:
    packed = bytearray(zipped({"secret": b"x"}))
    packed[packed.rindex(b"PK\1\2") + 8] |= 1
    await refused(datasets, bytes(packed), "encrypted")
    odd = io.BytesIO()
    with zipfile.ZipFile(odd, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x", b"y")
    await refused(datasets, odd.getvalue(), "unusual")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"PK", b"PK\3\4", b"\x1f\x8b", b"not an archive", b"\0" * 10240, os.urandom(5000)),
        zipped({"a": b"x" * 1000})[:-30],
        tarred({"a": os.urandom(10_000)})[:-2000],
        zipped({}),
        tarred({}),
        tar_with(tar_info("folder", tarfile.DIRTYPE)),
        zipped({"a": b"x" * 1000}).replace(b"PK\3\4", b"PK\3\5", 1),
    ],
    ids=map(str, range(13)),  # what is packed is another each time
)
async def test_what_is_no_archive_is_refused(datasets: Datasets, content: bytes) -> None:
    await refused(datasets, content, "not unpacked")


async def test_a_broken_checksum_is_noticed(datasets: Datasets) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a", b"the contents")
    await refused(datasets, packed.getvalue().replace(b"the contents", b"the Contents"), "CRC")


DAMAGED: dict[str, bytes] = {
    "cut off between two files": plain_tar({"a": b"1" * 600, "b": b"2"})[: 512 + 1024],
    "cut off in a header": plain_tar({"a": b"1", "b": b"2"})[: 1024 + 100],
    "cut off in a file": plain_tar({"a": b"1" * 5000})[:2000],
    "without its end": plain_tar({"a": b"1", "b": b"2"})[: 4 * 512],
    "a broken header": (lambda tar: tar[:1030] + b"?" + tar[1031:])(plain_tar({"a": b"1", "b": b"2"})),
    "compressed, and cut off": tarred({"a": os.urandom(5000), "b": b"2"})[:-300],
    "compressed, without its checksum": tarred({"a": b"1"})[:-8],
    "compressed, with a wrong checksum": (lambda gz: gz[:-8] + b"\0\0\0\0" + gz[-4:])(
        tarred({"a": b"1"})
    ),
}


@pytest.mark.parametrize("archive", DAMAGED.values(), ids=DAMAGED)
async def test_half_of_an_archive_is_no_dataset(datasets: Datasets, archive: bytes) -> None:
    await refused(datasets, archive, "damaged")


async def test_zeros_behind_the_end_of_an_archive_are_no_way_round_the_limit(datasets: Datasets) -> None:
    with pytest.raises(DatasetsFull):
        await datasets.upload_archive(
            "d", chunked(tarred({"a": b"1"}) + gzip.compress(bytes(80 * MEGABYTE), 1))
        )
    assert_nothing_is_left(datasets)
    await datasets.upload_archive(
        "d", chunked(tarred({"a": b"1"}) + gzip.compress(bytes(20 * MEGABYTE), 1))
    )
    assert datasets.room.taken == 1


async def test_datasets_leave_some_of_the_disk_to_the_gateway(
    datasets: Datasets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interpreter.workspace.allowance.RESERVE", 1 << 60)
    for upload in (
        datasets.upload_file("d", "f", chunked(b"x")),
        datasets.upload_archive("d", chunked(zipped({"a": b"1"}))),
    ):
        with pytest.raises(DatasetsFull, match="no space left on the disk"):
            await upload
    assert_nothing_is_left(datasets)


async def test_a_name_that_is_not_text_is_refused(datasets: Datasets) -> None:
    info = tarfile.TarInfo("bad\udcff")
    await refused(datasets, tar_with(info), "not UTF-8")


async def test_what_was_there_stays_when_its_successor_is_refused(datasets: Datasets) -> None:
    await refused(datasets, b"nothing")
    version = await datasets.upload_archive("d", chunked(zipped({"a": b"1"})))
    with pytest.raises(InvalidArchive):
        await datasets.upload_archive("d", chunked(b"nothing"))
    assert datasets.get("d") == version
