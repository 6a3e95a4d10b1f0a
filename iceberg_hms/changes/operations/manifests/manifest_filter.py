"""Removing files from manifests (Java: ManifestFilterManager).

A manifest never changes, so one that has a removed file is written again: the files that stay become existing ones with
their own numbers, and the removed ones are listed as deleted by this snapshot, once. A replay reads only manifests that
are new.

Delete files that apply to no data file any more are dropped on the way, by the rules of the specification: those that
are older than every data file, and deletion vectors of files that this operation removes. Java tells the oldest data
file without the files that the commit itself adds. A compaction adds files with an old data sequence number, to which
deletes that came after its start still apply; so these files count here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.file_scope import RowFilter
from iceberg_hms.changes.operations.manifests.live_files import OnceRead, snapshots_of
from iceberg_hms.changes.partition_set import PartitionSet, schema_of_spec
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that a filter matches all rows of a file or none.
WHOLE_FILES: Final = "whole-files"
#: Which delete file: its key, and the offset of its blob; a Puffin file may hold many deletion vectors.
DeleteFileKey = tuple[str, int | None]


def delete_file_key(delete_file: DataFile) -> DeleteFileKey:
    """What tells a delete file from all others."""
    return file_key(delete_file.file_path), delete_file.content_offset


@dataclass(frozen=True, slots=True)
class FilteredManifests:
    """A branch's manifests without what an operation removes.

    kept: the parent's with live files, of which nothing is removed; data first. rewritten: those that were written
    instead of others, which list what was removed. replaced: how many others those were.
    removed: the entries of the data files and delete files that were removed, without metrics unless the operation
    named the delete file. duplicates: how often a manifest listed one of them again. missing: keys of data files that
    the branch does not have; missing_deletes: of delete files.
    """

    kept: Sequence[ManifestFile]
    rewritten: Sequence[ManifestFile] = ()
    replaced: int = 0
    removed: Sequence[ManifestEntry] = ()
    duplicates: int = 0
    missing: frozenset[str] = frozenset()
    missing_deletes: frozenset[DeleteFileKey] = frozenset()


@dataclass(slots=True)
class _Rewritten:
    """What became of one manifest."""

    manifests: tuple[ManifestFile, ...]
    removed: list[ManifestEntry] = field(default_factory=list)
    duplicates: int = 0


@dataclass(frozen=True)
class _Dangling:
    """Which delete files apply to nothing any more. oldest: the lowest data sequence number of a data file. removed:
    the keys of the data files that the operation removes."""

    oldest: int
    removed: frozenset[str]

    def has(self, entry: ManifestEntry) -> bool:
        if 0 < (entry.sequence_number or 0) < self.oldest:
            return True
        referenced = entry.data_file.referenced_data_file
        return referenced is not None and entry.data_file.is_deletion_vector and file_key(referenced) in self.removed


class ManifestFilter:
    """Removes files for one snapshot. snapshot_id: the new one's.

    keys: of data files to remove (`format.locations.file_key`). deletes: delete files to remove.
    partitions: all files of these partitions are removed, delete files too.
    """

    def __init__(
        self,
        snapshot_id: int,
        *,
        keys: frozenset[str] = frozenset(),
        deletes: frozenset[DeleteFileKey] = frozenset(),
        partitions: PartitionSet | None = None,
    ) -> None:
        self._snapshot_id = snapshot_id
        self._keys = keys
        self._deletes = deletes
        self._partitions = partitions or PartitionSet(())
        #: By what else decides, and by manifest. None: nothing of it is removed.
        self._once: OnceRead[tuple[Hashable, ManifestFile], _Rewritten | None] = OnceRead(None)

    def apply(
        self,
        base: TableMetadata,
        listed: Sequence[ManifestFile],
        manifests: Manifests,
        *,
        own: Sequence[ManifestFile] = (),
        rows: RowFilter | None = None,
    ) -> FilteredManifests:
        """Remove the files from a branch's manifests.

        own: the manifests of what the same snapshot adds. rows: data files whose rows all match are removed too, and so
        are delete files that delete nothing else.
        Raises RequirementFailed for a data file of whose rows the filter may match some only; InvalidInput for a
        manifest of a partition spec that the table lacks."""
        live = [each for each in listed if each.has_live_files]
        # A filter is bound to the schema, by which it finds its columns.
        context = (base.format_version, None if rows is None else base.schema.content)
        data = [each for each in live if each.content == ManifestContent.DATA]

        def may_have_data(new: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
            named = {each.manifest_path for each in manifests.candidates(new, self._keys)} if self._keys else set()
            return [each for each in new if each.manifest_path in named or self._may_have(each, base, rows)]

        found = self._filter(base, data, context, may_have_data, self._data_rule(rows), manifests)
        removed = [entry.data_file for each in found.values() if each is not None for entry in each.removed]
        deletes = [each for each in live if each.content != ManifestContent.DATA]
        if deletes:
            left = chain.from_iterable(_outcome(each, found) for each in data)
            dangling = _Dangling(_oldest(base, (*left, *own)), frozenset(file_key(each.file_path) for each in removed))
            partitions = PartitionSet(removed if base.format_version > 2 else ())

            def may_have_deletes(new: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
                return [
                    each
                    for each in new
                    if self._deletes
                    or 0 < each.min_sequence_number < dangling.oldest
                    or partitions.may_contain(each, base)
                    or self._may_have(each, base, rows)
                ]

            rule = self._delete_rule(rows, dangling)
            found |= self._filter(base, deletes, (*context, dangling), may_have_deletes, rule, manifests)
        return self._collected([*data, *deletes], found)

    def _may_have(self, manifest: ManifestFile, base: TableMetadata, rows: RowFilter | None) -> bool:
        return self._partitions.may_contain(manifest, base) or (rows is not None and rows.may_match_manifest(manifest))

    def _data_rule(self, rows: RowFilter | None) -> _Rule:
        def removes(entry: ManifestEntry) -> bool:
            data_file = entry.data_file
            if (self._keys and file_key(data_file.file_path) in self._keys) or self._is_in_partition(data_file):
                return True
            if rows is None or not rows.may_match(data_file):
                return False
            if rows.must_match(data_file):
                return True
            where = f"{data_file.file_path} (snapshot {entry.snapshot_id})"
            raise RequirementFailed(
                WHOLE_FILES,
                f"some rows of {where} may match {rows.text}, and others not",
                expected="files whose rows all match, or none of them",
                found=data_file.file_path,
                next_step="choose a filter along the partitions, or let an engine rewrite the file",
                rests_on=snapshots_of(entry),
            )

        return removes

    def _delete_rule(self, rows: RowFilter | None, dangling: _Dangling) -> _Rule:
        def removes(entry: ManifestEntry) -> bool:
            data_file = entry.data_file
            return (
                (bool(self._deletes) and delete_file_key(data_file) in self._deletes)
                or self._is_in_partition(data_file)
                or dangling.has(entry)
                # All rows that match are removed, so a delete file that deletes no other ones is of no use.
                or (rows is not None and rows.may_match(data_file) and rows.must_match(data_file))
            )

        return removes

    def _is_in_partition(self, data_file: DataFile) -> bool:
        return bool(self._partitions) and data_file in self._partitions

    def _filter(
        self,
        base: TableMetadata,
        files: Sequence[ManifestFile],
        context: Hashable,
        suspects: Callable[[Sequence[ManifestFile]], Sequence[ManifestFile]],
        removes: _Rule,
        manifests: Manifests,
    ) -> _Found:
        def read(
            new: Sequence[tuple[Hashable, ManifestFile]],
        ) -> Iterator[tuple[tuple[Hashable, ManifestFile], _Rewritten | None]]:
            for file, entries in manifests.read(suspects([each for _, each in new])):
                yield (context, file), self._rewrite(base, file, entries, removes, manifests)

        found = self._once.of([(context, each) for each in files], read)
        return {each.manifest_path: of for each, of in zip(files, found, strict=True)}

    def _rewrite(
        self,
        base: TableMetadata,
        manifest: ManifestFile,
        entries: Iterable[ManifestEntry],
        removes: _Rule,
        manifests: Manifests,
    ) -> _Rewritten | None:
        first = next((at for at, entry in enumerate(entries) if entry.is_live and removes(entry)), None)
        if first is None:
            return None
        spec = base.spec_by_id(manifest.partition_spec_id)
        if spec is None:
            what = f"{manifest.manifest_path} has partition spec {manifest.partition_spec_id}, which the table lacks"
            raise InvalidInput(what)
        result, seen = _Rewritten(()), set[DeleteFileKey]()

        def rewritten() -> Iterator[ManifestEntry]:
            for at, entry in enumerate(entries):
                if not entry.is_live:
                    continue
                if at == first or (at > first and removes(entry)):
                    key = delete_file_key(entry.data_file)
                    if key in seen:
                        result.duplicates += 1
                    else:
                        seen.add(key)
                        # Of a replaced delete file its bounds tell to what it applies.
                        kept = entry.data_file if key in self._deletes else _without_metrics(entry.data_file)
                        result.removed.append(replace(entry, data_file=kept, encoded=None))
                    yield replace(entry, status=EntryStatus.DELETED, snapshot_id=self._snapshot_id)
                elif entry.status == EntryStatus.EXISTING:
                    yield entry
                else:
                    yield replace(entry, status=EntryStatus.EXISTING)

        written = manifests.write(base, schema_of_spec(base, spec), spec, self._snapshot_id, rewritten())
        result.manifests = tuple(written)
        return result

    def _collected(self, live: Sequence[ManifestFile], found: _Found) -> FilteredManifests:
        rewritten = [each for each in found.values() if each is not None]
        removed = tuple(entry for each in rewritten for entry in each.removed)
        files = [entry.data_file for entry in removed]
        return FilteredManifests(
            kept=tuple(each for each in live if found[each.manifest_path] is None),
            rewritten=tuple(file for each in rewritten for file in each.manifests),
            replaced=len(rewritten),
            removed=removed,
            duplicates=sum(each.duplicates for each in rewritten),
            missing=self._keys - {file_key(each.file_path) for each in files if each.content == FileContent.DATA},
            missing_deletes=self._deletes
            - {delete_file_key(each) for each in files if each.content != FileContent.DATA},
        )


#: Whether a live entry is removed.
_Rule = Callable[[ManifestEntry], bool]
#: What became of manifests, by location.
_Found = dict[str, _Rewritten | None]


def _outcome(manifest: ManifestFile, found: _Found) -> tuple[ManifestFile, ...]:
    rewritten = found[manifest.manifest_path]
    return (manifest,) if rewritten is None else rewritten.manifests


def _oldest(base: TableMetadata, data: Iterable[ManifestFile]) -> int:
    """The lowest data sequence number of a live data file; 0 if a manifest does not say it, and that of the next
    snapshot if no file has a number yet."""
    lowest = base.next_sequence_number
    for each in data:
        if each.min_sequence_number == UNASSIGNED or not each.has_live_files:
            continue
        # A file that existed before its manifest is older than the manifest.
        is_wrong = each.existing_files_count != 0 and each.min_sequence_number >= each.sequence_number != UNASSIGNED
        lowest = 0 if is_wrong else min(lowest, each.min_sequence_number)
        if not lowest:
            break
    return lowest


def _without_metrics(data_file: DataFile) -> DataFile:
    """What a summary counts."""
    return replace(
        data_file,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=None,
        upper_bounds=None,
        split_offsets=None,
    )
