"""Trino's namespaces and tables."""

from __future__ import annotations

from functools import partial
from typing import Final

from labs.clients import contention, others
from labs.clients.contention import Creator
from labs.clients.lab import Place, files_below, local
from labs.clients.results import Verdict, differs
from labs.clients.trino.catalog import REST, Catalog, check_ids
from labs.matrix.sessions import StatementFailed

#: Column -> its type in Trino, and as PyIceberg says it.
_TYPES: Final = {
    "a": ("boolean", "boolean"),
    "b": ("integer", "int"),
    "c": ("bigint", "long"),
    "d": ("real", "float"),
    "e": ("double", "double"),
    "f": ("decimal(20, 3)", "decimal(20, 3)"),
    "g": ("varchar", "string"),
    "h": ("varbinary", "binary"),
    "i": ("date", "date"),
    "j": ("time(6)", "time"),
    "k": ("timestamp(6)", "timestamp"),
    "l": ("timestamp(6) with time zone", "timestamptz"),
    "m": ("uuid", "uuid"),
    "n": ("array(row(x integer))", "list<struct<"),
    "o": ("map(varchar, bigint)", "map<string, long>"),
    "p": ("row(x integer, y array(varchar))", "struct<"),
}


def namespaces(catalog: Catalog, place: Place) -> Verdict | None:
    name, location = f"{place.namespace}_more", f"{place.lab.warehouse}/elsewhere/{place.namespace}"
    schema = f"{catalog.name}.{name}"
    catalog.sql(f"CREATE SCHEMA {schema} WITH (location = '{location}')")
    assert [name] in catalog.sql(f"SHOW SCHEMAS FROM {catalog.name}")
    assert place.lab.catalog.load_namespace_properties(name)["location"] == location
    assert "already exists" in catalog.fails(f"CREATE SCHEMA {schema}")
    catalog.sql(f"CREATE TABLE {schema}.t (id bigint)")
    assert catalog.sql(f"SHOW TABLES FROM {schema}") == [["t"]]
    words = catalog.fails(f"DROP SCHEMA {schema}")
    assert "non-empty" in words, words
    catalog.sql(f"DROP TABLE {schema}.t")
    catalog.sql(f"DROP SCHEMA {schema}")
    assert not place.lab.catalog.namespace_exists(name)
    return None


def create(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.table(place)
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in _TYPES.items())
    spec = "'a', 'bucket(c, 4)', 'day(k)', 'truncate(g, 3)', 'hour(l)'"
    catalog.sql(
        f"CREATE TABLE {table} ({columns}, z bigint NOT NULL) COMMENT 'words' WITH (partitioning = ARRAY[{spec}])"
    )
    described = {row[0]: row[1] for row in catalog.sql(f"DESCRIBE {table}")}
    loaded = place.lab.pyiceberg.load_table(place.table())
    for name, (kind, theirs) in _TYPES.items():
        assert described[name] == kind.replace("20, 3", "20,3"), f"{name}: {described[name]}"
        found = str(loaded.schema().find_type(name))
        assert found.startswith(theirs), f"{name}: {found}"
    assert loaded.schema().find_field("z").required
    assert len(loaded.spec().fields) == 5
    assert loaded.properties["comment"] == "words"
    assert len(place.lab.catalog.load_table(place.table()).schema().fields) == len(_TYPES) + 1
    return None


def create_if_taken(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    assert "already exists" in catalog.fails(f"CREATE TABLE {table} (x varchar)")
    assert "already exists" in catalog.fails(f"CREATE TABLE {table} AS SELECT 1 AS x")
    catalog.sql(f"CREATE TABLE IF NOT EXISTS {table} (x varchar)")
    check_ids(catalog, place, [1])
    return None


def create_race(catalog: Catalog, place: Place) -> Verdict | None:
    """Eight times four sessions of Trino, PyIceberg and the Python API."""
    sessions = [catalog.again() for _ in range(4)]
    twice = 0
    for number in range(8):
        name = f"t{number}"
        makers = [Creator("Trino", partial(session.make, place, name), _is_taken) for session in sessions]
        told = contention.created([*makers, *others.creators(place.lab, place.table(name))])
        assert set(told) <= {"won", "taken"}, told
        # Of those who ask us, at most one wins.
        assert (told if catalog.name == REST else told[len(makers) :]).count("won") <= 1, told
        assert "won" in told
        twice += told.count("won") > 1
        catalog.insert(catalog.table(place, name), 1)
        check_ids(catalog, place, [1], name)
    if twice:
        return differs(
            f"in {twice} of 8 races several CREATE TABLE succeed, and the metastore has the table of one: Trino ignores"
            " that the name is taken, unless its table has a `trino_query_id` (BridgingHiveMetastore.createTable)"
        )
    return None


def _is_taken(error: Exception) -> bool:
    return isinstance(error, StatementFailed) and "already exists" in str(error).lower()


def create_as_select(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.table(place)
    catalog.sql(f"CREATE TABLE {table} AS SELECT CAST(n AS bigint) AS id FROM UNNEST(sequence(1, 5)) AS s(n)")
    check_ids(catalog, place, [1, 2, 3, 4, 5])
    empty = catalog.table(place, "empty")
    catalog.sql(f"CREATE TABLE {empty} AS SELECT * FROM {table} WITH NO DATA")
    check_ids(catalog, place, [], "empty")
    never = catalog.table(place, "never")
    catalog.fails(f"CREATE TABLE {never} AS SELECT 1 / (id - 3) AS id FROM {table}")
    assert not place.lab.catalog.table_exists(place.table("never"))
    return None


def replace(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2)
    old = catalog.snapshot(place)
    catalog.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT BIGINT '7' AS id, 'new' AS other")
    check_ids(catalog, place, [7])
    assert [row[0] for row in catalog.sql(f"DESCRIBE {table}")] == ["id", "other"]
    rows = catalog.sql(f"SELECT id FROM {table} FOR VERSION AS OF {old} ORDER BY id")
    assert rows == [[1], [2]], rows
    catalog.sql(f"CREATE OR REPLACE TABLE {table} (id bigint)")
    check_ids(catalog, place, [])
    return None


def columns(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.table(place)
    catalog.sql(f"CREATE TABLE {table} (id bigint, name varchar, place row(city varchar, zip integer))")
    catalog.sql(f"INSERT INTO {table} VALUES (1, 'one', ROW('Bern', 3000))")
    for change in (
        "ADD COLUMN more integer",
        "ADD COLUMN place.street varchar",
        "RENAME COLUMN name TO title",
        "RENAME COLUMN place.zip TO code",
        "DROP COLUMN place.city",
    ):
        catalog.sql(f"ALTER TABLE {table} {change}")
    catalog.sql(f"INSERT INTO {table} VALUES (2, 'two', ROW(8000, 'Long Street'), 22)")
    catalog.sql(f"ALTER TABLE {table} DROP COLUMN title")
    catalog.sql(f"ALTER TABLE {table} ADD COLUMN title varchar")
    expected = [
        {"id": 1, "place": {"code": 3000, "street": None}, "more": None, "title": None},
        {"id": 2, "place": {"code": 8000, "street": "Long Street"}, "more": 22, "title": None},
    ]
    rows = catalog.sql(f"SELECT id, place.code, place.street, more, title FROM {table} ORDER BY id")
    assert rows == [[1, 3000, None, None, None], [2, 8000, "Long Street", 22, None]], rows
    theirs = sorted(place.lab.rows(place.table()), key=lambda row: row["id"])
    assert theirs == expected, theirs
    return None


def change_type(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.table(place)
    catalog.sql(f"CREATE TABLE {table} (id integer NOT NULL, f real, d decimal(5, 2))")
    catalog.sql(f"INSERT INTO {table} VALUES (1, REAL '1.5', DECIMAL '1.25')")
    for change in (
        "id SET DATA TYPE bigint",
        "f SET DATA TYPE double",
        "d SET DATA TYPE decimal(9, 2)",
        "id DROP NOT NULL",
    ):
        catalog.sql(f"ALTER TABLE {table} ALTER COLUMN {change}")
    catalog.sql(f"INSERT INTO {table} VALUES (5000000000, 2.5, DECIMAL '1234567.25')")
    check_ids(catalog, place, [1, 5000000000])
    catalog.fails(f"ALTER TABLE {table} ALTER COLUMN id SET DATA TYPE integer")
    return None


def partition_evolution(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place, properties="partitioning = ARRAY['name']")
    catalog.insert(table, 1, 2)
    for spec in ("'bucket(id, 4)'", "'truncate(name, 2)', 'id'", ""):
        catalog.sql(f"ALTER TABLE {table} SET PROPERTIES partitioning = ARRAY[{spec}]")
        catalog.insert(table, *(max(catalog.ids(table)) + number for number in (1, 2)))
    check_ids(catalog, place, list(range(1, 9)))
    specs = place.lab.pyiceberg.load_table(place.table()).specs()
    assert len(specs) == 4, specs
    return None


def sort_order(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place, properties="sorted_by = ARRAY['name DESC NULLS LAST', 'id']")
    catalog.insert(table, 3, 1, 2)
    fields = place.lab.pyiceberg.load_table(place.table()).sort_order().fields
    assert [str(field.direction) for field in fields] == ["DESC", "ASC"], fields
    assert [row[0] for row in catalog.sql(f"SELECT id FROM {table}")] == [3, 2, 1]
    return None


def properties(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place, properties="extra_properties = MAP(ARRAY['mine'], ARRAY['1']), format_version = 1")
    catalog.insert(table, 1)
    catalog.sql(
        f"ALTER TABLE {table} SET PROPERTIES format_version = 2, extra_properties = MAP(ARRAY['other'], ARRAY['2'])"
    )
    catalog.sql(f"COMMENT ON TABLE {table} IS 'about'")
    catalog.sql(f"COMMENT ON COLUMN {table}.id IS 'a number'")
    loaded = place.lab.pyiceberg.load_table(place.table())
    assert loaded.format_version == 2
    assert loaded.properties["other"] == "2"
    assert loaded.properties["comment"] == "about"
    assert loaded.schema().find_field("id").doc == "a number"
    listed = dict(tuple(row) for row in catalog.sql(f"SELECT key, value FROM {catalog.metadata(place, 'properties')}"))
    assert listed["other"] == "2", listed
    catalog.sql(f"COMMENT ON TABLE {table} IS NULL")
    assert "comment" not in place.lab.pyiceberg.load_table(place.table()).properties
    catalog.insert(table, 2)
    check_ids(catalog, place, [1, 2])
    return None


def rename(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    catalog.make(place, "taken")
    assert "exists" in catalog.fails(f"ALTER TABLE {table} RENAME TO {place.namespace}.taken")
    catalog.sql(f"ALTER TABLE {table} RENAME TO {place.namespace}.new")
    assert not place.lab.catalog.table_exists(place.table())
    check_ids(catalog, place, [1], "new")
    other = f"{place.namespace}_other"
    place.lab.catalog.create_namespace(other)
    catalog.sql(f"ALTER TABLE {catalog.table(place, 'new')} RENAME TO {other}.moved")
    assert catalog.ids(f"{catalog.name}.{other}.moved") == [1]
    return None


def drop(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    files = place.files_of(place.table())
    catalog.sql(f"CALL {catalog.name}.system.unregister_table('{place.namespace}', 't')")
    assert not place.lab.catalog.table_exists(place.table())
    assert all(file.exists() for file in files)
    return differs("DROP TABLE deletes the files too; `CALL system.unregister_table` leaves them")


def drop_and_purge(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    catalog.insert(table, 2)
    location = place.lab.catalog.load_table(place.table()).metadata.location
    catalog.sql(f"DROP TABLE {table}")
    assert not place.lab.catalog.table_exists(place.table())
    left = files_below(location) if local(location).exists() else set()
    assert not left, f"left: {left}"
    return None


CHECKS: Final = {
    "namespaces": namespaces,
    "create": create,
    "create if taken": create_if_taken,
    "create race": create_race,
    "create as select": create_as_select,
    "replace": replace,
    "add, rename, drop column": columns,
    "change type": change_type,
    "partition evolution": partition_evolution,
    "sort order": sort_order,
    "properties": properties,
    "rename": rename,
    "drop": drop,
    "drop and purge": drop_and_purge,
}
