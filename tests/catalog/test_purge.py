from dataclasses import replace
from itertools import pairwise

import pytest

from iceberg_hms.catalog import purge
from iceberg_hms.catalog.purge import SEARCH_AGAIN_SECONDS, Purge
from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.errors import MetastoreUnavailable, NoSuchTable, StorageError
from iceberg_hms.format.metadata import table_properties
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.memory_budget import MemoryBudget
from iceberg_hms.runtime import ThreadRuntime
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


def dropped(files, *, deletes=True, break_file=None, **properties):
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
        (catalog.purge_table if deletes else catalog.drop_table)("db.t")
        with pytest.raises(NoSuchTable):
            catalog.load_table("db.t")
        return files.locations()


def test_a_drop_keeps_every_file(files):
    assert len(dropped(files, deletes=False)) == 2 + 3 + 2 + 2


def test_a_purge_deletes_data_manifests_lists_and_metadata(files):
    assert dropped(files) == ()


@pytest.mark.parametrize("value", ["false", "no"])
def test_a_purge_keeps_shared_data_files(files, value, monkeypatch):
    """Java takes whatever is not true for false."""
    monkeypatch.setattr(table_properties, "check", lambda _properties: None)
    left = dropped(files, **{"gc.enabled": value})
    assert sorted(left) == ["file:/warehouse/db.db/t/data/1.parquet", "file:/warehouse/db.db/t/data/2.parquet"]


def test_a_purge_goes_on_after_a_file_that_it_cannot_delete(files, caplog):
    files.stubborn.add("file:/warehouse/db.db/t/data/1.parquet")
    assert dropped(files) == ("file:/warehouse/db.db/t/data/1.parquet",)
    assert "file:/warehouse/db.db/t/data/1.parquet could not be deleted" in caplog.text


class Budget(MemoryBudget):
    """Has no memory for the next `refusals` things."""

    refusals = 0

    def add(self, of, size):
        self.refusals -= 1
        return self.refusals < 0 and super().add(of, size)


@pytest.mark.parametrize("read", ["list", "manifest"])
def test_a_purge_without_memory_deletes_nothing_that_leads_to_other_files(read, files, caplog):
    budget = Budget()
    with memory_catalog(files=files) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        files.write("file:/warehouse/db.db/t/data/1.parquet", parquet(1, "ERROR"))
        table.append(["file:/warehouse/db.db/t/data/1.parquet"])
        row, metadata = catalog.pointer("db.t"), table.metadata
        catalog.drop_table("db.t")
    with memory_catalog(files=files) as catalog:
        if read == "manifest":
            catalog.services.ports.manifests().list(metadata.current_snapshot)
        catalog.use_memory(budget)
        before = set(files.locations())
        ran = Purge(catalog.services.ports, TableVersion(row, metadata))
        budget.refusals = 2
        assert not ran.run(is_last=False)
        assert ran.run()
        assert set(files.locations()) == before
        assert f"bytes of memory for {metadata.location}" in caplog.text
        assert f"registered from {row.metadata_location}" in caplog.text
        assert ran.run()
    assert files.locations() == ()


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
        Purge(catalog.services.ports, TableVersion(row, metadata)).run()
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
        rows[TableName("db", "same")] = rows[table.name()]

    assert len(dropped(files, break_file=share)) == 9
    assert "the files of the dropped table db.t are kept: db.same has the folder" in caplog.text


def test_a_purge_keeps_all_files_of_a_table_that_can_become_a_hive_table_again(files, caplog):
    def migrated(table, catalog):
        rows = catalog.services.ports.pointer.rows
        row = rows[table.name()]
        rows[table.name()] = replace(row, parameters={**row.parameters, HIVE_TABLE: "file:/saved"})

    assert len(dropped(files, break_file=migrated)) == 9
    assert "it can become a Hive table again, until `iceberg-hms migrate --keep`" in caplog.text


@pytest.mark.parametrize("folder", ["file:/warehouse", "file:/warehouse/db.db"])
def test_a_table_around_does_not_stop_a_purge(files, folder):
    def surround(table, catalog):
        rows = catalog.services.ports.pointer.rows
        parameters = {**rows[table.name()].parameters, "metadata_location": f"{folder}/metadata/1.metadata.json"}
        rows[TableName("db", "wide")] = replace(rows[table.name()], location=folder, parameters=parameters)

    assert dropped(files, break_file=surround) == ()


ORDER = ["data"] * 3 + ["manifest"] * 2 + ["list"] * 2 + ["metadata"] * 3


class Dropped:
    """A dropped table of three data files in two manifests, whose purge has not begun. deleted: in order, each attempt.
    now: the time. manifests: wraps what reads them. fields: of the metadata."""

    def __init__(self, files, manifests=lambda reader: reader, **fields):
        self.files, self.deleted, self.events, self.now = files, [], [], 0.0
        self.pointer = MemoryTablePointer(namespaces=())
        runtime = ThreadRuntime()
        runtime.now = lambda: self.now
        self.catalog = memory_catalog(files=files, pointer=self.pointer, runtime=runtime)
        self.catalog.create_namespace("db")
        table = self.catalog.create_table("db.t", SCHEMA, partition_spec=["day(event_time)"])
        for numbers in ((1, 2), (3,)):
            paths = [f"file:/warehouse/db.db/t/data/{number}.parquet" for number in numbers]
            for number, path in zip(numbers, paths, strict=True):
                files.write(path, parquet(number, "ERROR"))
            table.append(paths)
        # The event of the last append may come after its answer.
        self.catalog.subscribe(lambda event: event["event"] == "committed" or self.events.append(event))
        self.row = self.pointer.rows[table.name()]
        version = TableVersion(self.catalog.pointer("db.t"), TableMetadata({**table.metadata.fields, **fields}))
        ports = self.catalog.services.ports
        self.purge = Purge(replace(ports, manifests=lambda: manifests(ports.manifests())), version)
        delete = files.delete

        def watched(location):
            self.deleted.append(location)
            return delete(location)

        files.delete = watched
        self.catalog.drop_table("db.t")

    @property
    def kinds(self):
        """Of the deleted files."""
        kinds = {"/data/": "data", "/snap-": "list", ".json": "metadata"}
        return [next((kinds[mark] for mark in kinds if mark in each), "manifest") for each in self.deleted]

    @property
    def purged(self):
        [event] = [each for each in self.events if each["event"] == "purged"]
        return {key: event[key] for key in ("ended", "deleted", "kept", "failed", "why")}


def test_a_batch_of_data_files_is_deleted_before_the_next_one_is_read(files, monkeypatch):
    """So memory does not grow with their number."""
    monkeypatch.setattr(purge, "PUBLISHED_MAX", 1)
    read = []

    def watched(reader):
        entries = reader.entries

        def one_by_one(manifests):
            for entry in entries(manifests):
                assert len(dropped.deleted) == len(read)
                read.append(entry.data_file.file_path)
                yield entry

        reader.entries = one_by_one
        return reader

    dropped = Dropped(files, watched)
    dropped.purge.run()
    assert dropped.deleted[: len(read)] == read
    assert len(read) == 3


def test_files_go_in_an_order_in_which_the_rest_is_always_found(files):
    dropped = Dropped(files)
    metadata = dropped.purge.metadata_location
    dropped.purge.run()
    kinds = [
        "metadata"
        if each.endswith(".json")
        else "data"
        if "/data/" in each
        else "list"
        if "/snap-" in each
        else "manifest"
        for each in dropped.deleted
    ]
    assert kinds == ["data"] * 3 + ["manifest"] * 2 + ["list"] * 2 + ["metadata"] * 3
    assert dropped.deleted[-1] == metadata
    assert dropped.purged == {"ended": True, "deleted": 10, "kept": 0, "failed": 0, "why": ""}


@pytest.mark.parametrize("after", range(10))
def test_a_purge_that_was_stopped_anywhere_can_be_run_again_by_anyone(files, after, monkeypatch):
    """Through the metadata file, which an operator registers."""
    monkeypatch.setattr(purge, "PUBLISHED_MAX", 1)
    dropped = Dropped(files)
    assert not dropped.purge.run(lambda: len(dropped.deleted) >= after)
    assert (len(dropped.deleted), dropped.events[after:]) == (after, [])
    dropped.purge.give_up()
    assert dropped.purged == {
        "ended": False,
        "deleted": after,
        "kept": 0,
        "failed": 0,
        "why": "it was stopped",
    }
    dropped.catalog.register_table("db.again", dropped.purge.metadata_location)
    dropped.catalog.purge_table("db.again")
    assert files.locations() == ()


def test_a_purge_that_was_stopped_goes_on(files, monkeypatch):
    monkeypatch.setattr(purge, "PUBLISHED_MAX", 1)
    dropped = Dropped(files)
    assert not dropped.purge.run(lambda: len(dropped.deleted) >= 4)
    assert dropped.purge.run()
    assert dropped.purged == {"ended": True, "deleted": 10, "kept": 0, "failed": 0, "why": ""}
    assert files.locations() == ()


def test_a_purge_says_what_it_could_not_delete_and_what_it_kept(files):
    theirs = {"snapshot-id": 1, "statistics-path": "file:/warehouse/db.db/u/stats"}
    dropped = Dropped(files, statistics=[theirs])
    files.stubborn.add("file:/warehouse/db.db/t/data/1.parquet")
    dropped.purge.run()
    why = f"they do not lie in its own folder {dropped.row.location}"
    assert dropped.purged == {"ended": True, "deleted": 9, "kept": 1, "failed": 1, "why": why}


def test_a_table_that_comes_into_the_folder_while_its_files_are_deleted_stops_that(files, monkeypatch):
    monkeypatch.setattr(purge, "PUBLISHED_MAX", 2)
    dropped = Dropped(files)

    def stop():
        if len(dropped.deleted) == 3:
            dropped.now += SEARCH_AGAIN_SECONDS
            dropped.pointer.rows[TableName("db", "new")] = dropped.row
        return False

    dropped.purge.run(stop)
    assert len(dropped.deleted) == 3, "the next batch"
    assert dropped.purged["why"].startswith("db.new has the folder")


def test_a_search_that_fails_is_made_again_by_a_purge_that_goes_on(files, monkeypatch):
    dropped = Dropped(files)
    find, searches = MemoryTablePointer.find_by_folder, []

    def slow_at_first(self, *of, timeout_seconds):
        searches.append(timeout_seconds)
        if len(searches) == 1:
            raise MetastoreUnavailable("There was no time")
        return find(self, *of, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(MemoryTablePointer, "find_by_folder", slow_at_first)
    assert not dropped.purge.run(search_seconds=2.0, is_last=False)
    assert (dropped.deleted, dropped.events) == ([], [])
    assert dropped.purge.run(search_seconds=600.0)
    assert dropped.purged == {"ended": True, "deleted": 10, "kept": 0, "failed": 0, "why": ""}
    assert (searches[0], max(searches)) == (2.0, 600.0)


def test_no_more_time_goes_to_searches_than_to_deletions(files, monkeypatch):
    monkeypatch.setattr(purge, "PUBLISHED_MAX", 1)
    dropped = Dropped(files)
    find, searched_at = purge.find_own_files, []

    def slow(*of, **how):
        searched_at.append(dropped.now)
        dropped.now += 4 * SEARCH_AGAIN_SECONDS
        return find(*of, **how)

    def stop():
        dropped.now += SEARCH_AGAIN_SECONDS / 2
        return False

    monkeypatch.setattr(purge, "find_own_files", slow)
    assert dropped.purge.run(stop)
    assert len(searched_at) > 1
    pauses = [later - earlier for earlier, later in pairwise(searched_at)]
    assert min(pauses) >= 8 * SEARCH_AGAIN_SECONDS


@pytest.mark.parametrize("call", range(1, 14))
def test_a_purge_that_stops_once_leaves_out_nothing(files, call):
    dropped = Dropped(files)
    asked = []

    def stop():
        asked.append(None)
        return len(asked) == call

    assert not dropped.purge.run(stop)
    assert dropped.kinds == ORDER[: len(dropped.kinds)]
    assert dropped.purge.run()
    assert dropped.purged["deleted"] == len(ORDER)
