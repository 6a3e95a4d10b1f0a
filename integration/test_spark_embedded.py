"""How a session gets its server: embedded in the driver, or running elsewhere and named in spark-defaults.conf."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import iceberg_hms
import iceberg_hms.spark
from iceberg_hms.errors import ConfigError, MetastoreUnavailable
from iceberg_hms.rest.server import RestServer
from iceberg_hms.spark.configuration import (
    CATALOG_TOKEN,
    CATALOG_URI,
    EXTENSIONS,
    ICEBERG_RUNTIME,
    SQL_EXTENSIONS,
    defaults_file,
    session_configuration,
)
from integration import interop, maven_packages
from integration.spark_fixtures import SETTINGS

TOKEN = "a-token-of-this-test"
PROGRAM_SECONDS = 240

COMMON = """
import json, os, sys, threading
from pathlib import Path
import httpx
import iceberg_hms.spark
from pyspark.sql import SparkSession

uri, warehouse, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
asked = {"metastore_uri": uri, "warehouse": warehouse}

def builder(**arguments):
    made = SparkSession.Builder()
    for key, value in settings.items():
        made.config(key, value)
    return iceberg_hms.spark.configure(made, **{**asked, **arguments})

def server_of(spark):
    return spark.conf.get("spark.sql.catalog.spark_catalog.uri")

def answers(server):
    try:
        return httpx.get(server + "/health/live").status_code == 200
    except httpx.TransportError:
        return False

def our_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("iceberg-hms")]

def refusal(**arguments):
    try:
        builder(**arguments).getOrCreate()
    except iceberg_hms.ConfigError as error:
        return str(error)
"""

STOPS = f"""{COMMON}
seen = []
for stop in (
    lambda spark: spark.stop(),
    lambda spark: spark.newSession().stop(),
    lambda spark: spark.sparkContext.stop(),
    lambda spark: SparkSession.builder.getOrCreate().stop(),
):
    spark = builder().getOrCreate()
    server = server_of(spark)
    again = builder().getOrCreate()
    spark.sql("CREATE OR REPLACE TABLE default.twice USING iceberg AS SELECT 1").collect()
    seen.append([again is spark, len(our_threads()) > 0, answers(server)])
    stop(spark)
    seen[-1].append(answers(server))
    for thread in our_threads():
        thread.join(10)
    seen[-1].append([thread.name for thread in our_threads()])
plain = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
seen.append(refusal())
plain.stop()
builder(extensions=False).getOrCreate()
seen += [refusal(), refusal(extensions=False, warehouse=warehouse + "/other"), refusal(extensions=False, clients=2)]
print(json.dumps(seen))
"""

ASKED_AT_ONCE_AND_LEFT_BY_MAIN = f"""{COMMON}
made, all_at_once = [], threading.Barrier(3)

def work():
    all_at_once.wait()
    made.append(builder().getOrCreate())
    threading.main_thread().join()
    all_at_once.wait()
    if all_at_once.wait() == 0:
        java = [status for status in Path("/proc").glob("*/status") if is_java_of_ours(status)]
        spark = made[0]
        spark.sql("CREATE OR REPLACE TABLE default.left USING iceberg AS SELECT 7 AS n").collect()
        rows = spark.sql("INSERT INTO default.left VALUES (8)").collect()
        rows = [row.n for row in spark.table("default.left").sort("n").collect()]
        print(json.dumps([[each is spark for each in made], len(java), rows]))

def is_java_of_ours(status):
    try:
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    except OSError:
        return False
    return fields["Name"].strip() == "java" and int(fields["PPid"]) == os.getpid()

for _ in range(3):
    threading.Thread(target=work).start()
"""


WITH_JARS = f"""{COMMON}
with builder().getOrCreate() as spark:
    spark.sql("CREATE OR REPLACE TABLE default.jars USING iceberg AS SELECT 1").collect()
    jars = spark.sparkContext._jsc.sc().listJars()
    names = [jars.apply(number).rpartition("/")[2] for number in range(jars.size())]
    print(json.dumps([sorted(names), spark.conf.get("spark.sql.extensions")]))
"""


RETRIES = f"""{COMMON}
begun, go = Path("begun"), Path("go")

def hold(n):
    begun.touch()
    for _ in range(600):
        if go.exists():
            return n + 1
        threading.Event().wait(0.1)

def overtake():
    while not begun.exists():
        threading.Event().wait(0.1)
    spark.sql("INSERT INTO default.retried VALUES (10)").collect()
    go.touch()

del settings["spark.driver.extraJavaOptions"]
with builder().getOrCreate() as spark:
    isolation = "TBLPROPERTIES ('write.update.isolation-level' = 'snapshot')"
    spark.sql(f"CREATE OR REPLACE TABLE default.retried USING iceberg {{isolation}} AS SELECT 1 AS n")
    begun, go = begun.absolute(), go.absolute()
    spark.udf.register("hold", hold, "int")
    other = threading.Thread(target=overtake)
    other.start()
    spark.sql("UPDATE default.retried SET n = hold(n)").collect()
    other.join()
    warns = spark._jvm.org.slf4j.LoggerFactory.getLogger
    loggers = ["org.apache.iceberg.util.Tasks", "org.apache.iceberg.util", "org.apache.spark.SparkContext"]
    rows = sorted(row.n for row in spark.table("default.retried").collect())
    print(json.dumps([rows, [warns(each).isWarnEnabled() for each in loggers]]))
"""


def said_by(program: str, metastore: Any, folder: Path, **environ: str) -> tuple[Any, str]:
    """What a program prints as JSON in its last line, and its standard error."""
    settings = {**SETTINGS, "spark.local.dir": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program, metastore.uri, metastore.warehouse, json.dumps(settings)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environ},
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_the_sessions_jvm_has_room_for_what_minutes_of_statements_compile(spark: Any) -> None:
    pools = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    room = {pool.getName(): pool.getUsage().getMax() for pool in pools}
    code = sum(size for name, size in room.items() if name.startswith("Code"))
    assert code >= 240 * 1024 * 1024, room


def test_the_server_listens_on_loopback_and_wants_its_token(spark: Any) -> None:
    uri, token = spark.conf.get(CATALOG_URI), spark.conf.get(CATALOG_TOKEN)
    assert uri.startswith("http://127.0.0.1:")
    assert httpx.get(f"{uri}/v1/config").status_code == 401
    assert httpx.get(f"{uri}/v1/config", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_the_token_is_on_no_command_line_and_in_no_answer_of_spark(spark: Any) -> None:
    token = spark.conf.get(CATALOG_TOKEN)
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            assert token.encode() not in _read(process / "cmdline"), process
    assert token not in str(spark.sql(f"SET {CATALOG_TOKEN}").collect())
    assert token not in str(spark.sql("SET").collect())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_spark_reports_a_wrong_token(spark: Any, metastore: Any, namespace: str) -> None:
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog,
        RestServer(catalog, host="127.0.0.1", port=0, token=TOKEN) as server,
    ):
        catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))
        name = interop.add_spark_catalog(spark, "wrong_token", type="rest", uri=server.uri, token="the-wrong-token")
        with pytest.raises(Exception, match=r"(?i)not authorized|401|unauthorized"):
            spark.sql(f"SELECT * FROM {name}.{namespace}.t").collect()


def test_the_same_session_is_returned_for_the_same_metastore(spark: Any, metastore: Any) -> None:
    builder = iceberg_hms.spark.configure(
        SparkSession.builder, metastore_uri=metastore.uri, warehouse=metastore.warehouse
    )
    assert builder.getOrCreate() is spark
    assert spark.sql("SHOW DATABASES").count() > 0


def test_another_metastore_is_refused_while_a_session_runs(spark: Any, stock_metastore: Any) -> None:
    builder = iceberg_hms.spark.configure(
        SparkSession.builder, metastore_uri=stock_metastore.uri, warehouse=stock_metastore.warehouse
    )
    with pytest.raises(ConfigError, match=r"runs already.*stop it first"):
        builder.getOrCreate()
    assert spark.sql("SHOW DATABASES").count() > 0


def test_a_missing_metastore_is_an_error_at_once(spark: Any) -> None:
    assert spark
    builder = iceberg_hms.spark.configure(
        SparkSession.builder, metastore_uri="thrift://127.0.0.1:1", warehouse="file:/nowhere"
    )
    with pytest.raises(MetastoreUnavailable, match="check that the metastore runs"):
        builder.getOrCreate()


@pytest.mark.slow
def test_the_server_ends_with_its_context_by_each_handle_and_starts_again(metastore: Any, tmp_path: Path) -> None:
    said, errors = said_by(STOPS, metastore, tmp_path)
    assert said[:4] == [[True, True, True, False, []]] * 4
    for reason, text in zip(
        (
            "without this session catalog",
            "without Iceberg's SQL extensions (extensions=False)",
            f"with the warehouse '{metastore.warehouse}'; this one would have '{metastore.warehouse}/other'",
            "with another server, or with other settings of the embedded server",
        ),
        said[4:],
        strict=True,
    ):
        assert f"A Spark session runs already, {reason}" in text
    assert "Traceback" not in errors


def test_threads_that_ask_at_once_share_a_jvm_and_outlive_the_main_thread(metastore: Any, tmp_path: Path) -> None:
    said, errors = said_by(ASKED_AT_ONCE_AND_LEFT_BY_MAIN, metastore, tmp_path)
    assert said == [[True, True, True], 1, [7, 8]]
    assert "Traceback" not in errors


@pytest.mark.slow
def test_a_conflict_that_the_client_retries_is_not_logged(metastore: Any, tmp_path: Path) -> None:
    """With Spark's own logging: warnings and their stacks on standard error."""
    said, errors = said_by(RETRIES, metastore, tmp_path)
    assert said == [[2, 10], [False, True, True]]
    assert "Retrying task" not in errors
    assert "Requirement failed" not in errors


@pytest.mark.slow
def test_the_runtime_as_a_jar_needs_no_network(metastore: Any, tmp_path: Path) -> None:
    """Where packages come from is empty here."""
    nowhere = tmp_path / "ivysettings.xml"
    nowhere.write_text("<ivysettings><resolvers/></ivysettings>", encoding="utf-8")
    values = {"spark.jars": str(maven_packages.jar()), "spark.jars.ivySettings": str(nowhere)}
    (tmp_path / "spark-defaults.conf").write_text(defaults_file(values), encoding="utf-8")
    arguments = f"--conf {SQL_EXTENSIONS}=org.x.Y pyspark-shell"
    said, _ = said_by(WITH_JARS, metastore, tmp_path, SPARK_CONF_DIR=str(tmp_path), PYSPARK_SUBMIT_ARGS=arguments)
    assert said == [[maven_packages.jar().name], f"org.x.Y,{EXTENSIONS}"]


POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></project>"""


@pytest.mark.slow
def test_packages_of_the_environment_are_there_beside_ours(metastore: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jar"
    with zipfile.ZipFile(empty, "w") as jar:
        jar.writestr("empty.txt", "")
    for package, file in (("org.example:mine:1", empty), (ICEBERG_RUNTIME, maven_packages.jar())):
        group, name, version = package.split(":")
        folder = tmp_path.joinpath("repository", *group.split("."), name, version)
        folder.mkdir(parents=True)
        (folder / f"{name}-{version}.pom").write_text(POM.format(group, name, version), encoding="utf-8")
        (folder / f"{name}-{version}.jar").symlink_to(file)
    resolver = f'<ibiblio name="local" m2compatible="true" root="file:{tmp_path}/repository/"/>'
    (tmp_path / "ivysettings.xml").write_text(
        f'<ivysettings><settings defaultResolver="local"/><resolvers>{resolver}</resolvers></ivysettings>', "utf-8"
    )
    ivy = {"spark.jars.ivySettings": f"{tmp_path}/ivysettings.xml", "spark.jars.ivy": f"{tmp_path}/ivy"}
    (tmp_path / "spark-defaults.conf").write_text(defaults_file(ivy), encoding="utf-8")
    arguments = "--packages org.example:mine:1 pyspark-shell"
    said, _ = said_by(WITH_JARS, metastore, tmp_path, SPARK_CONF_DIR=str(tmp_path), PYSPARK_SUBMIT_ARGS=arguments)
    assert said == [[maven_packages.jar().name, "org.example_mine-1.jar"], EXTENSIONS]


def test_spark_sql_uses_a_running_server_by_spark_defaults(metastore: Any, namespace: str, tmp_path: Path) -> None:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        with RestServer(catalog, "127.0.0.1", 0, token=TOKEN) as server:
            settings = session_configuration(
                server_uri=server.uri, token=TOKEN, metastore_uri=metastore.uri, warehouse=metastore.warehouse
            )
            defaults = tmp_path / "spark defaults.conf"
            ours = {**SETTINGS, "spark.local.dir": str(tmp_path / "files of spark")}
            defaults.write_text(defaults_file({**ours, **settings}), encoding="utf-8")
            script = tmp_path / "script.sql"
            script.write_text(
                f"CREATE TABLE {namespace}.ice (n INT) USING iceberg; INSERT INTO {namespace}.ice VALUES (1), (2);"
                f"CREATE TABLE {namespace}.hive STORED AS PARQUET AS SELECT n * 10 AS m FROM {namespace}.ice;"
                f"SELECT sum(n), sum(m) FROM {namespace}.ice JOIN {namespace}.hive ON m = n * 10;",
                encoding="utf-8",
            )
            spark_sql = Path(pyspark.__file__).parent / "bin" / "spark-sql"
            done = subprocess.run(
                [str(spark_sql), "--properties-file", str(defaults), "-f", str(script)],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=PROGRAM_SECONDS,
                check=False,
            )
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.split() == ["3", "30"]
        assert [str(name) for name in catalog.list_tables(namespace)] == [f"{namespace}.ice"]
