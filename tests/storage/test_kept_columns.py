"""Decoded manifests on disk: what was kept is found again by any process, and nothing else is ever found."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_hms.clock import SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage import kept_columns
from iceberg_hms.storage.kept_columns import ColumnFolder, unsafe_folder
from tests.forking import ROOT
from tests.polling import eventually

MIB = 1024 * 1024
LAYOUT = 1


class SetClock(SystemClock):
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.seconds * 1_000)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "columns"


@pytest.fixture
def open_folder(folder: Path, clock: SetClock) -> Iterator[Callable[..., ColumnFolder]]:
    """Opens the folder as another process does."""
    runtimes: list[ThreadRuntime] = []

    def opened(max_bytes: int = 64 * MIB, layout: int = LAYOUT) -> ColumnFolder:
        runtimes.append(ThreadRuntime(clock))
        return ColumnFolder(str(folder), max_bytes, runtimes[-1], layout=layout)

    yield opened
    for each in runtimes:
        each.close()


def manifest(number: int) -> ManifestFile:
    return ManifestFile(
        f"file:/t/metadata/m{number}.avro",
        4_000,
        0,
        7,
        added_files_count=3,
        existing_files_count=0,
        deleted_files_count=0,
    )


def columns(number: int, size: int = 1_000) -> pa.RecordBatch:
    """Columns that only this manifest has, of about this size."""
    paths = [f"file:/t/data/{number}-{at}.parquet" for at in range(3)]
    return pa.RecordBatch.from_pydict(
        {
            "file_path": pa.array(paths),
            "record_count": pa.array([number, None, 2**60], pa.int64()),
            "split_offsets": pa.array([[4, 100], None, []], pa.list_(pa.int64())),
            "lower_bound.1": pa.array([bytes([number % 256]) * size, None, b""]),
        }
    )


def only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_what_was_kept_is_found_by_every_process(open_folder: Callable[..., ColumnFolder], folder: Path) -> None:
    first = open_folder()
    assert first.get(manifest(1)) is None
    first.put(manifest(1), columns(1))
    for process in (first, open_folder()):
        found = process.get(manifest(1))
        assert found is not None
        assert found.equals(columns(1))
        assert found.schema == columns(1).schema
    assert folder.stat().st_mode & 0o777 == 0o700
    assert only_file(folder).stat().st_mode & 0o777 == 0o600


def test_a_batch_without_rows_and_a_slice_of_a_batch_are_kept(open_folder: Callable[..., ColumnFolder]) -> None:
    kept = open_folder()
    kept.put(manifest(1), columns(1).slice(0, 0))
    kept.put(manifest(2), columns(2).slice(1, 2))
    empty, part = kept.get(manifest(1)), kept.get(manifest(2))
    assert empty is not None
    assert part is not None
    assert (empty.num_rows, empty.schema) == (0, columns(1).schema)
    assert part.equals(columns(2).slice(1, 2))


@pytest.mark.parametrize(
    "other",
    [
        {"manifest_path": "file:/t/metadata/m2.avro"},
        {"manifest_length": 4_001},
        {"partition_spec_id": 1},
        {"added_snapshot_id": 8},
        {"content": 1},
        {"added_files_count": 2},
        {"existing_files_count": None},
        {"deleted_files_count": 1},
    ],
)
def test_another_manifest_is_not_found(open_folder: Callable[..., ColumnFolder], other: dict[str, object]) -> None:
    kept = open_folder()
    kept.put(manifest(1), columns(1))
    assert kept.get(replace(manifest(1), **other)) is None
    # The number that a list gives a manifest changes nothing in it.
    assert kept.get(replace(manifest(1), sequence_number=5)) is not None


def test_another_layout_is_not_found(open_folder: Callable[..., ColumnFolder]) -> None:
    open_folder().put(manifest(1), columns(1))
    assert open_folder(layout=LAYOUT + 1).get(manifest(1)) is None
    assert open_folder().get(manifest(1)) is not None


def test_a_second_plan_opens_nothing(open_folder: Callable[..., ColumnFolder], folder: Path) -> None:
    kept = open_folder()
    kept.put(manifest(1), columns(1))
    first = kept.get(manifest(1))
    only_file(folder).unlink()
    folder.rmdir()
    assert kept.get(manifest(1)) is first
    assert first is not None
    assert first.equals(columns(1))


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = opened.read(1)
        opened.seek(-1, os.SEEK_CUR)
        opened.write(bytes([byte[0] ^ 1]))


def cut(file: Path, length: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(length if length >= 0 else file.stat().st_size + length)


def of_another_manifest(file: Path) -> None:
    runtime, beside = ThreadRuntime(), file.parent.parent / "beside"
    ColumnFolder(str(beside), MIB, runtime, layout=LAYOUT).put(manifest(2), columns(2))
    only_file(beside).replace(file)
    runtime.close()


def stream_alone(file: Path) -> None:
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, columns(1).schema) as stream:
        stream.write_batch(columns(1))


def link(file: Path) -> None:
    target = file.parent.parent / "target"
    file.rename(target)
    file.symlink_to(target)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit of the values": lambda file: flip(file, 700),
    "a bit of the schema": lambda file: flip(file, 40),
    "a bit of the trailer's checksum": lambda file: flip(file, -1),
    "a bit of the manifest's name": lambda file: flip(file, -10),
    "a bit of the checksum": lambda file: flip(file, -40),
    "a part in the middle": lambda file: file.write_bytes(file.read_bytes()[:600] + file.read_bytes()[664:]),
    "the last byte": lambda file: cut(file, -1),
    "the trailer": lambda file: cut(file, -60),
    "all but some bytes": lambda file: cut(file, 10),
    "everything": lambda file: cut(file, 0),
    "zeros for the content": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "another program's file": lambda file: file.write_text("x" * 5_000),
    "an Arrow file of others": stream_alone,
    "another manifest's file": of_another_manifest,
    "writable by others": lambda file: file.chmod(0o666),
    "a link": link,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_removed_and_not_found(
    open_folder: Callable[..., ColumnFolder], folder: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    open_folder().put(manifest(1), columns(1))
    DAMAGE[damage](only_file(folder))
    kept = open_folder()
    with caplog.at_level(logging.WARNING):
        assert kept.get(manifest(1)) is None
    assert "damaged" in caplog.text
    assert list(folder.iterdir()) == []
    kept.put(manifest(1), columns(1))
    found = open_folder().get(manifest(1))
    assert found is not None
    assert found.equals(columns(1))


def taken(folder: Path) -> int:
    return sum(-(-each.stat().st_size // 4_096) * 4_096 for each in folder.iterdir())


def test_the_least_recently_used_file_is_removed_first(
    open_folder: Callable[..., ColumnFolder], folder: Path, clock: SetClock
) -> None:
    most = 10 * 16_384
    kept = open_folder(most)
    for number in range(9):
        clock.seconds += 1
        kept.put(manifest(number), columns(number, 14_000))
    clock.seconds += 1
    # By another process: the folder is all that they share.
    assert open_folder(most).get(manifest(0)) is not None
    for number in range(9, 12):
        clock.seconds += 1
        kept.put(manifest(number), columns(number, 14_000))
        assert taken(folder) <= most
    left = {number for number in range(12) if open_folder(most).get(manifest(number)) is not None}
    assert 0 in left
    assert 11 in left
    assert 1 not in left


def test_use_of_a_remembered_file_is_noted_once_a_minute(
    open_folder: Callable[..., ColumnFolder], folder: Path, clock: SetClock
) -> None:
    kept = open_folder()
    kept.put(manifest(1), columns(1))
    kept.get(manifest(1))
    opened = only_file(folder).stat()
    clock.seconds += 59
    kept.get(manifest(1))
    assert only_file(folder).stat().st_mtime_ns == opened.st_mtime_ns
    clock.seconds += 1
    kept.get(manifest(1))
    assert only_file(folder).stat().st_mtime_ns == opened.st_mtime_ns + 60 * 10**9


def test_what_is_larger_than_the_folder_may_be_is_not_kept(
    open_folder: Callable[..., ColumnFolder], folder: Path
) -> None:
    kept = open_folder(100_000)
    kept.put(manifest(1), columns(1))
    kept.put(manifest(2), columns(2, 200_000))
    kept.put(manifest(3), columns(3, 99_700))
    assert kept.get(manifest(1)) is not None
    assert kept.get(manifest(2)) is None
    assert taken(folder) <= 100_000


def test_files_of_an_old_layout_make_room_and_those_of_others_stay(
    open_folder: Callable[..., ColumnFolder], folder: Path, clock: SetClock
) -> None:
    most = 10 * 16_384
    old = open_folder(most, layout=LAYOUT)
    for number in range(9):
        old.put(manifest(number), columns(number, 14_000))
    (folder / "README").write_text("x" * 500_000)
    clock.seconds += 1
    new = open_folder(most, layout=LAYOUT + 1)
    for number in range(20):
        new.put(manifest(number), columns(number, 14_000))
    assert [each for each in folder.iterdir() if f".v{LAYOUT}." in each.name] == []
    assert (folder / "README").exists()
    (folder / "README").unlink()
    assert taken(folder) <= most


def test_maps_are_bounded(
    open_folder: Callable[..., ColumnFolder], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_columns, "MAPS_MAX", 2)
    kept = open_folder()
    for number in range(3):
        kept.put(manifest(number), columns(number))
        assert kept.get(manifest(number)) is not None
    for each in folder.iterdir():
        each.unlink()
    assert [kept.get(manifest(number)) is not None for number in range(3)] == [False, True, True]


def test_mapped_bytes_are_bounded(open_folder: Callable[..., ColumnFolder], folder: Path) -> None:
    most = 10 * 16_384
    kept = open_folder(most)
    for number in range(30):
        kept.put(manifest(number), columns(number, 14_000))
        assert kept.get(manifest(number)) is not None
    for each in folder.iterdir():
        each.unlink()
    assert 5 <= sum(kept.get(manifest(number)) is not None for number in range(30)) <= 11


def test_maps_hold_no_descriptor(open_folder: Callable[..., ColumnFolder]) -> None:
    kept = open_folder()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(50):
        kept.put(manifest(number), columns(number))
        assert kept.get(manifest(number)) is not None
    # Some of other tests may be closed meanwhile.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 5


def test_threads_share_a_folder(open_folder: Callable[..., ColumnFolder], folder: Path) -> None:
    kept = open_folder(20 * 16_384)

    def use(number: int) -> bool:
        kept.put(manifest(number % 40), columns(number % 40, 14_000))
        found = kept.get(manifest(number % 40))
        return found is None or found.equals(columns(number % 40, 14_000))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(800)))
    assert [each for each in folder.iterdir() if each.name.endswith(".tmp")] == []


def test_writers_do_not_sweep_each_other_s_files(tmp_path: Path) -> None:
    runtime = ThreadRuntime()
    for attempt in range(20):
        # So small that each second file makes its writer look at the folder.
        kept = ColumnFolder(f"{tmp_path}/{attempt}", MIB, runtime, layout=LAYOUT)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: kept.put(manifest(number), columns(number, 14_000)), range(40)))  # noqa: B023
        assert [kept.get(manifest(number)) is None for number in range(40)] == [False] * 40
    runtime.close()


# A folder that cannot be used.


def test_a_folder_that_others_can_write_to_is_refused(open_folder: Callable[..., ColumnFolder], folder: Path) -> None:
    folder.mkdir()
    for mode in (0o720, 0o702, 0o777):
        folder.chmod(mode)
        with pytest.raises(ConfigError, match="other users can write to"):
            open_folder()
    folder.chmod(0o755)
    open_folder()


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    assert "another user" in unsafe_folder(tmp_path.stat(), os.geteuid() + 1)
    assert unsafe_folder(tmp_path.stat(), os.geteuid()) == ""


def test_a_file_is_no_folder(open_folder: Callable[..., ColumnFolder], folder: Path) -> None:
    folder.write_text("")
    with pytest.raises(ConfigError, match="no folder"):
        open_folder()


def test_without_its_folder_a_plan_goes_on(
    open_folder: Callable[..., ColumnFolder], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = open_folder()
    folder.rmdir()
    kept.put(manifest(1), columns(1))
    assert kept.get(manifest(1)) is None
    # It is made again.
    kept.put(manifest(1), columns(1))
    assert kept.get(manifest(1)) is not None
    assert caplog.text == ""


def test_a_folder_that_cannot_be_made_is_logged_once_a_minute(
    tmp_path: Path, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    runtime = ThreadRuntime(clock)
    kept = ColumnFolder(f"{tmp_path}/file/columns", MIB, runtime, layout=LAYOUT)
    for number in range(5):
        kept.put(manifest(number), columns(number))
        assert kept.get(manifest(number)) is None
    assert len(caplog.records) == 1
    clock.seconds += 60
    assert kept.get(manifest(1)) is None
    assert len(caplog.records) == 2
    runtime.close()


def test_a_full_disk_is_left_alone_for_a_minute(
    open_folder: Callable[..., ColumnFolder], folder: Path, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    kept = open_folder()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        kept.put(manifest(1), columns(1, 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large" in caplog.text
    assert list(folder.iterdir()) == []
    kept.put(manifest(1), columns(1))
    assert kept.get(manifest(1)) is None
    clock.seconds += 60
    kept.put(manifest(1), columns(1))
    assert kept.get(manifest(1)) is not None


def test_settings_name_the_folder(tmp_path: Path) -> None:
    runtime = ThreadRuntime()
    assert ColumnFolder.configured(Settings(), runtime, layout=LAYOUT) is None
    settings = Settings(planning_cache_dir=f"{tmp_path}/columns", planning_cache_max_bytes=2 * MIB)
    kept = ColumnFolder.configured(settings, runtime, layout=LAYOUT)
    assert kept is not None
    kept.put(manifest(1), columns(1, 3 * MIB))
    assert kept.get(manifest(1)) is None
    kept.put(manifest(1), columns(1))
    assert kept.get(manifest(1)) is not None
    runtime.close()


# Several processes.

USER = """
import random, sys
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.kept_columns import ColumnFolder
from tests.storage.test_kept_columns import LAYOUT, columns, manifest

folder, most, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chosen, found = random.Random(seed), 0
for process in range(4):
    kept = ColumnFolder(folder, most, ThreadRuntime(), layout=LAYOUT)
    for _ in range(200):
        number = int(chosen.paretovariate(0.7)) % 60
        columns_found = kept.get(manifest(number))
        if columns_found is None:
            kept.put(manifest(number), columns(number, 14_000))
        else:
            found += 1
            assert columns_found.equals(columns(number, 14_000)), number
print(found)
"""


def test_processes_share_a_folder(folder: Path) -> None:
    most = 24 * 16_384
    command = [sys.executable, "-c", USER, str(folder), str(most)]
    running = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for seed in range(4)
    ]
    said = [process.communicate(timeout=120) for process in running]
    assert [errors for _, errors in said] == ["", "", "", ""]
    assert all(int(found) > 100 for found, _ in said)
    assert [each for each in folder.iterdir() if not each.name.endswith(".columns")] == []
    assert 0 < taken(folder) <= most + 4 * 16_384


WRITER = """
import itertools, sys
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.kept_columns import ColumnFolder
from tests.storage.test_kept_columns import LAYOUT, columns, manifest

kept = ColumnFolder(sys.argv[1], 2**30, ThreadRuntime(), layout=LAYOUT)
for number in itertools.count():
    kept.put(manifest(number % 256), columns(number % 256, 20_000_000))
    kept.get(manifest(number % 256))
"""


def test_what_a_killed_writer_left_is_not_found_and_goes_after_an_hour(
    open_folder: Callable[..., ColumnFolder], folder: Path, clock: SetClock
) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], cwd=ROOT)
    try:
        assert eventually(lambda: folder.exists() and list(folder.glob("*.tmp")))
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait(60)
    kept = open_folder(2**30)
    for number in range(256):
        found = kept.get(manifest(number))
        assert found is None or found.equals(columns(number, 20_000_000))
    [unfinished] = folder.glob("*.tmp")
    os.utime(unfinished, (clock.now_ms() / 1_000, clock.now_ms() / 1_000))
    kept.put(manifest(1_000), columns(1_000))
    assert unfinished.exists()
    clock.seconds += 3_601
    open_folder(2**30).put(manifest(1_001), columns(1_001))
    assert not unfinished.exists()
    assert kept.get(manifest(1_000)) is not None
