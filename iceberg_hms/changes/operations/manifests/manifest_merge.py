"""Merging of small manifests by the operation that makes their number too large (Java: ManifestMergeManager).

Each commit adds a manifest, and planning reads them all. Java's writers put every manifest that fits into one of 8 MiB
whenever a hundred have come together, so they read and write the whole table's entries again and again: with 10,000
files once in a hundred appends. Here a merge takes manifests of one size class only, and a merged manifest is merged
again when ten of its size are there. So each entry is written a few times, and a table of n appends keeps fewer than
`commit.manifest.min-count-to-merge` small manifests and ten of each larger size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from iceberg_hms.changes.change import Manifests, Update
from iceberg_hms.changes.operations.snapshot_operation import SnapshotContent
from iceberg_hms.changes.partition_set import schema_of_spec
from iceberg_hms.format.manifests.manifest import EntryStatus, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import (
    MANIFEST_MERGE_ENABLED,
    MANIFEST_MIN_COUNT,
    MANIFEST_TARGET_SIZE,
    is_true,
)

#: How many manifests of one size class are merged into the next, from the second class on.
_FANOUT: Final = 10
#: Bytes of an entry, about, where a list of format version 1 lacks the counts.
_ENTRY_BYTES: Final = 128


class ManifestMerge:
    """Merges for one snapshot. snapshot_id: the new one's."""

    def __init__(self, snapshot_id: int) -> None:
        self._snapshot_id = snapshot_id
        #: By what was merged: a list's entries with their numbers, which another base may have assigned otherwise.
        self._merged: dict[tuple[int, tuple[ManifestFile, ...]], tuple[ManifestFile, ...]] = {}

    def apply(
        self,
        base: TableMetadata,
        own: Sequence[ManifestFile],
        kept: Sequence[ManifestFile],
        manifests: Manifests,
        *,
        operation: str,
        metrics: Mapping[str, str],
        updates: Sequence[Update] = (),
        replaced: int = 0,
    ) -> SnapshotContent:
        """A snapshot of its own manifests, and of those that it keeps of its parent. replaced: how many more its parent
        has. operation, metrics, updates: see `SnapshotContent`."""
        chosen = to_merge(base, own, kept)
        new, rest = own, kept
        if chosen:
            gone = {each.manifest_path for group in chosen for each in group}
            merged = [each for group in chosen for each in self._merge(base, group, manifests)]
            new = [*merged, *(each for each in own if each.manifest_path not in gone)]
            rest = [each for each in kept if each.manifest_path not in gone]
        return SnapshotContent(
            operation=operation,
            manifests=(*new, *rest),
            metrics=metrics,
            kept=len(rest),
            replaced=replaced + len(kept) - len(rest),
            written=[each.manifest_path for each in new],
            updates=updates,
        )

    def _merge(
        self, base: TableMetadata, group: tuple[ManifestFile, ...], manifests: Manifests
    ) -> tuple[ManifestFile, ...]:
        key = (base.format_version, group)
        spec = base.spec_by_id(group[0].partition_spec_id)
        if key not in self._merged and spec is not None:
            entries = (
                merged_entry(entry, self._snapshot_id)
                for entry in manifests.entries(group)
                if entry.is_live or entry.snapshot_id == self._snapshot_id
            )
            written = manifests.write(base, schema_of_spec(base, spec), spec, self._snapshot_id, entries)
            self._merged[key] = tuple(written)
        return self._merged[key]


def to_merge(
    base: TableMetadata, own: Sequence[ManifestFile], kept: Sequence[ManifestFile]
) -> Sequence[tuple[ManifestFile, ...]]:
    """The groups of manifests to merge in a snapshot that adds `own` and keeps `kept`, by the table's properties."""
    if not is_enabled(base):
        return ()
    least, target = MANIFEST_MIN_COUNT.of(base.properties), MANIFEST_TARGET_SIZE.of(base.properties)
    chosen = _choose(own, kept, least, target)
    # Manifests of a spec that the table lost cannot be written again.
    return [group for group in chosen if base.spec_by_id(group[0].partition_spec_id) is not None]


def merged_entry(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    """An entry as another manifest of a snapshot has it: what the snapshot itself adds or removes stays so, and all
    other live files are existing ones with their own numbers."""
    if entry.snapshot_id == snapshot_id and entry.status != EntryStatus.EXISTING:
        return entry
    return replace(entry, status=EntryStatus.EXISTING)


def is_enabled(base: TableMetadata) -> bool:
    """Whether commits merge manifests."""
    return is_true(MANIFEST_MERGE_ENABLED, base.properties)


def _choose(
    own: Sequence[ManifestFile], kept: Sequence[ManifestFile], least: int, target: int
) -> Sequence[tuple[ManifestFile, ...]]:
    """The groups to merge, each of one partition spec and one kind of files. Usually there is none."""
    if len(own) + len(kept) < least:
        return ()
    small: dict[tuple[int, int], list[ManifestFile]] = {}
    for each in (*own, *kept):
        # A manifest that is split at the target size again would be merged for ever.
        if _weight(each) < least and each.manifest_length < target // 2:
            small.setdefault((each.partition_spec_id, each.content), []).append(each)
    full = {kind: manifests for kind, manifests in small.items() if len(manifests) >= least}
    return [_with_larger(kind, manifests, kept, least, target) for kind, manifests in full.items()]


def _with_larger(
    kind: tuple[int, int],
    small: Sequence[ManifestFile],
    kept: Sequence[ManifestFile],
    least: int,
    target: int,
) -> tuple[ManifestFile, ...]:
    """Small manifests, and the larger ones that belong into the same merge since they would be the tenth of their
    class. A merge stops at the target size, so that its work is bounded."""
    classes: dict[int, list[ManifestFile]] = {}
    for each in kept:
        if (each.partition_spec_id, each.content) == kind and _weight(each) >= least:
            classes.setdefault(_size_class(_weight(each), least), []).append(each)
    chosen = list(small)
    size, weight = sum(each.manifest_length for each in chosen), sum(map(_weight, chosen))
    while weight and len(classes.get(_size_class(weight, least), ())) + 1 >= _FANOUT:
        for each in classes.pop(_size_class(weight, least)):
            if size + each.manifest_length > target:
                return tuple(chosen)
            chosen.append(each)
            size += each.manifest_length
            weight += _weight(each)
    return tuple(chosen)


def _size_class(weight: int, least: int) -> int:
    """0 for fewer entries than `least`, then one more for each factor of ten."""
    found = 0
    while weight >= least:
        weight //= _FANOUT
        found += 1
    return found


def _weight(manifest: ManifestFile) -> int:
    """About how many live entries a manifest has."""
    added, existing = manifest.added_files_count, manifest.existing_files_count
    if added is None or existing is None:
        return manifest.manifest_length // _ENTRY_BYTES
    return added + existing
