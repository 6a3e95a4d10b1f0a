"""A session's catalog, executors and time zone, without a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from iceberg_hms.errors import ConfigError, EngineError
from iceberg_hms.migration import driver
from iceberg_hms.migration.driver import driver_of, spark_session, time_zone_of
from tests.migration.lake import Lake

NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)


class Session:
    """What `driver_of` asks of a SparkSession."""

    def __init__(self, time_zone: str = "America/New_York", **settings: str) -> None:
        self.conf = {"spark.sql.session.timeZone": time_zone}
        self.sparkContext = SimpleNamespace(
            master="local[2]",
            pythonExec="python3.11",
            getConf=lambda: SimpleNamespace(getAll=lambda: list(settings.items())),
        )


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("America/New_York", -4),
        ("Europe/Berlin", 2),
        ("UTC", 0),
        ("Z", 0),
        ("GMT", 0),
        ("+02:00", 2),
        ("-0530", -5.5),
        ("GMT+2", 2),
        ("UTC-03:30", -3.5),
        ("+05:30", 5.5),
    ],
)
def test_a_time_zone_is_a_region_or_hours_from_utc(text: str, hours: float) -> None:
    assert NOON.replace(tzinfo=time_zone_of(text)).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["Nowhere/Land", "../etc/passwd", "+2:75", "", " ", "+99:00"])
def test_another_text_is_no_time_zone(text: str) -> None:
    with pytest.raises(ConfigError, match=r"session\.timeZone"):
        time_zone_of(text)


def test_the_callers_catalog_stays_open(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    spark: Any = Session()
    closed: list[bool] = []
    monkeypatch.setattr(lake.catalog, "close", lambda: closed.append(True))
    with driver_of(spark, lake.catalog, "migrate nyc.flights") as found:
        assert found.catalog is lake.catalog
        assert found.services is lake.catalog.services
        assert str(found.time_zone) == "America/New_York"
    assert closed == []


def test_without_a_catalog_one_of_the_sessions_metastore_is_opened_and_closed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    def assemble(settings: Any) -> Any:
        opened.append(settings)
        return lake.catalog

    closed: list[bool] = []
    monkeypatch.setattr(driver, "assemble", assemble)
    monkeypatch.setattr(lake.catalog, "close", lambda: closed.append(True))
    settings = {
        "spark.hadoop.hive.metastore.uris": "thrift://there:9083",
        "spark.sql.warehouse.dir": "file:/warehouse/of/session",
    }
    spark: Any = Session(**settings)
    with driver_of(spark, None, "migrate nyc.flights") as opened_driver:
        assert opened_driver.catalog is lake.catalog
        assert closed == []
    (found,) = opened
    assert list(found.metastore_uris) == ["thrift://there:9083"]
    assert found.warehouse == "file:/warehouse/of/session"
    assert closed == [True]


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def __getattr__(self, name: str) -> Any:
            if name == "getOrCreate":
                raise driver.PySparkRuntimeError("JAVA_GATEWAY_EXITED")
            return lambda *_: self

    monkeypatch.setattr(driver, "SparkSession", SimpleNamespace(builder=Builder()))
    with pytest.raises(EngineError, match="JAVA_GATEWAY_EXITED") as failed, spark_session("local[1]"):
        raise AssertionError
    assert "JAVA_HOME" in str(failed.value.next_step)
