"""Spark's session catalog with and without server planning, and planned by executors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from iceberg_hms.spark.configuration import CATALOG
from integration.planning.both_ways import PLANNING_MODES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

QUERIES = {
    "SELECT id FROM {t} WHERE id >= 25": 10,
    "SELECT kind, count(*) FROM {t} GROUP BY kind": 3,
    "SELECT id FROM {t} VERSION AS OF {first} WHERE kind = 'k1'": 3,
}


@pytest.fixture
def table(spark: Any, namespace: str) -> Iterator[str]:
    name = f"{namespace}.t"
    modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'commit.manifest-merge.enabled' = 'false'"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ({modes})"
    )
    for first in range(0, 40, 10):
        spark.sql(f"INSERT INTO {name} SELECT id, concat('k', id % 3) FROM range({first}, {first + 10})")
    spark.sql(f"DELETE FROM {name} WHERE id > 34")
    return name


def rows(session: Any, table: str) -> dict[str, list[str]]:
    first = session.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").first()[0]
    return {
        query: sorted(str(tuple(row)) for row in session.sql(query.format(t=table, first=first)).collect())
        for query in QUERIES
    }


def kind_of(session: Any, table: str) -> str:
    """Java's class of a table."""
    loaded = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, table)
    return str(loaded.getClass().getSimpleName())


def planning_jobs(session: Any) -> int:
    """Jobs in which executors read manifests."""
    jobs = session.sparkContext._jsc.sc().statusStore().jobsList(None)
    groups = [jobs.apply(at).jobGroup() for at in range(jobs.size())]
    return len([each for each in groups if each.isDefined() and "PLANNING" in each.get()])


@pytest.mark.parametrize("mode", ["client", "server"])
def test_the_session_catalog_reads_the_same_rows_however_it_is_planned(spark: Any, table: str, mode: str) -> None:
    expected = rows(spark, table)
    assert {query: len(found) for query, found in expected.items()} == QUERIES
    session = spark.newSession()
    session.conf.set(f"{CATALOG}.scan-planning-mode", mode)
    assert rows(session, table) == expected
    assert kind_of(session, table) == ("RESTTable" if mode == "server" else "BaseTable")
    if mode == "server":
        session.sql(f"UPDATE {table} SET kind = 'changed' WHERE id = 7")
        assert session.sql(f"SELECT kind FROM {table} WHERE id = 7").first()[0] == "changed"
        assert spark.sql(f"SELECT id FROM {table} WHERE kind = 'changed'").collect() == [(7,)]


def test_executors_plan_what_the_server_does_not(spark: Any, table: str) -> None:
    """`distributed` holds for tables that the client plans, and for no others."""
    expected = rows(spark, table)
    distributed, planned = spark.newSession(), spark.newSession()
    planned.conf.set(f"{CATALOG}.scan-planning-mode", "server")
    for session in (distributed, planned):
        for mode in PLANNING_MODES:
            session.conf.set(mode, "distributed")
    before = planning_jobs(spark)
    assert rows(distributed, table) == expected
    made = planning_jobs(spark)
    assert made > before
    assert rows(planned, table) == expected
    assert planning_jobs(spark) == made
