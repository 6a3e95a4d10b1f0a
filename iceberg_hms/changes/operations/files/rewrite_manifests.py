"""Rewrite manifests: the same files in fewer manifests, each with the files of few partitions (Java: RewriteManifests).

Planning reads the manifests whose partition ranges match a filter, so it is quick where files of like partitions share
a manifest. The rewrite depends on no earlier read: it rewrites the branch as it finds it. If all manifests that it read
before are still there, as after appends, the new ones serve again; else it plans anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.manifest_merge import merged_entry, to_merge
from iceberg_hms.changes.operations.snapshot_operation import (
    BranchState,
    NewSnapshot,
    SnapshotContent,
    SnapshotOperation,
)
from iceberg_hms.changes.partition_set import schema_of_spec
from iceberg_hms.errors import InvalidInput, MissingFile
from iceberg_hms.format.manifests.manifest import ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.metadata.table_properties import MANIFEST_TARGET_SIZE

#: How many entries are sorted at once: it bounds the memory, some kilobytes an entry.
ENTRIES_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """Manifests, what they were rewritten to, and how many entries that took."""

    old: frozenset[ManifestFile]
    new: tuple[ManifestFile, ...]
    entries: int


class RewriteManifests(SnapshotOperation):
    """Rewrites the manifests of a branch.

    spec_id: of the manifests to rewrite; None: all. Manifests of each spec, of data and of delete files, stay apart.
    small_only: rewrite only what an append would merge (`manifest_merge`).
    Raises InvalidInput for a spec that the table lacks, on the base where it lacks it.
    """

    def __init__(self, new: NewSnapshot, *, spec_id: int | None = None, small_only: bool = False) -> None:
        super().__init__(new)
        self._spec_id = spec_id
        self._small_only = small_only
        self._rewritten: list[_Rewritten] | None = None
        #: That of the manifests in `_rewritten`: each format version has a layout of its own.
        self._format_version: int | None = None

    def look_ahead(self, base: TableMetadata, manifests: Manifests) -> None:
        """Write the new manifests before the rewrite is queued; not of an old base whose files have expired."""
        with contextlib.suppress(MissingFile):
            self._rewritten = self._rewrite(BranchState.read(base, self._new.branch, manifests), manifests)

    @property
    def is_idle(self) -> bool:
        return self._rewritten is not None and not self._rewritten

    def _check(self, base: TableMetadata) -> None:
        if self._spec_id is not None and base.spec_by_id(self._spec_id) is None:
            known = ", ".join(str(each.spec_id) for each in base.specs)
            raise InvalidInput(f"the table has no partition spec {self._spec_id}, it has {known}")

    def _content(self, state: BranchState, manifests: Manifests) -> SnapshotContent:
        listed = set(state.manifests)
        is_current = self._format_version == state.metadata.format_version
        if self._rewritten is None or not is_current or not all(each.old <= listed for each in self._rewritten):
            self._rewritten = self._rewrite(state, manifests)
        gone = frozenset[ManifestFile]().union(*(each.old for each in self._rewritten))
        new = [manifest for each in self._rewritten for manifest in each.new]
        kept = [each for each in state.manifests if each not in gone]
        return SnapshotContent(
            operation=summaries.REPLACE,
            manifests=(*new, *kept),
            metrics={
                "entries-processed": str(sum(each.entries for each in self._rewritten)),
                "changed-partition-count": "0",
            },
            kept=len(kept),
            replaced=len(gone),
            written=[each.manifest_path for each in new],
        )

    def _rewrite(self, state: BranchState, manifests: Manifests) -> list[_Rewritten]:
        self._format_version = state.metadata.format_version
        if self._small_only:
            small = to_merge(state.metadata, (), state.manifests)
            return [self._write(state.metadata, each, manifests) for each in small]
        base, target = state.metadata, MANIFEST_TARGET_SIZE.of(state.metadata.properties)
        groups: dict[tuple[int, int], list[ManifestFile]] = {}
        for each in state.manifests:
            if self._spec_id in (None, each.partition_spec_id) and base.spec_by_id(each.partition_spec_id) is not None:
                groups.setdefault((each.partition_spec_id, each.content), []).append(each)
        return [
            self._write(base, part, manifests)
            for group in groups.values()
            if _is_worthwhile(group, target)
            for part in _parts(group)
        ]

    def _write(self, base: TableMetadata, old: Sequence[ManifestFile], manifests: Manifests) -> _Rewritten:
        spec = base.spec_by_id(old[0].partition_spec_id)
        if spec is None:
            raise InvalidInput(f"the table has no partition spec {old[0].partition_spec_id}")
        names = [field.name for field in spec.fields]
        entries = sorted(self._live(old, manifests), key=lambda entry: _partition_order(entry, names))
        schema = schema_of_spec(base, spec)
        written = manifests.write(base, schema, spec, self.snapshot_id, entries) if entries else ()
        return _Rewritten(frozenset(old), tuple(written), len(entries))

    def _live(self, old: Iterable[ManifestFile], manifests: Manifests) -> Iterator[ManifestEntry]:
        for entry in manifests.entries(old, lambda each: each.is_live):
            yield merged_entry(entry, self.snapshot_id)


def _is_worthwhile(group: Sequence[ManifestFile], target: int) -> bool:
    """Whether a rewrite may leave fewer or tighter manifests: one alone that is not too large stays as it is."""
    return len(group) > 1 or group[0].manifest_length > 2 * target or not group[0].has_live_files


def _parts(group: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """The manifests in the order of their partitions, in parts of at most ENTRIES_MAX entries; a large one alone."""
    part: list[ManifestFile] = []
    entries = 0
    for each in sorted(group, key=_lower_bounds):
        count = each.files_count or 0
        if part and entries + count > ENTRIES_MAX:
            yield part
            part, entries = [], 0
        part.append(each)
        entries += count
    yield part


def _lower_bounds(manifest: ManifestFile) -> list[tuple[bool, bytes]]:
    """A sort key by which manifests of like partitions come together. The binary form of numbers is little-endian, so
    their order is not that of the values, but equal ones meet."""
    bounds = (each.lower_bound for each in manifest.partitions or ())
    return [(bound is not None, bound or b"") for bound in bounds]


def _partition_order(entry: ManifestEntry, names: Sequence[str]) -> list[tuple[bool, Any]]:
    values = (entry.data_file.partition.get(name) for name in names)
    return [(value is not None, value if value is not None else 0) for value in values]
