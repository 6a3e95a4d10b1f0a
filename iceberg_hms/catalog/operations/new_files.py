"""The files that a caller gives an operation: records, or locations whose footers describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeVar

from iceberg_hms.catalog.operations.submitter import Result, Submitter
from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from iceberg_hms.changes.operations.snapshot_operation import NewSnapshot, SnapshotOperation
from iceberg_hms.changes.reruns import Rerun
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.datafiles.described_file import (
    DescribedFile,
    needed_name_mapping,
    refuse_extra_columns,
    without_unsure_bounds,
)
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe, row_lineage
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import check_readers_open, file_key
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_VERSION, RowLineage, states_lineage
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from iceberg_hms.format.schema.plain_values import plain_value

#: About how many bytes the record of a data file takes in the queue: path, counts, bounds of some columns.
FILE_BYTES: Final = 1_000
#: What to do with a file that has a column which the table lacks.
OnExtraColumns = Literal["refuse", "ignore"]
#: How the key of a local file begins (`format.locations.file_key`).
_LOCAL: Final = "file://"
#: A file as callers name it.
GivenFile = TypeVar("GivenFile", str, DataFile, str | DataFile)
#: What is read of a file.
_Read = TypeVar("_Read")


class NewFileOperations(Submitter[Result]):
    """Base of the operations that take files."""

    def _take_over(self, loaded: LoadedTable) -> None:
        """Plan on this newer state from now on, if that is possible."""

    def _submit_with_files(
        self,
        files: Sequence[str | DataFile],
        new: NewSnapshot,
        make: Callable[[NewDataFiles], SnapshotOperation],
        *,
        on_extra_columns: OnExtraColumns,
        wait_seconds: float | None,
        deletes: Sequence[DataFile] = (),
        verify: bool = False,
        sequence_number: int | None = None,
        moves_rows: bool = False,
        more_bytes: int = 0,
    ) -> Result:
        """Submit an operation that adds files.

        files: as `as_files` gives them. new: made before the files are described, which may take over a newer state:
        what was committed since the state that the caller saw still conflicts. deletes: the delete files that it adds.
        verify: whether to look for the files of records. sequence_number: see `NewDataFiles`. moves_rows: whether the
        table has the rows already, so that it must be known of records too whether their files carry row ids.
        more_bytes: what the operation holds besides these files. Raises as the operation; if the files cannot be read,
        it looks for the job's first run."""
        _check_extra_columns(on_extra_columns)
        for each in (*files, *deletes):
            if isinstance(each, DataFile):
                check_readers_open(each.file_path)
        try:
            described = self._described(files, on_extra_columns)
            if verify:
                self._verify([*(file for file in files if isinstance(file, DataFile)), *deletes])
            #: Of the files that carry metadata columns of row lineage, by location.
            lineage = {location: each.lineage for location, each in described.items() if each.lineage}
            if moves_rows:
                lineage.update(self._unstated_lineage(files))
        except IcebergHmsError as error:
            # A rerun's files may be gone since its first run.
            if new.key is None:
                raise
            return self._submit(Rerun(new.identity, error), wait_seconds=wait_seconds)
        data_files = [
            file if isinstance(file, DataFile) else described[file].data_file
            for file in files
            if isinstance(file, DataFile) or file in described
        ]
        wanted = {self.metadata.default_spec_id, *(each.spec_id for each in data_files)}
        added = NewDataFiles(
            without_unsure_bounds(data_files, self.metadata.schema),
            snapshot_id=new.snapshot_id,
            schema_id=self.metadata.current_schema_id,
            schema=self.metadata.schema,
            specs={each.spec_id: each for each in self.metadata.specs if each.spec_id in wanted},
            name_mapping=needed_name_mapping(self.metadata, list(described.values())),
            sequence_number=sequence_number,
            lineage=lineage,
            own_keys=_own_keys(data_files, self._access.services.ports.files),
        )
        size = FILE_BYTES * len(data_files) + more_bytes
        return self._submit_operation(make(added), wait_seconds=wait_seconds, size=size)

    def _described(self, files: Sequence[str | DataFile], on_extra_columns: str) -> dict[str, DescribedFile]:
        """By location, without those that have no rows."""
        locations = [file for file in files if isinstance(file, str)]
        described = self._with_rows(locations)
        if on_extra_columns == "refuse":
            if any(each.extra_columns for each in described.values()) and self._schema_moved():
                described = self._with_rows(locations)
            refuse_extra_columns(described.values())
        return described

    def _with_rows(self, locations: Sequence[str]) -> dict[str, DescribedFile]:
        found = self._read(locations, describe)
        return {location: each for location, each in found.items() if each is not None}

    def _schema_moved(self) -> bool:
        """Reload the table, and return whether its columns changed: the loaded state is often older than the files.
        Takes over the new state then; a replacement table of the same name does not count."""
        loaded, known = self._access.load(self._name), self.metadata
        mapping = loaded.metadata.properties.get(NAME_MAPPING)
        same_columns = loaded.metadata.schema.same_as(known.schema) and mapping == known.properties.get(NAME_MAPPING)
        if loaded.metadata.uuid != known.uuid or same_columns:
            return False
        self._take_over(loaded)
        return True

    def _unstated_lineage(self, files: Sequence[str | DataFile]) -> dict[str, RowLineage]:
        """The metadata columns of row lineage in the files of records that do not state them."""
        if self.metadata.format_version < LINEAGE_VERSION:
            return {}
        records = [file for file in files if isinstance(file, DataFile)]
        return self._read([each.file_path for each in records if not states_lineage(each)], row_lineage)

    def _read(
        self, locations: Sequence[str], read: Callable[[str, TableOfFiles, Callable[[str], Any]], _Read]
    ) -> dict[str, _Read]:
        """What is read of files' footers, by location."""
        open_input = self._access.services.open_input
        table = TableOfFiles(self.metadata)
        reads = [partial(read, each, table, open_input) for each in locations]
        return dict(zip(locations, self._gathered(reads), strict=True))

    def _verify(self, records: Sequence[DataFile]) -> None:
        """Raises MissingFile for a record whose file is not there, and InvalidInput for one of another size."""
        length = self._access.services.ports.files.length
        found = self._gathered([partial(length, each.file_path) for each in records])
        for each, size in zip(records, found, strict=True):
            if size != each.file_size_in_bytes:
                raise InvalidInput(
                    f"{each.file_path} has {size} bytes, and its record says {each.file_size_in_bytes}",
                    next_step="describe the file as it is now, or give its location instead of a record",
                )

    def _gathered(self, reads: Sequence[Callable[[], _Read]]) -> list[_Read]:
        """What calls return, in their order; `io.threads` of them run at once."""
        services = self._access.services
        width = services.settings.io_threads
        found: list[_Read] = []
        for start in range(0, len(reads), width):
            found += services.ports.runtime.gather(reads[start : start + width])
        return found


def as_files(files: Iterable[GivenFile], *kinds: type[str | DataFile]) -> list[GivenFile]:
    """The files that a caller gives, in a list: an iterator would be at its end when it is read again.

    kinds: what a file may be, `str` (a location), DataFile, or both. Partition values become Python's own
    (`plain_value`): a missing one is null. Raises InvalidInput for all else; a text is one file, not a list of its
    characters.
    """
    wanted = " or ".join({str: "its location as text", DataFile: "a DataFile"}[kind] for kind in kinds)
    if isinstance(files, str | DataFile) or not isinstance(files, Iterable):
        raise InvalidInput(f"not a list of files: {_shown(files)}", next_step="give a list, also of one file")
    given = list(files)
    for each in given:
        if not isinstance(each, kinds):
            raise InvalidInput(f"not a file: {_shown(each)}", next_step=f"name each file by {wanted}")
    return [_with_plain_partition(each) if isinstance(each, DataFile) else each for each in given]


def _with_plain_partition(file: DataFile) -> DataFile:
    plain = {name: plain_value(value) for name, value in file.partition.items()}
    return (
        file if all(plain[name] is value for name, value in file.partition.items()) else replace(file, partition=plain)
    )


def _shown(given: object) -> str:
    """Text, or a class: what callers take for a file, such as a pyarrow table, may be large."""
    return repr(given) if isinstance(given, str) else f"an object of class {type(given).__name__}"


def _own_keys(data_files: Iterable[DataFile], files: Files) -> frozenset[str]:
    """The keys of files by their own paths, where a caller names local ones through a linked folder. Raises
    InvalidInput for one that is named twice: its rows would be in the table twice."""
    folders = LinkedFolders(files)
    known: dict[str, tuple[str, str]] = {}
    for path in (each.file_path for each in data_files):
        key = file_key(path)
        other, other_key = known.setdefault(folders.own_key(key), (path, key))
        if other_key != key:
            raise InvalidInput(f"{other} and {path} are one file", next_step="name it once")
    return frozenset(known)


def _check_extra_columns(on_extra_columns: str) -> None:
    """Raises InvalidInput for what is neither "refuse" nor "ignore"."""
    if on_extra_columns not in ("refuse", "ignore"):
        raise InvalidInput(f'on_extra_columns must be "refuse" or "ignore", but is {on_extra_columns!r}')


class LinkedFolders:
    """Which file a local path means whose folders are symbolic links. It looks at each folder once; one instance serves
    one call, since links may change."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._own = {_LOCAL: _LOCAL}

    def own_key(self, key: str) -> str:
        """The key of the same file by its folder's own path; the same one where no folder is a link, in other stores,
        and where a folder cannot be looked at. key: of a file (`format.locations.file_key`)."""
        if not key.startswith(_LOCAL):
            return key
        folder, _, name = key.rpartition("/")
        own = self._own.get(folder)
        return f"{self._followed(folder) if own is None else own}/{name}"

    def _followed(self, folder: str) -> str:
        """By way of its parents, which most folders of a table share: to resolve each path anew takes ten times as
        long."""
        at = own = _LOCAL
        for part in folder.removeprefix(_LOCAL).split("/")[1:]:
            at = f"{at}/{part}"
            if at not in self._own:
                self._own[at] = self._target(f"{own}/{part}")
            own = self._own[at]
        return own

    def _target(self, path: str) -> str:
        try:
            return file_key(self._files.real_path(path)) if self._files.is_link(path) else path
        except IcebergHmsError:
            return path
