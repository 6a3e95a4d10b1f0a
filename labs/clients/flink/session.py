"""Flink's jars, its JVM, and SQL in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import pytest

from iceberg_hms.local.gateway import JavaGateway
from labs.clients.lab import Lab

ICEBERG: Final = "1.11.0"
FLINK: Final = distribution("apache-flink-libraries").version
ARTIFACTS: Final = (
    f"org.apache.iceberg:iceberg-flink-runtime-1.20:{ICEBERG}",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "commons-logging:commons-logging:1.2",
)
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
#: 90 MB; seconds.
DOWNLOAD_LIMIT: Final = 1800.0
_OPENED: Final = ("util", "lang", "time", "nio", "util.concurrent")
#: A streaming job commits once a checkpoint, and starts again when the server is away.
STREAMING: Final = {
    "execution.checkpointing.interval": "700 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "1 s",
    "parallelism.default": "1",
}
#: How long a job may run on a busy machine; milliseconds.
JOB_LIMIT_MS: Final = 600_000


class Flink:
    """One JVM. Batch statements run on a cluster of their own each."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._batch = self.environment(streaming=False, options={"parallelism.default": "1"})

    def environment(self, *, streaming: bool, options: Mapping[str, str]) -> Any:
        """A TableEnvironment."""
        configuration = self._jvm.org.apache.flink.configuration.Configuration()
        for key, value in options.items():
            configuration.setString(key, value)
        builder = self._jvm.org.apache.flink.table.api.EnvironmentSettings.newInstance()
        builder = builder.inStreamingMode() if streaming else builder.inBatchMode()
        settings = builder.withConfiguration(configuration).build()
        return self._jvm.org.apache.flink.table.api.TableEnvironment.create(settings)

    def attach(self, lab: Lab, *, streaming: bool = False) -> Sql:
        """SQL with the lab's REST catalog as the current one."""
        environment = self.environment(streaming=True, options=STREAMING) if streaming else self._batch
        name = f"ice_{lab.uri.rpartition(':')[2]}"
        environment.executeSql(
            f"CREATE CATALOG IF NOT EXISTS {name} WITH ('type'='iceberg', 'catalog-type'='rest',"
            f" 'uri'='{lab.uri}', 'token'='{lab.token}', 'cache-enabled'='false')"
        )
        environment.executeSql(f"USE CATALOG {name}")
        return Sql(self._jvm, environment)


class Sql:
    """Statements in one TableEnvironment."""

    def __init__(self, jvm: Any, environment: Any) -> None:
        self._jvm = jvm
        self._environment = environment

    def __call__(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement to its end; the rows of its result."""
        result = self._environment.executeSql(sql)
        job = result.getJobClient()
        if sql.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE", "CREATE")):
            if job.isPresent():
                self._wait(result)
            return []
        rows, found = result.collect(), []
        while rows.hasNext():
            row = rows.next()
            found.append(tuple(_plain(row.getField(index)) for index in range(row.getArity())))
        rows.close()
        return found

    def submit(self, sql: str) -> Any:
        """Start a job that goes on by itself."""
        return self._environment.executeSql(sql)

    def wait(self, job: Any) -> None:
        """Wait for the end of a job. Raises if it failed, or takes too long."""
        self._wait(job)

    def _wait(self, result: Any) -> None:
        # `await` is a keyword of Python.
        getattr(result, "await")(JOB_LIMIT_MS, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)


def _plain(value: Any) -> Any:
    """Numbers, texts and truth values as they are, all else as Java prints it."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value.toString())


def refuses(sql: Sql, statement: str, words: str) -> None:
    """Check that a statement fails, and that its error or a cause of it has these words, which are a pattern."""
    from py4j.protocol import Py4JJavaError

    with pytest.raises(Py4JJavaError, match=words):
        sql(statement)


@contextmanager
def running(lab: Lab) -> Iterator[Flink]:
    home = Path(str(distribution("apache-flink-libraries").locate_file("pyflink/lib")))
    options = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
    options.append("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
    folder = lab.folder / "flink"
    folder.mkdir()
    classes = [*sorted(home.glob("*.jar")), *_fetched(lab.downloads / "flink")]
    with JavaGateway(folder, "flink", heap_mb=1500, options=options, classes=classes) as gateway:
        yield Flink(gateway.jvm)


def _fetched(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    jars = []
    for artifact in ARTIFACTS:
        _, name, version = artifact.split(":")
        jars.append(folder / f"{name}-{version}.jar")
        if not jars[-1].is_file():
            command = ["mvn", "-q", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
            subprocess.run(command, check=True, timeout=DOWNLOAD_LIMIT)
    return jars
