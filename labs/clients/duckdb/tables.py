"""What DuckDB does with namespaces and tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from typing import TYPE_CHECKING, Final

from labs.clients.duckdb.session import opened, refuses
from labs.clients.results import Verdict, differs, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from labs.clients.lab import Place

RACERS, ROUNDS = 4, 5

#: A column of each type: its type in DuckDB, in Iceberg, and a value.
TYPES: Final = {
    "boo": ("BOOLEAN", "boolean", "true"),
    "int": ("INTEGER", "int", "-1"),
    "lon": ("BIGINT", "long", "9223372036854775807"),
    "flo": ("FLOAT", "float", "1.5"),
    "dou": ("DOUBLE", "double", "2.5"),
    "dec": ("DECIMAL(18, 4)", "decimal(18, 4)", "12345.6789"),
    "dat": ("DATE", "date", "DATE '1969-12-31'"),
    "tim": ("TIME", "time", "TIME '23:59:59.999999'"),
    "tis": ("TIMESTAMP", "timestamp", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    "tiz": ("TIMESTAMPTZ", "timestamptz", "TIMESTAMPTZ '2026-03-01 12:00:00.000001+00'"),
    "str": ("VARCHAR", "string", "'žluť 🦆'"),
    "uui": ("UUID", "uuid", "UUID 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
    "bin": ("BLOB", "binary", r"'\x00\xFF'::BLOB"),
    "sct": ("STRUCT(a INTEGER, b VARCHAR)", "struct", "{'a': 1, 'b': 'x'}"),
    "lis": ("INTEGER[]", "list", "[1, NULL, 3]"),
    "map": ("MAP(VARCHAR, BIGINT)", "map", "MAP {'k': 1}"),
}


def check_namespaces(place: Place) -> Verdict | None:
    with opened(place) as duck:
        name = f"{place.namespace}_more"
        duck(f"CREATE SCHEMA ice.{name}")
        duck(f"CREATE SCHEMA IF NOT EXISTS ice.{name}")
        listed = {row[0] for row in duck("SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'ice'")}
        assert {name, place.namespace} <= listed, listed
        duck(f"CALL set_iceberg_schema_properties(ice.{name}, {{'owner_team': 'ducks'}})")
        assert place.lab.catalog.load_namespace_properties(name)["owner_team"] == "ducks"
        duck(f"CALL remove_iceberg_schema_properties(ice.{name}, ['owner_team'])")
        assert "owner_team" not in place.lab.catalog.load_namespace_properties(name)
        duck(f"CREATE TABLE ice.{name}.t (id BIGINT)")
        refuses(duck, f"DROP SCHEMA ice.{name}", "409.*is not empty")
        assert place.lab.catalog.table_exists(f"{name}.t")
        duck(f"DROP TABLE ice.{name}.t")
        duck(f"DROP SCHEMA ice.{name}")
        assert not place.lab.catalog.namespace_exists(name)
    return None


def check_create(place: Place) -> Verdict | None:
    with opened(place) as duck:
        columns = ", ".join(f"{name} {each[0]}" for name, each in TYPES.items())
        for version in (2, 3):
            table = place.table(f"t{version}")
            duck(f"CREATE TABLE ice.{table} (id BIGINT NOT NULL, {columns}) WITH ('format-version' = '{version}')")
            values = ", ".join(each[2] for each in TYPES.values())
            duck(f"INSERT INTO ice.{table} VALUES (1, {values})")
            duck(f"INSERT INTO ice.{table} (id) VALUES (2)")
            metadata = place.lab.catalog.load_table(table).metadata
            assert metadata.format_version == version
            found = {field.name: field.type for field in metadata.schema.fields}
            for name, (_, expected, _) in TYPES.items():
                assert str(found[name]).startswith(expected), (name, str(found[name]))
            assert next(field for field in metadata.schema.fields if field.name == "id").required
            one, two = sorted(place.lab.rows(table), key=lambda row: row["id"])
            assert one["str"] == "žluť 🦆"
            assert (one["lis"], one["sct"], dict(one["map"])) == ([1, None, 3], {"a": 1, "b": "x"}, {"k": 1})
            assert all(two[name] is None for name in TYPES), two
    return None


def check_create_taken(place: Place) -> Verdict | None:
    table = place.table()
    with opened(place) as duck, opened(place) as other:
        other(f"SELECT count(*) FROM duckdb_tables() WHERE schema_name = '{place.namespace}'")
        duck(f"CREATE TABLE ice.{table} (id BIGINT)")
        refuses(duck, f"CREATE TABLE ice.{table} (id BIGINT)", "already exists")
        refuses(duck, f"CREATE TABLE ice.{table} AS SELECT 1 AS id", "already exists")
        duck(f"CREATE TABLE IF NOT EXISTS ice.{table} (other VARCHAR)")
        # A session that has not seen the table learns it from the server.
        refuses(other, f"CREATE TABLE ice.{table} (id BIGINT)", "already exists")
        assert [field.name for field in place.lab.catalog.load_table(table).metadata.schema.fields] == ["id"]
    return None


def check_create_race(place: Place) -> Verdict | None:
    """CREATE TABLE AS of one name in several sessions at once, each of which passed the look for the name."""
    import duckdb

    refusals: set[str] = set()
    with ExitStack() as stack, ThreadPoolExecutor(RACERS) as threads:
        sessions = [stack.enter_context(opened(place)) for _ in range(RACERS)]
        for number in range(ROUNDS):
            table, gate = place.table(f"t{number}"), Barrier(RACERS)

            def create(who: int, table: str = table, gate: Barrier = gate) -> int | None:
                session = sessions[who]
                session("BEGIN")
                session(f"CREATE TABLE ice.{table} AS SELECT {who} AS id FROM range(10)")
                gate.wait(60)
                try:
                    session("COMMIT")
                except duckdb.Error as error:
                    refusals.add(_status(str(error)))
                    return None
                return who

            won = [who for who in threads.map(create, range(RACERS)) if who is not None]
            assert len(won) == 1, won
            assert [row["id"] for row in place.lab.rows(table)] == won * 10
            assert len([path for path in place.files_of(table) if path.suffix == ".parquet"]) == 1
    assert refusals == {"409"}, refusals
    return None


def _status(text: str) -> str:
    return "409" if "_409" in text else text


def check_create_as_select(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT range AS id, 'row' AS name FROM range(1000)")
        assert duck(f"SELECT count(*), sum(id) FROM ice.{table}") == [(1000, 499500)]
        assert len(place.lab.rows(table)) == 1000
        # Created and filled in one transaction.
        other = place.table("other")
        with duck.transaction():
            duck(f"CREATE TABLE ice.{other} (id BIGINT, day DATE) PARTITIONED BY (day)")
            duck(f"INSERT INTO ice.{other} VALUES (1, DATE '2026-01-01'), (2, NULL)")
            assert not place.lab.catalog.table_exists(other)
        assert sorted(row["id"] for row in place.lab.rows(other)) == [1, 2]
        # Not at all: the statement fails while it writes, or the transaction is rolled back.
        failing = place.table("failing")
        refuses(
            duck, f"CREATE TABLE ice.{failing} AS SELECT CAST(range - 5 || 'x' AS INTEGER) AS id FROM range(9)", "x"
        )
        duck("BEGIN")
        duck(f"CREATE TABLE ice.{failing} AS SELECT 1 AS id")
        duck("ROLLBACK")
        assert not place.lab.catalog.table_exists(failing)
        assert not [path for path in _below(place, "failing") if path.endswith((".parquet", ".avro", ".json"))]
    return None


def _below(place: Place, name: str) -> list[str]:
    from labs.clients.lab import files_below

    return [str(path) for path in files_below(f"{place.lab.warehouse}/{place.namespace}.db/{name}")]


def check_replace(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1 AS id")
        refuses(duck, f"CREATE OR REPLACE TABLE ice.{table} AS SELECT 2 AS id", "not supported in DuckDB-Iceberg")
        assert place.lab.rows(table) == [{"id": 1}]
    return refused("CREATE OR REPLACE TABLE: src/catalog/rest/catalog_entry/schema/iceberg_schema_entry.cpp")


def check_columns(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1::BIGINT AS id, 'a' AS name")
        duck(f"ALTER TABLE ice.{table} ADD COLUMN more DOUBLE")
        duck(f"INSERT INTO ice.{table} VALUES (2, 'b', 2.5)")
        duck(f"ALTER TABLE ice.{table} RENAME COLUMN name TO label")
        duck(f"ALTER TABLE ice.{table} ADD COLUMN gone INTEGER")
        duck(f"INSERT INTO ice.{table} VALUES (3, 'c', NULL, 7)")
        duck(f"ALTER TABLE ice.{table} DROP COLUMN gone")
        expected = [(1, "a", None), (2, "b", 2.5), (3, "c", None)]
        assert duck(f"SELECT id, label, more FROM ice.{table} ORDER BY id") == expected
        assert sorted(tuple(row.values()) for row in place.lab.rows(table)) == expected
    return None


def check_type(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1::INTEGER AS id, 1.5::FLOAT AS f, 1.25::DECIMAL(5, 2) AS d")
        duck(f"ALTER TABLE ice.{table} ALTER COLUMN id TYPE BIGINT")
        duck(f"ALTER TABLE ice.{table} ALTER COLUMN f TYPE DOUBLE")
        duck(f"ALTER TABLE ice.{table} ALTER COLUMN d TYPE DECIMAL(9, 2)")
        duck(f"INSERT INTO ice.{table} VALUES (5000000000, 2.5, 1234567.25)")
        assert sorted(row["id"] for row in place.lab.rows(table)) == [1, 5000000000]
        assert duck(f"SELECT sum(id), sum(f), sum(d)::DOUBLE FROM ice.{table}") == [(5000000001, 4.0, 1234568.5)]
        refuses(duck, f"ALTER TABLE ice.{table} ALTER COLUMN id TYPE VARCHAR", "can't be altered")
    return None


def check_partitions(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT range AS id, DATE '2026-01-01' AS day FROM range(3)")
        duck(f"ALTER TABLE ice.{table} SET PARTITIONED BY (day)")
        duck(f"INSERT INTO ice.{table} VALUES (3, DATE '2026-01-02')")
        duck(f"ALTER TABLE ice.{table} SET PARTITIONED BY (bucket(4, id))")
        duck(f"INSERT INTO ice.{table} VALUES (4, DATE '2026-01-03')")
        assert duck(f"SELECT count(*) FROM ice.{table} WHERE day >= DATE '2026-01-02'") == [(2,)]
        assert sorted(row["id"] for row in place.lab.rows(table)) == [0, 1, 2, 3, 4]
        assert len(place.lab.catalog.load_table(table).metadata.raw["partition-specs"]) == 3
    return None


def check_order(place: Place) -> Verdict | None:
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.transforms import IdentityTransform

    with opened(place) as duck:
        words = "(?i)not (supported|implemented)"
        refuses(duck, f"CREATE TABLE ice.{place.table()} (id BIGINT) SORTED BY (id)", words)
        table = place.table("sorted")
        duck(f"CREATE TABLE ice.{table} (id BIGINT)")
        refuses(duck, f"ALTER TABLE ice.{table} SET SORTED BY (id)", words)
        schema = place.lab.pyiceberg.load_table(table).schema()
        other = place.table("other")
        place.lab.pyiceberg.create_table(other, schema, sort_order=SortOrder(SortField(1, IdentityTransform())))
        refuses(duck, f"INSERT INTO ice.{other} VALUES (2), (1)", "(?i)sort")
        duck("SET unsafe_iceberg_ignore_sort_order = true")
        duck(f"INSERT INTO ice.{other} VALUES (2), (1)")
        assert sorted(row["id"] for row in place.lab.rows(other)) == [1, 2]
    return refused(
        "SORTED BY: src/catalog/rest/iceberg_catalog.cpp; and an INSERT into a table with a sort order, unless after"
        " `SET unsafe_iceberg_ignore_sort_order = true`: src/execution/operator/iceberg_insert.cpp"
    )


def check_properties(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} (id BIGINT) WITH ('format-version' = '3', 'a' = '1')")
        assert place.lab.catalog.load_table(table).metadata.format_version == 3
        duck(f"CALL set_iceberg_table_properties(ice.{table}, {{'a': '2', 'b': '3'}})")
        duck(f"CALL remove_iceberg_table_properties(ice.{table}, ['b'])")
        assert place.lab.catalog.load_table(table).properties["a"] == "2"
        assert ("a", "2") in duck(f"SELECT * FROM iceberg_table_properties(ice.{table})")
        assert "b" not in place.lab.catalog.load_table(table).properties
        refuses(duck, f"COMMENT ON TABLE ice.{table} IS 'x'", "Only ALTER TABLE is supported")
    return differs("no COMMENT ON: src/catalog/rest/catalog_entry/schema/iceberg_schema_entry.cpp, Alter")


def check_rename(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1 AS id")
        duck(f"CREATE TABLE ice.{place.table('taken')} (id INTEGER)")
        refuses(duck, f"ALTER TABLE ice.{table} RENAME TO taken", "(?i)exists")
        duck(f"ALTER TABLE ice.{table} RENAME TO moved")
        assert not place.lab.catalog.table_exists(table)
        assert place.lab.rows(place.table("moved")) == [{"id": 1}]
        duck(f"INSERT INTO ice.{place.table('moved')} VALUES (2)")
    return None


def check_drop(place: Place) -> Verdict | None:
    with opened(place) as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1 AS id")
        files = place.files_of(table)
        duck(f"DROP TABLE ice.{table}")
        assert not place.lab.catalog.table_exists(table)
        assert all(path.exists() for path in files)
        duck(f"DROP TABLE IF EXISTS ice.{table}")
        refuses(duck, f"DROP TABLE ice.{table}", "does not exist")
    return None


def check_purge(place: Place) -> Verdict | None:
    with opened(place, "PURGE_REQUESTED true") as duck:
        table = place.table()
        duck(f"CREATE TABLE ice.{table} AS SELECT 1 AS id")
        duck(f"INSERT INTO ice.{table} VALUES (2)")
        files = place.files_of(table)
        assert files
        duck(f"DROP TABLE ice.{table}")
        assert not place.lab.catalog.table_exists(table)
        assert not [path for path in files if path.exists()]
    return differs("a drop purges only with `ATTACH ... (PURGE_REQUESTED true)`")


CHECKS: Final[dict[str, Callable[[Place], Verdict | None]]] = {
    "namespaces": check_namespaces,
    "create": check_create,
    "create if taken": check_create_taken,
    "create race": check_create_race,
    "create as select": check_create_as_select,
    "replace": check_replace,
    "add, rename, drop column": check_columns,
    "change type": check_type,
    "partition evolution": check_partitions,
    "sort order": check_order,
    "properties": check_properties,
    "rename": check_rename,
    "drop": check_drop,
    "drop and purge": check_purge,
}
