"""The suite finds implementations that break the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.errors import IcebergHmsError
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.testing.contracts import manifests as suite
from iceberg_hms.testing.memory_manifests import MemoryManifests, MemoryManifestStore


class InheritsNothing(MemoryManifests):
    def entries(self, files: Iterable[ManifestFile], keep: Any = None) -> Iterator[ManifestEntry]:
        for entry in super().entries(files, keep):
            yield replace(entry, sequence_number=None)


class KeepsAll(MemoryManifests):
    def entries(self, files: Iterable[ManifestFile], keep: Any = None) -> Iterator[ManifestEntry]:
        return super().entries(files)


class PublishesAtOnce(MemoryManifests):
    def stage_list(self, metadata: Any, snapshot: Snapshot, files: Sequence[ManifestFile]) -> str:
        location = super().stage_list(metadata, snapshot, files)
        self._store.lists[location] = self._staged[location]
        return location


class IgnoresDiscard(MemoryManifests):
    def discard(self, locations: Iterable[str]) -> None:
        pass


class MiscountsRows(MemoryManifests):
    def write(self, *arguments: Any) -> Sequence[ManifestFile]:
        return [replace(line, added_rows_count=0) for line in super().write(*arguments)]


class KeepsOldNumbers(MemoryManifests):
    def write(self, *arguments: Any) -> Sequence[ManifestFile]:
        return [replace(line, sequence_number=5, min_sequence_number=5) for line in super().write(*arguments)]


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (InheritsNothing, suite.entries_are_read_with_inherited_values),
        (KeepsAll, suite.entries_returns_only_the_chosen_ones),
        (PublishesAtOnce, suite.other_groups_see_a_staged_list_only_after_the_flush),
        (IgnoresDiscard, suite.a_discarded_list_is_never_written),
        (MiscountsRows, suite.lists_count_files_rows_and_partitions),
        (MiscountsRows, suite.data_files_without_row_ids_get_some),
        (KeepsOldNumbers, suite.replays_reuse_manifests),
        (KeepsOldNumbers, suite.an_unnumbered_manifest_of_another_snapshot_is_refused),
    ],
)
def test_a_broken_implementation_is_found(
    broken: type[MemoryManifests], check: Callable[[suite.Open, str], None]
) -> None:
    store = MemoryManifestStore()
    with pytest.raises((AssertionError, IcebergHmsError)):
        check(lambda: broken(store), "file:/w")
