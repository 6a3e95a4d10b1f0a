"""Fetches the Maven packages that Spark sessions ask for, before any test starts a session.

Sessions that start at the same time with an empty package cache download the same file over each other, and all but one
of them fail.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from iceberg_hms.errors import EngineError
from iceberg_hms.local.gateway import spark_jars
from iceberg_hms.spark.configuration import ICEBERG_RUNTIME

#: Where Spark 4.1 keeps packages (`spark.jars.ivy`), as group_artifact-version.jar.
CACHE = Path.home() / ".ivy2.5.2" / "jars"
ATTEMPTS = 3
#: The largest has 64 MB.
ATTEMPT_SECONDS = 300


def jar(package: str = ICEBERG_RUNTIME) -> Path:
    """Where a package is once it is fetched."""
    return CACHE / f"{package.replace(':', '_', 1).replace(':', '-')}.jar"


def fetch(folder: Path, package: str = ICEBERG_RUNTIME) -> None:
    """Fetch a package unless it is there, or another process fetches it. folder: for a small file. Raises EngineError,
    after three attempts to bridge a failure of the network."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE.parent / "fetching").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar(package).is_file():
            _fetch(folder, package)


def _fetch(folder: Path, package: str) -> None:
    program = folder / "nothing.py"
    program.write_text("", encoding="utf-8")
    submit = spark_jars().parent / "bin" / "spark-submit"
    command = [str(submit), "--packages", package, "--conf", f"spark.pyspark.python={sys.executable}"]
    for _ in range(ATTEMPTS):
        ended = subprocess.run(
            [*command, str(program)], capture_output=True, text=True, timeout=ATTEMPT_SECONDS, check=False
        )
        if ended.returncode == 0:
            return
    raise EngineError(
        f"Spark could not fetch {package}:\n{ended.stdout}{ended.stderr}",
        next_step="see whether the package registry is in reach, then run the tests again",
    )
