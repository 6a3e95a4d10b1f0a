"""Fetches the Maven packages that Spark sessions ask for, before any test starts a session.

Sessions that start at the same time with an empty package cache download the same file over each other, and all but one
of them fail.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from iceberg_hms.errors import EngineError
from iceberg_hms.local.gateway import spark_jars
from iceberg_hms.spark.configuration import ICEBERG_RUNTIME

#: Where Spark 4.1 keeps packages (`spark.jars.ivy`), as group_artifact-version.jar.
CACHE = Path.home() / ".ivy2.5.2" / "jars"
ATTEMPTS = 3
#: The runtime has 48 MB.
ATTEMPT_SECONDS = 300


def jar() -> Path:
    """Where the Iceberg runtime is once it is fetched."""
    return CACHE / f"{ICEBERG_RUNTIME.replace(':', '_', 1).replace(':', '-')}.jar"


def fetch(folder: Path) -> None:
    """Fetch the Iceberg runtime unless it is there. folder: for a small file. Raises EngineError, after three attempts
    to bridge a failure of the network."""
    if jar().is_file():
        return
    program = folder / "nothing.py"
    program.write_text("", encoding="utf-8")
    submit = spark_jars().parent / "bin" / "spark-submit"
    command = [str(submit), "--packages", ICEBERG_RUNTIME, "--conf", f"spark.pyspark.python={sys.executable}"]
    for _ in range(ATTEMPTS):
        ended = subprocess.run(
            [*command, str(program)], capture_output=True, text=True, timeout=ATTEMPT_SECONDS, check=False
        )
        if ended.returncode == 0:
            return
    raise EngineError(
        f"Spark could not fetch {ICEBERG_RUNTIME}:\n{ended.stdout}{ended.stderr}",
        next_step="see whether the package registry is in reach, then run the tests again",
    )
