"""What is sent to executors, and what an error of Spark's says. Sessions are those of integration/migration."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.migration.spark_executors import SparkExecutors, failed, pack
from iceberg_hms.runtime import ThreadRuntime

_ERROR = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times
Traceback (most recent call last):
  File "worker.py", line 1, in main
iceberg_hms.errors.StorageError: file:/wh: No space left on device
\tat org.apache.spark.api.python.BasePythonRunner"""


def context(master: str, python: str = "python3") -> Any:
    sent: list[list[str]] = []

    def send(path: str) -> None:
        with zipfile.ZipFile(path) as archive:
            sent.append(archive.namelist())

    return SimpleNamespace(master=master, pythonExec=python, addPyFile=send, sent=sent)


def test_the_archive_has_every_module_and_python_imports_the_tasks_from_it(tmp_path: Path) -> None:
    archive = tmp_path / "iceberg_hms.zip"
    pack(archive)
    source = Path(iceberg_hms.__file__).parent
    with zipfile.ZipFile(archive) as found:
        assert set(found.namelist()) == {f"iceberg_hms/{each.relative_to(source)}" for each in source.rglob("*.py")}
    code = """
import sys
import iceberg_hms.migration.describing, iceberg_hms.migration.listing, iceberg_hms.migration.more_files
from iceberg_hms.config import Settings
from iceberg_hms.stores import open_stores
open_stores(Settings.load({}, environ={})).close()
print(iceberg_hms.__file__, iceberg_hms.__version__)
"""
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"{archive}/iceberg_hms/__init__.py", iceberg_hms.__version__]


def test_executors_elsewhere_get_the_package_and_those_of_this_machine_this_python() -> None:
    cluster, local, chosen = context("spark://there:7077"), context("local[2]"), context("local[2]", "/opt/python")
    for each in (cluster, local, chosen):
        SparkExecutors(each, ThreadRuntime(SYSTEM_CLOCK), what="migrate")
    assert [len(each.sent) for each in (cluster, local, chosen)] == [1, 0, 0]
    assert "iceberg_hms/migration/describing.py" in cluster.sent[0]
    assert [each.pythonExec for each in (cluster, local, chosen)] == ["python3", sys.executable, "/opt/python"]


def test_no_items_are_no_job() -> None:
    executors = SparkExecutors(context("local"), ThreadRuntime(SYSTEM_CLOCK), what="migrate")
    assert executors.map(len, [], done=lambda _: None) == []


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RuntimeError(_ERROR), "file:/wh: No space left on device"),
        (
            RuntimeError(_ERROR.replace("iceberg_hms.errors.StorageError", "ZeroDivisionError")),
            "ZeroDivisionError: file:",
        ),
        (RuntimeError("SparkContext was shut down\nmore"), "SparkContext was shut down"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_an_error_of_spark_s_says_what_the_task_said(error: Exception, says: str) -> None:
    assert failed("migrate nyc.flights", error).message.startswith(f"Spark failed to migrate nyc.flights: {says}")
