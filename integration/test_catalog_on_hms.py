"""The Python API on a real metastore: the running example, every move of the pointer, and what PyIceberg sees of it."""

from __future__ import annotations

import copy
import datetime
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import AlreadyExists, InvalidInput, NamespaceNotEmpty, NoSuchTable, RequirementFailed
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.connection.pool import ClientPool

EVENTS = pa.schema(
    [
        ("level", pa.string()),
        ("event_time", pa.timestamp("us")),
        ("message", pa.string()),
        ("call_stack", pa.list_(pa.string())),
    ]
)


@pytest.fixture
def catalog(metastore: LocalMetastore) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as connected:
        yield connected


@pytest.fixture
def events(catalog: Catalog, namespace: str) -> Any:
    return catalog.create_table(f"{namespace}.events", EVENTS, partition_spec=["day(event_time)"])


def file_of(folder: Path, name: str, *rows: tuple[str, int]) -> str:
    """A Parquet file with one row for each (level, day of April 2021)."""
    times = [datetime.datetime(2021, 4, day, 12) for _, day in rows]  # noqa: DTZ001 - a column without zone
    columns = {
        "level": [level for level, _ in rows],
        "event_time": times,
        "message": [f"{name} {number}" for number in range(len(rows))],
        "call_stack": [["main", "run"]] * len(rows),
    }
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table(columns, schema=EVENTS), path)
    return f"file:{path}"


def live_files(catalog: Catalog, table: Any) -> list[str]:
    table.refresh()
    if table.current_snapshot() is None:
        return []
    reader = catalog.manifests()
    return sorted(entry.data_file.file_path for entry in reader.entries(reader.list(table.current_snapshot())))


def test_the_running_example(catalog: Catalog, events: Any, tmp_path: Path, metastore: LocalMetastore) -> None:
    first = [file_of(tmp_path, "a", ("ERROR", 1)), file_of(tmp_path, "b", ("ERROR", 2), ("WARN", 2))]
    events.append(first)
    events.append([file_of(tmp_path, "c", ("ERROR", 1))])
    assert len(events.snapshots()) == 2
    reader = catalog.manifests()
    entries = list(reader.entries(reader.list(events.current_snapshot())))
    assert sorted(entry.data_file.partition["event_time_day"] for entry in entries) == [18718, 18718, 18719]
    assert events.current_snapshot().summary["total-records"] == "4"

    parameters = catalog.pointer(events.name()).parameters
    assert parameters["table_type"] == "ICEBERG"
    assert parameters["EXTERNAL"] == "TRUE"
    assert parameters["metadata_location"] == events.metadata_location
    assert parameters["previous_metadata_location"] == events.metadata.metadata_log[-1]["metadata-file"]
    assert (parameters["uuid"], parameters["snapshot-count"]) == (events.metadata.uuid, "2")
    assert (parameters["numFiles"], parameters["numRows"]) == ("3", "4")

    peer = load_catalog("peer", type="hive", uri=metastore.uri).load_table(str(events.name()))
    assert sorted(row["message"] for row in peer.scan().to_arrow().to_pylist()) == ["a 0", "b 0", "b 1", "c 0"]
    pruned = peer.scan(row_filter="event_time < '2021-04-02T00:00:00'").plan_files()
    assert len(list(pruned)) == 2


def test_rename_register_drop_and_purge(catalog: Catalog, events: Any, namespace: str, tmp_path: Path) -> None:
    data = file_of(tmp_path, "a", ("ERROR", 1))
    events.append([data])
    with pytest.raises(NamespaceNotEmpty):
        catalog.drop_namespace(namespace)
    catalog.rename_table(events.name(), f"{namespace}.renamed")
    assert catalog.list_tables(namespace) == [TableName(namespace, "renamed")]
    renamed = catalog.load_table(f"{namespace}.renamed")
    assert renamed.metadata == events.metadata
    catalog.drop_table(renamed.name())
    assert not catalog.table_exists(renamed.name())

    again = catalog.register_table(f"{namespace}.again", renamed.metadata_location)
    with pytest.raises(AlreadyExists):
        catalog.register_table(again.name(), renamed.metadata_location)
    over = catalog.register_table(again.name(), again.metadata.metadata_log[0]["metadata-file"], overwrite=True)
    assert over.current_snapshot() is None
    assert over.metadata_location not in (again.metadata_location, again.metadata.metadata_log[0]["metadata-file"])

    with pytest.raises(InvalidInput, match=rf"that of the table {namespace}\.again"):
        catalog.register_table(f"{namespace}.purged", renamed.metadata_location)
    catalog.drop_table(over.name())
    catalog.register_table(f"{namespace}.purged", renamed.metadata_location)
    catalog.purge_table(f"{namespace}.purged")
    assert not Path(renamed.metadata_location.removeprefix("file:")).exists()
    assert Path(data.removeprefix("file:")).exists(), "it lies outside the table's folder"
    catalog.drop_namespace(namespace)
    assert not catalog.namespace_exists(namespace)


def test_a_commit_is_replayed_while_another_catalog_commits(
    catalog: Catalog, events: Any, tmp_path: Path, metastore: LocalMetastore
) -> None:
    """Two separate catalogs, as in two processes; each alternately appends and sets properties."""
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as own:
                table = own.load_table(events.name())
                for number in range(5):
                    table.append([file_of(tmp_path, f"{name}{number}", ("INFO", 3))])
                    update = {"action": "set-properties", "updates": {f"{name}{number}": "set"}}
                    own.commit(events.name(), [], [update])
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    expected = sorted(f"file:{tmp_path}/{name}{number}.parquet" for name in "xyz" for number in range(5))
    assert live_files(catalog, events) == expected
    assert sum(1 for value in events.properties.values() if value == "set") == 15
    snapshots = list(events.metadata.ancestors(events.current_snapshot().snapshot_id))
    assert len(snapshots) == 15, "one chain"
    assert [snapshot.sequence_number for snapshot in snapshots] == list(range(15, 0, -1))


def test_a_rerun_of_a_job_adds_nothing(catalog: Catalog, events: Any, tmp_path: Path) -> None:
    data = file_of(tmp_path, "a", ("ERROR", 1))
    assert not events.append([data], idempotency_key="job-7").already_committed
    assert catalog.load_table(events.name()).append([data], idempotency_key="job-7").already_committed
    assert live_files(catalog, events) == [data]


def test_a_broken_assumption_names_itself_and_changes_nothing(catalog: Catalog, events: Any) -> None:
    before = catalog.pointer(events.name()).metadata_location
    with pytest.raises(RequirementFailed, match="UUID") as caught:
        catalog.commit(
            events.name(),
            [{"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}],
            [{"action": "set-properties", "updates": {"a": "b"}}],
        )
    assert caught.value.name == "assert-table-uuid"
    assert catalog.pointer(events.name()).metadata_location == before


def test_foreign_parameters_of_the_row_survive_a_commit(
    catalog: Catalog, events: Any, metastore: LocalMetastore, tmp_path: Path
) -> None:
    """Another client writes a parameter into the row; a commit of ours keeps it and all other fields of the Table."""
    row = copy.deepcopy(catalog.pointer(events.name()).table)
    row.parameters["foreign"] = "kept"
    name, pool = events.name(), ClientPool([metastore.uri])
    pool.call_once("alter_table", dbname=name.namespace, tbl_name=name.name, new_tbl=row)
    pool.close()
    before = catalog.pointer(events.name())
    events.append([file_of(tmp_path, "a", ("ERROR", 1))])
    after = catalog.pointer(events.name())
    assert after.parameters["foreign"] == "kept"
    for field in ("owner", "createTime", "retention", "tableType", "partitionKeys"):
        assert getattr(after.table, field) == getattr(before.table, field), field


def test_a_table_that_is_gone_is_missed_by_name(catalog: Catalog, namespace: str) -> None:
    with pytest.raises(NoSuchTable, match=rf"Table does not exist: {namespace}\.none"):
        catalog.load_table(f"{namespace}.none")
