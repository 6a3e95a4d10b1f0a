"""What DuckDB does with rows, and with the history of a table."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from labs.clients import others
from labs.clients.duckdb.session import opened, refuses
from labs.clients.results import Verdict, differs, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from labs.clients.lab import Place

#: A partition field of every transform that DuckDB writes, on a column of its type.
TRANSFORMS: Final = (
    ("name VARCHAR", "name", "'x'"),
    ("name VARCHAR", "truncate(2, name)", "'žlu'"),
    ("name BIGINT", "bucket(4, name)", "7"),
    ("name DATE", "year(name)", "DATE '1969-12-31'"),
    ("name DATE", "month(name)", "DATE '1969-12-31'"),
    ("name TIMESTAMP", "day(name)", "TIMESTAMP '2026-12-31 23:59:59'"),
    ("name TIMESTAMP", "hour(name)", "TIMESTAMP '1969-12-31 23:59:59'"),
)


def check_insert(place: Place) -> Verdict | None:
    with opened(place) as duck:
        for number, (column, transform, value) in enumerate(TRANSFORMS):
            table = place.table(f"t{number}")
            duck(f"CREATE TABLE ice.{table} (id BIGINT, {column}) PARTITIONED BY ({transform})")
            duck(f"INSERT INTO ice.{table} VALUES (1, {value}), (2, NULL)")
            assert sorted(row["id"] for row in place.lab.rows(table)) == [1, 2], transform
            assert duck(f"SELECT id FROM ice.{table} WHERE name = {value}") == [(1,)], transform
            assert duck(f"SELECT id FROM ice.{table} WHERE name IS NULL") == [(2,)], transform
        table = place.table("early")
        duck(f"CREATE TABLE ice.{table} (id BIGINT, ts TIMESTAMP) PARTITIONED BY (day(ts))")
        duck(f"INSERT INTO ice.{table} VALUES (1, TIMESTAMP '1969-12-31 12:00:00')")
        loaded = place.lab.pyiceberg.load_table(table)
        assert loaded.scan(row_filter="ts = '1969-12-31T12:00:00'").to_arrow().num_rows == 1
        found = duck(f"SELECT id FROM ice.{table} WHERE ts = TIMESTAMP '1969-12-31 12:00:00'")
    return (
        differs(
            "does not find rows from before 1970 by a filter on a timestamp that is partitioned by `day` or `month`: it"
            " rounds the filter's day towards zero, not down. src/include/core/expression/iceberg_transform.hpp,"
            " DayTransform and MonthTransform. It writes their partitions right"
        )
        if not found
        else None
    )


def check_delete(place: Place) -> Verdict | None:
    with opened(place) as duck:
        for version in (2, 3):
            table = place.table(f"t{version}")
            duck(f"CREATE TABLE ice.{table} (id BIGINT) WITH ('format-version' = '{version}')")
            duck(f"INSERT INTO ice.{table} SELECT range FROM range(100)")
            assert duck(f"DELETE FROM ice.{table} WHERE id % 2 = 0") == [(50,)]
            assert duck(f"DELETE FROM ice.{table} WHERE id < 10") == [(5,)]
            expected = [id_ for id_ in range(100) if id_ % 2 and id_ >= 10]
            assert [row[0] for row in duck(f"SELECT id FROM ice.{table} ORDER BY id")] == expected
            assert sorted(row["id"] for row in place.lab.rows(table)) == expected
    return None


def check_delete_partition(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} (id BIGINT, day DATE) PARTITIONED BY (day)")
        duck(f"INSERT INTO ice.{table} SELECT range, DATE '2026-01-01' + CAST(range % 2 AS INTEGER) FROM range(10)")
        duck(f"DELETE FROM ice.{table} WHERE day = DATE '2026-01-01'")
        assert sorted(row["id"] for row in place.lab.rows(table)) == [1, 3, 5, 7, 9]
        summary = place.lab.catalog.load_table(table).current_snapshot().summary
        assert summary.get("added-position-deletes") == "5", summary
    return differs("writes position deletes for the rows: src/execution/operator/iceberg_delete.cpp")


def check_update(place: Place) -> Verdict | None:
    with opened(place) as duck:
        for version in (2, 3):
            table = place.table(f"t{version}")
            duck(f"CREATE TABLE ice.{table} (id BIGINT, name VARCHAR) WITH ('format-version' = '{version}')")
            duck(f"INSERT INTO ice.{table} SELECT range, 'old' FROM range(10)")
            assert duck(f"UPDATE ice.{table} SET name = 'new' WHERE id >= 7") == [(3,)]
            names = {row["id"]: row["name"] for row in place.lab.rows(table)}
            assert names == {id_: "new" if id_ >= 7 else "old" for id_ in range(10)}
    return None


def check_merge(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} (id BIGINT, name VARCHAR)")
        duck(f"INSERT INTO ice.{table} SELECT range, 'old' FROM range(3)")
        source = "(SELECT range AS id FROM range(1, 5)) s ON t.id = s.id"
        refuses(
            duck,
            f"MERGE INTO ice.{table} t USING {source} WHEN MATCHED AND t.id = 1 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET name = 'new'",
            "only supports a single UPDATE/DELETE action",
        )
        before = len(duck(f"SELECT * FROM iceberg_snapshots(ice.{table})"))
        duck(
            f"MERGE INTO ice.{table} t USING {source} WHEN MATCHED THEN UPDATE SET name = 'new'"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'added')"
        )
        names = {row["id"]: row["name"] for row in place.lab.rows(table)}
        assert names == {0: "old", 1: "new", 2: "new", 3: "added", 4: "added"}, names
        added = len(duck(f"SELECT * FROM iceberg_snapshots(ice.{table})")) - before
    return differs(
        f"one commit, in {added} snapshots; at most one UPDATE or DELETE action:"
        " src/execution/operator/merge_into/iceberg_merge_into.cpp"
    )


def check_truncate(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT range AS id FROM range(10)")
        duck(f"TRUNCATE ice.{table}")
        assert place.lab.rows(table) == []
    return None


def check_transaction(place: Place) -> Verdict | None:
    """All statements on one table land at once; those on two tables land one table after the other."""
    with opened(place) as duck, opened(place) as other:
        one, two = place.table("one"), place.table("two")
        for table in (one, two):
            duck(f"CREATE TABLE ice.{table} AS SELECT 1::BIGINT AS id")
        with duck.transaction():
            duck(f"INSERT INTO ice.{one} VALUES (2)")
            duck(f"DELETE FROM ice.{one} WHERE id = 1")
            duck(f"INSERT INTO ice.{one} VALUES (3)")
            assert place.lab.rows(one) == [{"id": 1}]
        assert sorted(row["id"] for row in place.lab.rows(one)) == [2, 3]
        duck("BEGIN")
        duck(f"INSERT INTO ice.{one} VALUES (4)")
        duck("ROLLBACK")
        assert sorted(row["id"] for row in place.lab.rows(one)) == [2, 3]
        # Another session makes the commit to the second table a conflict.
        duck("BEGIN")
        duck(f"INSERT INTO ice.{one} VALUES (5)")
        duck(f"INSERT INTO ice.{two} VALUES (5)")
        other(f"INSERT INTO ice.{two} VALUES (6)")
        refuses(duck, "COMMIT", "409")
        found = [sorted(row["id"] for row in place.lab.rows(table)) for table in (one, two)]
    assert found == [[2, 3, 5], [1, 6]], found
    return differs(
        "atomic for one table. A transaction over two tables is not: the first table keeps its commit when the"
        " second is refused. src/catalog/rest/transaction/iceberg_transaction.cpp, DoTableUpdates, posts each table by"
        " itself where a server has no `transactions/commit`; see [multi-table.md](multi-table.md)"
    )


def check_reads_others(place: Place) -> Verdict | None:
    place.lab.pyiceberg.create_table(table := place.table(), others.SCHEMA)
    others.pyiceberg(place.lab, table).insert(1)
    others.python_api(place, table).insert(2)
    place.lab.pyiceberg.load_table(table).delete("id = 1")
    with opened(place) as duck:
        assert duck(f"SELECT * FROM ice.{table} ORDER BY id") == [(2, "row 2")]
        # What was committed since is seen by the next statement.
        others.pyiceberg(place.lab, table).insert(3)
        assert duck(f"SELECT id FROM ice.{table} ORDER BY id") == [(2,), (3,)]
    return None


def check_time_travel(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1 AS id")
        first = place.lab.catalog.load_table(table).current_snapshot()
        duck(f"ALTER TABLE ice.{table} ADD COLUMN more INTEGER")
        duck(f"INSERT INTO ice.{table} VALUES (2, 2)")
        assert duck(f"SELECT * FROM ice.{table} AT (VERSION => {first.snapshot_id})") == [(1,)]
        second = place.lab.catalog.load_table(table).current_snapshot()
        [(at,)] = duck(f"SELECT make_timestamp({(second.timestamp_ms - 1) * 1000})")
        assert duck(f"SELECT id FROM ice.{table} AT (TIMESTAMP => TIMESTAMP '{at}')") == [(1,)]
        late = at + timedelta(hours=1)
        assert len(duck(f"SELECT * FROM ice.{table} AT (TIMESTAMP => TIMESTAMP '{late}')")) == 2
        refuses(duck, f"SELECT * FROM ice.{table} AT (VERSION => 1)", "Could not find snapshot")
    return None


def check_branches(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1 AS id")
        loaded = place.lab.pyiceberg.load_table(table)
        loaded.manage_snapshots().create_tag(loaded.current_snapshot().snapshot_id, "first").commit()
        refuses(duck, f"SELECT * FROM ice.{table} AT (TAG => 'first')", "syntax error at or near .TAG")
        duck(f"INSERT INTO ice.{table} VALUES (2)")
        assert "first" in place.lab.catalog.load_table(table).metadata.refs
    return refused("AT takes VERSION and TIMESTAMP alone, by DuckDB's grammar")


def check_metadata_tables(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT range AS id FROM range(3)")
        duck(f"DELETE FROM ice.{table} WHERE id = 1")
        snapshots = duck(f"SELECT snapshot_id FROM iceberg_snapshots(ice.{table}) ORDER BY sequence_number")
        known = place.lab.catalog.load_table(table).metadata.snapshots
        assert sorted(row[0] for row in snapshots) == sorted(each.snapshot_id for each in known)
        files = duck(f"SELECT content, record_count FROM iceberg_metadata(ice.{table})")
        assert sorted(row[1] for row in files) == [1, 3], files
        assert duck(f"SELECT count(*) > 0 FROM iceberg_column_stats(ice.{table})") == [(True,)]
    return differs("functions: iceberg_snapshots, _metadata, _column_stats, _partition_stats; no refs, history")


def check_view(place: Place) -> Verdict | None:
    with opened(place) as duck:
        refuses(duck, f"CREATE VIEW ice.{place.table('v')} AS SELECT 1", "(?i)not implemented")
    return refused("CREATE VIEW: src/catalog/rest/catalog_entry/schema/iceberg_schema_entry.cpp, CreateView")


CHECKS: Final[dict[str, Callable[[Place], Verdict | None]]] = {
    "insert": check_insert,
    "delete rows": check_delete,
    "delete partition": check_delete_partition,
    "update": check_update,
    "merge": check_merge,
    "truncate": check_truncate,
    "transaction": check_transaction,
    "reads others": check_reads_others,
    "time travel": check_time_travel,
    "branches and tags": check_branches,
    "metadata tables": check_metadata_tables,
    "view": check_view,
}
