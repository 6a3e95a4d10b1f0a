"""`iceberg-hms spark-conf`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from iceberg_hms.cli.serve import choose_access
from iceberg_hms.rest.access.tokens import new_token, token_line
from iceberg_hms.rest.settings import RestSettings
from iceberg_hms.spark.configuration import (
    CATALOG,
    CATALOG_TOKEN,
    CATALOG_URI,
    ICEBERG_RUNTIME,
    PACKAGES,
    session_configuration,
)
from iceberg_hms.spark.s3 import AWS_BUNDLE
from iceberg_hms.spark.user_settings import parse_properties
from tests.cli.fakes import METASTORE, answer, run
from tests.security.callers import write_private

EXPECTED = session_configuration(server_uri="http://h:1", metastore_uri=METASTORE, warehouse="file:/a b/wh")
WAREHOUSE = ("--warehouse", "file:/a b/wh")
OPTIONS = ("--server-uri", "http://h:1", *WAREHOUSE)


def test_the_three_forms_say_the_same() -> None:
    assert answer("spark-conf", *OPTIONS) == EXPECTED
    assert parse_properties(run("spark-conf", *OPTIONS).stdout) == EXPECTED
    arguments = run("spark-conf", *OPTIONS, "--form", "arguments").stdout
    words = shlex.split(arguments.replace("\\\n", ""))
    assert words == [word for key, value in EXPECTED.items() for word in ("--conf", f"{key}={value}")]


def test_the_server_is_by_default_where_the_settings_say() -> None:
    assert answer("spark-conf", *WAREHOUSE)[CATALOG_URI] == "http://127.0.0.1:8181"
    assert answer("spark-conf", *WAREHOUSE, "--set", "rest.port=9")[CATALOG_URI] == "http://127.0.0.1:9"


def test_the_token_comes_from_a_file_that_the_server_takes_too(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    write_private(file, "s3cret\n")
    assert answer("spark-conf", *OPTIONS, "--token-file", str(file))[CATALOG_TOKEN] == "s3cret"
    assert choose_access(file, RestSettings(), no_auth=False)[1] is None


def test_without_a_token_stderr_says_which_servers_take_that() -> None:
    result = run("spark-conf", *OPTIONS)
    assert CATALOG_TOKEN not in result.stdout
    assert result.stderr == "no --token-file: this is for a server with --no-auth\n"


def test_a_file_of_hashes_is_refused_with_what_to_name_instead(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    write_private(file, token_line("etl", "read[*]", new_token()))
    result = run("spark-conf", *OPTIONS, "--token-file", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "next: write the token that `iceberg-hms token` showed into a file of its own" in result.stderr


def test_the_token_is_not_in_arguments_and_stderr_says_where_to_put_it(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    write_private(file, "s3cret\n")
    result = run("spark-conf", *OPTIONS, "--token-file", str(file), "--form", "arguments")
    assert "s3cret" not in result.output
    assert f"\n    {CATALOG_TOKEN} VALUE\n" in result.stderr
    assert "--properties-file FILE --load-spark-defaults" in result.stderr
    assert "rest.auth.type=oauth2" in result.stdout
    without = run("spark-conf", *OPTIONS, "--form", "arguments")
    assert CATALOG_TOKEN not in without.output


def test_the_settings_of_s3_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_HMS_S3_SECRET_ACCESS_KEY", "hidden")
    given = (*WAREHOUSE, "--set", "s3.access-key-id=lake", "--set", "s3.endpoint=http://s:1")
    values = answer("spark-conf", *given)
    assert values[f"{CATALOG}.s3.endpoint"] == "http://s:1"
    assert values[f"{CATALOG}.s3.secret-access-key"] == "hidden"
    assert values[PACKAGES] == f"{ICEBERG_RUNTIME},{AWS_BUNDLE}"
    result = run("spark-conf", *given, "--form", "arguments")
    assert "hidden" not in result.output
    assert f"\n    {CATALOG}.s3.secret-access-key VALUE\n" in result.stderr
    assert f"{CATALOG}.s3.access-key-id=lake" in result.stdout


def test_a_file_for_a_warehouse_on_s3_says_what_spark_sql_needs_there() -> None:
    on_s3 = ("--server-uri", "http://h:1", "--warehouse", "s3://lake/wh")
    assert "# Without hadoop-aws spark-sql does not start" in run("spark-conf", *on_s3).stdout
    assert parse_properties(run("spark-conf", *on_s3).stdout) == answer("spark-conf", *on_s3)
    assert "hadoop-aws" not in run("spark-conf", *OPTIONS).stdout


@pytest.fixture
def conf_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder where Spark has files of its own; an empty one."""
    for name in ("ICEBERG_HMS_CONFIG", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


def hive_site(folder: Path, **properties: str) -> None:
    found = [f"<property><name>{key}</name><value>{value}</value></property>" for key, value in properties.items()]
    (folder / "hive-site.xml").write_text(f"<configuration>{''.join(found)}</configuration>")


def test_without_a_metastore_it_is_left_to_the_hive_site_of_spark(conf_folder: Path) -> None:
    refused = run("spark-conf", *OPTIONS, metastore=False)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "no metastore is named" in refused.stderr
    assert "--metastore-uri thrift://host:9083" in refused.stderr
    hive_site(conf_folder, **{"hive.metastore.uris": "thrift://h:1"})
    assert not [key for key in answer("spark-conf", *OPTIONS, metastore=False) if "metastore" in key]


@pytest.mark.parametrize("key", ["hive.metastore.warehouse.dir", "spark.sql.warehouse.dir", ""])
def test_without_a_warehouse_it_is_left_to_the_files_of_spark(conf_folder: Path, key: str) -> None:
    if key.startswith("spark"):
        (conf_folder / "spark-defaults.conf").write_text(f"{key} file:/w")
    elif key:
        hive_site(conf_folder, **{key: "file:/w"})
    result = run("spark-conf")
    if key:
        assert result.exit_code == 0
        assert "file:/w" not in result.stdout
    else:
        assert (result.exit_code, result.stdout) == (2, "")
        assert "error: no warehouse is named" in result.stderr
        assert "next: give --warehouse" in result.stderr


def test_an_address_that_is_none_is_wrong_usage() -> None:
    result = run("spark-conf", *WAREHOUSE, "--server-uri", "h:1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "http://host:port" in result.stderr
