"""The operations of the table of outcomes by Java's own API, on a table of Hadoop's in a folder.

Java validates as Spark asks it to for an isolation level (SparkWrite, SparkPositionDeltaWrite of Iceberg 1.11).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from iceberg_hms.expressions import as_expression
from iceberg_hms.expressions.json_form import to_json
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from tests.outcomes.actions import Case
from tests.outcomes.rows import Contents
from tests.outcomes.stage import DELETED, FILES, deletes_of

#: Operations that Java has an equivalent of.
OPERATIONS: Final = (
    "append",
    "delete_where",
    "delete_files",
    "overwrite",
    "replace_partitions",
    "rewrite",
    "rewrite_deletes",
    "row_delta_positions",
    "row_delta_equality",
    "row_delta_vectors",
)
#: Java's answer to an operation whose assumptions do not hold.
_REFUSED: Final = "org.apache.iceberg.exceptions.ValidationException"


class JavaTables:
    """Makes tables in a JVM that has Iceberg. jvm: py4j's view of it."""

    def __init__(self, jvm: Any) -> None:
        self.iceberg, self.java = jvm.org.apache.iceberg, jvm.java
        self._tables = self.iceberg.hadoop.HadoopTables(jvm.org.apache.hadoop.conf.Configuration())

    def make(self, folder: Path, version: int, *, with_deletes: bool) -> None:
        """The stage's table, as `tests.outcomes.stage` says."""
        types = self.iceberg.types.Types
        columns = self.java.util.ArrayList()
        kinds = (("id", "LongType"), ("day", "IntegerType"), ("level", "StringType"), ("count", "IntegerType"))
        for number, (name, kind) in enumerate((*kinds, ("note", "StringType")), 1):
            columns.add(types.NestedField.optional(number, name, getattr(types, kind).get()))
        schema = self.iceberg.Schema(columns)
        spec = self.iceberg.PartitionSpec.builderFor(schema).identity("day").build()
        properties = self.java.util.HashMap()
        properties.put("format-version", str(version))
        self._tables.create(schema, spec, properties, str(folder))
        table = self.load(folder, with_deletes=with_deletes)
        for names, branch in (("Z", "main"), ("AB", "main"), ("CD", "main"), ("E", "audit")):
            table.append_first(names, branch)

    def load(self, folder: Path, *, with_deletes: bool) -> JavaTable:
        """Another object of the table, which others leave behind."""
        return JavaTable(self, self._tables.load(str(folder)), DELETED if with_deletes else {})


class JavaTable:
    """One object of a table. deleted: name of a file -> its row that is deleted from the beginning."""

    def __init__(self, tables: JavaTables, table: Any, deleted: Mapping[str, int]) -> None:
        self.table = table
        self._iceberg, self._java = tables.iceberg, tables.java
        self._contents = Contents()
        self._deleted = deleted
        self._files = {
            name: self._contents.data_file(name, day, *rows, *([deleted[name]] if name in deleted else []))
            for name, (day, rows) in FILES.items()
        }

    def append_first(self, names: str, branch: str) -> None:
        """Append files of the stage, with their deletes."""
        append = self.table.newFastAppend()
        for name in names:
            append.appendFile(self._data_file(self._files[name]))
        if branch != "main":
            self.table.manageSnapshots().createBranch(branch).commit()
        append.toBranch(branch).commit()
        deleted = [name for name in names if name in self._deleted]
        if deleted:
            change = self.table.newRowDelta()
            for name in deleted:
                change.addDeletes(self._delete_file(deletes_of(self._contents, name, f"deletes-{name}")))
            change.commit()

    def commit(self, case: Case) -> str | None:
        """Make an operation, and commit it. Returns why Java refuses it; None if it does not."""
        make = {
            "append": self._append,
            "delete_where": self._delete_where,
            "delete_files": self._delete_files,
            "overwrite": self._overwrite,
            "replace_partitions": self._replace_partitions,
            "rewrite": self._rewrite,
            "rewrite_deletes": self._rewrite_deletes,
        }.get(case.operation, self._row_delta)
        try:
            make(case).toBranch(case.branch).commit()
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != _REFUSED:
                raise
            return str(error.java_exception.getMessage())
        return None

    def planned(self, branch: str) -> dict[str, tuple[str, ...]]:
        """Name of a live data file -> those of the delete files that apply to it."""
        self.table.refresh()
        return {
            _name(task.file().location()): tuple(sorted(_name(each.location()) for each in task.deletes()))
            for task in self._tasks(branch)
        }

    def summary(self, branch: str) -> dict[str, str]:
        """Of the branch's head, with its operation."""
        self.table.refresh()
        snapshot = self.table.snapshot(branch)
        return {**snapshot.summary(), "operation": snapshot.operation()}

    def _data_file(self, file: DataFile) -> Any:
        builder = self._iceberg.DataFiles.builder(self.table.spec()).withMetrics(self._metrics(file))
        return self._located(builder, file).build()

    def _append(self, case: Case) -> Any:
        return self.table.newFastAppend().appendFile(self._new_file(case))

    def _delete_where(self, case: Case) -> Any:
        return self.table.newDelete().deleteFromRowFilter(self._where(case))

    def _delete_files(self, case: Case) -> Any:
        # By its path py4j would find SnapshotProducer's own deleteFile(String).
        return self.table.newDelete().deleteFile(self._data_file(self._files[case.target])).validateFilesExist()

    def _overwrite(self, case: Case) -> Any:
        rows = self._where(case)
        change = self.table.newOverwrite().overwriteByRowFilter(rows).addFile(self._new_file(case))
        change = self._from_start(change, case).conflictDetectionFilter(rows)
        if _is_serializable(case):
            change.validateNoConflictingData()
        return change.validateNoConflictingDeletes()

    def _replace_partitions(self, case: Case) -> Any:
        change = self._from_start(self.table.newReplacePartitions().addFile(self._new_file(case)), case)
        if _is_serializable(case):
            change.validateNoConflictingData()
        return change.validateNoConflictingDeletes()

    def _rewrite(self, case: Case) -> Any:
        new = self._contents.data_file(f"rewritten-{case.role}", case.day, *FILES[case.target][1])
        change = self._from_start(self.table.newRewrite(), case)
        change.dataSequenceNumber(self._start(case).sequenceNumber())
        return change.deleteFile(self._data_file(self._files[case.target])).addFile(self._data_file(new))

    def _rewrite_deletes(self, case: Case) -> Any:
        old = deletes_of(self._contents, case.target, f"deletes-{case.target}")
        new = deletes_of(self._contents, case.target, f"rewritten-deletes-{case.role}")
        [number] = {
            each.dataSequenceNumber()
            for task in self._tasks(case.branch)
            for each in task.deletes()
            if each.location() == old.file_path
        }
        change = self._from_start(self.table.newRewrite(), case)
        return change.deleteFile(self._delete_file(old)).addFile(self._delete_file(new), number)

    def _row_delta(self, case: Case) -> Any:
        name, ids, contents = f"deletes-{case.role}", case.deleted_ids, self._contents
        match case.operation:
            case "row_delta_positions":
                deletes = contents.position_deletes(name, case.day, case.target, *ids)
            case "row_delta_equality":
                deletes = contents.equality_deletes(name, case.day, *ids)
            case _:
                deletes = contents.deletion_vector(name, case.day, case.target, *ids)
        change = self.table.newRowDelta().addRows(self._new_file(case)).addDeletes(self._delete_file(deletes))
        change = self._from_start(change, case).conflictDetectionFilter(self._where(case))
        if deletes.referenced_data_file is not None:
            change.validateDataFilesExist([deletes.referenced_data_file]).validateDeletedFiles()
        if _is_serializable(case):
            change.validateNoConflictingDataFiles()
        return change.validateNoConflictingDeleteFiles()

    def _tasks(self, branch: str) -> Iterator[Any]:
        tasks = self.table.newScan().useRef(branch).planFiles().iterator()
        while tasks.hasNext():
            yield tasks.next()

    def _start(self, case: Case) -> Any:
        return self.table.snapshot(case.branch)

    def _from_start(self, change: Any, case: Case) -> Any:
        return change.validateFromSnapshot(self._start(case).snapshotId())

    def _where(self, case: Case) -> Any:
        form = json.dumps(to_json(as_expression(case.where[0])))
        return self._iceberg.expressions.ExpressionParser.fromJson(form, self.table.schema())

    def _new_file(self, case: Case) -> Any:
        return self._data_file(
            self._contents.data_file(case.new_name, case.day, *sorted(row for row, _ in case.new_rows))
        )

    def _delete_file(self, file: DataFile) -> Any:
        builder = self._iceberg.FileMetadata.deleteFileBuilder(self.table.spec())
        if file.content == FileContent.EQUALITY_DELETES:
            ids = self._java.lang.reflect.Array.newInstance(self._java.lang.Integer.TYPE, len(file.equality_ids or ()))
            for place, id_ in enumerate(file.equality_ids or ()):
                ids[place] = id_
            builder.ofEqualityDeletes(ids)
        else:
            builder.ofPositionDeletes().withReferencedDataFile(file.referenced_data_file)
        if file.content_offset is not None:
            builder.withContentOffset(file.content_offset).withContentSizeInBytes(file.content_size_in_bytes)
        return self._located(builder.withRecordCount(file.record_count), file).build()

    def _located(self, builder: Any, file: DataFile) -> Any:
        day = file.partition["day"]
        size = file.file_size_in_bytes
        located = builder.withPath(file.file_path).withFormat(file.file_format).withFileSizeInBytes(size)
        return located.withPartitionPath(f"day={day}")

    def _metrics(self, file: DataFile) -> Any:
        # py4j makes an Integer of each count. Java takes a count that is missing for no nulls.
        counts = self._java.util.HashMap()
        bounds = [self._buffers(each or {}) for each in (file.lower_bounds, file.upper_bounds)]
        rows = self._java.lang.Long.valueOf(str(file.record_count))
        return self._iceberg.Metrics(rows, None, counts, counts, None, *bounds)

    def _buffers(self, values: Mapping[int, bytes]) -> Any:
        found = self._java.util.HashMap()
        for key, value in values.items():
            found.put(key, self._java.nio.ByteBuffer.wrap(value))
        return found


def _is_serializable(case: Case) -> bool:
    return case.role == "in_flight" and case.cell.isolation == "serializable"


def _name(location: str) -> str:
    return location.rpartition("/")[2].rpartition(".")[0]
