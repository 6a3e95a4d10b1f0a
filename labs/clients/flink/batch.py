"""What Flink does with tables in batch mode."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from labs.clients import contention, others
from labs.clients.contention import Creator, Writer
from labs.clients.flink.session import Flink, refuses
from labs.clients.lost_answers import between
from labs.clients.results import Verdict, differs, refused, works

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from labs.clients.lab import Place

#: A column of each type: its type in Flink, in Iceberg, and a value.
TYPES: Final = {
    "boo": ("BOOLEAN", "boolean", "TRUE"),
    "tin": ("TINYINT", "int", "CAST(-1 AS TINYINT)"),
    "int": ("INT", "int", "-1"),
    "lon": ("BIGINT", "long", "9223372036854775807"),
    "flo": ("FLOAT", "float", "CAST(1.5 AS FLOAT)"),
    "dou": ("DOUBLE", "double", "CAST(2.5 AS DOUBLE)"),
    "dec": ("DECIMAL(18, 4)", "decimal(18, 4)", "CAST(12345.6789 AS DECIMAL(18, 4))"),
    "dat": ("DATE", "date", "DATE '1969-12-31'"),
    "tis": ("TIMESTAMP(6)", "timestamp", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    "tiz": ("TIMESTAMP_LTZ(6)", "timestamptz", "CAST(TIMESTAMP '2026-03-01 12:00:00.000001' AS TIMESTAMP_LTZ(6))"),
    "str": ("STRING", "string", "'žluť'"),
    "bin": ("BYTES", "binary", "X'00FF'"),
    "sct": ("ROW<a INT, b STRING>", "struct", "ROW(1, 'x')"),
    "lis": ("ARRAY<INT>", "list", "ARRAY[1, 3]"),
    "map": ("MAP<STRING, BIGINT>", "map", "MAP['k', CAST(1 AS BIGINT)]"),
}
METADATA: Final = (
    "snapshots",
    "history",
    "refs",
    "files",
    "manifests",
    "entries",
    "partitions",
    "metadata_log_entries",
)


def check_namespaces(flink: Flink, place: Place) -> Verdict | None:
    sql, name = flink.attach(place.lab), f"{place.namespace}_more"
    sql(f"CREATE DATABASE {name} WITH ('team'='squirrels')")
    sql(f"CREATE DATABASE IF NOT EXISTS {name}")
    assert (name,) in sql("SHOW DATABASES")
    assert place.lab.catalog.load_namespace_properties(name)["team"] == "squirrels"
    sql(f"ALTER DATABASE {name} SET ('team'='owls')")
    assert place.lab.catalog.load_namespace_properties(name)["team"] == "owls"
    sql(f"CREATE TABLE {name}.t (id BIGINT)")
    refuses(sql, f"DROP DATABASE {name}", "not empty")
    assert place.lab.catalog.table_exists(f"{name}.t")
    sql(f"DROP TABLE {name}.t")
    sql(f"DROP DATABASE {name}")
    assert not place.lab.catalog.namespace_exists(name)
    return None


def check_create(flink: Flink, place: Place) -> Verdict | None:
    sql = flink.attach(place.lab)
    columns = ", ".join(f"{name}_ {each[0]}" for name, each in TYPES.items())
    for version in (2, 3):
        table = place.table(f"t{version}")
        sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, {columns}) WITH ('format-version'='{version}')")
        sql(f"INSERT INTO {table} VALUES (1, {', '.join(each[2] for each in TYPES.values())})")
        metadata = place.lab.catalog.load_table(table).metadata
        assert metadata.format_version == version
        found = {field.name: field.type for field in metadata.schema.fields}
        for name, (_, expected, _) in TYPES.items():
            assert str(found[f"{name}_"]).startswith(expected), (name, str(found[f"{name}_"]))
        [row] = place.lab.rows(table)
        assert (row["str_"], row["lis_"], row["sct_"], row["lon_"]) == ("žluť", [1, 3], {"a": 1, "b": "x"}, 2**63 - 1)
    return differs("TINYINT and SMALLINT become int: FlinkTypeToType.java")


def check_create_taken(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} (id BIGINT)")
    refuses(sql, f"CREATE TABLE {table} (id BIGINT)", "(?i)exist")
    sql(f"CREATE TABLE IF NOT EXISTS {table} (other STRING)")
    assert [field.name for field in place.lab.catalog.load_table(table).metadata.schema.fields] == ["id"]
    return None


def check_create_race(flink: Flink, place: Place) -> Verdict | None:
    from py4j.protocol import Py4JJavaError

    sql = flink.attach(place.lab)
    for number in range(5):
        table = place.table(f"t{number}")
        mine = Creator(
            "Flink",
            partial(sql, f"CREATE TABLE {table} (id BIGINT, name STRING)"),
            lambda error: isinstance(error, Py4JJavaError) and "exist" in str(error).lower(),
        )
        contention.create([mine, *others.creators(place.lab, table)])
    return None


def check_create_as_select(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id, 'x' AS name")
    assert place.lab.rows(table) == [{"id": 1, "name": "x"}]
    failing = place.table("failing")
    refuses(
        sql, f"CREATE TABLE {failing} AS SELECT CAST(CAST(name AS STRING) AS BIGINT) AS id FROM {table}", "(?i)fail"
    )
    left = place.lab.catalog.table_exists(failing)
    return differs("not atomic: it creates the table, then inserts. FlinkCatalog stages no table") if left else None


def check_replace(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    try:
        sql(f"CREATE OR REPLACE TABLE {table} AS SELECT CAST(2 AS BIGINT) AS id")
    except Exception as error:  # noqa: BLE001 - the words are in the note
        assert place.lab.rows(table) == [{"id": 1}], "refused, and changed"
        return refused(f"CREATE OR REPLACE TABLE: {_cause(error)}")
    assert place.lab.rows(table) == [{"id": 2}]
    kept = len(place.lab.catalog.load_table(table).metadata.snapshots)
    return differs("drops the table and makes a new one: the history is gone") if kept == 1 else None


def _cause(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if "Caused by" in line or "Exception:" in line]
    return lines[-1].strip()[:200] if lines else str(error)[:200]


def check_columns(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id, 'a' AS name")
    sql(f"ALTER TABLE {table} ADD (more DOUBLE, gone INT)")
    sql(f"INSERT INTO {table} VALUES (2, 'b', 2.5, 7)")
    sql(f"ALTER TABLE {table} RENAME name TO label")
    sql(f"ALTER TABLE {table} DROP (gone)")
    expected = [(1, "a", None), (2, "b", 2.5)]
    assert sorted(sql(f"SELECT id, label, more FROM {table}")) == expected
    assert sorted(tuple(row.values()) for row in place.lab.rows(table)) == expected
    return None


def check_type(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} (id INT, f FLOAT)")
    sql(f"INSERT INTO {table} VALUES (1, CAST(1.5 AS FLOAT))")
    sql(f"ALTER TABLE {table} MODIFY (id BIGINT, f DOUBLE)")
    sql(f"INSERT INTO {table} VALUES (5000000000, 2.5)")
    assert sorted(sql(f"SELECT id, f FROM {table}")) == [(1, 1.5), (5000000000, 2.5)]
    refuses(sql, f"ALTER TABLE {table} MODIFY (id INT)", "(?i)cannot|not")
    return None


def check_properties(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} (id BIGINT) WITH ('a'='1', 'b'='1', 'format-version'='1')")
    sql(f"ALTER TABLE {table} SET ('a'='2', 'format-version'='2')")
    sql(f"ALTER TABLE {table} RESET ('b')")
    metadata = place.lab.catalog.load_table(table).metadata
    assert (metadata.properties["a"], metadata.properties.get("b"), metadata.format_version) == ("2", None, 2)
    return None


def check_rename(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    sql(f"CREATE TABLE {place.table('taken')} (id BIGINT)")
    refuses(sql, f"ALTER TABLE {table} RENAME TO {place.table('taken')}", "(?i)exist")
    sql(f"ALTER TABLE {table} RENAME TO {place.table('moved')}")
    assert not place.lab.catalog.table_exists(table)
    assert place.lab.rows(place.table("moved")) == [{"id": 1}]
    return None


def check_drop(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    files = place.files_of(table)
    sql(f"DROP TABLE {table}")
    assert not place.lab.catalog.table_exists(table)
    refuses(sql, f"DROP TABLE {table}", "(?i)not exist")
    left = [path for path in files if path.exists()]
    return None if left else differs("DROP TABLE asks for a purge: FlinkCatalog.java, dropTable")


def check_insert(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} (id BIGINT, name STRING, pday DATE) PARTITIONED BY (pday, name)")
    sql(f"INSERT INTO {table} VALUES (1, 'x', DATE '1969-12-31'), (2, CAST(NULL AS STRING), CAST(NULL AS DATE))")
    assert sorted(row["id"] for row in place.lab.rows(table)) == [1, 2]
    assert sql(f"SELECT id FROM {table} WHERE pday = DATE '1969-12-31'") == [(1,)]
    assert sql(f"SELECT id FROM {table} WHERE pday IS NULL") == [(2,)]
    # Transforms are for other engines to choose; Flink writes them.
    other = place.table("other")
    place.lab.catalog.create_table(
        other,
        others.SCHEMA,
        partition_spec=["bucket(4, id)", "truncate(2, name)"],
    )
    sql(f"INSERT INTO {other} VALUES (1, 'one'), (2, 'two')")
    assert sorted(row["id"] for row in place.lab.rows(other)) == [1, 2]
    return None


def check_overwrite(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} (id BIGINT, name STRING) PARTITIONED BY (name)")
    sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    sql(f"INSERT OVERWRITE {table} VALUES (3, 'a')")
    assert sorted(row["id"] for row in place.lab.rows(table)) == [2, 3]
    sql(f"INSERT OVERWRITE {table} PARTITION (name='b') SELECT CAST(4 AS BIGINT)")
    assert sorted(row["id"] for row in place.lab.rows(table)) == [3, 4]
    return None


def check_delete(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    refuses(sql, f"DELETE FROM {table} WHERE id = 1", "(?i)not support|supports")
    assert place.lab.rows(table) == [{"id": 1}]
    return refused("DELETE: IcebergTableSink.java implements no SupportsRowLevelDelete")


def check_update(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    refuses(sql, f"UPDATE {table} SET id = 2", "(?i)not support|supports")
    assert place.lab.rows(table) == [{"id": 1}]
    return refused("UPDATE: IcebergTableSink.java implements no SupportsRowLevelUpdate; streams upsert by key")


def check_reads_others(flink: Flink, place: Place) -> Verdict | None:
    place.lab.pyiceberg.create_table(table := place.table(), others.SCHEMA)
    others.pyiceberg(place.lab, table).insert(1)
    others.python_api(place, table).insert(2)
    place.lab.pyiceberg.load_table(table).delete("id = 1")
    assert flink.attach(place.lab)(f"SELECT * FROM {table}") == [(2, "row 2")]
    return None


def check_time_travel(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    first = place.lab.catalog.load_table(table).current_snapshot()
    sql(f"INSERT INTO {table} VALUES (2)")
    second = place.lab.catalog.load_table(table).current_snapshot()
    assert sql(f"SELECT * FROM {table} /*+ OPTIONS('snapshot-id'='{first.snapshot_id}') */") == [(1,)]
    assert sql(f"SELECT * FROM {table} /*+ OPTIONS('as-of-timestamp'='{second.timestamp_ms - 1}') */") == [(1,)]
    return None


def check_branches(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    loaded = place.lab.pyiceberg.load_table(table)
    first = loaded.current_snapshot().snapshot_id
    loaded.manage_snapshots().create_tag(first, "first").create_branch(first, "audit").commit()
    sql(f"INSERT INTO {table} /*+ OPTIONS('branch'='audit') */ VALUES (2)")
    assert sorted(sql(f"SELECT * FROM {table} /*+ OPTIONS('branch'='audit') */")) == [(1,), (2,)]
    assert sql(f"SELECT * FROM {table} /*+ OPTIONS('tag'='first') */") == [(1,)]
    assert place.lab.rows(table) == [{"id": 1}]
    return differs("reads and writes them; another engine makes them: it has no DDL for refs")


def check_metadata_tables(flink: Flink, place: Place) -> Verdict | None:
    sql, table = flink.attach(place.lab), place.table()
    sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
    for name in METADATA:
        assert sql(f"SELECT * FROM {place.namespace}.`t${name}`"), name
    return None


def check_view(flink: Flink, place: Place) -> Verdict | None:
    sql = flink.attach(place.lab)
    refuses(sql, f"CREATE VIEW {place.table('v')} AS SELECT 1 AS id", "table should be resolved")
    return refused("CREATE VIEW: FlinkCatalog.java, createTable, takes tables alone")


def _inserts(sql: Callable[[str], object], table: str) -> Writer:
    return Writer(
        "Flink",
        lambda id_: sql(f"INSERT INTO {table} VALUES ({id_}, 'row {id_}')"),
        lambda error: "CommitStateUnknown" in str(error),
    )


def check_beside_others(flink: Flink, place: Place) -> Verdict | None:
    sql, notes = flink.attach(place.lab), []
    for policy in ("plain", "all"):
        table = place.table(f"by_{policy}")
        place.lab.pyiceberg.create_table(table, others.SCHEMA, properties={"iceberg-hms.rebase-appends": policy})
        tallies = contention.run(
            [_inserts(sql, table), others.pyiceberg(place.lab, table), others.python_api(place, table)]
        )
        notes.append(f"{policy}: {_figures(place, tallies, table)}")
    return works(
        f"batch inserts, a cluster each, in {contention.SECONDS:.0f} s, by `iceberg-hms.rebase-appends`."
        f" {'. '.join(notes)}"
    )


def _figures(place: Place, tallies: Sequence[contention.Tally], table: str) -> str:
    # By `plain` the Python API may come first each time.
    return contention.check(tallies, (row["id"] for row in place.lab.rows(table)), starving=True)


def check_lost_answer(flink: Flink, place: Place) -> Verdict | None:
    table = place.table()
    with between(place.lab) as way:
        sql = flink.attach(way.lab)
        sql(f"CREATE TABLE {table} AS SELECT CAST(1 AS BIGINT) AS id")
        way.losing = True
        try:
            sql(f"INSERT INTO {table} VALUES (2)")
            told = "success"
        except Exception as error:  # noqa: BLE001 - the words are in the note
            told = "CommitStateUnknownException" if "CommitStateUnknown" in str(error) else _cause(error)
        way.losing = False
    assert way.statuses
    assert sorted(row["id"] for row in place.lab.rows(table)) == [1, 2]
    return works(f"the rows are there; the statement says: {told}")


CHECKS: Final[dict[str, Callable[[Flink, Place], Verdict | None]]] = {
    "namespaces": check_namespaces,
    "create": check_create,
    "create if taken": check_create_taken,
    "create race": check_create_race,
    "create as select": check_create_as_select,
    "replace": check_replace,
    "add, rename, drop column": check_columns,
    "change type": check_type,
    "properties": check_properties,
    "rename": check_rename,
    "drop": check_drop,
    "insert": check_insert,
    "overwrite": check_overwrite,
    "delete rows": check_delete,
    "update": check_update,
    "reads others": check_reads_others,
    "time travel": check_time_travel,
    "branches and tags": check_branches,
    "metadata tables": check_metadata_tables,
    "view": check_view,
    "inserts beside others": check_beside_others,
    "lost answer": check_lost_answer,
}
