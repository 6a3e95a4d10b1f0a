"""Operations on a table's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iceberg_hms.catalog.operations.new_files import (
    FILE_BYTES,
    NewFileOperations,
    OnExtraColumns,
    as_files,
)
from iceberg_hms.catalog.operations.submitter import Result
from iceberg_hms.changes.operations.files.append import Append
from iceberg_hms.changes.operations.files.delete import DeleteFiles, DeleteRows
from iceberg_hms.changes.operations.files.overwrite import Overwrite, ReplacePartitions
from iceberg_hms.changes.operations.files.rewrite import Rewrite
from iceberg_hms.changes.operations.files.row_delta import RowDelta
from iceberg_hms.changes.operations.manifests.conflicts import Isolation
from iceberg_hms.changes.operations.manifests.file_scope import Where
from iceberg_hms.changes.operations.manifests.new_delete_files import NewDeleteFiles
from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions import Expression, as_expression
from iceberg_hms.format.manifests.manifest import DataFile


class FileOperations(NewFileOperations[Result]):
    """Appends, and what removes or replaces files."""

    def append(
        self,
        files: Iterable[str | DataFile],
        *,
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        check_duplicate_files: bool = True,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
        on_extra_columns: OnExtraColumns = "refuse",
        verify: bool = False,
    ) -> Result:
        """Add existing data files.

        files: locations of Parquet, ORC or Avro files, whose footers give schema match, counts and, but for Avro,
        bounds; or DataFile records.
        branch: the branch to add them to; created from main if it does not exist. No other operation creates one.
        snapshot_properties: further properties of the snapshot, in its summary.
        idempotency_key: a job's own key; a rerun with the same key finds its first commit and changes nothing. A job is
        what the operation does: its files, added and removed, data and deletes, and its filter. The key of another job,
        whose snapshot is in the branch's history, is refused.
        on_extra_columns: what to do with a file that has a column that the table lacks. "refuse": InvalidInput names
        the columns, since PyIceberg cannot read a table with such a file. "ignore": add it; Spark and Java skip the
        column. A column that was dropped from the table, with its field id, is no extra one. DataFile records are not
        checked. `_row_id` and `_last_updated_sequence_number` (spec: Row Lineage) must be null: the rows are new.
        verify: whether to look for the files of DataFile records before anything is queued: MissingFile for one that is
        not there, InvalidInput for one of another size. It costs a request for each file; locations are read anyway.
        check_duplicate_files: whether a file that is live in the branch is refused, given as a path or as a record: its
        rows would be there twice. The first append of a process reads every manifest of the branch for that, later ones
        only those that are new.
        stage_only: whether no ref moves to the snapshot, so that readers see nothing of it until it is published by
        `cherry_pick`: an append or a dynamic overwrite on whatever main is by then, all else only while main is still
        where it was staged. wap_id: the id under which it is staged, for `publish_changes`, which Spark calls
        `spark.wap.id`; it implies stage_only.
        Applies to the current table, however often it moves. Raises InvalidInput (a file that does not fit the
        table, or is named twice), MissingFile, RequirementFailed (replaced table, dropped schema or spec, a schema that
        gives the files' columns another meaning: see `NewDataFiles.check`, a file that the branch has
        already, another job's key: delete none of the files), CommitStateUnknown.
        """
        files = as_files(files, str, DataFile)
        if not files:
            raise InvalidInput("nothing to append", next_step="give at least one file")
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        new = new.of_job("append", added=files)
        return self._submit_with_files(
            files,
            new,
            lambda added: Append(new, added, check_duplicates=check_duplicate_files),
            on_extra_columns=on_extra_columns,
            verify=verify,
            wait_seconds=wait_seconds,
        )

    def delete_files(
        self,
        files: Iterable[str | DataFile],
        *,
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
    ) -> Result:
        """Remove data files from a branch. The files themselves stay until the snapshots that read them expire.

        files: locations under any spelling, or DataFile records. branch, snapshot_properties, idempotency_key,
        stage_only, wap_id, wait_seconds: as for `append`. Applies to whatever the table has become. Raises
        RequirementFailed (`files-exist`) for a file that the branch does not have; it names the file, and the snapshot
        that removed it.
        """
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        paths = _paths(files)
        new = new.of_job("delete_files", removed=paths)
        return self._submit_operation(DeleteFiles(new, paths), wait_seconds=wait_seconds, size=FILE_BYTES * len(paths))

    def _where(self, where: str | Expression, case_sensitive: bool) -> Where:
        """A filter of the columns that the caller sees. Raises InvalidInput."""
        seen, last_id = self.metadata.schema, self._start_metadata.last_column_id
        return Where(as_expression(where), seen, last_id, case_sensitive=case_sensitive)

    def delete(
        self,
        delete_filter: str | Expression,
        *,
        case_sensitive: bool = True,
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
    ) -> Result:
        """Remove the rows that match a filter, by whole data files: no file is rewritten.

        delete_filter: as text or as an expression (`iceberg_hms.expressions`). It is judged on whatever the table has
        become: what others added meanwhile and matches goes too. case_sensitive: whether the filter names columns
        as they are written; else a name that several columns have is refused. branch, snapshot_properties,
        idempotency_key, stage_only, wap_id, wait_seconds: as for `append`. Raises InvalidInput for a filter that does
        not fit the table; RequirementFailed (`whole-files`) for a file of which only some rows may match, and
        (`seen-column`) for a column that others renamed or dropped meanwhile. Let an engine rewrite files that match in
        part."""
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        rows = self._where(delete_filter, case_sensitive)
        new = new.of_job("delete", scope=rows.text)
        return self._submit_operation(DeleteRows(new, rows), wait_seconds=wait_seconds)

    def overwrite(
        self,
        files: Iterable[str | DataFile],
        overwrite_filter: str | Expression | None = None,
        *,
        case_sensitive: bool = True,
        isolation: Isolation = "serializable",
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
        on_extra_columns: OnExtraColumns = "refuse",
        verify: bool = False,
    ) -> Result:
        """Replace the rows that match a filter by these files.

        overwrite_filter, case_sensitive: as `delete` takes them; None: all rows. All rows of the new files must match
        it. Data files of which only some rows may match are refused, as by `delete`.
        files: they may carry the row ids of rows that stay, and so they may in `replace_partitions` and `row_delta`, as
        an engine's UPDATE or MERGE writes them. InvalidInput for ids, or numbers of last updates, that the table has
        not given yet.
        isolation: what of others since the state that this object has is refused: "serializable": files that they added
        and that may have such rows, and such files or rows that they removed; "snapshot": only what they removed.
        For the rest files, branch, snapshot_properties, idempotency_key, stage_only, wap_id, wait_seconds,
        on_extra_columns, verify: as for `append`. Raises as `append` and `delete`, also for no files; RequirementFailed
        names the snapshot and the file that conflict."""
        files = as_files(files, str, DataFile)
        if not files:
            # A pattern that found no file would else empty the table.
            raise InvalidInput(
                "nothing to overwrite with",
                next_step="give at least one file; to delete rows, `delete(filter)`, and all rows, `delete('true')`",
            )
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        rows = None if overwrite_filter is None else self._where(overwrite_filter, case_sensitive)
        new = new.of_job("overwrite", added=files, scope=None if rows is None else rows.text)
        return self._submit_with_files(
            files,
            new,
            lambda added: Overwrite(new, added, rows, isolation=isolation),
            on_extra_columns=on_extra_columns,
            verify=verify,
            wait_seconds=wait_seconds,
        )

    def replace_partitions(
        self,
        files: Iterable[str | DataFile],
        *,
        isolation: Isolation = "serializable",
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
        on_extra_columns: OnExtraColumns = "refuse",
        verify: bool = False,
    ) -> Result:
        """Replace the partitions in which these files are by these files (dynamic overwrite); the whole table if it is
        unpartitioned.

        isolation: what of others since the state that this object has is refused: "serializable": files that they added
        to these partitions, and files or rows that they removed there; "snapshot": only what they removed.
        files, branch, snapshot_properties, idempotency_key, stage_only, wap_id, wait_seconds, on_extra_columns,
        verify: as for `append`. Raises as `append`; RequirementFailed names the snapshot and the file that conflict:
        read again what the files were made of."""
        files = as_files(files, str, DataFile)
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        new = new.of_job("replace_partitions", added=files)
        return self._submit_with_files(
            files,
            new,
            lambda added: ReplacePartitions(new, added, isolation=isolation),
            on_extra_columns=on_extra_columns,
            verify=verify,
            wait_seconds=wait_seconds,
        )

    def rewrite(
        self,
        remove: Iterable[str | DataFile] = (),
        add: Iterable[str | DataFile] = (),
        *,
        remove_deletes: Iterable[DataFile] = (),
        add_deletes: Iterable[DataFile] = (),
        referenced_files: Iterable[str] = (),
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
        on_extra_columns: OnExtraColumns = "refuse",
        verify: bool = False,
    ) -> Result:
        """Replace data files by others with the same rows, or delete files by others with the same deletes
        (compaction). Appends and equality deletes that others commit meanwhile do not conflict.

        remove: the data files, of the state that this object has; all deletes that apply to them there must have been
        applied to `add`. Deletion vectors of these files go with them.
        remove_deletes, add_deletes: live delete files, and those that replace them, as DataFile records. New position
        deletes and deletion vectors replace deletes of their own partition; new equality deletes replace such as have
        one sequence number.
        referenced_files: live data files to which a replaced delete file may apply, and for which there is no new one:
        the caller says that none of their rows is deleted.
        add: rows keep their ids (spec: Row Lineage; Java does not check it). If the files of `remove` have row ids, as
        from format version 3 on, each new file carries `_row_id` (field id 2147483540) and
        `_last_updated_sequence_number` (2147483539) without nulls: the values that readers of the table give. A record
        proves it by `null_value_counts` of both ids, as Java's writers count them; else its file is read. Files of a
        table that was upgraded have no row ids until its next snapshot.
        For the rest add, branch, snapshot_properties, idempotency_key, stage_only, wap_id, wait_seconds,
        on_extra_columns, verify:
        as `append`'s. Raises as `append`; InvalidInput if the numbers of rows differ and no delete explains it, or if
        rows would come back; RequirementFailed if a file is gone (`files-exist`), or if others deleted rows of it by
        position (`no-new-deletes-for-files`): compact what is there now; if a live data file would lose deletes
        (`deletes-kept`), or rows their ids (`row-ids-kept`)."""
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        replaced, new_deletes = as_files(remove_deletes, DataFile), as_files(add_deletes, DataFile)
        referenced = as_files(referenced_files, str)
        deletes = NewDeleteFiles(new_deletes, snapshot_id=new.snapshot_id, planned=self.metadata)
        start = None if new.start_id is None else self._start_metadata.snapshot_by_id(new.start_id)
        paths, add = _paths(remove), as_files(add, str, DataFile)
        new = new.of_job("rewrite", added=add, removed=paths, added_deletes=new_deletes, removed_deletes=replaced)
        return self._submit_with_files(
            add,
            new,
            lambda added: Rewrite(new, paths, added, remove_deletes=replaced, deletes=deletes, referenced=referenced),
            on_extra_columns=on_extra_columns,
            verify=verify,
            wait_seconds=wait_seconds,
            deletes=new_deletes,
            sequence_number=0 if start is None else start.sequence_number,
            moves_rows=True,
            more_bytes=FILE_BYTES * (len(paths) + len(replaced) + len(new_deletes)),
        )

    def row_delta(
        self,
        data: Iterable[str | DataFile] = (),
        deletes: Iterable[DataFile] = (),
        *,
        replaced_deletes: Iterable[DataFile] = (),
        referenced_files: Iterable[str] = (),
        where: str | Expression | None = None,
        case_sensitive: bool = True,
        isolation: Isolation = "serializable",
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
        on_extra_columns: OnExtraColumns = "refuse",
        verify: bool = False,
    ) -> Result:
        """Add delete files that an engine wrote, and data files (merge-on-read).

        data: new data files, as `append`'s. deletes: position delete files (format version 2), equality delete files,
        deletion vectors (version 3, one for each data file), as DataFile records.
        replaced_deletes: live delete files that the new ones replace. A data file with a deletion vector gets a new one
        only if the old one is named here. referenced_files: data files whose rows the deletes name, if their records do
        not say so. where, case_sensitive: the rows that were read to find out what to delete, as `delete` takes it;
        None: all.
        isolation: "serializable": refuse if others added such rows since the state that this object has. With either
        level, refuse an update, which has data too, if others deleted such rows.
        branch, snapshot_properties, idempotency_key, stage_only, wap_id, wait_seconds, on_extra_columns,
        verify: as for `append`. Raises as `append`; RequirementFailed for a data file that is gone (`files-exist`) or
        has another deletion vector by now.
        """
        new = self._new_snapshot(branch, snapshot_properties, idempotency_key, stage_only=stage_only, wap_id=wap_id)
        added_deletes = NewDeleteFiles(as_files(deletes, DataFile), snapshot_id=new.snapshot_id, planned=self.metadata)
        replaced, referenced = as_files(replaced_deletes, DataFile), as_files(referenced_files, str)
        data = as_files(data, str, DataFile)
        new = new.of_job("row_delta", added=data, added_deletes=added_deletes.files, removed_deletes=replaced)
        return self._submit_with_files(
            data,
            new,
            lambda added: RowDelta(
                new,
                added,
                added_deletes,
                replaced_deletes=replaced,
                referenced=referenced,
                where=None if where is None else self._where(where, case_sensitive),
                isolation=isolation,
            ),
            on_extra_columns=on_extra_columns,
            verify=verify,
            wait_seconds=wait_seconds,
            deletes=added_deletes.files,
            more_bytes=FILE_BYTES * len(added_deletes.files),
        )


def _paths(files: Iterable[str | DataFile]) -> list[str]:
    """Raises InvalidInput."""
    return [file if isinstance(file, str) else file.file_path for file in as_files(files, str, DataFile)]
