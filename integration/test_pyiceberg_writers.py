"""PyIceberg programs on the adapter that write one table at the same time, at all defaults."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from iceberg_hms.pyiceberg import HmsCatalog
from integration import pyiceberg_writers
from integration.pyiceberg_writers import COUNT, ROW

logger = logging.getLogger(__name__)


def properties(metastore: Any) -> dict[str, str]:
    """Of the adapter, as `load_catalog` takes them."""
    return {
        "py-catalog-impl": "iceberg_hms.pyiceberg.HmsCatalog",
        "uri": metastore.uri.replace("thrift://", "iceberg-hms+thrift://"),
        "warehouse": metastore.warehouse,
    }


@pytest.mark.parametrize(
    ("appenders", "appends", "counters", "counts"),
    [(3, 5, 1, 4), pytest.param(8, 20, 2, 20, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
def test_appends_land_beside_overwrites(
    metastore: Any, namespace: str, appenders: int, appends: int, counters: int, counts: int
) -> None:
    """
    several processes append rows, others read a number and overwrite it by the next one
    each append lands; each overwrite lands, or PyIceberg reports the conflict
    """
    given = properties(metastore)
    with HmsCatalog("writers", **given) as catalog:
        table = pyiceberg_writers.make_table(catalog, f"{namespace}.t")
        results = pyiceberg_writers.run(
            given, f"{namespace}.t", appenders=appenders, appends=appends, counters=counters, counts=counts
        )
        pyiceberg_writers.check(table.refresh(), results)
    logger.info("slowest: %.1f s", max(each.seconds for each in results))
    assert [each.error for each in results if each.kind == ROW and not each.acknowledged] == []
    assert all(each.acknowledged or each.refused for each in results)
    assert any(each.acknowledged for each in results if each.kind == COUNT)
