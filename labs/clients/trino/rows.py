"""Trino's rows, and how it reads the history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pyarrow.parquet as pq

from labs.clients import others
from labs.clients.lab import Place
from labs.clients.results import Verdict, refused, works
from labs.clients.trino.catalog import Catalog, check_ids

_TRANSFORMS: Final = {
    "identity": "day",
    "bucket": "bucket(id, 3)",
    "truncate": "truncate(name, 2)",
    "year": "year(at)",
    "month": "month(at)",
    "day": "day(at)",
    "hour": "hour(at)",
}
_METADATA: Final = (
    "properties",
    "history",
    "metadata_log_entries",
    "snapshots",
    "manifests",
    "all_manifests",
    "partitions",
    "files",
    "entries",
    "all_entries",
    "refs",
)


def insert(catalog: Catalog, place: Place) -> Verdict | None:
    for name, spec in _TRANSFORMS.items():
        table = catalog.table(place, name)
        catalog.sql(
            f"CREATE TABLE {table} (id bigint, name varchar, day date, at timestamp(6))"
            f" WITH (partitioning = ARRAY['{spec}'])"
        )
        days = {id_: f"2024-0{1 + id_ % 3}-0{id_}" for id_ in range(1, 7)}
        values = ", ".join(
            f"({id_}, 'row {id_}', DATE '{day}', TIMESTAMP '{day} 0{id_}:30:00')" for id_, day in days.items()
        )
        catalog.sql(f"INSERT INTO {table} VALUES {values}, (7, NULL, NULL, NULL)")
        check_ids(catalog, place, list(range(1, 8)), name)
        found = catalog.sql(f"SELECT id FROM {table} WHERE at >= TIMESTAMP '2024-02-01 00:00:00' AND id < 3 ORDER BY 1")
        assert found == [[1], [2]], f"{name}: {found}"
    plain = catalog.make(place, "plain")
    catalog.insert(plain, 1, 2)
    catalog.sql(f"INSERT INTO {plain} SELECT id + 2, name FROM {plain}")
    check_ids(catalog, place, [1, 2, 3, 4], "plain")
    return None


def delete_rows(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2, 3)
    catalog.insert(table, 4, 5, 6)
    catalog.sql(f"DELETE FROM {table} WHERE id IN (2, 5)")
    check_ids(catalog, place, [1, 3, 4, 6])
    # Over what others added since, and over its own earlier deletes.
    place.lab.new_pyiceberg().load_table(place.table()).append(others.rows(7, 8))
    catalog.sql(f"DELETE FROM {table} WHERE id IN (1, 7)")
    check_ids(catalog, place, [3, 4, 6, 8])
    return None


def delete_partition(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place, properties="partitioning = ARRAY['name']")
    catalog.insert(table, 1, 2, 3)
    catalog.sql(f"DELETE FROM {table} WHERE name = 'row 2'")
    check_ids(catalog, place, [1, 3])
    (operation,) = catalog.sql(
        f"SELECT operation FROM {catalog.metadata(place, 'snapshots')} WHERE snapshot_id = {catalog.snapshot(place)}"
    )
    assert operation == ["delete"], operation
    return None


def update(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2, 3)
    catalog.sql(f"UPDATE {table} SET name = 'changed', id = id + 10 WHERE id >= 2")
    check_ids(catalog, place, [1, 12, 13])
    assert {row["name"] for row in place.lab.rows(place.table())} == {"row 1", "changed"}
    return None


def merge(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2, 3)
    before = len(catalog.sql(f"SELECT * FROM {catalog.metadata(place, 'snapshots')}"))
    catalog.sql(
        f"MERGE INTO {table} AS t USING (VALUES (1, 'gone'), (2, 'changed'), (9, 'new')) AS s(id, name) ON t.id = s.id"
        " WHEN MATCHED AND s.name = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    )
    check_ids(catalog, place, [2, 3, 9])
    assert {row["name"] for row in place.lab.rows(place.table())} == {"changed", "row 3", "new"}
    assert len(catalog.sql(f"SELECT * FROM {catalog.metadata(place, 'snapshots')}")) == before + 1
    return None


def truncate(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2, 3)
    catalog.sql(f"TRUNCATE TABLE {table}")
    check_ids(catalog, place, [])
    return None


def transaction(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.sql("START TRANSACTION")
    words = catalog.fails(f"INSERT INTO {table} VALUES (1, 'one')")
    catalog.sql("ROLLBACK")
    assert "autocommit" in words, words
    check_ids(catalog, place, [])
    return refused("`Catalog only supports writes using autocommit`: IcebergConnector.isSingleStatementWritesOnly")


def reads_others(catalog: Catalog, place: Place) -> Verdict | None:
    path = place.folder / "one.parquet"
    pq.write_table(others.rows(1, 2), path)
    place.lab.catalog.create_table(place.table(), others.SCHEMA).append([f"file:{path}"])
    theirs = place.lab.new_pyiceberg().load_table(place.table())
    theirs.append(others.rows(3, 4))
    theirs.delete("id = 3")
    check_ids(catalog, place, [1, 2, 4])
    table = catalog.table(place)
    catalog.insert(table, 5)
    catalog.sql(f"UPDATE {table} SET name = 'changed' WHERE id = 1")
    catalog.sql(f"DELETE FROM {table} WHERE id = 2")
    check_ids(catalog, place, [1, 4, 5])
    return None


def time_travel(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    first = catalog.snapshot(place)
    catalog.insert(table, 2)
    catalog.sql(f"ALTER TABLE {table} DROP COLUMN name")
    assert catalog.sql(f"SELECT id, name FROM {table} FOR VERSION AS OF {first}") == [[1, "row 1"]]
    made = place.lab.pyiceberg.load_table(place.table()).snapshot_by_id(first).timestamp_ms
    at = datetime.fromtimestamp(made / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    assert catalog.sql(f"SELECT id FROM {table} FOR TIMESTAMP AS OF TIMESTAMP '{at} UTC'") == [[1]]
    check_ids(catalog, place, [1, 2])
    return None


def branches(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    first = catalog.snapshot(place)
    for name, kind in (("old", "tag"), ("side", "branch")):
        update = {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": first}
        place.lab.catalog.commit(place.table(), [], [update])
    catalog.insert(table, 2)
    for name in ("old", "side"):
        assert catalog.sql(f"SELECT id FROM {table} FOR VERSION AS OF '{name}'") == [[1]]
    refs = catalog.sql(f"SELECT name, type FROM {catalog.metadata(place, 'refs')} ORDER BY name")
    assert refs == [["main", "BRANCH"], ["old", "TAG"], ["side", "BRANCH"]], refs
    words = catalog.fails(f"CREATE BRANCH new IN TABLE {table}")
    assert "mismatched input 'BRANCH'" in words, words
    check_ids(catalog, place, [1, 2])
    return refused("it reads branches and tags of others; its SQL has no CREATE BRANCH (SqlBase.g4)")


def metadata_tables(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place, properties="partitioning = ARRAY['name']")
    catalog.insert(table, 1, 2)
    catalog.sql(f"DELETE FROM {table} WHERE id = 1")
    path = place.folder / "one.parquet"
    pq.write_table(others.rows(4), path)
    place.lab.catalog.create_table(place.table("ours"), others.SCHEMA).append([f"file:{path}"])
    _read_metadata(catalog, place)
    found = _read_metadata(catalog, place, "ours")
    assert found["files"][0]["file_path"] == f"file:{path}"
    assert found["entries"][0]["data_file"]
    place.lab.new_pyiceberg().load_table(place.table()).append(others.rows(3))
    words = catalog.fails(f"SELECT * FROM {catalog.metadata(place, 'entries')}")
    assert "sortOrderId" in words, words
    return works("but for `$entries` and `$all_entries` of files that PyIceberg wrote: trinodb/trino#29211")


def _read_metadata(catalog: Catalog, place: Place, name: str = "t") -> dict[str, list[dict[str, Any]]]:
    """All metadata tables, each of which must have rows."""
    found = {}
    for kind in _METADATA:
        table = catalog.metadata(place, kind, name)
        rows = catalog.sql(f"SELECT * FROM {table}")
        columns = [row[0] for row in catalog.sql(f"DESCRIBE {table}")]
        assert rows, f"${kind} is empty"
        found[kind] = [dict(zip(columns, row, strict=True)) for row in rows]
    return found


def rollback(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    first = catalog.snapshot(place)
    catalog.insert(table, 2)
    catalog.sql(f"ALTER TABLE {table} EXECUTE rollback_to_snapshot({first})")
    check_ids(catalog, place, [1])
    catalog.insert(table, 3)
    check_ids(catalog, place, [1, 3])
    return None


CHECKS: Final = {
    "insert": insert,
    "delete rows": delete_rows,
    "delete partition": delete_partition,
    "update": update,
    "merge": merge,
    "truncate": truncate,
    "transaction": transaction,
    "reads others": reads_others,
    "time travel": time_travel,
    "branches and tags": branches,
    "metadata tables": metadata_tables,
    "rollback": rollback,
}
