"""Spark's executors as the place where the tasks of a migration run."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from pyspark import RDD, Accumulator, AccumulatorParam, SparkContext

import iceberg_hms
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.errors import EngineError
from iceberg_hms.migration.work import Item, Result, Side, Wanted

#: How often the driver looks which tasks have ended.
_LOOK_SECONDS: Final = 0.3
_PACKAGE: Final = "iceberg_hms"
#: The last line of a task's traceback, in the text of Spark's error.
_TASK_ERROR: Final = re.compile(r"^(?:iceberg_hms\.errors\.\w+: (.+)|(\w[\w.]*Error: .+))$", re.MULTILINE)
#: Masters whose executor is the driver; those of `local-cluster[...]` are processes of their own.
_ONE_PROCESS: Final = re.compile(r"local(\[.*\])?")
#: What `SparkContext.setJobGroup` sets.
_GROUP_PROPERTIES: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
#: What PySpark starts where nobody chose.
_DEFAULT_PYTHON: Final = "python3"


class SparkExecutors:
    """`migration.work.Executors` on a SparkContext.

    Executors of another process than the driver's get this package with the first call, so that all run the driver's
    release. The libraries that it needs there (docs/migration.md) they must have. what: for Spark's own pages.
    """

    def __init__(self, context: SparkContext, runtime: Runtime, *, what: str) -> None:
        self._context = context
        self._runtime = runtime
        self._what = what
        master = str(context.master)
        if not _ONE_PROCESS.fullmatch(master):
            context.addPyFile(str(_archive()))
        if master.startswith("local") and context.pythonExec == _DEFAULT_PYTHON:
            # The first `python3` of the path, which may be another one than this.
            context.pythonExec = sys.executable

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], *, done: Callable[[Result], None]
    ) -> list[Result]:
        """As `Executors.map`: a Spark task for each item."""
        if not items:
            return []
        context = self._context
        ended: Accumulator[list[Any]] = context.accumulator([], _Lists())

        def run(item: Item) -> Result:
            result = function(item)
            ended.add([result])
            return result

        with self._job_group(), self._reporting(ended, done):
            found: list[Result] = context.parallelize(items, len(items)).map(run).collect()
            return found

    def compare(self, left: Side, right: Side, *, wanted: Wanted, named: int) -> tuple[int, list[str]]:
        """As `Executors.compare`: Spark shuffles the keys."""
        both = self._locations(left).cogroup(self._locations(right))
        found = both.flatMap(partial(_chosen, wanted)).cache()
        try:
            with self._job_group():
                # PySpark's types know no order of texts.
                return found.count(), found.takeOrdered(named)  # type: ignore[call-arg]
        finally:
            found.unpersist()

    def _locations(self, side: Side) -> RDD[tuple[str, str]]:
        return self._context.parallelize(side.items, max(1, len(side.items))).flatMap(side.give)

    @contextmanager
    def _job_group(self) -> Iterator[None]:
        """Jobs of the block have a group of their own, whatever the session's is, and end with it. Raises EngineError
        for what Spark raises."""
        context, group = self._context, self._runtime.uuid()
        before = {name: context.getLocalProperty(name) for name in _GROUP_PROPERTIES}
        context.setJobGroup(group, self._what, interruptOnCancel=True)
        try:
            yield
        except BaseException as error:
            context.cancelJobGroup(group)
            if isinstance(error, Exception):
                raise failed(self._what, error) from error
            raise
        finally:
            for name, value in before.items():
                # None removes it, which PySpark's types do not know.
                context.setLocalProperty(name, value)  # type: ignore[arg-type]

    @contextmanager
    def _reporting(self, ended: Accumulator[list[Any]], done: Callable[[Any], None]) -> Iterator[None]:
        """Tell `done` of tasks that have ended, on a thread of its own, until the block ends."""
        told = 0
        is_over, has_ended = self._runtime.event(), self._runtime.event()

        def tell() -> None:
            nonlocal told
            results = ended.value
            while told < len(results):
                done(results[told])
                told += 1

        def report() -> None:
            try:
                while not is_over.wait(_LOOK_SECONDS):
                    tell()
                tell()
            finally:
                has_ended.set()

        self._runtime.spawn(f"progress of {self._what}", report)
        try:
            yield
        finally:
            is_over.set()
            has_ended.wait()


def failed(what: str, error: Exception) -> EngineError:
    """What an error of Spark's says: that of the task, if one failed. what: the operation."""
    text = str(error)
    of_task = _TASK_ERROR.search(text)
    said = of_task[1] or of_task[2] if of_task else next(iter(text.splitlines()), type(error).__name__)
    return EngineError(
        f"Spark failed to {what}: {said}", next_step="then start again; what was described is not read again"
    )


def _chosen(wanted: Wanted, of_key: tuple[str, Any]) -> list[str]:
    """of_key: a key, with its locations on the left side and on the right one."""
    left, right = map(list, of_key[1])
    return left[:1] if bool(right) == (wanted == "common") else []


class _Lists(AccumulatorParam[list[Any]]):
    """Collects what tasks add."""

    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002 - the interface is Spark's
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - the name is Spark's
        value1 += value2
        return value1


@cache
def _archive() -> Path:
    """Of this package, for as long as this process lives: Spark serves a file from where it is."""
    folder = Path(tempfile.mkdtemp(prefix="iceberg-hms-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = folder / f"{_PACKAGE}.zip"
    pack(archive)
    return archive


def pack(archive: Path) -> None:
    """Write this package's modules into an archive from which Python imports them."""
    source = Path(iceberg_hms.__file__).parent
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for each in sorted(source.rglob("*.py")):
            file.write(each, Path(_PACKAGE) / each.relative_to(source))
