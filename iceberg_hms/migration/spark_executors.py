"""Spark's executors as the place where the tasks of a migration run."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import RDD, Accumulator, AccumulatorParam, SparkContext

import iceberg_hms
from iceberg_hms.coordinator.ports import Runtime
from iceberg_hms.migration.work import Item, Result, Side, Wanted

#: How often the driver looks which tasks have ended.
_LOOK_SECONDS: Final = 0.3
_PACKAGE: Final = "iceberg_hms"
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
        if not str(context.master).startswith("local"):
            _send_package(context)
        elif context.pythonExec == _DEFAULT_PYTHON:
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

        group = self._runtime.uuid()
        context.setJobGroup(group, self._what, interruptOnCancel=True)
        try:
            with self._reporting(ended, done):
                found: list[Result] = context.parallelize(items, len(items)).map(run).collect()
                return found
        except BaseException:
            context.cancelJobGroup(group)
            raise

    def compare(self, left: Side, right: Side, *, wanted: Wanted, named: int) -> tuple[int, list[str]]:
        """As `Executors.compare`: Spark shuffles the keys."""
        one, other = self._keys(left), self._keys(right)
        found = one.intersection(other) if wanted == "common" else one.subtract(other).distinct()
        found = found.cache()
        try:
            # PySpark's types know no order of texts.
            return found.count(), found.takeOrdered(named)  # type: ignore[call-arg]
        finally:
            found.unpersist()

    def _keys(self, side: Side) -> RDD[str]:
        return self._context.parallelize(side.items, max(1, len(side.items))).flatMap(side.give)

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


class _Lists(AccumulatorParam[list[Any]]):
    """Collects what tasks add."""

    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002 - the interface is Spark's
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - the name is Spark's
        value1 += value2
        return value1


def _send_package(context: SparkContext) -> None:
    """Give each executor this package as an archive on its path."""
    source = Path(iceberg_hms.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / f"{_PACKAGE}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for each in sorted(source.rglob("*.py")):
                file.write(each, Path(_PACKAGE) / each.relative_to(source))
        # Spark copies the file before it returns.
        context.addPyFile(str(archive))
