"""What `configure` refuses and chooses, before any JVM is started. The session itself is tested on real servers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

import iceberg_hms.spark
from iceberg_hms.errors import ConfigError, EngineError, MetastoreUnavailable
from iceberg_hms.spark import session
from iceberg_hms.spark.configuration import (
    CATALOG,
    EXTENSIONS,
    ICEBERG_RUNTIME,
    JARS,
    METASTORE_URIS,
    PACKAGES,
    SQL_EXTENSIONS,
    WAREHOUSE,
)
from iceberg_hms.spark.embedded import Embedding
from iceberg_hms.spark.s3 import AWS_BUNDLE
from iceberg_hms.spark.session import SessionBuilder, Target, configure, refuse_connect
from iceberg_hms.spark.user_settings import SUBMIT_ARGS
from tests.ctrl_c import CtrlC

ARGUMENTS: dict[str, Any] = {"metastore_uri": "thrift://127.0.0.1:1", "warehouse": "file:/wh"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "ICEBERG_HMS_URI"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ICEBERG_HMS_WAREHOUSE", "ICEBERG_HMS_CONFIG", "HADOOP_CONF_DIR", "YARN_CONF_DIR", SUBMIT_ARGS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", "/nowhere")


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
        made.append({**dict(conf.getAll()), SUBMIT_ARGS: os.environ.get(SUBMIT_ARGS, "")})
        raise OSError("no Java")

    monkeypatch.setattr(session, "launch_gateway", no_java)
    return made


def test_configure_starts_nothing_and_leaves_the_builder_alone(launches: list[dict[str, str]]) -> None:
    given = builder(spark__master="local[2]")
    named = {"server_uri": "http://127.0.0.1:1", "token": "x", "metastore_uri": "thrift://h:1"}
    first, second = (configure(given, **named) for _ in range(2))
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
    def __init__(self) -> None:
        self.stops = 0

    def start(self, settings: Mapping[str, object], token: str) -> tuple[str, Callable[[], None]]:
        return "http://127.0.0.1:1", self.stop

    def stop(self) -> None:
        self.stops += 1


def test_a_session_that_cannot_be_made_ends_its_server() -> None:
    server = FakeServer()
    made = SessionBuilder({}, Target("thrift://h:1", "/wh"), Embedding(server.start))
    with pytest.raises(EngineError, match="Java process could not be started"):
        made.getOrCreate()
    assert server.stops == 1


def test_contradictory_options_are_refused_and_the_builder_keeps_its_own() -> None:
    server = FakeServer()
    options = {"spark.sql.catalogImplementation": "in-memory"}
    made = SessionBuilder(options, Target("thrift://h:1", "/wh"), Embedding(server.start))
    for stops in (1, 2):
        with pytest.raises(ConfigError, match=r"spark\.sql\.catalogImplementation"):
            made.getOrCreate()
        assert server.stops == stops


def launch(launches: list[dict[str, str]], made: SessionBuilder) -> dict[str, str]:
    """The settings of the JVM that a builder starts."""
    with pytest.raises(EngineError, match="Java process could not be started"):
        made.getOrCreate()
    return launches[-1]


RUNNING: dict[str, Any] = {"server_uri": "http://127.0.0.1:1", "metastore_uri": "thrift://h:1"}


def test_an_interrupted_launch_ends_with_the_end_of_the_jvms_input(
    monkeypatch: pytest.MonkeyPatch, ctrl_c: CtrlC
) -> None:
    closed = threading.Event()

    def interrupted(conf: SparkConf) -> Any:
        ctrl_c.send()
        assert returned.wait(10)
        return SimpleNamespace(proc=SimpleNamespace(stdin=SimpleNamespace(close=closed.set)))

    returned = threading.Event()
    monkeypatch.setattr(session, "launch_gateway", interrupted)
    with pytest.raises(KeyboardInterrupt):
        configure(builder(), **RUNNING).getOrCreate()
    assert not closed.is_set()
    returned.set()
    assert closed.wait(10)


def test_the_jvm_starts_with_our_package_and_no_other_setting_of_ours(launches: list[dict[str, str]]) -> None:
    started = launch(launches, configure(builder(spark__master="local"), token="s3cret", **RUNNING))
    assert started == {"spark.master": "local", PACKAGES: ICEBERG_RUNTIME, SUBMIT_ARGS: ""}


S3: dict[str, Any] = {"s3_endpoint": "http://s:1", "s3.access-key-id": "lake", "s3_secret_access_key": "hidden"}


def test_settings_of_s3_reach_spark_and_the_embedded_server() -> None:
    made = configure(builder(), **ARGUMENTS, **S3)
    assert settings_of_the_server(made.target) == {**ARGUMENTS, **S3}
    assert "hidden" not in repr(made.target)


def test_settings_of_s3_hold_beside_a_running_server_and_no_secret_starts_the_jvm(
    launches: list[dict[str, str]],
) -> None:
    secrets = {f"{CATALOG}.s3.secret-access-key": "hidden", f"{CATALOG}.s3.session-token": "hidden too"}
    started = launch(launches, configure(builder(**secrets), token="s3cret", **RUNNING, **S3))
    assert started == {PACKAGES: f"{ICEBERG_RUNTIME},{AWS_BUNDLE}", SUBMIT_ARGS: ""}


def test_the_environment_names_the_store_and_a_contradiction_is_refused_without_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ICEBERG_HMS_S3_ACCESS_KEY_ID", "lake")
    monkeypatch.setenv("ICEBERG_HMS_S3_SECRET_ACCESS_KEY", "hidden")
    with pytest.raises(ConfigError, match=rf"remove {CATALOG}\.s3\.secret-access-key from the builder") as refused:
        configure(builder(**{f"{CATALOG}.s3.secret-access-key": "hidden-by-him"}), **RUNNING).getOrCreate()
    assert "hidden" not in str(refused.value)


def test_a_package_for_s3_alone_is_fetched_where_the_runtime_is_a_jar(launches: list[dict[str, str]]) -> None:
    jar = "/jars/iceberg-spark-runtime-4.1_2.13-1.11.0.jar"
    made = configure(builder(**{JARS: jar}), warehouse="s3://b/wh", **RUNNING)
    assert launch(launches, made)[PACKAGES] == AWS_BUNDLE


def test_the_users_packages_are_fetched_beside_ours(
    launches: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(f"{PACKAGES} org.x:defaults:1\n")
    assert launch(launches, configure(builder(), **RUNNING))[PACKAGES] == f"org.x:defaults:1,{ICEBERG_RUNTIME}"
    monkeypatch.setenv(SUBMIT_ARGS, "--packages org.x:submitted:1 --name 'a b' pyspark-shell")
    started = launch(launches, configure(builder(), **RUNNING))
    both = f"org.x:submitted:1,{ICEBERG_RUNTIME}"
    assert started[SUBMIT_ARGS] == f"--packages org.x:submitted:1 --name 'a b' --packages {both} pyspark-shell"
    assert os.environ[SUBMIT_ARGS] == "--packages org.x:submitted:1 --name 'a b' pyspark-shell"


def test_the_package_is_not_fetched_where_the_runtime_is_a_jar(
    launches: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = "/jars/iceberg-spark-runtime-4.1_2.13-1.11.0.jar"
    started = launch(launches, configure(builder(**{JARS: jar}), **RUNNING))
    assert started == {JARS: jar, SUBMIT_ARGS: ""}
    monkeypatch.setenv(SUBMIT_ARGS, f"--jars {jar} pyspark-shell")
    assert PACKAGES not in launch(launches, configure(builder(), **RUNNING))


def test_settings_elsewhere_that_contradict_ours_are_refused_with_where_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = configure(builder(), **RUNNING)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.catalog.spark_catalog.type = hive\n")
    with pytest.raises(ConfigError, match=r"remove .*spark_catalog\.type from .*/spark-defaults\.conf"):
        made.getOrCreate()
    monkeypatch.setenv(SUBMIT_ARGS, "--conf spark.sql.catalog.spark_catalog.type=hadoop pyspark-shell")
    with pytest.raises(ConfigError, match=rf"remove .*spark_catalog\.type from {SUBMIT_ARGS}"):
        made.getOrCreate()


def test_a_session_without_extensions_is_refused_where_a_file_sets_them(
    launches: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(launches, configure(builder(), extensions=False, **RUNNING))
    monkeypatch.setenv(SUBMIT_ARGS, f"--conf {SQL_EXTENSIONS}=org.x.Y,{EXTENSIONS} pyspark-shell")
    with pytest.raises(ConfigError, match=f"extensions=False, and {SUBMIT_ARGS} sets"):
        configure(builder(), extensions=False, **RUNNING).getOrCreate()


def test_a_running_server_needs_a_metastore_for_hive_tables(
    launches: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = configure(builder(), server_uri="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"No metastore is named.*pass metastore_uri='thrift://host:9083'"):
        made.getOrCreate()
    assert launches == []
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "hive-site.xml").write_text(HIVE_SITE)
    launch(launches, made)
    (tmp_path / "hive-site.xml").unlink()
    monkeypatch.setenv("ICEBERG_HMS_URI", "thrift://environment:1")
    launch(launches, made)


HIVE_SITE = """<configuration>
<property><name>hive.metastore.uris</name><value>thrift://site:9083</value></property>
</configuration>"""


def test_spark_defaults_and_hive_site_name_the_metastore_of_an_embedded_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "hive-site.xml").write_text(HIVE_SITE)
    assert settings_of_the_server(Target(warehouse="/wh"))["metastore_uri"] == "thrift://site:9083"
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.hive.metastore.uris thrift://defaults:9083\n{WAREHOUSE} s3://bucket/wh\n"
    )
    assert settings_of_the_server(Target()) == {
        "metastore_uri": "thrift://defaults:9083",
        "warehouse": "s3://bucket/wh",
    }
