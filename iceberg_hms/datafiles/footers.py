"""Makes DataFile records of existing data files: Parquet, ORC, Avro."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from iceberg_hms.datafiles import avro_files, orc_footer
from iceberg_hms.datafiles.avro_files import found_in_avro
from iceberg_hms.datafiles.described_file import DescribedFile, FoundInFile, described
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.orc_files import found_in_orc
from iceberg_hms.datafiles.parquet_files import found_in_parquet
from iceberg_hms.errors import CorruptFile, InvalidInput, StorageError
from iceberg_hms.format.locations import check_readers_open
from iceberg_hms.format.manifests.lineage_columns import RowLineage

_Find = Callable[[str, TableOfFiles, Callable[[str], Any]], FoundInFile | None]

#: By a file's extension, which is the name of its format too.
_BY_NAME: Final[Mapping[str, _Find]] = {
    "parquet": found_in_parquet,
    "orc": found_in_orc,
    "avro": found_in_avro,
}
_BY_MAGIC: Final[Mapping[bytes, _Find]] = {
    b"PAR1": found_in_parquet,
    b"PARE": found_in_parquet,
    orc_footer.MAGIC: found_in_orc,
    avro_files.MAGIC: found_in_avro,
}
_MAGIC_BYTES: Final = 4


def describe(
    location: str,
    table: TableOfFiles,
    open_input: Callable[[str], Any],
    *,
    partition: Mapping[str, Any] | None = None,
    file_format: str | None = None,
) -> DescribedFile | None:
    """Read a data file's footer, or its header, and make its manifest record. None for a file without rows, whatever
    its columns are: Hive and Spark skip it, and as a file of the table readers would look at its columns.

    Arguments and errors are those of `found_in_parquet`. partition: the values of partition fields, where they are
    known otherwise; of others the footer and the folders tell. file_format: `parquet`, `orc` or `avro`, which the file
    must have; None: any. Raises InvalidInput too for a path that not every reader opens, for a required column that is
    missing or has nulls, for a file that spans partitions, is not in the given one or carries row ids that the table
    has not, and for one of no such format.
    Changes nothing."""
    check_readers_open(location)
    if file_format is None:
        found = _found(location, table, open_input)
    else:
        found = _found_in(file_format, location, table, open_input)
    return None if found is None else described(location, table, found, partition)


def row_lineage(location: str, table: TableOfFiles, open_input: Callable[[str], Any]) -> RowLineage:
    """The metadata columns of row lineage that a file carries, whatever its partition. Arguments and errors are those
    of `found_in_parquet`; raises InvalidInput too for a file of no such format."""
    found = _found(location, table, open_input)
    return {} if found is None else found.lineage


def _found(location: str, table: TableOfFiles, open_input: Callable[[str], Any]) -> FoundInFile | None:
    """The format is that of the extension (.parquet, .orc, .avro), unless the file's first bytes are those of another
    one; without such an extension, as in Hive's tables, those bytes decide."""
    by_name = _BY_NAME.get(location.rpartition(".")[2].lower())
    if by_name is not None:
        try:
            return by_name(location, table, open_input)
        except CorruptFile:
            found = _by_magic(location, open_input)
            if found is None or found is by_name:
                raise
    else:
        found = _by_magic(location, open_input)
    if found is None:
        raise InvalidInput(
            f"{location} is no data file: it begins as none of Parquet, ORC and Avro does",
            next_step="write it as Parquet, ORC or Avro",
        )
    return found(location, table, open_input)


def _found_in(
    file_format: str, location: str, table: TableOfFiles, open_input: Callable[[str], Any]
) -> FoundInFile | None:
    find = _BY_NAME[file_format]
    try:
        return find(location, table, open_input)
    except CorruptFile:
        other = _by_magic(location, open_input)
        if other is None or other is find:
            raise
    name = next(name for name, each in _BY_NAME.items() if each is other)
    raise InvalidInput(
        f"{location} is of format {name}, and must be {file_format}",
        next_step="correct what says its format, or write the file anew",
    )


def _by_magic(location: str, open_input: Callable[[str], Any]) -> _Find | None:
    try:
        with open_input(location) as file:
            start = bytes(file.read(_MAGIC_BYTES))
    except OSError as error:
        raise StorageError(f"Cannot read {location}: {error}") from error
    return next((each for magic, each in _BY_MAGIC.items() if start.startswith(magic)), None)
