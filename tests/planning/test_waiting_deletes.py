"""Which delete files are taken for which data files; `test_delete_matching` compares with the index."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN
from iceberg_hms.changes.partition_set import PartitionKey, partition_key
from iceberg_hms.errors import ResourceExhausted
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.planning.waiting_deletes import WaitingDeletes, tails_of
from tests.planning.batches import batch_of
from tests.planning.test_delete_matching import METADATA, SPECS

PATHS = st.lists(st.sampled_from(["a", "b", "/", "/", "/.", "/..", "\n", "localhost"]), max_size=7).flatmap(
    lambda parts: st.sampled_from(
        [f"{begin}{''.join(parts)}" for begin in ("", "/", "file:/", "file://", "s3://b/", "s3a://b/", "hdfs://")]
    )
)


@settings(max_examples=1_000)
@given(st.lists(st.none() | PATHS, min_size=2, max_size=4))
def test_paths_that_mean_one_file_end_alike(paths: list[str | None]) -> None:
    # As one array, and as arrays of their own: one odd path decides how an array is read.
    arrays = [pa.array(paths, pa.string()), *(pa.array([each], pa.string()) for each in paths)]
    tails = [(path, tail) for each in arrays for path, tail in zip(each.to_pylist(), tails_of(each), strict=True)]
    assert all((path is None) == (tail is None) for path, tail in tails)
    for (path, tail), (other, its) in product(tails, repeat=2):
        if path is not None and other is not None and file_key(path) == file_key(other):
            assert tail == its, (path, other)


@pytest.mark.parametrize(
    ("path", "tail"),
    [
        ("s3://lake/data/day=1/a.parquet", "day=1/a.parquet"),
        ("file:/town=a\nb/c", "town=a\nb/c"),
        ("file:/data/b/c/.", "b/c"),
        ("file:/data/b/./c", "b/c"),
        ("file:///c", "/c"),
        ("file:/c", "/c"),
        ("file://localhost/c", "/c"),
    ],
)
def test_the_end_of_a_path(path: str, tail: str) -> None:
    assert tails_of(pa.array([path])) == [tail]
    assert tails_of(pa.array(["s3://x/y/z", None, path]).slice(1)) == [None, tail]


ONE, OTHER = "s3://lake/day=1/one.parquet", "s3://lake/day=1/other.parquet"
DAY_1: PartitionKey = partition_key(DataFile("", "", 0, 0, {"day": 1}))
POSITIONS, EQUALITY = FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES


def between(lowest: str, highest: str) -> dict[str, Any]:
    return {"lower_bounds": {PATH_COLUMN: lowest.encode()}, "upper_bounds": {PATH_COLUMN: highest.encode()}}


@pytest.mark.parametrize(
    ("content", "spec_id", "said", "key"),
    [
        (POSITIONS, 0, {"referenced_data_file": ONE}, "day=1/one.parquet"),
        (POSITIONS, 0, between(ONE, ONE), "day=1/one.parquet"),
        (POSITIONS, 0, {"referenced_data_file": ONE, **between(OTHER, OTHER)}, "day=1/one.parquet"),
        (POSITIONS, 3, {"referenced_data_file": ONE}, "day=1/one.parquet"),
        (POSITIONS, 0, between(ONE, OTHER), DAY_1),
        (POSITIONS, 0, {}, DAY_1),
        (POSITIONS, 3, {}, (3, frozenset())),
        (EQUALITY, 0, {}, DAY_1),
        # What equality deletes say of a data file means nothing.
        (EQUALITY, 0, {"referenced_data_file": ONE}, DAY_1),
        (EQUALITY, 1, {}, None),
        (EQUALITY, 3, {}, None),
    ],
)
def test_what_delete_files_wait_for(
    content: FileContent, spec_id: int, said: dict[str, Any], key: PartitionKey | str | None
) -> None:
    partition = {0: {"day": 1}, 1: {"day": None}}.get(spec_id, {})
    file = DataFile("s3://lake/deletes", "PARQUET", 1, 1, partition, content, spec_id=spec_id, **said)
    entry = ManifestEntry(EntryStatus.ADDED, file, 1, 1, 1)
    batch = batch_of([entry], SPECS[spec_id], METADATA.schema)
    waiting = WaitingDeletes([(spec_id, batch)], METADATA, MemoryBudget().share())
    others = {
        "day=1/one.parquet",
        "day=1/other.parquet",
        DAY_1,
        (3, frozenset[tuple[str, Any]]()),
        (0, frozenset()),
    } - {key}
    assert [each for each in (*others, None, key) if each in waiting] == ([None, None] if key is None else [key])
    if key is not None:
        assert list(waiting.taken(others)) == []
    assert list(waiting.taken([] if key is None else [key])) == [entry]
    assert list(waiting.taken([key, *others])) == []
    assert key in waiting


def test_what_is_kept_is_counted() -> None:
    budget = MemoryBudget(1_000_000)
    file = DataFile("s3://lake/deletes", "PARQUET", 1, 1, {"day": 1}, POSITIONS)
    batch = batch_of([ManifestEntry(EntryStatus.ADDED, file, 1, 1, 1)] * 10, SPECS[0], METADATA.schema)
    waiting = WaitingDeletes([(0, batch), (0, batch)], METADATA, budget.share())
    assert budget.held() == 2 * batch.nbytes
    assert len(list(waiting.taken([DAY_1]))) == 20
    taken = budget.held()
    # As columns, and as entries.
    assert taken > 8 * batch.nbytes
    assert list(waiting.taken([DAY_1])) == []
    assert budget.held() == taken
    del waiting
    assert budget.held() == 0


@pytest.mark.parametrize("room", [1, 3])
def test_what_there_is_no_memory_for_is_not_kept(room: int) -> None:
    file = DataFile("s3://lake/deletes", "PARQUET", 1, 1, {"day": 1}, POSITIONS)
    batch = batch_of([ManifestEntry(EntryStatus.ADDED, file, 1, 1, 1)] * 10, SPECS[0], METADATA.schema)
    budget = MemoryBudget(room * batch.nbytes)
    with pytest.raises(ResourceExhausted, match="the delete files of a scan"):
        list(WaitingDeletes([(0, batch), (0, batch)], METADATA, budget.share()).taken([DAY_1]))
