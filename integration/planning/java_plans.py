"""What Java's planner says a scan of a table reads: files, the residual and the deletes of each.

A plan may have hundreds of thousands of files, and a call through py4j takes a tenth of a millisecond: so Java itself
writes large plans to files, in batches, as answers of the REST protocol. Small ones are asked for file by file: such an
answer of Java 1.11 has no partition with a void field, and the deletion vectors of one Puffin file are one there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from iceberg_hms.expressions.expression import And, Expression, Or, Predicate, operands
from iceberg_hms.expressions.json_form import to_json
from iceberg_hms.local.gateway import JavaGateway, spark_jars
from iceberg_hms.spark.configuration import ICEBERG_RUNTIME
from iceberg_hms.spark.s3 import AWS_BUNDLE
from integration import maven_packages

#: Of each answer.
_BATCH_TASKS: Final = 20_000
#: So many files are asked for one by one.
_FEW_TASKS: Final = 300
_HADOOP_IO: Final = "org.apache.iceberg.hadoop.HadoopFileIO"


@dataclass(frozen=True)
class JavaTask:
    """A file that a scan reads. residual: what of the filter its rows have yet to be tested with, as JSON. deletes:
    where the delete files that apply to it are, with the offset of deletion vectors."""

    residual: Any
    deletes: frozenset[tuple[str, int | None]]


class JavaPlanner:
    """Iceberg's own planner in a JVM. jvm: py4j's view of it. folder: for plans. io: the class of its FileIO, and
    properties of it."""

    def __init__(
        self, jvm: Any, folder: Path, io: str = _HADOOP_IO, properties: Mapping[str, str] | None = None
    ) -> None:
        self._jvm = jvm
        self._iceberg = jvm.org.apache.iceberg
        self._guava = self._iceberg.relocated.com.google.common.collect
        self._plan_file = folder / "java-plan.json"
        given = jvm.java.util.HashMap()
        for key, value in (properties or {}).items():
            given.put(key, value)
        self._io = self._iceberg.CatalogUtil.loadFileIO(io, given, jvm.org.apache.hadoop.conf.Configuration())

    def load(self, metadata_location: str) -> Any:
        """Java's object of a table, as this metadata file has it."""
        operations = self._iceberg.StaticTableOperations(metadata_location, self._io)
        return self._iceberg.BaseTable(operations, metadata_location)

    def scan(self, table: Any, *, snapshot_id: int | None = None, case_sensitive: bool = True) -> Any:
        """A scan without a filter, not planned yet. snapshot_id: read with that snapshot's schema, as Java does; None:
        the current state with the current schema."""
        scan = table.newScan().caseSensitive(case_sensitive)
        return scan if snapshot_id is None else scan.useSnapshot(self._jvm.java.lang.Long.parseLong(str(snapshot_id)))

    def filtered(self, scan: Any, where: Expression) -> Any:
        """A scan with a filter."""
        form = json.dumps(to_json(where), ensure_ascii=False)
        # Only with the schema bytes are read as such, and only without it whole numbers are taken for floats.
        schema = scan.schema() if _has_bytes(where) else None
        return scan.filter(self._iceberg.expressions.ExpressionParser.fromJson(form, schema))

    def count(self, scan: Any) -> int:
        """Plan, and count the files."""
        with _closed(scan.planFiles()) as tasks:
            return int(self._guava.Iterables.size(tasks))

    def plan(self, scan: Any) -> dict[str, JavaTask]:
        """Plan. Returns the files by path. Raises AssertionError for one that is there twice, and for a large plan with
        deletes."""
        found: dict[str, JavaTask] = {}
        specs = scan.table().specs()
        with _closed(scan.planFiles()) as tasks:
            # Not a Java iterator: py4j takes what that throws for its end.
            rest = tasks.iterator()
            while batch := self._guava.Lists.newArrayList(self._guava.Iterators.limit(rest, _BATCH_TASKS)):
                read = self._asked(batch) if len(batch) <= _FEW_TASKS else self._written(batch, specs)
                for path, task in read:
                    assert path not in found, f"Java plans {path} twice"
                    found[path] = task
        return found

    def _asked(self, batch: Any) -> Iterator[tuple[str, JavaTask]]:
        residuals: dict[str, Any] = {}
        for task in batch:
            deletes = frozenset((each.location(), each.contentOffset()) for each in task.deletes())
            form = self._iceberg.expressions.ExpressionParser.toJson(task.residual())
            if form not in residuals:
                residuals[form] = orjson.loads(form)
            yield task.file().location(), JavaTask(residuals[form], deletes)

    def _written(self, batch: Any, specs: Any) -> Iterator[tuple[str, JavaTask]]:
        rest = self._iceberg.rest
        response = rest.responses.PlanTableScanResponse.builder().withPlanStatus(rest.PlanStatus.COMPLETED)
        response = response.withSpecsById(specs).withFileScanTasks(batch).build()
        text = rest.responses.PlanTableScanResponseParser.toJson(response)
        options = self._jvm.java.lang.reflect.Array.newInstance(
            self._jvm.java.lang.Class.forName("java.nio.file.OpenOption"), 0
        )
        path = self._jvm.java.io.File(str(self._plan_file)).toPath()
        self._jvm.java.nio.file.Files.writeString(path, text, options)
        answer = orjson.loads(self._plan_file.read_bytes())
        assert "delete-files" not in answer, "the deletes of a large plan"
        known: dict[bytes, JavaTask] = {}
        for task in answer["file-scan-tasks"]:
            residual = task.get("residual-filter", True)
            form = orjson.dumps(residual)
            if form not in known:
                known[form] = JavaTask(residual, frozenset())
            yield task["data-file"]["file-path"], known[form]


def _has_bytes(where: Expression) -> bool:
    match where:
        case And() | Or():
            return any(map(_has_bytes, operands(where)))
        case Predicate():
            return any(isinstance(each, bytes) for each in where.values)
    return False


@contextmanager
def java_planner(
    folder: Path,
    *,
    heap_mb: int = 2_048,
    options: Sequence[str] = (),
    io: tuple[str, Mapping[str, str]] | None = None,
) -> Iterator[tuple[JavaPlanner, int]]:
    """A JVM with Iceberg and no Spark session, and its process id, until the block ends. folder: for its files. io: as
    for JavaPlanner; its jars must have been fetched."""
    maven_packages.fetch(folder)
    jars = [maven_packages.jar(each) for each in (ICEBERG_RUNTIME, AWS_BUNDLE)]
    classes = [spark_jars() / "*", *(jars if io else jars[:1])]
    with JavaGateway(folder, "java-planner", heap_mb=heap_mb, options=options, classes=classes) as gateway:
        yield JavaPlanner(gateway.jvm, folder, *(io or ())), gateway.pid


@contextmanager
def _closed(closeable: Any) -> Iterator[Any]:
    try:
        yield closeable
    finally:
        closeable.close()
