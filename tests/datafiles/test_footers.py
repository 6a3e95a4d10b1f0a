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

from iceberg_hms.datafiles.footers import describe
from iceberg_hms.errors import CorruptFile, InvalidInput, MissingFile, StorageError
from tests.catalog.parquet import open_input, table_for

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
    found = describe(str(path), TABLE, open_input).data_file
    assert (found.file_format, found.record_count, found.file_path) == (file_format, 2, str(path))


@pytest.mark.parametrize("name", ["a.csv", "a", "a.parquet.crc"])
def test_other_files_are_refused_with_the_formats_that_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"id,name\n1,a\n")
    with pytest.raises(InvalidInput, match="none of Parquet, ORC and Avro"):
        describe(str(path), TABLE, open_input)


@pytest.mark.parametrize("extension", ["parquet", "orc", "avro"])
def test_a_file_with_a_formats_name_and_no_formats_bytes_is_no_data_file(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.{extension}"
    path.write_bytes(b"id,name\n1,a\n")
    with pytest.raises((CorruptFile, InvalidInput), match=rf"a\.{extension} is "):
        describe(str(path), TABLE, open_input)


@pytest.mark.parametrize("file_format", ["PARQUET", "ORC", "AVRO"])
def test_a_file_that_was_cut_off_is_damaged(tmp_path: Path, file_format: str) -> None:
    for name in ("a", f"a.{file_format.lower()}"):
        path = tmp_path / name
        path.write_bytes(content(file_format)[:-10])
        with pytest.raises(CorruptFile, match="is damaged"):
            describe(str(path), TABLE, open_input)


@pytest.mark.parametrize("extension", ["parquet", "orc", "avro"])
def test_a_rightly_named_file_is_opened_once(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.{extension}"
    path.write_bytes(content(extension.upper()))
    opened: list[str] = []

    def counting(location: str) -> Any:
        opened.append(location)
        return open_input(location)

    describe(str(path), TABLE, counting)
    assert opened == [str(path)]


def test_errors_of_storage_pass_through() -> None:
    def missing(location: str) -> Any:
        raise MissingFile(location)

    def broken(location: str) -> Any:
        raise OSError("disk on fire")

    with pytest.raises(MissingFile):
        describe("file:/nowhere", TABLE, missing)
    with pytest.raises(StorageError, match="disk on fire"):
        describe("file:/nowhere", TABLE, broken)
