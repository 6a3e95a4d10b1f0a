"""Data files that an operation adds; how an append uses them is in test_append.py."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.new_data_files import NewDataFiles
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.operations.test_append import data_file
from tests.changes.tables import BY_LEVEL, UNPARTITIONED, table

BOTH_SPECS = [UNPARTITIONED, {**BY_LEVEL, "spec-id": 1}]


def added(*files: DataFile, specs: tuple[int, ...] = (0,), **changes: Any) -> NewDataFiles:
    return NewDataFiles(files, snapshot_id=100, schema_id=0, schema=None, specs=dict.fromkeys(specs), **changes)


def test_files_of_several_specs_get_manifests_of_their_own() -> None:
    manifests = MemoryManifestStore().open()
    base = table(partition_specs=BOTH_SPECS, last_partition_id=1000)
    new = added(data_file("a", "info", spec_id=1), data_file("b"), data_file("c", "warn", spec_id=1), specs=(0, 1))
    new.check(base)
    written = new.manifests(base, manifests)
    assert [(each.partition_spec_id, each.added_files_count) for each in written] == [(0, 1), (1, 2)]
    assert new.manifests(base, manifests) is written, "a replay writes none again"


def test_a_rewrite_states_the_sequence_number_that_its_rows_had() -> None:
    manifests = MemoryManifestStore().open()
    (written,) = added(data_file("a"), sequence_number=4).manifests(table(), manifests)
    (entry,) = manifests.entries([written])
    assert (entry.sequence_number, entry.file_sequence_number) == (4, None)
    assert written.min_sequence_number == 4


def test_a_spec_that_was_removed_is_named() -> None:
    with pytest.raises(RequirementFailed, match="spec 1 was removed") as caught:
        added(data_file("a", "info", spec_id=1), specs=(1,)).check(table())
    assert caught.value.name == "files-spec"


def test_a_file_of_a_spec_that_the_operation_is_not_for_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"a.parquet was made for partition spec 1, the operation is for 0"):
        added(data_file("a", "info", spec_id=1))


def test_bounds_outside_the_partition_are_refused_for_the_files_own_spec() -> None:
    base = table(partition_specs=BOTH_SPECS, last_partition_id=1000)
    bounds = {"lower_bounds": {2: b"debug"}, "upper_bounds": {2: b"error"}}
    added(data_file("a", **bounds)).check(base)
    with pytest.raises(InvalidInput, match=r"a\.parquet is in partition level='info'"):
        added(data_file("a", "info", spec_id=1, **bounds), specs=(0, 1)).check(base)
