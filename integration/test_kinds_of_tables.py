"""Hive tables become Iceberg tables in place on a real metastore, with its embedded settings and with Hive's own."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.testing.faults.script import CUT_AFTER_SEND, CUT_BEFORE_REPLY, CUT_BEFORE_SEND, DUPLICATE, Action
from integration import interop
from integration.kinds_of_tables import (
    KINDS,
    check_changed_meanwhile,
    check_lost_calls,
    check_there_and_back,
    comparable,
    lake,
)
from integration.servers import make_namespace


@pytest.fixture(params=["metastore", "stock_metastore"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_becomes_iceberg_and_the_same_hive_table_again(
    kind: str, server: Any, request: pytest.FixtureRequest
) -> None:
    check_there_and_back(server, make_namespace(server, request), kind)


def test_a_table_that_changed_meanwhile_stays_as_it_is(server: Any, request: pytest.FixtureRequest) -> None:
    check_changed_meanwhile(server, make_namespace(server, request))


@pytest.mark.parametrize(
    "action",
    [CUT_BEFORE_SEND, CUT_AFTER_SEND, CUT_BEFORE_REPLY, DUPLICATE],
    ids=["request lost", "reply not awaited", "reply lost", "sent twice"],
)
def test_a_table_becomes_the_one_and_the_other_though_calls_are_lost(
    action: Action, metastore: Any, namespace: str
) -> None:
    check_lost_calls(metastore, namespace, action)


@pytest.mark.parametrize("kind", KINDS)
def test_java_commits_to_a_migrated_table_and_the_undo_gives_the_row_back(
    kind: str, spark: Any, metastore: Any, namespace: str
) -> None:
    """Java writes all columns of the schema into the row, those of the partition keys too."""
    java = interop.add_spark_catalog(spark, "hive_cat", type="hive", uri=metastore.uri, warehouse=metastore.warehouse)
    with lake(metastore, namespace, kind) as there:
        before = there.record()
        there.migrate()
        spark.sql(f"ALTER TABLE {java}.{there.name} SET TBLPROPERTIES ('by' = 'java')")
        spark.sql(f"ALTER TABLE {java}.{there.name} ADD COLUMN late STRING")
        row = there.catalog.pointer(there.name)
        assert [column.name for column in row.table.sd.cols] == ["id", "p", "more", "late"]
        there.set_property("by", "us")
        assert len(there.partitions()) == 2
        there.undo()
        assert comparable(there.record()) == comparable(before)
