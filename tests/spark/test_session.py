"""What `configure` refuses and chooses, before any JVM is started. The session itself is tested on real servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

import iceberg_hms.spark
from iceberg_hms.errors import ConfigError, EngineError, MetastoreUnavailable
from iceberg_hms.spark import session
from iceberg_hms.spark.configuration import CATALOG_URI, METASTORE_URIS, WAREHOUSE
from iceberg_hms.spark.embedded import Embedding
from iceberg_hms.spark.session import SessionBuilder, Target, configure, refuse_connect, refuse_other_catalog

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


@pytest.fixture(autouse=True)
def launches(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The settings of each JVM that was to start; none starts."""
    made: list[dict[str, str]] = []

    def no_java(conf: SparkConf) -> Any:
        made.append(dict(conf.getAll()))
        raise OSError("no Java")

    monkeypatch.setattr(session, "launch_gateway", no_java)
    return made


def test_configure_starts_nothing_and_leaves_the_builder_alone(launches: list[dict[str, str]]) -> None:
    given = builder(spark__master="local[2]")
    first, second = (configure(given, server_uri="http://127.0.0.1:1", token="x") for _ in range(2))
    assert isinstance(first, SparkSession.Builder)
    assert launches == []
    first.config("spark.app.name", "mine")
    given.config("spark.app.name", "given")
    for each in (first, second):
        with pytest.raises(EngineError, match="Java process could not be started"):
            each.getOrCreate()
    assert launches[0] == {**launches[1], "spark.app.name": "mine"}
    assert launches[1]["spark.master"] == "local[2]"
    assert "spark.app.name" not in launches[1]


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


def settings_of_the_server(target: Target, options: Mapping[str, str] | None = None) -> dict[str, object]:
    """What a session with these Spark settings would start its embedded server with."""
    seen: list[dict[str, object]] = []

    def start(settings: Mapping[str, object], token: str) -> Any:
        seen.append(dict(settings))
        raise MetastoreUnavailable("no server answers")

    with pytest.raises(MetastoreUnavailable):
        SessionBuilder(options or {}, target, Embedding(start)).getOrCreate()
    [settings] = seen
    return settings


def test_arguments_win_over_sparks_settings_and_those_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_HMS_URI", "thrift://environment:1")
    monkeypatch.setenv("ICEBERG_HMS_WAREHOUSE", "/environment")
    chosen = {"metastore_uri": "thrift://environment:1", "warehouse": "file:/environment"}
    assert settings_of_the_server(Target()) == chosen
    given = {METASTORE_URIS: "thrift://spark:1", WAREHOUSE: "/spark"}
    chosen = {"metastore_uri": "thrift://spark:1", "warehouse": "file:/spark"}
    assert settings_of_the_server(Target(), given) == chosen
    assert settings_of_the_server(configure(builder(), **ARGUMENTS).target, given) == ARGUMENTS


@pytest.mark.parametrize("name", ["uri", "metastore_uri"])
def test_settings_of_the_server_are_handed_on_each_once(name: str) -> None:
    given: dict[str, Any] = {name: "thrift://h:1", "warehouse": "/wh", "clients": 4}
    expected = {"metastore_uri": "thrift://h:1", "warehouse": "file:/wh", "clients": 4}
    assert settings_of_the_server(configure(builder(), **given).target) == expected


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


def test_a_metastore_that_is_not_there_raises_before_a_jvm_starts(launches: list[dict[str, str]]) -> None:
    def start(settings: object, token: str) -> Any:
        raise MetastoreUnavailable("no server answers")

    made = SessionBuilder({}, Target("thrift://127.0.0.1:1", "/wh"), Embedding(start))
    with pytest.raises(MetastoreUnavailable):
        made.getOrCreate()
    assert launches == []


class FakeServer:
    uri = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_a_session_that_cannot_be_made_ends_its_server() -> None:
    server = FakeServer()
    made = SessionBuilder({}, Target("thrift://h:1", "/wh"), Embedding(lambda settings, token: server))
    with pytest.raises(EngineError, match="Java process could not be started"):
        made.getOrCreate()
    assert server.stops == 1


def test_contradictory_options_are_refused_and_the_builder_keeps_its_own() -> None:
    server = FakeServer()
    options = {"spark.sql.catalogImplementation": "in-memory"}
    made = SessionBuilder(options, Target("thrift://h:1", "/wh"), Embedding(lambda settings, token: server))
    for stops in (1, 2):
        with pytest.raises(ConfigError, match=r"spark\.sql\.catalogImplementation"):
            made.getOrCreate()
        assert server.stops == stops


def test_a_running_session_of_another_catalog_is_refused() -> None:
    conf = SparkConf(loadDefaults=False, _jvm=None)
    conf.set("spark.master", "local")
    with pytest.raises(ConfigError, match=r"runs already.*stop it first"):
        refuse_other_catalog(conf, {CATALOG_URI: "http://127.0.0.1:1"})
    conf.set(CATALOG_URI, "http://127.0.0.1:1")
    refuse_other_catalog(conf, {CATALOG_URI: "http://127.0.0.1:1"})
