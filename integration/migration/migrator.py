"""One migration, as a program of its own, which tells its stages and kills itself at one of them.

    python -m integration.migration.migrator < job.json

The job: `table`, `metastore_uri`, `warehouse`, `settings` of the Spark session, `kill_at` (a stage; empty for none) and
`times` (it is killed when it hears that stage for this time). Its output: a line for each stage; then the report as
JSON, or `{"error": ..., "message": ...}`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import iceberg_hms
from iceberg_hms import migration
from integration.migration.small_files import SmallFiles
from integration.spark_fixtures import SETTINGS, start_program

#: For the end of a session.
END_SECONDS = 60


class Migrator:
    """The program, started; the test ends it by `report`, `die` or `kill`."""

    def __init__(
        self,
        table: SmallFiles,
        folder: Path,
        *,
        kill_at: str = "",
        times: int = 1,
        metastore_uri: str = "",
        master: str = "local[2]",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        job = {
            "table": table.name,
            "metastore_uri": metastore_uri or table.metastore.uri,
            "warehouse": table.metastore.warehouse,
            "settings": {**SETTINGS, "spark.master": master, "spark.local.dir": str(folder)},
            "kill_at": kill_at,
            "times": times,
        }
        self.stages: list[str] = []
        self._log = folder / "migrator.log"
        self._process = start_program("integration.migration.migrator", job, self._log, environment)

    def wait_for(self, stage: str, times: int = 1) -> None:
        """Read its stages until it has told one so often."""
        while self.stages.count(stage) < times:
            assert self._read() is None, self._all()

    def report(self) -> dict[str, Any]:
        """Read to its end: the report, or the error."""
        try:
            while (result := self._read()) is None:
                pass
            return result
        finally:
            self.close()

    def die(self) -> None:
        """Read to its end, which must be a kill. Its JVM, which has the same output, has ended then too."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            assert not line.startswith("{"), line
            self.stages.append(line.strip())
        self.close()
        assert self._process.returncode == -signal.SIGKILL, self._all()

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self.die()

    def close(self) -> None:
        """End it, if it has not ended."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> dict[str, Any] | None:
        # The test's own timeout bounds it.
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._all()
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
        self.stages.append(line.strip())
        return None

    def _all(self) -> str:
        return f"{self.stages} {self._log.read_text()[-3000:]}"


def main(job: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in job["settings"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    heard: Counter[str] = Counter()

    def on_stage(stage: str) -> None:
        _say(stage)
        heard[stage] += 1
        if stage == job["kill_at"] and heard[stage] == job["times"]:
            os.kill(os.getpid(), signal.SIGKILL)

    with iceberg_hms.connect(metastore_uri=job["metastore_uri"], warehouse=job["warehouse"]) as catalog:
        try:
            report = migration.migrate(spark, job["table"], catalog=catalog, progress=False, on_stage=on_stage)
            _say(json.dumps(report.as_dict()))
        except iceberg_hms.IcebergHmsError as error:
            _say(json.dumps({"error": type(error).__name__, "message": str(error)}))
    spark.stop()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.stdin.readline()))
