from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.errors import AlreadyExists, MissingFile, StorageError
from simulation.engine.runtime import SimulatedRuntime
from simulation.engine.scheduler import Process, Scheduler, WorkerPool
from simulation.engine.seeded import SeededRandom
from simulation.world.faults import FaultPlan, Wire
from simulation.world.storage import SimulatedFiles, Storage

ALL_OF = 1_000_000


def run(work: Callable[[SimulatedFiles], Any], faults: FaultPlan | None = None, seed: int = 1) -> Storage:
    pool = WorkerPool()
    scheduler = Scheduler(SeededRandom(seed), pool)
    process = Process("p")
    storage = Storage(SimulatedRuntime(scheduler, process, SeededRandom(2)))
    wire = Wire(scheduler, SeededRandom(seed), faults or FaultPlan(), lease_seconds=60.0)
    scheduler.spawn(process, "task", lambda: work(SimulatedFiles(storage, wire, process)))
    scheduler.run()
    pool.close()
    assert scheduler.failure is None
    return storage


def test_a_file_has_one_row_unless_it_carries_those_of_others() -> None:
    storage = run(lambda _: None)
    storage.carried["file:/c"] = ("file:/a", "file:/b")
    assert storage.rows("file:/a") == ("file:/a",)
    assert storage.rows("file:/c") == ("file:/a", "file:/b")


def test_files_are_written_once_read_and_deleted() -> None:
    def work(files: SimulatedFiles) -> None:
        files.write("file:/t/a", b"abc")
        assert (files.read("file:/t/a"), files.length("file:/t/a")) == (b"abc", 3)
        with pytest.raises(AlreadyExists):
            files.write("file:/t/a", b"other")
        assert files.delete("file:/t/a")
        assert not files.delete("file:/t/a")
        with pytest.raises(MissingFile):
            files.read("file:/t/a")

    assert run(work).files == {}


def test_a_storage_error_leaves_the_file_written_or_not() -> None:
    left = []
    for seed in range(60):

        def work(files: SimulatedFiles) -> None:
            while True:
                try:
                    files.write("file:/t/a", b"abc")
                    files.delete("file:/t/a")
                except StorageError:
                    return

        left.append(len(run(work, FaultPlan(file_errors=ALL_OF), seed).files))
    assert set(left) == {0, 1}


def test_a_deletion_is_reported_before_it_and_only_for_an_existing_file() -> None:
    storage = Storage(SimulatedRuntime(Scheduler(SeededRandom(1), WorkerPool()), Process("p"), SeededRandom(2)))
    storage.data.add("file:/t/data")
    storage.store.lists["file:/t/list"] = ()
    storage.store.manifests["file:/t/manifest"] = ()
    answer: list[tuple[str, bool]] = []
    storage.on_delete = lambda location: answer.append((location, storage.exists(location)))
    for location in ("file:/t/data", "file:/t/list", "file:/t/manifest"):
        assert storage.delete(location)
        assert not storage.exists(location)
    assert not storage.delete("file:/t/nothing")
    assert answer == [("file:/t/data", True), ("file:/t/list", True), ("file:/t/manifest", True)]
