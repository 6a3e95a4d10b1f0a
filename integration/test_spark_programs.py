"""Spark's own programs with the session catalog: spark-submit, spark-sql, spark-shell and the Thrift server.

docs/session-catalog.md has the same commands.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest

import iceberg_hms
from iceberg_hms.rest.server import RestServer
from iceberg_hms.spark.configuration import CATALOG_TOKEN, EXTENSIONS, ICEBERG_RUNTIME
from integration import maven_packages
from integration.faults import until
from integration.spark_fixtures import SETTINGS
from tests.security.callers import write_private

BIN = Path(pyspark.__file__).parent / "bin"
PROGRAM_SECONDS = 240
TOKEN = "a-token-of-these-tests"
pytestmark = pytest.mark.slow


class Programs:
    """Spark's programs in a folder, with a running server. Their settings are in spark-defaults.conf there, without
    ours."""

    def __init__(self, folder: Path, metastore: Any, server: RestServer) -> None:
        self.folder = folder
        self._metastore = metastore
        self._server = server
        defaults = {**SETTINGS, "spark.local.dir": str(folder / "local")}
        # Spark's files may have spaces in their names, and spark-submit passes them on.
        (folder / "spark-defaults.conf").write_text("\n".join(f"{key} {value}" for key, value in defaults.items()))
        self.environ = {**os.environ, "SPARK_CONF_DIR": str(folder), "PYSPARK_PYTHON": sys.executable}
        self.token_file = folder / "token"
        write_private(self.token_file, f"{TOKEN}\n")

    def spark_conf(self, form: str) -> str:
        """What `iceberg-hms spark-conf` prints."""
        where = ["--metastore-uri", self._metastore.uri, "--warehouse", self._metastore.warehouse]
        options = ["--server-uri", self._server.uri, "--token-file", str(self.token_file), "--form", form]
        program = [sys.executable, "-c", "from iceberg_hms.cli.main import run; run()", "spark-conf"]
        return self.run([*program, *options, *where])

    def run(self, command: Sequence[str], *, stdin: str = "") -> str:
        """The standard output of a program that succeeds."""
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environ,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def write(self, name: str, text: str) -> str:
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        return str(file)


@pytest.fixture
def programs(metastore: Any, tmp_path: Path) -> Iterator[Programs]:
    with (
        iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog,
        RestServer(catalog, "127.0.0.1", 0, token=TOKEN) as server,
    ):
        yield Programs(tmp_path, metastore, server)


EMBEDDED = """
import json
import sys
import iceberg_hms.spark
from pyspark.sql import SparkSession

metastore_uri, warehouse, table = sys.argv[1:]
builder = SparkSession.builder.appName("nightly")
with iceberg_hms.spark.configure(builder, metastore_uri=metastore_uri, warehouse=warehouse).getOrCreate() as spark:
    spark.sql(f"CREATE TABLE {table} (n INT) USING iceberg PARTITIONED BY (bucket(4, n))")
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    extensions = spark.conf.get("spark.sql.extensions")
    print(json.dumps([spark.table(table).count(), spark.conf.get("spark.app.name"), extensions]))
"""


def test_spark_submit_runs_a_program_with_an_embedded_server(
    programs: Programs, metastore: Any, namespace: str
) -> None:
    program = programs.write("nightly.py", EMBEDDED)
    given = ["--packages", ICEBERG_RUNTIME, "--conf", "spark.sql.extensions=org.x.Y"]
    arguments = [metastore.uri, metastore.warehouse, f"{namespace}.t"]
    said = programs.run([str(BIN / "spark-submit"), *given, program, *arguments])
    extensions = f"org.x.Y,{EXTENSIONS}"
    assert json.loads(said.splitlines()[-1]) == [2, "nightly", extensions]


LOOKS_FOR_THE_TOKEN = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

token = open(sys.argv[1]).read().strip().encode()

def has_token(file):
    try:
        return token in file.read_bytes()
    except OSError:
        return False

with SparkSession.builder.getOrCreate() as spark:
    spark.sql("SHOW DATABASES").collect()
    print("on command lines:", sum(map(has_token, Path("/proc").glob("[0-9]*/cmdline"))))
"""


def test_with_arguments_the_token_is_in_a_file_and_on_no_command_line(programs: Programs) -> None:
    arguments = shlex.split(programs.spark_conf("arguments").replace("\\\n", ""))
    write_private(programs.folder / "private.conf", f"{CATALOG_TOKEN} {TOKEN}\n")
    token = ["--properties-file", str(programs.folder / "private.conf"), "--load-spark-defaults"]
    program = programs.write("look.py", LOOKS_FOR_THE_TOKEN)
    said = programs.run([str(BIN / "spark-submit"), *arguments, *token, program, str(programs.token_file)])
    assert said.splitlines()[-1] == "on command lines: 0"
    query = ["-e", "SELECT 6 * 7; SHOW VIEWS"]
    assert programs.run([str(BIN / "spark-sql"), *arguments, *token, *query]).split()[0] == "42"


def test_spark_shell_takes_the_settings_from_a_file(programs: Programs, namespace: str) -> None:
    settings = programs.write("session-catalog.conf", programs.spark_conf("defaults"))
    statements = f"""
spark.sql("CREATE TABLE {namespace}.t (n INT) USING iceberg")
spark.sql("INSERT INTO {namespace}.t VALUES (1), (2)")
println("rows: " + spark.table("{namespace}.t").count())
:quit
"""
    command = [str(BIN / "spark-shell"), "--properties-file", settings, "--load-spark-defaults"]
    assert "rows: 2" in programs.run(command, stdin=statements)


def test_the_thrift_server_serves_jdbc_clients(programs: Programs, namespace: str) -> None:
    settings = programs.write("session-catalog.conf", programs.spark_conf("defaults"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        str(BIN / "spark-submit"),
        *("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"),
        *("--properties-file", settings, "--load-spark-defaults"),
        # Its sessions do not see jars that are added while the JVM runs, as those of packages are.
        *("--driver-class-path", str(maven_packages.jar())),
        *("--conf", "spark.hadoop.hive.server2.thrift.bind.host=127.0.0.1"),
        *("--conf", f"spark.hadoop.hive.server2.thrift.port={port}"),
        "spark-internal",
    ]
    log = programs.folder / "thrift server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=programs.folder, env=programs.environ
        )
    try:
        until(lambda: server.poll() is not None or _listens(port), "the Thrift server to listen")
        assert server.poll() is None, log.read_text()[-4000:]
        statements = (
            f"CREATE TABLE {namespace}.t (n INT) USING iceberg; INSERT INTO {namespace}.t VALUES (1), (2);"
            f"CREATE TABLE {namespace}.h STORED AS PARQUET AS SELECT n * 10 AS m FROM {namespace}.t;"
            f"SELECT sum(n) AS n, sum(m) AS m FROM {namespace}.t JOIN {namespace}.h ON m = n * 10;"
        )
        beeline = [str(BIN / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{port}", "--outputformat=csv2"]
        assert programs.run([*beeline, "-e", statements]).split()[-2:] == ["n,m", "3,30"]
    finally:
        server.terminate()
        server.wait(60)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
