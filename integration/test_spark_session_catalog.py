"""Hive tables, views and missing tables through our session catalog, beside plain Spark on the same metastore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.errors import NotAnIcebergTable
from iceberg_hms.format.locations import file_key
from integration.servers import make_namespace
from integration.session_catalog.compare import Run, chosen, differing_answers, recorded
from integration.session_catalog.differences import listed
from integration.session_catalog.run import place_of, run_chapter
from integration.spark_fixtures import run_elsewhere
from integration.spark_statements import Outcome, outcome

#: Statements on what is not Iceberg. DB stands for the database; the answers must not depend on the session catalog.
HIVE_STATEMENTS = """
CREATE TABLE DB.h (a INT, b STRING) STORED AS PARQUET
INSERT INTO DB.h VALUES (1, 'x'), (2, 'y')
SELECT * FROM DB.h
CREATE TABLE DB.hp (a INT) PARTITIONED BY (b STRING) STORED AS PARQUET
INSERT INTO DB.hp VALUES (1, 'x'), (2, 'y')
SHOW PARTITIONS DB.hp
SELECT * FROM DB.hp WHERE b = 'y'
INSERT OVERWRITE DB.hp PARTITION (b = 'y') SELECT 3
SELECT * FROM DB.hp
ALTER TABLE DB.hp DROP PARTITION (b = 'x')
MSCK REPAIR TABLE DB.hp
SELECT * FROM DB.hp
CREATE TABLE DB.source USING parquet AS SELECT * FROM DB.h
CREATE TABLE DB.text USING csv AS SELECT 1 AS a
CREATE TABLE DB.orc (a INT) STORED AS ORC
CREATE TABLE DB.unsaid (a INT)
SHOW CREATE TABLE DB.unsaid
DESCRIBE TABLE DB.h
ALTER TABLE DB.h ADD COLUMNS (c INT)
SELECT * FROM DB.h
ALTER TABLE DB.h SET TBLPROPERTIES ('k' = 'v')
SHOW TBLPROPERTIES DB.h ('k')
ALTER TABLE DB.h RENAME TO DB.other
SELECT count(*) FROM DB.other
ALTER TABLE DB.other RENAME TO DB.h
ANALYZE TABLE DB.h COMPUTE STATISTICS
CREATE TABLE DB.h (a INT) USING parquet
CREATE TABLE IF NOT EXISTS DB.h (a INT) USING parquet
CREATE TABLE DB.alike LIKE DB.h
SHOW TABLES IN DB
SELECT * FROM DB.missing
SELECT * FROM no_database_of_this_name.missing
SELECT * FROM DB.h.files
INSERT INTO DB.missing VALUES (1)
DROP TABLE DB.missing
DROP TABLE IF EXISTS DB.missing
ALTER TABLE DB.missing ADD COLUMN z INT
ALTER TABLE DB.missing RENAME TO DB.lost
TRUNCATE TABLE DB.missing
REFRESH TABLE DB.missing
DESCRIBE TABLE DB.missing
UPDATE DB.h SET a = 1
DELETE FROM DB.h WHERE a = 1
SELECT * FROM DB.h VERSION AS OF 1
CREATE TEMPORARY VIEW h_view AS SELECT * FROM DB.h
SELECT count(*) FROM h_view
CREATE OR REPLACE TEMPORARY VIEW h_view AS SELECT 1 AS one
SELECT * FROM h_view
DROP VIEW h_view
CREATE GLOBAL TEMPORARY VIEW h_global AS SELECT count(*) AS rows FROM DB.h
SELECT * FROM global_temp.h_global
DROP VIEW global_temp.h_global
CACHE TABLE DB.h
UNCACHE TABLE DB.h
TRUNCATE TABLE DB.h
SELECT * FROM DB.h
DROP TABLE DB.h
SELECT * FROM DB.h
"""

#: Statements on Hive views, which Iceberg's SQL extensions take for their own.
VIEW_STATEMENTS = """
CREATE TABLE DB.h (a INT, b STRING) STORED AS PARQUET
INSERT INTO DB.h VALUES (1, 'x')
CREATE VIEW DB.v AS SELECT a FROM DB.h
CREATE VIEW DB.v AS SELECT a FROM DB.h
CREATE VIEW IF NOT EXISTS DB.v AS SELECT a FROM DB.h
CREATE OR REPLACE VIEW DB.v AS SELECT b FROM DB.h
SELECT * FROM DB.v
SHOW VIEWS IN DB
DESCRIBE DB.v
DROP TABLE DB.v
DROP VIEW DB.h
DROP VIEW DB.missing
DROP VIEW IF EXISTS DB.missing
CREATE VIEW DB.gone AS SELECT 1 AS one
DROP VIEW DB.gone
DROP VIEW IF EXISTS DB.gone
SELECT * FROM DB.gone
ALTER VIEW DB.v AS SELECT a, b FROM DB.h
SELECT * FROM DB.v
"""

#: What works on a Hive view that is there, with the extensions too.
OLD_VIEW_STATEMENTS = """
SELECT * FROM DB.v
SELECT h.b FROM DB.v JOIN DB.h ON v.a = h.a
SHOW TABLES IN DB
DESCRIBE DB.v
ALTER VIEW DB.v AS SELECT b FROM DB.h
SELECT * FROM DB.v
ALTER VIEW DB.v SET TBLPROPERTIES ('k' = 'v')
SHOW TBLPROPERTIES DB.v ('k')
ALTER VIEW DB.v RENAME TO DB.w
SELECT * FROM DB.w
ALTER VIEW DB.w RENAME TO DB.v
DROP TABLE DB.v
CREATE TABLE DB.v (a INT) USING parquet
INSERT INTO DB.v VALUES (1)
TRUNCATE TABLE DB.v
ALTER TABLE DB.v ADD COLUMN x INT
CREATE TEMPORARY VIEW over_v AS SELECT * FROM DB.v
SELECT * FROM over_v
DROP VIEW over_v
"""

#: Statements on views that are made with the extensions, and which answer as in plain Spark.
NEW_VIEW_STATEMENTS = """
CREATE TABLE DB.h (a INT, b STRING) USING parquet
INSERT INTO DB.h VALUES (1, 'x'), (2, 'y')
CREATE VIEW DB.v AS SELECT a FROM DB.h
CREATE VIEW IF NOT EXISTS DB.v AS SELECT b FROM DB.h
SELECT * FROM DB.v
CREATE OR REPLACE VIEW DB.v AS SELECT a, b FROM DB.h
SELECT * FROM DB.v
CREATE VIEW DB.w (one COMMENT 'first', two) COMMENT 'a view' TBLPROPERTIES ('k' = '1') AS SELECT a, b FROM DB.h -- both
SELECT one, two FROM DB.w
CREATE OR REPLACE VIEW DB.w (two, one) AS SELECT a, b FROM DB.h
SELECT one, two FROM DB.w
CREATE VIEW DB.odd (o, n) AS WITH c AS (SELECT a AS `a ``b` FROM DB.h) SELECT `a ``b`, 7 AS m FROM c
SELECT * FROM DB.odd
USE DB
CREATE VIEW DB.across AS SELECT a FROM h
CREATE VIEW DB.across_named (one) AS SELECT a FROM h
USE default
SELECT * FROM DB.across
SELECT one FROM DB.across_named
SELECT v.a, w.one FROM DB.v JOIN DB.w ON v.a = w.two
CREATE VIEW DB.over AS SELECT v.a FROM DB.v JOIN DB.across ON v.a = across.a
SELECT * FROM DB.over
SHOW VIEWS IN DB
SHOW VIEWS IN DB LIKE 'v*'
SHOW TABLES IN DB
SHOW COLUMNS IN DB.w
DESCRIBE DB.w
ALTER VIEW DB.w SET TBLPROPERTIES ('k' = '2', 'l' = '3')
SHOW TBLPROPERTIES DB.w ('k')
SELECT one, two FROM DB.w
ALTER VIEW DB.w UNSET TBLPROPERTIES ('l')
ALTER VIEW DB.w UNSET TBLPROPERTIES IF EXISTS ('missing')
ALTER VIEW DB.w RENAME TO DB.moved
SELECT * FROM DB.w
SELECT * FROM DB.moved
ALTER TABLE DB.h ADD COLUMNS (c INT)
SELECT * FROM DB.moved
CREATE TABLE DB.v (a INT) USING parquet
INSERT INTO DB.v VALUES (1)
DROP TABLE DB.v
CREATE TEMPORARY VIEW over_new AS SELECT * FROM DB.v
SELECT * FROM over_new
DROP VIEW over_new
DROP VIEW DB.v
SELECT * FROM DB.v
DROP VIEW IF EXISTS DB.v
SELECT * FROM DB.h.files
"""
#: Statement -> how Iceberg answers it, where plain Spark answers otherwise. DB.h is a Hive table, DB.v an Iceberg view.
OTHER_ANSWERS = {
    "CREATE VIEW DB.v AS SELECT 1 AS one": ("VIEW_ALREADY_EXISTS", "v"),
    "CREATE VIEW DB.h AS SELECT 1 AS one": ("VIEW_ALREADY_EXISTS", "h"),
    "ALTER VIEW DB.v AS SELECT 7 AS a": ("AnalysisException", "Use CREATE OR REPLACE VIEW instead"),
    "ALTER VIEW DB.v UNSET TBLPROPERTIES ('missing')": ("AnalysisException", "Cannot remove property that is not set"),
    "CREATE OR REPLACE VIEW DB.h AS SELECT 1 AS one": ("Py4JJavaError", ""),
    "DROP VIEW DB.h": ("VIEW_NOT_FOUND", ""),
    "DROP VIEW DB.missing": ("VIEW_NOT_FOUND", ""),
}


def lines(text: str, database: str) -> list[str]:
    return [line.replace("DB", database) for line in text.splitlines() if line]


def anonymous(outcomes: list[Outcome], database: str) -> list[tuple[str, str | None, list[str]]]:
    """Statement, error and rows, without the database's name."""
    return [
        (one.statement.replace(database, "DB"), one.error, [row.replace(database, "DB") for row in one.rows])
        for one in outcomes
    ]


PLAIN_DATABASES = ("plain_hive", "plain_old_views", "our_old_views", "plain_views")


@pytest.fixture(scope="module")
def plain(metastore: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Outcome]]:
    """What plain Spark made of the statements, by database. It also makes the old views that ours will find."""
    hive, old, ours, new = PLAIN_DATABASES
    make_old = "CREATE TABLE DB.h (a INT, b STRING) STORED AS PARQUET\nINSERT INTO DB.h VALUES (1, 'x')\n"
    make_old += "CREATE VIEW DB.v AS SELECT a FROM DB.h\n"
    parts = {
        "databases": [f"CREATE DATABASE {database}" for database in PLAIN_DATABASES],
        hive: lines(HIVE_STATEMENTS, hive),
        "old": lines(make_old, old) + lines(make_old, ours),
        old: lines(OLD_VIEW_STATEMENTS, old),
        new: lines(NEW_VIEW_STATEMENTS, new),
    }
    statements = [statement for part in parts.values() for statement in part]
    outcomes = iter(run_elsewhere(metastore, "plain", statements, tmp_path_factory.mktemp("plain spark")))
    found = {name: [next(outcomes) for _ in part] for name, part in parts.items()}
    assert [one for one in found["databases"] + found["old"] if one.error] == []
    return found


def test_a_sample_of_statements_is_answered_as_type_hive_answered_it(
    spark: Any, metastore: Any, tmp_path: Path
) -> None:
    """test_session_catalog_statements.py runs all of them, in sessions of each kind."""
    (sample,) = chosen(["sample"])
    place = place_of("quick", sample, metastore.warehouse, str(tmp_path))
    ours = Run("embedded", {sample.name: run_chapter(spark, sample, place)})
    assert differing_answers(ours, recorded()) == {one for one in listed("embedded") if one[0] == sample.name}
    for name, rows in sample.keeps.items():
        assert outcome(spark, place.fill(f"SELECT * FROM {name}")).rows == sorted(rows)


def test_hive_tables_and_missing_tables_behave_as_in_plain_spark(spark: Any, plain: Any, namespace: str) -> None:
    ours = [outcome(spark, statement) for statement in lines(HIVE_STATEMENTS, namespace)]
    assert anonymous(ours, namespace) == anonymous(plain["plain_hive"], "plain_hive")


def test_a_hive_view_that_is_there_is_read_and_altered_as_in_plain_spark(spark: Any, plain: Any) -> None:
    ours = [outcome(spark, statement) for statement in lines(OLD_VIEW_STATEMENTS, "our_old_views")]
    assert anonymous(ours, "our_old_views") == anonymous(plain["plain_old_views"], "plain_old_views")


@pytest.mark.slow
def test_without_the_extensions_hive_views_behave_as_in_plain_spark(
    metastore: Any, namespace: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    other = make_namespace(metastore, request)
    ours = run_elsewhere(metastore, "no-extensions", lines(VIEW_STATEMENTS, namespace), tmp_path)
    plain = run_elsewhere(metastore, "plain", lines(VIEW_STATEMENTS, other), tmp_path)
    assert anonymous(ours, namespace) == anonymous(plain, other)


def test_with_the_extensions_a_hive_view_is_neither_dropped_nor_listed_as_a_view(spark: Any, plain: Any) -> None:
    assert plain
    assert outcome(spark, "DROP VIEW our_old_views.v").error == "VIEW_NOT_FOUND"
    assert outcome(spark, "DROP VIEW IF EXISTS our_old_views.v").error is None
    assert outcome(spark, "SELECT count(*) FROM our_old_views.v").rows == ["(1,)"]
    assert outcome(spark, "SHOW VIEWS IN our_old_views").rows == []


def test_an_iceberg_table_may_not_take_the_name_of_a_hive_table_or_view(spark: Any, plain: Any, namespace: str) -> None:
    assert plain
    spark.sql(f"CREATE TABLE {namespace}.taken (a INT) USING parquet")
    for name in (f"{namespace}.taken", "our_old_views.v"):
        assert outcome(spark, f"CREATE TABLE {name} (a INT) USING iceberg").error == "TABLE_OR_VIEW_ALREADY_EXISTS"
        assert outcome(spark, f"CREATE TABLE {name} USING iceberg AS SELECT 1").error == "TABLE_OR_VIEW_ALREADY_EXISTS"
    spark.sql(f"CREATE TABLE {namespace}.mine (a INT) USING iceberg")
    assert outcome(spark, f"ALTER TABLE {namespace}.mine RENAME TO {namespace}.taken").error == (
        "TABLE_OR_VIEW_ALREADY_EXISTS"
    )
    assert outcome(spark, f"SHOW TABLES IN {namespace}").rows == [
        f"('{namespace}', 'mine', False)",
        f"('{namespace}', 'taken', False)",
    ]


def test_a_hive_table_may_not_take_the_name_of_an_iceberg_table(spark: Any, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.mine (a INT) USING iceberg")
    spark.sql(f"INSERT INTO {namespace}.mine VALUES (7)")
    assert (
        outcome(spark, f"CREATE TABLE {namespace}.mine (a INT) USING parquet").error == "TABLE_OR_VIEW_ALREADY_EXISTS"
    )
    assert outcome(spark, f"SELECT * FROM {namespace}.mine").rows == ["(7,)"]


def test_both_kinds_join_and_load_one_another(spark: Any, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.hive (id INT, name STRING) STORED AS PARQUET")
    spark.sql(f"INSERT INTO {namespace}.hive VALUES (1, 'one'), (2, 'two')")
    spark.sql(f"CREATE TABLE {namespace}.ice (id INT, n INT) USING iceberg")
    spark.sql(f"INSERT INTO {namespace}.ice SELECT id, id * 10 FROM {namespace}.hive")
    joined = outcome(spark, f"SELECT h.name, i.n FROM {namespace}.hive h JOIN {namespace}.ice i ON h.id = i.id")
    assert joined.rows == ["('one', 10)", "('two', 20)"]
    spark.sql(f"INSERT INTO {namespace}.hive SELECT id + 10, 'back' FROM {namespace}.ice")
    assert outcome(spark, f"SELECT count(*) FROM {namespace}.hive").rows == ["(4,)"]


def test_spark_and_python_share_their_databases(spark: Any, metastore: Any, namespace: str) -> None:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        spark.sql(f"CREATE DATABASE {namespace}_spark")
        assert catalog.namespace_exists(f"{namespace}_spark")
        spark.sql(f"CREATE TABLE {namespace}_spark.t (a INT) USING iceberg")
        location = catalog.load_table(f"{namespace}_spark.t").metadata.location
        assert file_key(location) == file_key(f"{metastore.warehouse}/{namespace}_spark.db/t")
        assert outcome(spark, f"DROP DATABASE {namespace}_spark").error == "SCHEMA_NOT_EMPTY"
        spark.sql(f"DROP DATABASE {namespace}_spark CASCADE")
        assert not catalog.namespace_exists(f"{namespace}_spark")
        catalog.create_namespace(f"{namespace}_python")
        assert f"('{namespace}_python',)" in outcome(spark, "SHOW DATABASES").rows


def test_our_python_api_does_not_touch_hive_tables(spark: Any, metastore: Any, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.hive STORED AS PARQUET AS SELECT 1 AS a")
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        with pytest.raises(NotAnIcebergTable):
            catalog.load_table(f"{namespace}.hive")
        with pytest.raises(NotAnIcebergTable):
            catalog.purge_table(f"{namespace}.hive")
        assert catalog.list_tables(namespace) == []
    assert outcome(spark, f"SELECT * FROM {namespace}.hive").rows == ["(1,)"]


def test_what_python_commits_the_session_sees_at_once(spark: Any, metastore: Any, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (a INT) USING iceberg")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1)")
    assert outcome(spark, f"SELECT count(*) FROM {namespace}.t").rows == ["(1,)"]
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        table = catalog.load_table(f"{namespace}.t")
        path = str(spark.sql(f"SELECT file_path FROM {namespace}.t.files").collect()[0][0])
        copy = Path(path.removeprefix("file:"))
        again = copy.with_name("again.parquet")
        again.write_bytes(copy.read_bytes())
        table.append([f"file:{again}"])
    assert outcome(spark, f"SELECT count(*) FROM {namespace}.t").rows == ["(2,)"]


def test_a_view_reads_the_tables_of_the_database_in_which_it_was_made(
    spark: Any, metastore: Any, namespace: str, request: pytest.FixtureRequest
) -> None:
    other = make_namespace(metastore, request)
    for database, number in ((namespace, 1), (other, 2)):
        spark.sql(f"CREATE TABLE {database}.t (a INT, b INT) USING iceberg")
        spark.sql(f"INSERT INTO {database}.t VALUES ({number}, {number * 10})")
    try:
        spark.sql(f"USE {namespace}")
        spark.sql("CREATE VIEW v AS SELECT a FROM t")
        spark.sql("CREATE VIEW named (one, two) AS SELECT b, a FROM t -- swapped")
        spark.sql(f"USE {other}")
        assert outcome(spark, f"SELECT * FROM {namespace}.v").rows == ["(1,)"]
        assert outcome(spark, f"SELECT two, one FROM {namespace}.named").rows == ["(1, 10)"]
        # The view moves to the other database.
        spark.sql(f"CREATE OR REPLACE VIEW {namespace}.v AS SELECT a FROM t")
        spark.sql(f"USE {namespace}")
        assert outcome(spark, "SELECT v.a, one FROM v JOIN named").rows == ["(2, 10)"]
    finally:
        spark.sql("USE default")


@pytest.mark.slow
def test_with_the_extensions_iceberg_views_answer_as_hive_views_do_in_plain_spark(
    spark: Any, plain: Any, namespace: str
) -> None:
    ours = [outcome(spark, statement) for statement in lines(NEW_VIEW_STATEMENTS, namespace)]
    assert anonymous(ours, namespace) == anonymous(plain["plain_views"], "plain_views")


@pytest.mark.slow
def test_with_the_extensions_iceberg_answers_some_view_statements_otherwise(spark: Any, namespace: str) -> None:
    """docs/spark-views.md lists them."""
    for made in ("CREATE TABLE DB.h (a INT) USING parquet", "CREATE VIEW DB.v AS SELECT a FROM DB.h"):
        assert outcome(spark, made.replace("DB", namespace)).error is None
    for statement, (error, message) in OTHER_ANSWERS.items():
        found = outcome(spark, statement.replace("DB", namespace))
        assert (found.error, message in found.message) == (error, True), found
        assert outcome(spark, f"SELECT * FROM {namespace}.v").error is None
        assert outcome(spark, f"SELECT * FROM {namespace}.h").error is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "error"),
    [
        ("(one) AS SELECT concat(a, 'x') FROM h", "INCOMPATIBLE_VIEW_SCHEMA_CHANGE"),
        ("(one, two) AS SELECT a, a FROM h", "INCOMPATIBLE_VIEW_SCHEMA_CHANGE"),
    ],
)
def test_a_view_whose_columns_cannot_be_matched_is_not_read(spark: Any, namespace: str, view: str, error: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.h (a INT) USING parquet")
    assert outcome(spark, f"CREATE VIEW {namespace}.v {view.replace(' h', f' {namespace}.h')}").error is None
    assert outcome(spark, f"SELECT * FROM {namespace}.v").error == error
