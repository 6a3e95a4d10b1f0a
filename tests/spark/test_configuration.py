"""What a Spark session is set to, and the files in conf/ that say the same."""

from __future__ import annotations

import dataclasses
import re
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.local import metastore as local_metastore
from iceberg_hms.rest.settings import RestSettings, all_settings, load
from iceberg_hms.spark.configuration import (
    CATALOG,
    CATALOG_URI,
    EXTENSIONS,
    ICEBERG_RUNTIME,
    METASTORE_URIS,
    PACKAGES,
    SECRETS,
    SQL_EXTENSIONS,
    WAREHOUSE,
    defaults_file,
    log4j_option,
    merge,
    metastore_of,
    session_configuration,
    warehouse_location,
)
from iceberg_hms.spark.s3 import AWS_BUNDLE, s3_properties
from iceberg_hms.spark.user_settings import parse_properties

CONF = Path(__file__).parent.parent.parent / "conf"
SERVER = "http://127.0.0.1:8181"


def wanted() -> dict[str, str]:
    return session_configuration(
        server_uri=SERVER, token="secret", metastore_uri="thrift://h:9083", warehouse="file:/data/warehouse"
    )


def test_the_session_catalog_is_icebergs_over_rest_with_hive_behind_it() -> None:
    values = wanted()
    assert values["spark.sql.catalog.spark_catalog"] == "org.apache.iceberg.spark.SparkSessionCatalog"
    assert values["spark.sql.catalog.spark_catalog.type"] == "rest"
    assert values["spark.sql.catalog.spark_catalog.uri"] == SERVER
    assert values["spark.sql.catalogImplementation"] == "hive"
    assert values["spark.hadoop.hive.metastore.uris"] == "thrift://h:9083"
    assert values["spark.sql.warehouse.dir"] == "file:/data/warehouse"


def test_a_session_sees_what_others_commit_at_once() -> None:
    assert wanted()["spark.sql.catalog.spark_catalog.cache-enabled"] == "false"


def test_a_token_is_sent_and_never_exchanged() -> None:
    values = wanted()
    assert values["spark.sql.catalog.spark_catalog.token"] == "secret"
    assert values["spark.sql.catalog.spark_catalog.rest.auth.type"] == "oauth2"
    assert values["spark.sql.catalog.spark_catalog.token-refresh-enabled"] == "false"


def test_without_a_token_nothing_is_said_of_authentication() -> None:
    values = session_configuration(server_uri=SERVER)
    assert not [key for key in values if "token" in key or "auth" in key]
    assert METASTORE_URIS not in values
    assert WAREHOUSE not in values


def test_without_extensions_only_they_are_missing() -> None:
    with_them = session_configuration(server_uri=SERVER)
    without = session_configuration(server_uri=SERVER, extensions=False)
    assert without == {key: value for key, value in with_them.items() if key != SQL_EXTENSIONS}


@pytest.mark.parametrize("warehouse", ["s3://b/wh", "s3a://b/wh", "S3N://b/wh"])
def test_a_warehouse_on_s3_brings_the_library_of_aws_and_nothing_else(warehouse: str) -> None:
    local, on_s3 = (session_configuration(server_uri=SERVER, warehouse=each) for each in ("file:/wh", warehouse))
    assert local[PACKAGES] == ICEBERG_RUNTIME
    assert on_s3 == {**local, WAREHOUSE: warehouse, PACKAGES: f"{ICEBERG_RUNTIME},{AWS_BUNDLE}"}


def test_settings_of_s3_are_properties_of_the_catalog_and_bring_the_library() -> None:
    library = Settings(s3_endpoint="http://s:1")
    plain = session_configuration(server_uri=SERVER)
    assert session_configuration(server_uri=SERVER, library=Settings()) == plain
    added = {f"{CATALOG}.{name}": value for name, value in s3_properties(library).items()}
    packages = {PACKAGES: f"{ICEBERG_RUNTIME},{AWS_BUNDLE}"}
    assert session_configuration(server_uri=SERVER, library=library) == plain | packages | added


def test_a_package_that_the_user_names_too_is_there_once() -> None:
    on_s3 = session_configuration(server_uri=SERVER, warehouse="s3://b/wh")
    assert merge({PACKAGES: f"org.x:y:1,{AWS_BUNDLE}"}, on_s3)[PACKAGES] == f"org.x:y:1,{AWS_BUNDLE},{ICEBERG_RUNTIME}"


def test_a_trailing_slash_of_the_server_is_dropped() -> None:
    assert session_configuration(server_uri=SERVER + "/")[CATALOG_URI] == SERVER


@pytest.mark.parametrize("uri", ["", "127.0.0.1:8181", "thrift://h:9083", "http://", "http:// x"])
def test_what_is_no_http_address_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError, match="server_uri"):
        session_configuration(server_uri=uri)


@pytest.mark.parametrize(
    ("given_", "location"),
    [
        ("/data/my warehouse", "file:/data/my warehouse"),
        ("file:/data/wh", "file:/data/wh"),
        ("file:///data/a%20b", "file:///data/a%20b"),
        ("s3://bucket/wh", "s3://bucket/wh"),
        ("hdfs://nn:8020/wh", "hdfs://nn:8020/wh"),
    ],
)
def test_a_warehouse_is_a_location_and_stays_byte_true(given_: str, location: str) -> None:
    assert warehouse_location(given_) == location


def test_a_relative_warehouse_is_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert warehouse_location("wh") == f"file:{tmp_path}/wh"


def test_packages_and_extensions_of_the_user_stay() -> None:
    merged = merge({PACKAGES: "org.x:y:1, org.z:w:2", SQL_EXTENSIONS: "org.x.Extension"}, wanted())
    assert merged[PACKAGES] == f"org.x:y:1,org.z:w:2,{ICEBERG_RUNTIME}"
    assert merged[SQL_EXTENSIONS] == f"org.x.Extension,{EXTENSIONS}"


def test_merging_twice_is_merging_once() -> None:
    once = merge({PACKAGES: "org.x:y:1"}, wanted())
    assert merge(once, wanted()) == once


def test_other_settings_of_the_user_stay_and_his_map_is_not_changed() -> None:
    present: dict[str, object] = {"spark.master": "local[2]", "spark.executor.cores": 4}
    merged = merge(present, wanted())
    assert merged["spark.executor.cores"] == 4
    assert present == {"spark.master": "local[2]", "spark.executor.cores": 4}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
        ("spark.sql.catalogImplementation", "in-memory"),
        ("spark.sql.catalog.spark_catalog.type", "hive"),
        (WAREHOUSE, "file:/elsewhere"),
        (METASTORE_URIS, "thrift://other:9083"),
        ("spark.hive.metastore.uris", "thrift://other:9083"),
    ],
)
def test_a_setting_that_contradicts_ours_is_refused_and_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        merge({key: value}, wanted())
    assert value in str(refused.value)


@pytest.mark.parametrize("key", [WAREHOUSE, METASTORE_URIS])
def test_a_refusal_says_where_the_setting_is(key: str) -> None:
    with pytest.raises(ConfigError, match=f"a file.*{key}|{key}.*a file"):
        merge({key: "elsewhere"}, wanted(), {key: "a file"}.__getitem__)


@pytest.mark.parametrize("key", sorted(SECRETS))
def test_a_refusal_shows_no_secret(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        merge({key: "his-own-value"}, {key: "our-value"})
    assert key in str(refused.value)
    assert "-value" not in str(refused.value)


def test_sparks_own_redaction_hides_all_secrets() -> None:
    """The default of `spark.redaction.regex` in Spark 4.1."""
    assert all(re.search(r"(?i)secret|password|token|access[.]?key", key) for key in SECRETS)


@pytest.mark.parametrize("written", ["/data/warehouse", "file:///data/warehouse", "file:/data/warehouse/"])
def test_the_same_warehouse_written_in_another_way_is_no_contradiction(written: str) -> None:
    assert merge({WAREHOUSE: written}, wanted())[WAREHOUSE] == "file:/data/warehouse"


def test_the_metastore_is_found_under_both_of_sparks_names() -> None:
    assert metastore_of({"spark.hive.metastore.uris": "thrift://a:1"}) == "thrift://a:1"
    assert metastore_of({METASTORE_URIS: "thrift://b:1"}) == "thrift://b:1"
    assert metastore_of({}) is None


_VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Zs")), min_size=1)


@given(st.dictionaries(st.from_regex(r"spark\.[a-z.A-Z-]{1,20}", fullmatch=True), _VALUES))
def test_a_defaults_file_says_what_was_put_in(values: dict[str, str]) -> None:
    assert parse_properties(defaults_file(values, ["a heading", ""])) == values


def test_a_defaults_file_carries_spaces_and_backslashes_inside_values() -> None:
    values = {"spark.sql.warehouse.dir": "file:/my data/wh", "spark.x": r"a\b", "spark.y": "=z", "spark.z": ":"}
    assert parse_properties(defaults_file(values)) == values


def test_the_path_of_a_log4j_file_is_a_uri() -> None:
    assert log4j_option(Path("/a b/log4j2.properties")) == "-Dlog4j2.configurationFile=file:///a%20b/log4j2.properties"


def test_the_spark_defaults_in_conf_are_what_we_configure() -> None:
    shipped = parse_properties((CONF / "spark-defaults.conf").read_text(encoding="utf-8"))
    assert shipped == session_configuration(
        server_uri=SERVER,
        token="the-token-in-the-file-given-to-serve",
        metastore_uri="thrift://127.0.0.1:9083",
        warehouse="file:/var/lib/iceberg-hms/warehouse",
    )


def test_the_toml_file_in_conf_loads_and_names_every_setting() -> None:
    text = (CONF / "iceberg-hms.toml").read_text(encoding="utf-8")
    loaded = load({}, environ={}, file=CONF / "iceberg-hms.toml")
    plain = Settings(metastore_uri="thrift://127.0.0.1:9083", warehouse="file:/var/lib/iceberg-hms/warehouse")
    assert loaded == (plain, RestSettings())
    assert [setting.key for setting in all_settings() if setting.key not in _keys(text)] == []


def test_the_values_that_the_toml_file_shows_are_the_defaults() -> None:
    text = (CONF / "iceberg-hms.toml").read_text(encoding="utf-8")
    lines = [line.removeprefix("# ") for line in text.splitlines() if re.match(r'# "?[a-z0-9.-]+"? = ', line)]
    shown, server = load(_dotted(tomllib.loads("\n".join(lines))), environ={})
    assert dataclasses.replace(shown, user="") == dataclasses.replace(Settings(), user="")
    assert server == RestSettings()


def _keys(text: str) -> set[str]:
    return {found.group(1) for line in text.splitlines() if (found := re.match(r'(?:# )?"?([a-z0-9.-]+)"? = ', line))}


def _dotted(table: dict[str, object], prefix: str = "") -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in table.items():
        values |= _dotted(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return values


def test_the_hive_site_in_conf_is_what_the_local_metastore_runs_with() -> None:
    root = ElementTree.parse(CONF / "hive-site.xml").getroot()
    values = {item.findtext("name"): item.findtext("value") for item in root.iter("property")}
    del values["javax.jdo.option.ConnectionURL"], values["hive.metastore.warehouse.dir"]
    assert values == local_metastore.CONFIGURATION


def test_the_zoo_cfg_in_conf_listens_on_loopback_alone() -> None:
    lines = (CONF / "zoo.cfg").read_text(encoding="utf-8").splitlines()
    values = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert values["clientPortAddress"] == "127.0.0.1"
    assert values["admin.enableServer"] == "false"
