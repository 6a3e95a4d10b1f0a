"""Stock Java and Spark clients that planned a commit before another writer changed the table: conflicts that the
requirements of their commits do not express, and that would have made tables wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import InvalidInput
from iceberg_hms.rest.server import RestServer
from integration import interop
from integration.faults import SCHEMA
from integration.rest_clients import ALL, TOKEN, BeforeCommits
from integration.rest_clients import catalog as catalog
from integration.rest_clients import java as java
from integration.rest_clients import server as server

HOURS_MS = 2 * 3_600_000
#: Readers find the columns of files without field ids by their names.
COLUMNS = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]
BY_NAME = {"schema.name-mapping.default": json.dumps(COLUMNS)}
NO_RETRY = {"commit.retry.num-retries": "0"}


@contextmanager
def overtaken(spark: Any, catalog: Any, name: str, happens: Callable[[], object]) -> Iterator[tuple[Any, str]]:
    """A Java catalog, and the name of a Spark catalog; the server calls `happens` before it handles their first
    commit."""
    left = [happens]

    def first() -> None:
        if left:
            left.pop()()

    with RestServer(BeforeCommits(catalog, first), host="127.0.0.1", port=0, token=TOKEN) as server:
        made = interop.java_catalog(spark, interop.REST_CATALOG, name, uri=server.uri, token=TOKEN)
        place = interop.add_spark_catalog(spark, name, type="rest", uri=server.uri, token=TOKEN)
        yield made, place
        made.close()
    assert not left, "nothing was committed"


def java_append(spark: Any, loaded: Any, path: Path, ids: list[int]) -> Callable[[], None]:
    """Plan a fast append now; the returned function commits it."""
    append = loaded.newFastAppend().appendFile(interop.java_data_file(spark, loaded, interop.small_parquet(path, ids)))
    return lambda: append.commit()


@pytest.mark.slow
def test_a_replaced_table_s_spec_is_not_taken_for_another_writer_s(
    spark: Any, catalog: Any, namespace: str, server: RestServer
) -> None:
    """CREATE OR REPLACE is planned: its spec is the table's second | another writer adds a spec | the replace
    arrives."""
    table = f"{namespace}.t"
    rest = interop.add_spark_catalog(spark, "replace", type="rest", uri=server.uri, token=TOKEN)
    spark.sql(f"CREATE TABLE {rest}.{table} (id BIGINT, a STRING, b STRING) USING iceberg PARTITIONED BY (a, b)")
    spark.sql(f"INSERT INTO {rest}.{table} VALUES (1, 'x', 'y')")
    replace = (
        f"CREATE OR REPLACE TABLE {{}}.{table} USING iceberg PARTITIONED BY ({{}}) AS "
        "SELECT * FROM VALUES (1L, 'x1', 'y1'), (2L, 'x2', 'y2') AS t(id, a, b)"
    )
    rows = [{"id": 1, "a": "x1", "b": "y1"}, {"id": 2, "a": "x2", "b": "y2"}]

    def another_spec() -> None:
        spark.sql(f"ALTER TABLE {rest}.{table} DROP PARTITION FIELD a")

    with overtaken(spark, catalog, "replace_overtaken", another_spec) as (_, place):
        with pytest.raises(Exception, match="the partition spec that was sent as 1 would become 2"):
            spark.sql(replace.format(place, "a"))
        assert interop.spark_rows(spark, f"SELECT id FROM {rest}.{table}") == [{"id": 1}]
        for spec in ("a", "a"):
            spark.sql(replace.format(place, spec))
            assert interop.spark_rows(spark, f"SELECT * FROM {rest}.{table}") == rows
            assert interop.spark_rows(spark, f"SELECT * FROM {rest}.{table} WHERE a = 'x2' AND b = 'y2'") == rows[1:]


def test_a_spec_that_an_unseen_append_used_is_not_removed(
    spark: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    """An append is planned on spec 0 | spec 1 is the default | an expiry finds no snapshot on spec 0 | the append lands
    | the expiry arrives, and would remove spec 0, which the append uses; its client tries again and keeps the spec."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=BY_NAME)
    [plain] = java(1)
    append = java_append(spark, plain.loadTable(interop.java_identifier(spark, table)), tmp_path / "a.parquet", [1])
    plain.loadTable(interop.java_identifier(spark, table)).updateSpec().addField("name").commit()
    with overtaken(spark, catalog, "expiry_overtaken", append) as (overtaken_catalog, place):
        loaded = overtaken_catalog.loadTable(interop.java_identifier(spark, table))
        loaded.expireSnapshots().cleanExpiredMetadata(True).commit()
        assert interop.spark_rows(spark, f"SELECT id FROM {place}.{table}") == [{"id": 1}]
    assert sorted(spec.spec_id for spec in catalog.load(table).metadata.specs) == [0, 1]


def test_an_append_on_a_spec_that_was_removed_is_refused(
    spark: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    """The other order, in which the branch does not move."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties={**BY_NAME, **NO_RETRY})
    [plain] = java(1)
    loaded = plain.loadTable(interop.java_identifier(spark, table))
    loaded.updateSpec().addField("name").commit()

    def expire() -> None:
        loaded.expireSnapshots().cleanExpiredMetadata(True).commit()

    with overtaken(spark, catalog, "append_overtaken", expire) as (overtaken_catalog, place):
        early = overtaken_catalog.loadTable(interop.java_identifier(spark, table))
        file = java_file_of_spec_0(spark, early, interop.small_parquet(tmp_path / "b.parquet", [2]))
        error = interop.java_error(early.newFastAppend().appendFile(file).commit)
        assert error is not None
        assert "CommitFailedException" in error
        assert "was written with partition spec 0, which is not in the table" in error
        assert interop.spark_rows(spark, f"SELECT id FROM {place}.{table}") == []


def java_file_of_spec_0(spark: Any, loaded: Any, path: Path) -> Any:
    return (
        spark._jvm.org.apache.iceberg.DataFiles.builder(loaded.specs().get(0))
        .withPath(f"file:{path}")
        .withFormat("PARQUET")
        .withFileSizeInBytes(path.stat().st_size)
        .withRecordCount(1)
        .build()
    )


def test_rows_keep_their_ids_where_the_first_commit_after_an_upgrade_was_unseen(
    spark: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    """Rows of version 2 | upgrade to 3 | an append that merges their manifests is planned | another writer gives them
    ids."""
    table = f"{namespace}.t"
    merges = {"commit.manifest.min-count-to-merge": "2"}
    catalog.create_table(table, SCHEMA, properties={**ALL, **BY_NAME, **NO_RETRY, **merges})
    [plain] = java(1)
    loaded = plain.loadTable(interop.java_identifier(spark, table))
    for number in range(3):
        java_append(spark, loaded, tmp_path / f"{number}.parquet", [number * 10, number * 10 + 1])()
    loaded.updateProperties().set("format-version", "3").commit()
    query = f"SELECT id, _row_id FROM {{}}.{table}"
    seen: list[Any] = []

    def other() -> None:
        java_append(spark, loaded, tmp_path / "other.parquet", [100])()
        seen.extend(interop.spark_rows(spark, query.format("ids_overtaken")))

    with overtaken(spark, catalog, "ids_overtaken", other) as (overtaken_catalog, place):
        mine = interop.java_data_file(spark, loaded, interop.small_parquet(tmp_path / "mine.parquet", [200]))

        again = overtaken_catalog.loadTable(interop.java_identifier(spark, table))
        assert interop.java_error(again.newAppend().appendFile(mine).commit) is None
        rows = interop.spark_rows(spark, query.format(place))
    assert None not in [row["_row_id"] for row in rows]
    assert len({row["_row_id"] for row in rows}) == len(rows) == 8
    assert [row for row in rows if row["id"] != 200] == seen


def test_an_equality_delete_does_not_come_to_hold_for_newer_rows(
    spark: Any, catalog: Any, namespace: str, java: Any
) -> None:
    """A row delta (d1, and an equality delete e1 for older rows) and a rewrite of d1 to d2 that keeps its data sequence
    number, in one transaction | another branch takes the number."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=NO_RETRY)
    [plain] = java(1)
    identifier = interop.java_identifier(spark, table)
    loaded = plain.loadTable(identifier)
    loaded.newFastAppend().appendFile(made_up(spark, loaded, "a")).commit()
    loaded.manageSnapshots().createBranch("audit").commit()
    deletes = (
        spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(loaded.spec())
        .ofEqualityDeletes(_ints(spark, 1))
        .withPath("file:/nowhere/e1.parquet")
        .withFormat("PARQUET")
        .withFileSizeInBytes(100)
        .withRecordCount(1)
        .build()
    )
    d1, d2 = made_up(spark, loaded, "d1"), made_up(spark, loaded, "d2")

    def run(java_catalog: Any) -> str | None:
        transaction = java_catalog.loadTable(identifier).newTransaction()
        transaction.newRowDelta().addRows(d1).addDeletes(deletes).commit()
        number = transaction.table().currentSnapshot().sequenceNumber()
        transaction.newRewrite().dataSequenceNumber(number).deleteFile(d1).addFile(d2).commit()
        return interop.java_error(transaction.commitTransaction)

    def other() -> None:
        loaded.newFastAppend().toBranch("audit").appendFile(made_up(spark, loaded, "b")).commit()

    with overtaken(spark, catalog, "delete_overtaken", other) as (overtaken_catalog, _):
        error = run(overtaken_catalog)
        assert error is not None
        assert "CommitFailedException" in error
        assert "has files with explicit sequence numbers in a manifest of its own" in error
        assert run(overtaken_catalog) is None
    assert deletes_of(plain.loadTable(identifier)) == {"a": 1, "d2": 0}


def _ints(spark: Any, *values: int) -> Any:
    java = spark._jvm.java.lang
    array = java.reflect.Array.newInstance(java.Integer.TYPE, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array


def made_up(spark: Any, loaded: Any, name: str) -> Any:
    """A data file that does not exist: the tests plan scans, and read none."""
    return (
        spark._jvm.org.apache.iceberg.DataFiles.builder(loaded.spec())
        .withPath(f"file:/nowhere/{name}.parquet")
        .withFormat("PARQUET")
        .withFileSizeInBytes(100)
        .withRecordCount(10)
        .build()
    )


def deletes_of(loaded: Any) -> dict[str, int]:
    """How many delete files apply to each data file of a scan."""
    found, tasks = {}, loaded.newScan().planFiles().iterator()
    while tasks.hasNext():
        task = tasks.next()
        found[Path(str(task.file().location())).stem] = int(task.deletes().size())
    return found


def poisoned(catalog: Any, table: str, folder: Path) -> None:
    """Make the table's last commit two hours younger than it is, as a writer with a fast clock did before servers
    refused it."""
    metadata = catalog.load(table).metadata
    raw = json.loads(metadata.to_bytes())
    raw["last-updated-ms"] += HOURS_MS
    raw["snapshot-log"][-1]["timestamp-ms"] += HOURS_MS
    raw["snapshots"][-1]["timestamp-ms"] += HOURS_MS
    file = folder / "00099-poisoned.metadata.json"
    file.write_text(json.dumps(raw))
    catalog.register_table(table, f"file:{file}", overwrite=True)


def test_a_table_from_the_future_comes_back(
    spark: Any, catalog: Any, namespace: str, java: Any, server: RestServer, tmp_path: Path
) -> None:
    """As docs/concurrent-writers.md says: who can write to the table meanwhile, what does not help, and what does."""
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=BY_NAME)
    [plain] = java(1)
    identifier = interop.java_identifier(spark, table)
    for number in range(2):
        java_append(spark, plain.loadTable(identifier), tmp_path / f"{number}.parquet", [number])()
    poisoned(catalog, table, tmp_path)

    def appends(number: int) -> None:
        java_append(spark, plain.loadTable(identifier), tmp_path / f"{number}.parquet", [number])()

    def sets_a_property() -> None:
        plain.loadTable(identifier).updateProperties().set("a", "b").commit()

    def is_closed_to_java() -> None:
        with pytest.raises(Exception, match="Expected sorted snapshot log entries"):
            appends(2)
        with pytest.raises(Exception, match="Invalid update timestamp"):
            sets_a_property()

    def main_goes_to(snapshot_id: int) -> None:
        move = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
        catalog.commit(table, [], [move])

    is_closed_to_java()
    catalog.load_table(table).append([f"file:{interop.small_parquet(tmp_path / '3.parquet', [3])}"])
    python = load_catalog("future", type="rest", uri=server.uri, token=TOKEN).load_table(table)
    python.append(pa.table({"id": [4], "name": ["row 4"]}, schema=SCHEMA))
    is_closed_to_java()
    first, *_, last = catalog.load(table).metadata.snapshots
    main_goes_to(first.snapshot_id)
    is_closed_to_java()
    main_goes_to(last.snapshot_id)

    loaded = catalog.load(table)
    raw, now = json.loads(loaded.metadata.to_bytes()), SYSTEM_CLOCK.now_ms()
    raw["last-updated-ms"] = min(raw["last-updated-ms"], now)
    for entry in raw["snapshot-log"] + raw["metadata-log"]:
        entry["timestamp-ms"] = min(entry["timestamp-ms"], now)
    repaired = tmp_path / "00100-repaired.metadata.json"
    repaired.write_text(json.dumps(raw))
    catalog.register_table(table, f"file:{repaired}", overwrite=True)

    appends(5)
    sets_a_property()
    rows = interop.spark_rows(spark, f"SELECT id FROM spark_catalog.{table}")
    assert rows == [{"id": each} for each in (0, 1, 3, 4, 5)]


def test_a_writer_whose_clock_is_fast_cannot_poison_a_table(
    spark: Any, catalog: Any, namespace: str, java: Any, tmp_path: Path
) -> None:
    table = f"{namespace}.t"
    catalog.create_table(table, SCHEMA, properties=BY_NAME)
    catalog.load_table(table).append([f"file:{interop.small_parquet(tmp_path / '0.parquet', [0])}"])
    head = catalog.load(table).metadata.current_snapshot
    ahead = {
        **head.raw,
        "snapshot-id": 77,
        "parent-snapshot-id": head.snapshot_id,
        "sequence-number": 2,
        "timestamp-ms": head.timestamp_ms + HOURS_MS,
    }
    moves = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 77}
    with pytest.raises(InvalidInput, match="snapshot 77 has a timestamp 7"):
        catalog.commit(table, [], [{"action": "add-snapshot", "snapshot": ahead}, moves])
    [plain] = java(1)
    loaded = plain.loadTable(interop.java_identifier(spark, table))
    assert interop.java_error(java_append(spark, loaded, tmp_path / "1.parquet", [1])) is None
