"""What `configure` refuses and chooses, before any JVM is started. The session itself is tested on real servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import iceberg_hms.spark
from iceberg_hms.errors import ConfigError, IcebergHmsError, MetastoreUnavailable
from iceberg_hms.spark import session
from iceberg_hms.spark.configuration import CATALOG_URI, METASTORE_URIS, WAREHOUSE
from iceberg_hms.spark.embedded import Embedding
from iceberg_hms.spark.session import SessionBuilder, Target, configure, refuse_connect

ARGUMENTS: dict[str, Any] = {"metastore_uri": "thrift://127.0.0.1:1", "warehouse": "file:/wh"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "ICEBERG_HMS_URI"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ICEBERG_HMS_WAREHOUSE", "ICEBERG_HMS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def builder(**options: str) -> SparkSession.Builder:
    made = SparkSession.Builder()
    for key, value in options.items():
        made.config(key.replace("__", "."), value)
    return made


def test_the_public_name_is_imported_on_use() -> None:
    assert iceberg_hms.spark.configure is configure
    assert "configure" in dir(iceberg_hms.spark)
    with pytest.raises(AttributeError, match="no attribute 'configured'"):
        _ = iceberg_hms.spark.configured


def test_configure_starts_nothing_and_leaves_the_builder_alone() -> None:
    given = builder(spark__master="local[2]")
    made = configure(given, **ARGUMENTS)
    assert isinstance(made, SparkSession.Builder)
    assert made._options == given._options == {"spark.master": "local[2]"}
    assert SparkContext._gateway is None


@pytest.mark.parametrize(
    ("options", "environ"),
    [
        ({"spark.remote": "sc://localhost"}, {}),
        ({"spark.remote": "local[*]"}, {}),
        ({"spark.api.mode": "connect"}, {}),
        ({"spark.api.mode": "CONNECT"}, {}),
        ({}, {"SPARK_REMOTE": "sc://host:15002"}),
        ({}, {"SPARK_API_MODE": "connect"}),
        ({}, {"SPARK_CONNECT_MODE_ENABLED": "1"}),
    ],
)
def test_spark_connect_is_refused_with_what_to_do(options: dict[str, str], environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"Spark Connect.*spark-defaults.conf of the Spark Connect server"):
        refuse_connect(options, environ)


def test_a_classic_session_is_not_refused() -> None:
    refuse_connect({"spark.master": "local[2]", "spark.api.mode": "classic"}, {"PATH": "/bin"})


def test_configure_looks_for_spark_connect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:15002")
    with pytest.raises(ConfigError, match="Spark Connect"):
        configure(builder(), **ARGUMENTS)


def test_the_session_looks_for_spark_connect_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = configure(builder(), **ARGUMENTS)
    made.config("spark.remote", "sc://host:15002")
    with pytest.raises(ConfigError, match="Spark Connect"):
        made.getOrCreate()


def test_what_is_no_builder_is_refused() -> None:
    with pytest.raises(ConfigError, match="builds no classic Spark session"):
        configure(object(), **ARGUMENTS)  # type: ignore[arg-type]


def test_settings_of_the_server_are_refused_beside_a_running_server() -> None:
    with pytest.raises(ConfigError, match="clients"):
        configure(builder(), server_uri="http://h:1", clients=4)


def test_a_token_without_its_server_is_refused() -> None:
    with pytest.raises(ConfigError, match="token without server_uri"):
        configure(builder(), token="x", **ARGUMENTS)


def test_arguments_win_over_sparks_settings_and_those_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_HMS_URI", "thrift://environment:1")
    monkeypatch.setenv("ICEBERG_HMS_WAREHOUSE", "/environment")
    assert configure(builder())._choose() == ("thrift://environment:1", "file:/environment")
    given = builder(**{METASTORE_URIS: "thrift://spark:1", WAREHOUSE: "/spark"})
    assert configure(given)._choose() == ("thrift://spark:1", "file:/spark")
    assert configure(given, **ARGUMENTS)._choose() == ("thrift://127.0.0.1:1", "file:/wh")


@pytest.mark.parametrize("name", ["uri", "metastore_uri"])
def test_settings_of_the_server_are_handed_on_each_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []

    def start(settings: Mapping[str, object], token: str) -> Any:
        seen.append(dict(settings))
        raise MetastoreUnavailable("no server answers")

    target = configure(builder(), **{name: "thrift://h:1", "warehouse": "/wh", "clients": 4})._target
    with pytest.raises(MetastoreUnavailable):
        SessionBuilder({}, target, Embedding(start)).getOrCreate()
    assert seen == [{"metastore_uri": "thrift://h:1", "warehouse": "file:/wh", "clients": 4}]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "No metastore is named"),
        ({"metastore_uri": "thrift://h:1"}, "No warehouse is named"),
        ({"metastore_uri": "h:1", "warehouse": "/wh"}, "not thrift://host:port"),
        ({**ARGUMENTS, "clientz": 3}, "did you mean `clients`"),
    ],
)
def test_a_missing_or_malformed_setting_is_named(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        configure(builder(), **arguments).getOrCreate()


def test_a_metastore_that_is_not_there_raises_before_a_jvm_starts() -> None:
    def start(settings: object, token: str) -> Any:
        raise MetastoreUnavailable("no server answers")

    made = SessionBuilder({}, Target("thrift://127.0.0.1:1", "/wh"), Embedding(start))
    with pytest.raises(MetastoreUnavailable):
        made.getOrCreate()
    assert SparkContext._gateway is None


class FakeServer:
    uri = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_a_session_that_cannot_be_made_ends_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer()
    monkeypatch.setattr(session, "_start_java", _no_java)
    made = SessionBuilder({}, Target("thrift://h:1", "/wh"), Embedding(lambda settings, token: server))
    with pytest.raises(IcebergHmsError, match="no Java"):
        made.getOrCreate()
    assert server.stops == 1


def _no_java(options: object) -> None:
    raise IcebergHmsError("no Java")


def test_contradictory_options_are_refused_and_the_builder_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer()
    options = {"spark.sql.catalogImplementation": "in-memory"}
    made = SessionBuilder(options, Target("thrift://h:1", "/wh"), Embedding(lambda settings, token: server))
    with pytest.raises(ConfigError, match=r"spark\.sql\.catalogImplementation"):
        made.getOrCreate()
    assert made._options == options
    assert server.stops == 1


def test_a_running_session_of_another_catalog_is_refused() -> None:
    conf = SparkConf(loadDefaults=False, _jvm=None)
    conf.set("spark.master", "local")
    with pytest.raises(ConfigError, match=r"runs already.*stop it first"):
        session._check_running(conf, {CATALOG_URI: "http://127.0.0.1:1"})
    conf.set(CATALOG_URI, "http://127.0.0.1:1")
    session._check_running(conf, {CATALOG_URI: "http://127.0.0.1:1"})
