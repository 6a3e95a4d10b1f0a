"""PyIceberg programs on the adapter that write one table at the same time, at all defaults."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.pyiceberg import HmsCatalog
from integration import pyiceberg_writers
from integration.old_metastores import HMS_3_1_3, HMS_4_1_0, OldMetastore, Release
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
    check(properties(metastore), f"{namespace}.t", appenders, appends, counters, counts)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first test of a release may wait for its download
@pytest.mark.parametrize(
    ("release", "lock"), [(HMS_3_1_3, "hms"), (HMS_4_1_0, "zookeeper")], ids=lambda each: getattr(each, "version", each)
)
def test_they_do_so_on_other_releases(release: Release, lock: str, zookeeper: Any, tmp_path: Path) -> None:
    """4.1.0 serves one lock call at a time on Derby, and two at once stand in each other's way: it takes minutes"""
    with OldMetastore(tmp_path / "hms", release) as metastore:
        given = {**properties(metastore), "iceberg-hms.lock": lock, "iceberg-hms.zookeeper.hosts": zookeeper.hosts}
        with HmsCatalog("writers", **given) as catalog:
            catalog.create_namespace("writers")
        check(given, "writers.t", 3, 5, 1, 4)


def check(given: Mapping[str, str], name: str, appenders: int, appends: int, counters: int, counts: int) -> None:
    """Let them write a new table. given: the properties of their catalog."""
    with HmsCatalog("writers", **given) as catalog:
        table = pyiceberg_writers.make_table(catalog, name)
        results = pyiceberg_writers.run(
            given, name, appenders=appenders, appends=appends, counters=counters, counts=counts
        )
        pyiceberg_writers.check(table.refresh(), results)
    logger.info("slowest: %.1f s", max(each.seconds for each in results))
    assert [each.error for each in results if each.kind == ROW and not each.acknowledged] == []
    assert all(each.acknowledged or each.refused for each in results)
    assert any(each.acknowledged for each in results if each.kind == COUNT)
