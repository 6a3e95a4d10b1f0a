"""Tables in a bucket: the library, Spark with the embedded server, spark-sql by `spark-conf`."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import iceberg_hms
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.rest.server import RestServer
from iceberg_hms.spark.configuration import defaults_file
from iceberg_hms.spark.s3 import AWS_BUNDLE
from integration import maven_packages
from integration.command_line import program
from integration.spark_fixtures import SETTINGS
from integration.stores.minio import ObjectStore
from tests.security.callers import write_private

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-this-test"
PROGRAM_SECONDS = 240
BUCKET = "lake-of-spark"

LOGS = pa.schema([("level", pa.string()), ("event_time", pa.timestamp("us")), ("message", pa.string())])

#: A session and these statements. It prints what each gives, and where the secret is to be read.
SESSION = """
import json, sys
from pathlib import Path
from urllib.request import urlopen
import iceberg_hms.spark
from integration.spark_statements import outcome
from pyspark.sql import SparkSession

secret, where, statements = json.loads(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
secret = Path(secret).read_text()
spark = iceberg_hms.spark.configure(SparkSession.builder, **where).getOrCreate()
said = [outcome(spark, statement) for statement in statements]

def lines_of_processes():
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                yield (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                pass

context = spark.sparkContext
seen = {
    "command lines": "".join(lines_of_processes()),
    "SET": str(spark.sql("SET -v").collect() + spark.sql("SET").collect()),
    "UI": urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment").read().decode(),
}
spark.stop()
logs = [file.read_text() for file in Path("events").rglob("*") if file.is_file()]
seen["event log"] = "".join(logs)
assert "s3.secret-access-key" in seen["event log"] and "s3.secret-access-key" in seen["UI"]
leaks = [place for place, text in seen.items() if secret in text]
print(json.dumps([[[one.rows, one.error, one.message] for one in said], leaks]))
"""


@dataclass(frozen=True)
class Lake:
    """A metastore whose warehouse is in a bucket. environ: with the variables that name the store."""

    metastore: LocalMetastore
    store: ObjectStore
    environ: Mapping[str, str] = field(repr=False)

    def connect(self) -> Any:
        return iceberg_hms.connect(
            metastore_uri=self.metastore.uri, warehouse=self.metastore.warehouse, **self.store.settings()
        )

    def put(self, file: Path, key: str) -> str:
        """Upload a file. Returns its location."""
        client = self.store.client()
        client.put_object(Bucket=BUCKET, Key=key, Body=file.read_bytes())
        client.close()
        return f"s3://{BUCKET}/{key}"

    def read_by_pyiceberg(self, name: str) -> list[dict[str, Any]]:
        from pyiceberg.catalog import load_catalog

        store = self.store
        keys = {"s3.access-key-id": store.access_key, "s3.secret-access-key": store.secret_key}
        place = {"s3.endpoint": store.endpoint, "s3.region": store.region}
        catalog = load_catalog("lake", type="hive", uri=self.metastore.uri, **keys, **place)
        rows: list[dict[str, Any]] = catalog.load_table(name).scan().to_arrow().to_pylist()
        return rows


@pytest.fixture(scope="module")
def lake(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    maven_packages.fetch(tmp_path_factory.mktemp("packages"), AWS_BUNDLE)
    object_store.make_bucket(BUCKET)
    folder = tmp_path_factory.mktemp("metastore of the lake")
    variables = {f"ICEBERG_HMS_{name.upper()}": value for name, value in object_store.settings().items()}
    with LocalMetastore(folder, warehouse=f"s3://{BUCKET}/warehouse") as metastore:
        yield Lake(metastore, object_store, {**os.environ, **variables})
    object_store.delete_bucket(BUCKET)


def defaults(folder: Path, **more: str) -> None:
    """Spark's settings for the tests, where it finds them by itself."""
    values = {**SETTINGS, "spark.local.dir": str(folder / "files of spark"), **more}
    (folder / "spark-defaults.conf").write_text(defaults_file(values), encoding="utf-8")


def ended(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def log_file(lake: Lake, folder: Path, key: str) -> str:
    """A Parquet file with a row of LOGS in the bucket. Returns its location."""
    time = datetime.datetime(2021, 4, 1, 10)  # noqa: DTZ001 - the column is without zone
    row = {"level": "ERROR", "event_time": time, "message": "first"}
    pq.write_table(pa.Table.from_pylist([row], LOGS), folder / "first.parquet")
    return lake.put(folder / "first.parquet", key)


def test_a_spark_session_works_on_tables_in_a_bucket(lake: Lake, tmp_path: Path) -> None:
    with lake.connect() as catalog:
        catalog.create_namespace("logging")
        table = catalog.create_table("logging.events", LOGS, partition_spec=["day(event_time)"])
        table.append([log_file(lake, tmp_path, "data/first.parquet")])

    (tmp_path / "events").mkdir()
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{tmp_path}/events"}
    ui = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.compress": "false"}
    defaults(tmp_path, **logged, **ui)
    write_private(tmp_path / "secret", lake.store.secret_key)
    expected: list[tuple[str, list[tuple[Any, ...]]]] = [
        ("INSERT INTO logging.events VALUES ('INFO', TIMESTAMP_NTZ '2021-04-02 10:00:00', 'second')", []),
        ("SELECT level, message FROM logging.events", [("ERROR", "first"), ("INFO", "second")]),
        ("MERGE INTO logging.events t USING (SELECT 'second' AS m) s ON t.message = s.m WHEN MATCHED THEN DELETE", []),
        ("CREATE TABLE logging.levels USING iceberg AS SELECT level, 1 AS n FROM logging.events", []),
        (f"CREATE DATABASE beside LOCATION 's3a://{BUCKET}/beside.db'", []),
        ("CREATE TABLE beside.copied USING iceberg AS SELECT * FROM logging.levels", []),
        ("INSERT INTO beside.copied VALUES ('WARN', 2)", []),
        (f"CREATE DATABASE local LOCATION 'file:{tmp_path}/local.db'", []),
        ("CREATE TABLE local.hive STORED AS PARQUET AS SELECT * FROM beside.copied", []),
        ("SELECT sum(h.n) FROM local.hive h JOIN beside.copied c ON h.level = c.level", [(3,)]),
        ("CREATE TABLE local.ice USING iceberg AS SELECT * FROM local.hive", []),
        ("DROP TABLE local.hive", []),
        ("DROP TABLE logging.levels PURGE", []),
        ("SELECT level, n FROM local.ice", [("ERROR", 1), ("WARN", 2)]),
    ]
    refused = "CREATE DATABASE nowhere"
    statements = [*(statement for statement, _ in expected), refused]
    where = {"metastore_uri": lake.metastore.uri, "warehouse": lake.metastore.warehouse}
    given = map(json.dumps, (str(tmp_path / "secret"), where, statements))
    done = run_spark(tmp_path, [sys.executable, "-c", SESSION, *given], lake.environ)
    said, leaks = json.loads(ended(done).splitlines()[-1])
    assert leaks == []
    for (statement, rows), (found, error, message) in zip(expected, said[:-1], strict=True):
        if statement.startswith(("SELECT", "CREATE", "DROP")):
            assert (found, error, message) == ([str(row) for row in rows], None, ""), statement
        assert error is None, (statement, message)
    assert 'No FileSystem for scheme "s3"' in said[-1][2], said[-1]
    assert lake.store.secret_key not in done.stderr
    assert [row["message"] for row in lake.read_by_pyiceberg("logging.events")] == ["first"]
    copied = lake.read_by_pyiceberg("beside.copied")
    assert sorted((row["level"], row["n"]) for row in copied) == [("ERROR", 1), ("WARN", 2)]
    assert keys_below(lake, "beside.db/copied/data/")
    assert not keys_below(lake, "warehouse/logging.db/levels/")


def run_spark(
    folder: Path, command: Sequence[str], environ: Mapping[str, str], given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program with a Spark in a folder, where its configuration is too. given: its input."""
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        cwd=folder,
        # Only the tests' own process finds the folders beside the package by itself.
        env={**environ, "SPARK_CONF_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        timeout=PROGRAM_SECONDS,
        check=False,
    )


def keys_below(lake: Lake, prefix: str) -> list[str]:
    client = lake.store.client()
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
    client.close()
    return [each["Key"] for each in found]


def test_spark_sql_reads_and_writes_the_bucket_by_spark_conf(lake: Lake, tmp_path: Path) -> None:
    with lake.connect() as catalog, RestServer(catalog, "127.0.0.1", 0, token=TOKEN) as server:
        catalog.create_namespace("shell")
        table = catalog.create_table("shell.events", LOGS, partition_spec=["day(event_time)"])
        table.append([log_file(lake, tmp_path, "data/of-shell.parquet")])
        write_private(tmp_path / "token", TOKEN)
        served = ("--server-uri", server.uri, "--token-file", str(tmp_path / "token"))
        known = ("--metastore-uri", lake.metastore.uri, "--warehouse", lake.metastore.warehouse)
        printed = program("spark-conf", *known, *served, **lake.environ)
        write_private(tmp_path / "session.conf", ended(printed))
        defaults(tmp_path)
        script = tmp_path / "script.sql"
        script.write_text(
            "INSERT INTO shell.events SELECT level, event_time, 'second' FROM shell.events;"
            "CREATE TABLE shell.made USING iceberg AS SELECT message FROM shell.events;"
            f"CREATE TABLE shell.hive (n INT) STORED AS PARQUET LOCATION 'file:{tmp_path}/hive';"
            "INSERT INTO shell.hive SELECT count(*) FROM shell.made;"
            "SELECT n FROM shell.hive;",
            encoding="utf-8",
        )
        shell = Path(pyspark.__file__).parent / "bin" / "spark-sql"
        # As the file itself says: spark-sql opens the warehouse, for which it would need hadoop-aws.
        local = ("--conf", f"spark.sql.warehouse.dir=file:{tmp_path}/warehouse")
        conf = ("--properties-file", str(tmp_path / "session.conf"), "--load-spark-defaults")
        done = run_spark(tmp_path, [str(shell), *conf, *local, "-f", str(script)], os.environ)
        assert ended(done).split() == ["2"]
    assert sorted(row["message"] for row in lake.read_by_pyiceberg("shell.made")) == ["first", "second"]


@pytest.mark.minio
def test_a_wrong_secret_is_an_error_of_the_store_and_is_not_shown(lake: Lake, tmp_path: Path) -> None:
    """That Spark goes to the store with the session's own credentials, and by no other way."""
    with lake.connect() as catalog:
        catalog.create_namespace("guarded")
        catalog.create_table("guarded.t", pa.schema([("n", pa.int64())]))
        pq.write_table(pa.table({"n": [1]}), tmp_path / "one.parquet")
        catalog.load_table("guarded.t").append([lake.put(tmp_path / "one.parquet", "data/guarded.parquet")])
        with RestServer(catalog, "127.0.0.1", 0, token=TOKEN) as server:
            defaults(tmp_path)
            asked = {
                "metastore_uri": lake.metastore.uri,
                "server_uri": server.uri,
                "token": TOKEN,
                "warehouse": lake.metastore.warehouse,
                **lake.store.settings(s3_secret_access_key="another-secret"),
            }
            done = run_spark(tmp_path, [sys.executable, "-c", GUARDED], os.environ, json.dumps(asked))
    assert "(Service: S3, Status Code: 403" in ended(done)
    assert "another-secret" not in done.stdout + done.stderr


GUARDED = """
import json, sys
import iceberg_hms.spark
from pyspark.sql import SparkSession

with iceberg_hms.spark.configure(SparkSession.builder, **json.load(sys.stdin)).getOrCreate() as spark:
    try:
        spark.table("guarded.t").collect()
    except Exception as error:
        print(error)
"""
