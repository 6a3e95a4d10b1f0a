"""Which format a data file has."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.footers import describe, row_lineage
from iceberg_hms.datafiles.orc_footer import KINDS
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile, StorageError
from iceberg_hms.format.manifests.lineage_columns import LAST_UPDATED, ROW_ID, LineageValues
from tests.catalog.parquet import open_input, table_for
from tests.datafiles.orc_messages import file_of, footer_of, message

TABLE = table_for(pa.schema([("id", pa.int64())]))


def content(file_format: str) -> bytes:
    target = io.BytesIO()
    if file_format == "PARQUET":
        pq.write_table(pa.table({"id": [1, 2]}), target)
    elif file_format == "ORC":
        orc.write_table(pa.table({"id": [1, 2]}), target)
    else:
        of = {"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]}
        fastavro.writer(target, of, [{"id": 1}, {"id": 2}])
    return target.getvalue()


@pytest.mark.parametrize("name", ["a.parquet", "a.orc", "a.ORC", "a.avro", "000000_0", "a.b/part-0"])
@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO"])
def test_the_bytes_decide_where_the_name_is_wrong_or_says_nothing(tmp_path: Path, name: str, file_format: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content(file_format))
    found = describe(str(path), TableOfFiles(TABLE), open_input).data_file
    assert (found.file_format, found.record_count, found.file_path) == (file_format, 2, str(path))


NO_TEXT = pa.array([], pa.string())
#: Files without rows: with the table's column, one of another type, another one, and none, as Hive's empty tasks write.
WITHOUT_ROWS = [{"id": pa.array([], pa.int64())}, {"id": NO_TEXT}, {"other": NO_TEXT}, {}]


@pytest.mark.parametrize("columns", WITHOUT_ROWS, ids=["its column", "another type", "another column", "no column"])
@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO"])
def test_a_file_without_rows_has_no_record(file_format: str, columns: dict[str, pa.Array]) -> None:
    target = io.BytesIO()
    if file_format == "PARQUET":
        pq.write_table(pa.table(columns), target)
    elif file_format == "ORC" and columns:
        orc.write_table(pa.table(columns), target)
    elif file_format == "ORC":
        target.write(file_of(footer_of([message((1, KINDS.index("struct")))], [], rows=0)))
    else:
        fields = [{"name": each, "type": "string" if of is NO_TEXT else "long"} for each, of in columns.items()]
        fastavro.writer(target, {"type": "record", "name": "t", "fields": fields}, [])
    metadata = table_for(pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.string())]), ["day"])
    for name in (f"a.{file_format.lower()}", "a"):
        arguments = f"file:/{name}", TableOfFiles(metadata), lambda _: pa.BufferReader(target.getvalue())
        assert describe(*arguments) is None
        assert row_lineage(*arguments) == {}


@pytest.mark.parametrize("name", ["a.csv", "a", "a.parquet.crc"])
def test_other_files_are_refused_with_the_formats_that_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"id,name\n1,a\n")
    with pytest.raises(InvalidInput, match="none of Parquet, ORC and Avro"):
        describe(str(path), TableOfFiles(TABLE), open_input)


@pytest.mark.parametrize("extension", ["parquet", "orc", "avro"])
def test_a_file_with_a_formats_name_and_no_formats_bytes_is_no_data_file(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.{extension}"
    path.write_bytes(b"id,name\n1,a\n")
    with pytest.raises((CorruptFile, InvalidInput), match=rf"a\.{extension} is "):
        describe(str(path), TableOfFiles(TABLE), open_input)


@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO"])
def test_a_file_that_was_cut_off_is_damaged(tmp_path: Path, file_format: str) -> None:
    for name in ("a", f"a.{file_format.lower()}"):
        path = tmp_path / name
        path.write_bytes(content(file_format)[:-10])
        with pytest.raises(CorruptFile, match="is damaged"):
            describe(str(path), TableOfFiles(TABLE), open_input)


@pytest.mark.parametrize("extension", ["parquet", "orc", "avro"])
def test_a_rightly_named_file_is_opened_once(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.{extension}"
    path.write_bytes(content(extension.upper()))
    opened: list[str] = []

    def counting(location: str) -> Any:
        opened.append(location)
        return open_input(location)

    describe(str(path), TableOfFiles(TABLE), counting)
    assert opened == [str(path)]


def test_errors_of_storage_pass_through() -> None:
    def missing(location: str) -> Any:
        raise MissingFile(location)

    def broken(location: str) -> Any:
        raise OSError("disk on fire")

    with pytest.raises(MissingFile):
        describe("file:/nowhere", TableOfFiles(TABLE), missing)
    with pytest.raises(StorageError, match="disk on fire"):
        describe("file:/nowhere", TableOfFiles(TABLE), broken)


#: Name, field id and values of each column of the files below.
_Columns = list[tuple[str, int | None, str, list[int | None]]]
ID: _Columns = [("id", 1, "long", [7, 8])]
LINEAGE: _Columns = [
    ("_row_id", ROW_ID.id, "long", [5, 3]),
    ("_last_updated_sequence_number", LAST_UPDATED.id, "long", [2, None]),
]


def carrying(file_format: str, columns: _Columns) -> bytes:
    """A file with these columns and field ids."""
    target = io.BytesIO()
    if file_format == "AVRO":
        fields = [
            {"name": name, "type": ["null", kind], **({} if id_ is None else {"field-id": id_})}
            for name, id_, kind, _ in columns
        ]
        rows = [{name: found[at] for name, _, _, found in columns} for at in (0, 1)]
        fastavro.writer(target, {"type": "record", "name": "t", "fields": fields}, rows)
        return target.getvalue()
    key = {"PARQUET": "PARQUET:field_id", "ORC": "iceberg.id"}[file_format]
    arrow = pa.schema(
        [
            pa.field(name, pa.int32() if kind == "int" else pa.int64(), metadata={} if id_ is None else {key: str(id_)})
            for name, id_, kind, _ in columns
        ]
    )
    table = pa.table([found for *_, found in columns], schema=arrow)
    if file_format == "PARQUET":
        pq.write_table(table, target)
    else:
        orc.write_table(table, target)
    return target.getvalue()


@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO"])
def test_the_metadata_columns_of_row_lineage_are_no_extra_ones(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(carrying(file_format, [*LINEAGE, *ID]))
    table = table_for(pa.schema([("id", pa.int64())]), version=3)
    found = describe(str(path), TableOfFiles(table), open_input)
    known = {ROW_ID.id: LineageValues(0, 3, 5), LAST_UPDATED.id: LineageValues(1, 2, 2)}
    if file_format == "AVRO":
        known = dict.fromkeys(known, LineageValues())
    assert (found.extra_columns, found.lineage) == ((), known)
    assert row_lineage(str(path), TableOfFiles(table), open_input) == known
    nulls = found.data_file.null_value_counts
    assert nulls == (None if file_format == "AVRO" else {1: 0, ROW_ID.id: 0, LAST_UPDATED.id: 1}), "as Java counts them"


@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO"])
def test_columns_that_only_look_like_them(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / "a"
    table = table_for(pa.schema([("id", pa.int64())]), version=3)
    path.write_bytes(carrying(file_format, [*ID, ("_row_id", None, "long", [1, 2])]))
    found = describe(str(path), TableOfFiles(table), open_input)
    assert (found.extra_columns, found.lineage) == (("_row_id",), {})
    path.write_bytes(carrying(file_format, [*ID, ("_row_id", ROW_ID.id, "int", [1, 2])]))
    with pytest.raises(InvalidInput, match=r"column _row_id is .* in the file and long in the table"):
        describe(str(path), TableOfFiles(table), open_input)
    path.write_bytes(carrying(file_format, [*ID, *LINEAGE, ("again", ROW_ID.id, "long", [1, 2])]))
    with pytest.raises(InvalidInput, match="again is column _row_id of the table, and so is another"):
        describe(str(path), TableOfFiles(table), open_input)
    path.write_bytes(carrying(file_format, LINEAGE))
    with pytest.raises(InvalidInput, match="has no column of the table"):
        describe(str(path), TableOfFiles(table), open_input)


@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO"])
@pytest.mark.parametrize("version", [1, 2])
def test_older_tables_have_no_such_columns(tmp_path: Path, file_format: str, version: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(carrying(file_format, [*ID, *LINEAGE]))
    with pytest.raises(InvalidInput, match=r"a carries _row_id, _last_updated_sequence_number, which .* version 3 on"):
        describe(str(path), TableOfFiles(table_for(pa.schema([("id", pa.int64())]), version=version)), open_input)
