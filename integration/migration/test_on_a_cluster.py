"""Migrations whose tasks run in the executors of a Spark standalone cluster, which have the package from the driver."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.migration.migrator import Migrator
from integration.migration.small_files import SmallFiles
from integration.migration.spark_cluster import SparkCluster

# An executor that is replaced is a JVM more, on a machine that has a cluster's already.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Make = Callable[..., SmallFiles]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_the_command_runs_its_tasks_in_executors_that_have_the_package_from_the_driver(
    cluster: SparkCluster, small_files: Make
) -> None:
    command = [cluster.python, "-c", "import pyarrow, iceberg_hms"]
    alone = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env={})
    assert "No module named 'iceberg_hms'" in alone.stderr
    table = small_files(partitions=20, files=50)
    done = run(cluster, table)
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout)
    assert (report["outcome"], report["files"], report["records"]) == ("done", 1_000, table.rows)
    tasks = cluster.tasks_by_executor()
    assert sorted(tasks) == ["0", "1"], tasks
    assert table.is_complete()
    late = shutil.copy(table.file(3), table.partition_folder(3) / "late")
    checked = run(cluster, table, "--check")
    assert json.loads(checked.stdout or "{}").get("files") == [f"file:{late}"], checked.stderr[-4000:]


def run(cluster: SparkCluster, table: SmallFiles, *options: str) -> subprocess.CompletedProcess[str]:
    """`iceberg-hms migrate`, of this checkout."""
    where = ["--metastore-uri", table.metastore.uri, "--warehouse", table.metastore.warehouse]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "iceberg_hms",
            "migrate",
            table.name,
            "--master",
            cluster.url,
            *where,
            *options,
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
        env=cluster.environment(PYTHONPATH=str(ROOT)),
    )


def test_a_killed_executor_is_replaced_and_the_run_ends(
    cluster: SparkCluster, small_files: Make, tmp_path: Path
) -> None:
    table = small_files(partitions=60, files=40)
    environment = cluster.environment(PYTHONPATH=str(ROOT))
    run = Migrator(table, tmp_path / "run", master=cluster.url, environment=environment)
    run.wait_for("described", times=3)
    cluster.kill_executor()
    report = run.report()
    assert (report["outcome"], report["files"], report["records"]) == ("done", 2_400, table.rows)
    assert cluster.lost_tasks()
    assert table.is_complete()
