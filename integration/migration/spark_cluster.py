"""A Spark standalone cluster on loopback, of the jars in the pyspark wheel: a master and workers, each a JVM of its own
that ends with this process, by `kill -9` too.

Its executors run a Python without this package: as on a cluster, they have it from the driver or not at all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from iceberg_hms.local.gateway import QUICK_START, JavaGateway, spark_jars
from integration.command_line import clean_environment
from integration.faults import until

HOST: Final = "127.0.0.1"
WORKERS: Final = 2
#: What docs/migration.md says that executors need; pyspark they have from Spark itself.
LIBRARIES: Final = ("pyarrow", "orjson", "fastavro", "tenacity")


class SparkCluster:
    """WORKERS workers of one core each, so that an application without limits has an executor on each of them.

    url: `spark://127.0.0.1:<port>`. python: what executors are to run, for PYSPARK_PYTHON: it finds LIBRARIES and
    Python's own alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers = ExitStack()
        self.python = isolated_python(folder)
        self.url = ""

    def __enter__(self) -> SparkCluster:
        try:
            with self._environment():
                self.url = f"spark://{HOST}:{self._start_master()}"
                self._workers = [self._start_worker(number) for number in range(WORKERS)]
            until(lambda: self._registered() == WORKERS, "the workers to be known to the master")
        except BaseException:
            self._servers.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()

    def executors(self) -> list[int]:
        """The process ids of the executors: children of the workers."""
        return sorted(pid for worker in self._workers for pid in children(worker.pid))

    def kill_executor(self) -> int:
        """kill -9 of one of the executors; its process id."""
        pid = self.executors()[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def environment(self, **more: str) -> dict[str, str]:
        """Of a program whose Spark session is on this cluster: quiet, small, on loopback, with an executor on each
        worker, and noting which of them did what (`tasks_by_executor`)."""
        configuration, events = self._folder / "conf", self._folder / "events"
        for folder in (configuration, events):
            folder.mkdir(exist_ok=True)
        defaults = {
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": " ".join(QUICK_START),
            "spark.executor.extraJavaOptions": " ".join(QUICK_START),
            "spark.ui.enabled": "false",
            # Tasks wait until both executors are there.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        }
        (configuration / "spark-defaults.conf").write_text("\n".join(f"{key} {text}" for key, text in defaults.items()))
        python = {"PYSPARK_PYTHON": str(self.python), "PYSPARK_DRIVER_PYTHON": sys.executable}
        return clean_environment(SPARK_CONF_DIR=str(configuration), **python, **more)

    def tasks_by_executor(self) -> Counter[str]:
        """How many tasks each executor of the last application has done."""
        return Counter(str(each["Task Info"]["Executor ID"]) for each in self._ended_tasks() if _succeeded(each))

    def lost_tasks(self) -> int:
        """How many tasks of the last application ended with their executor."""
        return sum(each["Task End Reason"]["Reason"] == "ExecutorLostFailure" for each in self._ended_tasks())

    def _ended_tasks(self) -> list[dict[str, Any]]:
        last = max((self._folder / "events").iterdir(), key=lambda file: file.stat().st_mtime_ns)
        events = [json.loads(line) for line in last.read_text().splitlines()]
        return [each for each in events if each["Event"] == "SparkListenerTaskEnd"]

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """What executors inherit through their worker."""
        local = self._folder / "local"
        local.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            jars = spark_jars()
            patch.setenv("SPARK_HOME", str(jars.parent))
            patch.setenv("SPARK_SCALA_VERSION", next(jars.glob("spark-core_*.jar")).name.split("-")[1].split("_")[1])
            # Their web pages too listen on loopback alone.
            patch.setenv("SPARK_LOCAL_IP", HOST)
            patch.setenv("SPARK_LOCAL_DIRS", str(local))
            patch.delenv("PYTHONPATH", raising=False)
            yield

    def _gateway(self, name: str) -> JavaGateway:
        return self._servers.enter_context(JavaGateway(self._folder, name, heap_mb=128))

    def _start_master(self) -> int:
        self._master = self._gateway("master")
        jvm = self._master.jvm
        found = jvm.org.apache.spark.deploy.master.Master.startRpcEnvAndEndpoint(
            HOST, 0, 0, jvm.org.apache.spark.SparkConf()
        )
        self._page = int(found.productElement(1))
        return int(found.productElement(0).address().port())

    def _start_worker(self, number: int) -> JavaGateway:
        gateway = self._gateway(f"worker-{number}")
        jvm = gateway.jvm
        urls = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), 1)
        urls[0] = self.url
        jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
            HOST,
            0,
            0,
            1,
            1024,
            urls,
            str(self._folder / "work"),
            jvm.scala.Option.apply(number),
            jvm.org.apache.spark.SparkConf(),
            jvm.scala.Option.empty(),
        )
        return gateway

    def _registered(self) -> int:
        return int(httpx.get(f"http://{HOST}:{self._page}/json/").json()["aliveworkers"])


def isolated_python(folder: Path) -> Path:
    """A program that is this Python without its packages, but for LIBRARIES and what it is given by PYTHONPATH."""
    packages = folder / "libraries"
    packages.mkdir()
    for name in LIBRARIES:
        (packages / name).symlink_to(Path(str(import_module(name).__file__)).parent)
    program = folder / "python"
    # -S: without the folder of this Python's packages, and without what .pth files there add.
    program.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}"\nexec \'{sys.executable}\' -S "$@"\n'
    )
    program.chmod(0o755)
    return program


def children(pid: int) -> list[int]:
    """The process ids of a process's children, whichever thread started them."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(text) for text in (task / "children").read_text().split()]
    return found


def _succeeded(ended: dict[str, Any]) -> bool:
    return bool(ended["Task End Reason"]["Reason"] == "Success")
