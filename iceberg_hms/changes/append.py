"""Append data files: the operation that conflicts with no other one.

A fast append (Java's FastAppend): the new snapshot's list is the append's own manifests, then all of its parent's. The
own manifests depend on no base, so they are written once and every replay reuses them; a replay computes only the list,
the numbers and the totals again.

An append conflicts only with itself: adding a file that the branch already has would double its rows, so such an
append is refused. `stage` checks this on every base. A manifest never changes, so each is searched once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from iceberg_hms.changes import evolution, requirements, updates
from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import ChangeIdentity, Manifests, StagedChange, Update
from iceberg_hms.changes.sequence_numbers import numbered_snapshot
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.sort_order import UNSORTED_ORDER_ID

#: `RequirementFailed.name` of the assumption that the branch has none of the files.
NEW_FILES: Final = "append-files"
#: How many files an error names.
_NAMED_MAX: Final = 5


class Append:
    """Adds data files to a branch. One instance serves one commit: a failure deletes its manifests, so make a new one.

    data_files: the files to add; their partition values follow the spec `spec_id`. No files make an empty snapshot.
    branch: created from main's current snapshot if the table lacks it.
    summary: the caller's own summary properties.
    idempotency_key: kept in the summary. If the branch's history already has the key, the append adds nothing; it is an
    error then if its files differ (`changes.reruns`).
    snapshot_id: a new one (`Clock.snapshot_id()`), the same over all replays.
    schema_id, spec_id, table_uuid: of the table that the files were written for. schema, spec: that schema and spec
    themselves; None assumes that the ids still mean the same ones.
    now_ms: the wall clock, in milliseconds.
    caller: the authenticated caller, for logs and locks.
    name_mapping: the name mapping, as JSON, that found the columns of files without field ids; None if all files have
    ids. Readers need it (spec: column projection), so it becomes the table property `schema.name-mapping.default` if
    the table has none.
    check_duplicates: whether to refuse files that are live in the branch, in any partition and under any spelling of
    their location (`format.locations.file_key`). The specification leaves that to writers (spec: manifests).

    Raises InvalidInput for delete files, a file named twice, negative counts, partition values of another spec, and
    summary properties whose values are computed.
    """

    def __init__(
        self,
        data_files: Sequence[DataFile],
        *,
        branch: str = MAIN_BRANCH,
        summary: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        snapshot_id: int,
        schema_id: int,
        spec_id: int,
        table_uuid: str | None,
        now_ms: Callable[[], int],
        caller: str = "",
        name_mapping: str | None = None,
        schema: Schema | None = None,
        spec: PartitionSpec | None = None,
        check_duplicates: bool = True,
    ) -> None:
        self._files = tuple(map(_with_order, data_files))
        keys = _check_files(self._files, spec_id)
        self._keys = keys if check_duplicates else frozenset()
        #: Paths of manifests that were searched and have none of the files.
        self._searched: set[str] = set()
        self._branch = branch
        self._summary = summaries.check_custom(summary or {}, idempotency_key)
        self._identity = ChangeIdentity(
            snapshot_ids=(snapshot_id,),
            ref=branch,
            idempotency_key=self._summary.get(summaries.IDEMPOTENCY_KEY),
            files=keys,
            caller=caller,
        )
        self._snapshot_id = snapshot_id
        self._schema_id = schema_id
        self._spec_id = spec_id
        self._table_uuid = table_uuid
        self._now_ms = now_ms
        self._name_mapping = name_mapping
        self._schema = schema
        self._spec = spec
        self._written: dict[int, tuple[ManifestFile, ...]] = {}

    @property
    def identity(self) -> ChangeIdentity:
        return self._identity

    def check(self, base: TableMetadata | None) -> None:
        """Raises RequirementFailed if the table is gone or is another one; if the schema or spec of the files was
        removed; if the current schema or the name mapping gives their columns another meaning, as after a CREATE OR
        REPLACE, or requires a column that they lack (`evolution.incompatible_columns`): it names the columns.
        InvalidInput if the branch is a tag, or the files lack the spec's partition values."""
        if base is None:
            raise RequirementFailed(requirements.ASSERT_TABLE_UUID, "table does not exist", expected=self._table_uuid)
        if self._table_uuid is not None:
            requirements.check([requirements.assert_table_uuid(self._table_uuid)], base)
        schema, spec = self._written_with(base)
        self._check_meaning(schema, base)
        ref = base.ref(self._branch)
        if ref is not None and ref.type != updates.BRANCH:
            raise InvalidInput(f"{self._branch} is a tag, not a branch. Tags cannot be targets for producing snapshots")
        names = {field.name for field in spec.fields}
        for data_file in self._files:
            if set(data_file.partition) != names:
                found = sorted(data_file.partition)
                raise InvalidInput(f"{data_file.file_path} has partition values {found}, its spec has {sorted(names)}")

    def look_ahead(self, base: TableMetadata, manifests: Manifests) -> None:
        """Search the branch's manifests for the files before the append is queued, so that no other commit waits for
        that: `stage` then searches only newer manifests. Refuses nothing, since this append may already be committed.
        """
        with contextlib.suppress(IcebergHmsError):
            self._find_live(self._kept(base, manifests), manifests)

    def stage(self, base: TableMetadata | None, manifests: Manifests) -> StagedChange:
        """Write the manifests on first use; then stage the list of these manifests and the branch's.
        Raises RequirementFailed if the branch already has one of the files; StorageError, CorruptFile or MissingFile if
        the parent's list, or a manifest that was not searched yet, cannot be read; CommitStateUnknown if the branch has
        files under this append's own snapshot id: it was committed and has expired since."""
        if base is None:
            raise RequirementFailed(requirements.ASSERT_TABLE_UUID, "table does not exist", expected=self._table_uuid)
        ref, parent = base.ref(self._branch), self._parent(base)
        kept = self._kept(base, manifests)
        self._refuse_live(kept, manifests)
        own = self._own_manifests(base, manifests)
        snapshot = numbered_snapshot(base, self._snapshot(base, parent, own, kept), (*own, *kept), manifests)
        staged = [
            *self._name_mapping_update(base),
            updates.add_snapshot(snapshot),
            updates.set_snapshot_ref(self._branch, self._snapshot_id, retention=ref),
        ]
        written = [manifest.manifest_path for each in self._written.values() for manifest in each]
        return StagedChange(staged, (*written, snapshot["manifest-list"]))

    def _parent(self, base: TableMetadata) -> Snapshot | None:
        ref = base.ref(self._branch)
        return base.current_snapshot if ref is None else base.snapshot_by_id(ref.snapshot_id)

    def _kept(self, base: TableMetadata, manifests: Manifests) -> Sequence[ManifestFile]:
        parent = self._parent(base)
        return () if parent is None else tuple(manifests.list(parent))

    def _find_live(self, kept: Sequence[ManifestFile], manifests: Manifests) -> Sequence[ManifestEntry]:
        """The entries of the branch that name a file of this append."""
        if not self._keys:
            return ()
        new = [each for each in kept if each.manifest_path not in self._searched]
        found = manifests.live(new, self._keys)
        if not found:
            self._searched.update(each.manifest_path for each in new)
        return found

    def _refuse_live(self, kept: Sequence[ManifestFile], manifests: Manifests) -> None:
        found = self._find_live(kept, manifests)
        if not found:
            return
        if any(entry.snapshot_id == self._snapshot_id for entry in found):
            raise CommitStateUnknown(
                f"snapshot {self._snapshot_id} was committed to {self._branch} and has expired: its files are there",
                next_step="look at the table; delete none of the files",
            )
        there = {file_key(entry.data_file.file_path): entry for entry in found}
        entries = [there[key] for key in map(file_key, (each.file_path for each in self._files)) if key in there]
        named = [f"{each.data_file.file_path} (snapshot {each.snapshot_id})" for each in entries[:_NAMED_MAX]]
        more = [f"and {len(entries) - _NAMED_MAX} more"] if len(entries) > _NAMED_MAX else []
        raise RequirementFailed(
            NEW_FILES,
            f"{self._branch} has {len(entries)} of the files already: {', '.join([*named, *more])}",
            expected="none of the files",
            found=tuple(each.data_file.file_path for each in entries),
            next_step="delete none of these files, the table reads them; append the others alone, or pass "
            "check_duplicates=False if the table should have their rows twice",
            rests_on=frozenset(each.snapshot_id for each in entries if each.snapshot_id is not None),
        )

    def _written_with(self, base: TableMetadata) -> tuple[Schema, PartitionSpec]:
        schema, spec = base.schema_by_id(self._schema_id), base.spec_by_id(self._spec_id)
        if schema is None:
            raise RequirementFailed("append-schema", f"schema {self._schema_id} was removed", expected=self._schema_id)
        planned = self._schema or schema
        # Versions of a table share their schemas' JSON, so this mostly compares two references.
        if planned.raw is not schema.raw and not planned.same_as(schema):
            what = f"schema {self._schema_id} was removed, and another one has its id"
            raise RequirementFailed("append-schema", what, expected=self._schema_id)
        if spec is None:
            raise RequirementFailed("append-spec", f"spec {self._spec_id} was removed", expected=self._spec_id)
        if self._spec is not None and self._spec.fields != spec.fields:
            what = f"spec {self._spec_id} was removed, and another one has its id"
            raise RequirementFailed("append-spec", what, expected=self._spec_id)
        return schema, spec

    def _check_meaning(self, written: Schema, base: TableMetadata) -> None:
        if base.current_schema_id != self._schema_id and (
            problems := evolution.incompatible_columns(written, base.schema)
        ):
            what = f"the table's schema changed since the files were written: {'; '.join(problems)}"
            raise RequirementFailed("append-schema", what, expected=self._schema_id, found=base.current_schema_id)
        self._check_names(base)

    def _check_names(self, base: TableMetadata) -> None:
        mapping, now = self._name_mapping, base.properties.get(NAME_MAPPING)
        if mapping is None:
            return
        what = "the table's name mapping changed since the files were matched by it"
        moved = evolution.remapped_names(mapping, now) if now else []
        if NAME_MAPPING not in base.properties:
            # The mapping becomes the table's, so it applies to later files too.
            what = "names by which the files' columns were matched now belong to other columns"
            moved = evolution.conflicting_names(mapping, base.schema)
        if moved:
            raise RequirementFailed("append-name-mapping", f"{what}: {', '.join(moved)}")

    def _own_manifests(self, base: TableMetadata, manifests: Manifests) -> tuple[ManifestFile, ...]:
        # A manifest has the layout of one format version, so a table that was upgraded meanwhile needs new ones.
        version = base.format_version
        if version not in self._written:
            entries = [
                ManifestEntry(EntryStatus.ADDED, data_file, snapshot_id=self._snapshot_id) for data_file in self._files
            ]
            schema, spec = self._written_with(base)
            written = manifests.write(base, schema, spec, self._snapshot_id, entries) if entries else ()
            self._written[version] = tuple(written)
        return self._written[version]

    def _snapshot(
        self,
        base: TableMetadata,
        parent: Snapshot | None,
        own: Sequence[ManifestFile],
        kept: Sequence[ManifestFile],
    ) -> dict[str, Any]:
        changes = summaries.AddedFiles.of(self._files).to_summary()
        raw: dict[str, Any] = {"snapshot-id": self._snapshot_id}
        if parent is not None:
            raw["parent-snapshot-id"] = parent.snapshot_id
        raw["timestamp-ms"] = max(self._now_ms(), base.last_updated_ms)
        raw["summary"] = {
            summaries.OPERATION: summaries.APPEND,
            **self._summary,
            **changes,
            **summaries.manifest_counts(created=len(own), kept=len(kept)),
            **summaries.totals(None if parent is None else parent.summary, changes),
        }
        raw["schema-id"] = base.current_schema_id
        return raw

    def _name_mapping_update(self, base: TableMetadata) -> list[Update]:
        if self._name_mapping is None or NAME_MAPPING in base.properties:
            return []
        mapping = self._name_mapping
        if base.current_schema_id != self._schema_id:
            mapping = evolution.add_schema_names(mapping, base.schema)
        return [updates.set_properties({NAME_MAPPING: mapping})]


def _with_order(data_file: DataFile) -> DataFile:
    """An unknown order counts as unsorted (spec: sort_order_id), and older releases of Trino fail to read an entry
    without one (trinodb/trino#29211)."""
    return data_file if data_file.sort_order_id is not None else replace(data_file, sort_order_id=UNSORTED_ORDER_ID)


def _check_files(data_files: Sequence[DataFile], spec_id: int) -> frozenset[str]:
    """The keys of the files (`format.locations.file_key`)."""
    seen: set[str] = set()
    for data_file in data_files:
        path = data_file.file_path
        if data_file.content != FileContent.DATA:
            raise InvalidInput(f"Cannot append a delete file: {path}")
        if data_file.spec_id != spec_id:
            raise InvalidInput(f"{path} was made for partition spec {data_file.spec_id}, the append is for {spec_id}")
        if data_file.record_count < 0 or data_file.file_size_in_bytes < 0:
            raise InvalidInput(f"{path} has a negative record count or size")
        key = file_key(path)
        if key in seen:
            raise InvalidInput(f"Cannot append a file twice: {path}")
        seen.add(key)
    return frozenset(seen)
