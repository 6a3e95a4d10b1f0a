"""The file with the row of a Hive table; test_kind_changes.py damages it."""

import json

import pytest

from iceberg_hms.coordinator.operations import saved_row
from iceberg_hms.coordinator.operations.saved_row import SavedRow
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CorruptFile
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_hive import MemoryHiveTables
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

NAME = TableName("db", "t")


def test_a_row_is_read_as_it_was_written_and_people_can_read_it_too():
    hive, files = MemoryHiveTables(MemoryTablePointer()), MemoryFiles()
    hive.add(NAME, "file:/wh/db/t", parameters={"colour": "red"}, partitions=["file:/p"])
    saved = SavedRow(hive.load_row(NAME), "a-uuid", 77)
    files.write("file:/x.json", saved.to_bytes(hive))
    found = saved_row.read(files, hive, NAME, "file:/x.json")
    assert (found, found.row.table) == (saved, saved.row.table)
    renamed = saved_row.read(files, hive, TableName("db", "u"), "file:/x.json")
    assert renamed.row.name == TableName("db", "u")
    assert saved_row.name_in(files, "file:/x.json") == NAME
    shown = json.loads(files.read("file:/x.json"))["row"]
    assert (shown["table"], shown["location"], shown["parameters"]["colour"]) == ("db.t", "file:/wh/db/t", "red")
    assert shown["columns"] == [{"name": "id", "type": "int", "comment": None}]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"row": 1}', b'{"row": {"table": 1}}'])
def test_a_file_that_names_no_table_is_damaged(text):
    files = MemoryFiles()
    files.write("file:/x.json", text)
    with pytest.raises(CorruptFile, match="no row of a Hive table"):
        saved_row.name_in(files, "file:/x.json")
