from dataclasses import replace

import pytest

from iceberg_hms.catalog.purge import purge_files
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.coordinator.protocol.metadata_cache import TableVersion
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable, StorageError
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.catalog.operations.test_files import SCHEMA, parquet


class StubbornFiles(MemoryFiles):
    """Refuses to delete what is in `stubborn`."""

    def __init__(self):
        super().__init__()
        self.stubborn = set()

    def delete(self, location):
        if location in self.stubborn:
            raise StorageError("denied")
        return super().delete(location)


@pytest.fixture
def files():
    return StubbornFiles()


def dropped(files, *, purge=True, break_file=None, **properties):
    """Drop a table of two snapshots; the files that are left. break_file: damages the table before."""
    pointer = MemoryTablePointer(namespaces=())
    with memory_catalog(files=files, pointer=pointer) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA, partition_spec=["day(event_time)"], properties=properties)
        for number in (1, 2):
            files.write(f"file:/warehouse/db.db/t/data/{number}.parquet", parquet(number, "ERROR"))
            table.append([f"file:/warehouse/db.db/t/data/{number}.parquet"])
        if break_file is not None:
            break_file(table, catalog)
    # Another process, with empty caches.
    with memory_catalog(files=files, pointer=pointer) as catalog:
        catalog.drop_table("db.t", purge=purge)
        with pytest.raises(NoSuchTable):
            catalog.load_table("db.t")
        return files.locations()


def test_a_drop_keeps_every_file(files):
    assert len(dropped(files, purge=False)) == 2 + 3 + 2 + 2


def test_a_purge_deletes_data_manifests_lists_and_metadata(files):
    assert dropped(files) == ()


@pytest.mark.parametrize("value", ["false", "no"])
def test_a_purge_keeps_shared_data_files(files, value):
    """Java takes whatever is not true for false."""
    left = dropped(files, **{"gc.enabled": value})
    assert sorted(left) == ["file:/warehouse/db.db/t/data/1.parquet", "file:/warehouse/db.db/t/data/2.parquet"]


def test_a_purge_goes_on_after_a_file_that_it_cannot_delete(files, caplog):
    files.stubborn.add("file:/warehouse/db.db/t/data/1.parquet")
    assert dropped(files) == ("file:/warehouse/db.db/t/data/1.parquet",)
    assert "file:/warehouse/db.db/t/data/1.parquet could not be deleted" in caplog.text


def test_a_missing_manifest_list_does_not_stop_the_purge(files, caplog):
    def lose_a_list(table, _catalog):
        files.delete(table.snapshots()[0].manifest_list)

    left = dropped(files, break_file=lose_a_list)
    assert [path for path in left if path.endswith(".metadata.json")] == []


@pytest.mark.parametrize("odd", [[{"snapshot-id": 1}], [{"statistics-path": 5}], ["file:/warehouse/db.db/t/x"], 7])
def test_a_malformed_entry_does_not_stop_the_purge(odd, files, caplog):
    with memory_catalog(files=files) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        for name in "abc":
            files.write(f"file:/warehouse/db.db/t/{name}", b"")
        named = [{"snapshot-id": 2, "statistics-path": f"file:/warehouse/db.db/t/{name}"} for name in "ab"]
        odder = {
            "statistics": [named[0], *odd, named[1]] if isinstance(odd, list) else odd,
            "partition-statistics": [{"snapshot-id": 2, "statistics-path": "file:/warehouse/db.db/t/c"}],
            "metadata-log": [{"timestamp-ms": 1}],
        }
        metadata = TableMetadata({**table.metadata.fields, **odder})
        row = catalog.pointer("db.t")
        catalog.drop_table("db.t")
        purge_files(catalog.services.ports, TableVersion(row, metadata))
    assert files.locations() == (
        () if isinstance(odd, list) else ("file:/warehouse/db.db/t/a", "file:/warehouse/db.db/t/b")
    )
    assert "has no metadata-file" in caplog.text


def test_a_purge_keeps_all_files_if_the_metastore_names_no_other_tables(files, caplog, monkeypatch):
    def gone(*_, **__):
        raise MetastoreUnavailable("no server answers")

    def damage(_table, _catalog):
        monkeypatch.setattr(MemoryTablePointer, "find_by_folder", gone)

    assert len(dropped(files, break_file=damage)) == 9
    assert "the files of the dropped table db.t are kept: other tables may name them: no server answers" in caplog.text


def test_a_purge_keeps_all_files_of_a_folder_that_another_table_has_too(files, caplog):
    def share(table, catalog):
        rows = catalog.services.ports.pointer.rows
        rows[TableName("db", "same")] = rows[table.name]

    assert len(dropped(files, break_file=share)) == 9
    assert "the files of the dropped table db.t are kept: db.same has the folder" in caplog.text


@pytest.mark.parametrize("folder", ["file:/warehouse", "file:/warehouse/db.db"])
def test_a_table_around_does_not_stop_a_purge(files, folder):
    def surround(table, catalog):
        rows = catalog.services.ports.pointer.rows
        parameters = {**rows[table.name].parameters, "metadata_location": f"{folder}/metadata/1.metadata.json"}
        rows[TableName("db", "wide")] = replace(rows[table.name], location=folder, parameters=parameters)

    assert dropped(files, break_file=surround) == ()
