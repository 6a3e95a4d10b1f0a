"""A rerun has its job's key; a key that another job used is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import ChangeIdentity, Job
from iceberg_hms.changes.reruns import refuse_another_job
from iceberg_hms.changes.summary import JOB, check_custom
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.files.test_append import NOW, append, committed, data_file
from tests.changes.tables import snapshot, table


def job(*paths: str) -> ChangeIdentity:
    return ChangeIdentity((9,), "main", "job-1", job=Job.of("append", added=paths))


def first_run(store: MemoryManifestStore) -> Snapshot:
    """Of the job, by an older release: it added a and b to a table that had old."""
    manifests = store.open()
    base = committed(table(), append([data_file("old")], 1), manifests)
    base = committed(base, append([data_file("a"), data_file("b")], 2, idempotency_key="job-1"), manifests)
    manifests.flush()
    found = base.snapshot_by_id(2)
    assert found is not None
    return Snapshot({**found.raw, "summary": {key: text for key, text in found.summary.items() if key != JOB}})


A, B = "file:/data/a.parquet", "file:/data/b.parquet"


@pytest.mark.parametrize("paths", [(A, B), (B, "file:///data//a.parquet")])
def test_a_rerun_has_the_same_files_in_any_order_and_spelling(paths: tuple[str, ...]) -> None:
    store = MemoryManifestStore()
    refuse_another_job(job(*paths), first_run(store), store.open())


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ((A,), r"also added file:///data/b\.parquet$"),
        ((A, B, "file:/data/c"), r"did not add file:///data/c$"),
        ((A, "file:/data/c"), r"did not add file:///data/c and also added file:///data/b\.parquet$"),
        (("file:/data/old.parquet", A, B), r"did not add file:///data/old\.parquet$"),
        (
            tuple(f"file:/x/{at}" for at in range(50)),
            r"did not add file:///x/0, file:///x/1, file:///x/10, 47 more and a",
        ),
    ],
)
def test_a_job_with_other_files_is_refused_and_the_error_names_the_difference(
    paths: tuple[str, ...], says: str
) -> None:
    store = MemoryManifestStore()
    first = first_run(store)
    with pytest.raises(RequirementFailed) as caught:
        refuse_another_job(job(*paths), first, store.open())
    error = caught.value
    assert re.search(f"snapshot 2, which {says}", error.message)
    assert (error.name, error.rests_on, error.proved_failed) == ("idempotency-key", {2}, True)
    assert "job-1 belongs to snapshot 2" in error.message
    assert "delete none" in error.next_step


def test_equally_many_files_of_the_same_size_are_still_other_files() -> None:
    store = MemoryManifestStore()
    with pytest.raises(RequirementFailed):
        refuse_another_job(job("file:/data/c.parquet", "file:/data/d.parquet"), first_run(store), store.open())


def test_only_files_that_the_snapshot_itself_added_count() -> None:
    """Its manifest also has older files, and the removal of one, as a merging writer leaves it."""
    store = MemoryManifestStore()
    manifests = store.open()
    base = committed(table(), append([data_file("old"), data_file("gone")], 1), manifests)
    old = {"snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1}
    entries = [
        ManifestEntry(EntryStatus.ADDED, data_file("a"), snapshot_id=2),
        ManifestEntry(EntryStatus.EXISTING, data_file("old"), **old),
        ManifestEntry(EntryStatus.DELETED, data_file("gone"), **{**old, "snapshot_id": 2}),
    ]
    merged = manifests.write(base, base.schema, base.spec, 2, entries)
    raw = snapshot(2, sequence_number=2, parent_snapshot_id=1, summary={"operation": "append"})
    raw["manifest-list"] = manifests.stage_list(base, Snapshot(raw), merged)
    base = apply(base, [updates.add_snapshot(raw), updates.set_snapshot_ref("main", 2)], now_ms=NOW)
    first = base.current_snapshot
    assert first is not None
    refuse_another_job(job(A), first, manifests)
    with pytest.raises(RequirementFailed, match=r"did not add file:///data/old\.parquet \(use"):
        refuse_another_job(job(A, "file:/data/old.parquet"), first, manifests)


def test_a_job_that_does_not_name_its_files_is_not_compared() -> None:
    store = MemoryManifestStore()
    first = first_run(store)
    store.lists.clear()
    refuse_another_job(ChangeIdentity((9,), "main", "job-1"), first, store.open())


def test_an_unreadable_manifest_makes_it_no_rerun() -> None:
    store = MemoryManifestStore()
    first = first_run(store)
    store.manifests.clear()
    with pytest.raises(MissingFile):
        refuse_another_job(job(A, B), first, store.open())


def recorded(store: MemoryManifestStore, job: Job) -> Snapshot:
    """The first run, with the digest of a job."""
    first = first_run(store)
    return Snapshot({**first.raw, "summary": {**first.summary, JOB: job.digest}})


def test_the_digest_of_the_job_tells_without_a_look_at_the_files() -> None:
    store = MemoryManifestStore()
    first = recorded(store, Job.of("append", added=[A, B]))
    store.manifests.clear()
    store.lists.clear()
    refuse_another_job(job(B, "file:///data//a.parquet"), first, store.open())


DELETE = DataFile("file:/data/x.parquet", "PARQUET", 1, 10, content=FileContent.POSITION_DELETES)


@pytest.mark.parametrize(
    "another",
    [
        Job.of("overwrite", added=[A, B]),
        Job.of("append", added=[A, B], removed=["file:/data/old.parquet"]),
        Job.of("append", added=[A, B], added_deletes=[DELETE]),
        Job.of("append", added=[A, B], removed_deletes=[DELETE]),
        Job.of("append", added=[A, B], added_deletes=[replace(DELETE, file_format="PUFFIN", content_offset=4)]),
        Job.of("append", added=[A, B], scope="id = 1"),
    ],
)
def test_all_that_a_job_does_makes_it_another_one(another: Job) -> None:
    store = MemoryManifestStore()
    first = recorded(store, another)
    with pytest.raises(RequirementFailed, match=r"which is of another operation, filter, or files to delete \(use"):
        refuse_another_job(job(A, B), first, store.open())


def test_an_operation_keeps_its_job_beside_its_key() -> None:
    files = [data_file("a"), DataFile("/data//b.parquet", "PARQUET", 1, 1)]
    keyed = append(files, idempotency_key="job-1", check_duplicates=False)
    assert keyed.identity.job == job(A, B).job
    manifests = MemoryManifestStore().open()
    after = committed(table(), keyed, manifests)
    assert after.current_snapshot is not None
    assert after.current_snapshot.summary[JOB] == Job.of("append", added=[A, B]).digest
    unkeyed = append(files)
    assert unkeyed.identity.job is None
    after = committed(table(), unkeyed, manifests)
    assert after.current_snapshot is not None
    assert JOB not in after.current_snapshot.summary


def test_a_caller_cannot_name_the_digest() -> None:
    with pytest.raises(InvalidInput, match=r"iceberg-hms\.job: its value is computed"):
        check_custom({JOB: "x"})
