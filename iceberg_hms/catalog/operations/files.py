"""Operations on a table's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Literal

from iceberg_hms.catalog.operations.submitter import Result, Submitter
from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.changes import summary as summaries
from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.changes.operations.append import Append
from iceberg_hms.changes.reruns import Rerun
from iceberg_hms.datafiles.footers import DescribedFile, describe_parquet, needed_name_mapping, refuse_extra_columns
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING

#: About how many bytes the record of a data file takes in the queue: path, counts, bounds of some columns.
_FILE_BYTES: Final = 1_000


class FileOperations(Submitter[Result]):
    """Appends, and what removes or replaces files."""

    def _take_over(self, loaded: LoadedTable) -> None:
        """Plan on this newer state from now on, if that is possible."""

    def append(
        self,
        files: Sequence[str | DataFile],
        *,
        branch: str = "main",
        summary: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        check_duplicates: bool = True,
        stage_only: bool = False,
        wap_id: str | None = None,
        wait_seconds: float | None = None,
        on_extra_columns: Literal["refuse", "ignore"] = "refuse",
    ) -> Result:
        """Add existing data files.

        files: locations of Parquet files, whose footers give schema match, counts and bounds, or DataFile records.
        branch: the branch to add them to; created from main if it does not exist.
        summary: further properties of the snapshot.
        idempotency_key: a job's own key; a rerun with the same key and the same files finds its first commit and adds
        nothing. The key of another job, whose snapshot is in the branch's history and added other files, is refused.
        on_extra_columns: what to do with a file that has a column that the table lacks. "refuse": InvalidInput names
        the columns, since PyIceberg cannot read a table with such a file. "ignore": add it; Spark and Java skip the
        column. A column that was dropped from the table, with its field id, is no extra one. DataFile records are not
        checked.
        check_duplicates: whether a file that is live in the branch is refused, given as a path or as a record: its rows
        would be there twice. The first append of a process reads every manifest of the branch for that, later ones only
        those that are new.
        stage_only: whether no ref moves to the snapshot, so that readers see nothing of it until it is published by
        `cherry_pick`. wap_id: the id under which it is staged, for `publish_changes`, which Spark calls `spark.wap.id`;
        it implies stage_only.
        Applies to the current table, however often it moves. Raises InvalidInput (a file that does not fit the
        table, or is named twice), MissingFile, RequirementFailed (replaced table, dropped schema or spec, a schema that
        gives the files' columns another meaning: see `changes.operations.append.Append`, a file that the branch has
        already, another job's key: delete none of the files), CommitStateUnknown.
        """
        if not files:
            raise InvalidInput("nothing to append", next_step="give at least one file")
        if on_extra_columns not in ("refuse", "ignore"):
            raise InvalidInput(f'on_extra_columns must be "refuse" or "ignore", but is {on_extra_columns!r}')
        summary = summaries.with_wap_id(summary or {}, wap_id)
        stage_only = stage_only or wap_id is not None
        custom = summaries.check_custom(summary, idempotency_key)
        try:
            described = self._described(files, on_extra_columns)
        except IcebergHmsError as error:
            ref = None if stage_only else branch
            return self._first_run(files, ref, custom.get(summaries.IDEMPOTENCY_KEY), error, wait_seconds)
        data_files = [file if isinstance(file, DataFile) else described[file].data_file for file in files]
        new = self._new_snapshot(branch, summary, idempotency_key)
        change = Append(
            data_files,
            branch=branch,
            summary=summary,
            idempotency_key=idempotency_key,
            snapshot_id=new.snapshot_id,
            schema_id=self.metadata.current_schema_id,
            spec_id=self.metadata.default_spec_id,
            table_uuid=new.table_uuid,
            now_ms=new.now_ms,
            caller=new.caller,
            name_mapping=needed_name_mapping(self.metadata, list(described.values())),
            check_duplicates=check_duplicates,
            stage_only=stage_only,
            schema=self.metadata.schema,
            spec=self.metadata.spec_by_id(self.metadata.default_spec_id),
        )
        return self._submit_operation(change, wait_seconds=wait_seconds, size=_FILE_BYTES * len(data_files))

    def _first_run(
        self,
        files: Sequence[str | DataFile],
        branch: str | None,
        key: str | None,
        error: IcebergHmsError,
        wait_seconds: float | None,
    ) -> Result:
        """The report of a job's first run, for a rerun whose files cannot be read. Raises `error` if there was no first
        run."""
        if key is None:
            raise error
        paths = (file if isinstance(file, str) else file.file_path for file in files)
        identity = ChangeIdentity(
            snapshot_ids=(self._access.services.new_snapshot_id(),),
            ref=branch,
            idempotency_key=key,
            files=frozenset(map(file_key, paths)),
            caller=self._access.services.settings.user,
        )
        return self._submit(Rerun(identity, error), wait_seconds=wait_seconds)

    def _described(self, files: Sequence[str | DataFile], on_extra_columns: str) -> dict[str, DescribedFile]:
        locations = [file for file in files if isinstance(file, str)]
        described = self._describe(locations)
        if on_extra_columns == "refuse":
            if any(each.extra_columns for each in described.values()) and self._schema_moved():
                described = self._describe(locations)
            refuse_extra_columns(described.values())
        return described

    def _schema_moved(self) -> bool:
        """Reload the table, and return whether its columns changed: the loaded state is often older than the files.
        Takes over the new state then; a replacement table of the same name does not count."""
        loaded, known = self._access.load(self.name), self.metadata
        mapping = loaded.metadata.properties.get(NAME_MAPPING)
        same_columns = loaded.metadata.schema.same_as(known.schema) and mapping == known.properties.get(NAME_MAPPING)
        if loaded.metadata.uuid != known.uuid or same_columns:
            return False
        self._take_over(loaded)
        return True

    def _describe(self, locations: Sequence[str]) -> dict[str, DescribedFile]:
        """Read footers, `io.threads` at a time."""
        found: dict[str, DescribedFile] = {}
        services = self._access.services
        width = services.settings.io_threads
        for start in range(0, len(locations), width):
            batch = locations[start : start + width]
            reads = [partial(describe_parquet, each, self.metadata, services.open_input) for each in batch]
            found.update(zip(batch, services.ports.runtime.gather(reads), strict=True))
        return found
