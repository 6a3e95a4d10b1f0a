"""Tables of Hadoop's in folders, by Java's own API; and the records of files, as Java has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from tests.outcomes.alone import SCHEMA

#: Java's answer to an operation whose assumptions do not hold.
_REFUSED: Final = "org.apache.iceberg.exceptions.ValidationException"
#: By the names of pyarrow.
_TYPES: Final = {"int64": "Long", "int32": "Integer", "string": "String", "extension<arrow.uuid>": "UUID"}


class JavaTables:
    """Makes tables in a JVM that has Iceberg. jvm: py4j's view of it."""

    def __init__(self, jvm: Any) -> None:
        self.iceberg, self.java = jvm.org.apache.iceberg, jvm.java
        self._configuration = jvm.org.apache.hadoop.conf.Configuration()
        self._tables = self.iceberg.hadoop.HadoopTables(self._configuration)

    def create(self, folder: Path, version: int, partition: str) -> None:
        """An empty table with the columns that all tables have. partition: its column."""
        types = self.iceberg.types.Types
        columns = self.java.util.ArrayList()
        for number, field in enumerate(SCHEMA, 1):
            kind = getattr(types, f"{_TYPES[str(field.type)]}Type")
            columns.add(types.NestedField.optional(number, field.name, kind.get()))
        schema = self.iceberg.Schema(columns)
        spec = self.iceberg.PartitionSpec.builderFor(schema).identity(partition).build()
        properties = self.java.util.HashMap()
        properties.put("format-version", str(version))
        self._tables.create(schema, spec, properties, str(folder))

    def load(self, folder: Path) -> JavaTable:
        """An object of a table, which others leave behind."""
        return JavaTable(self, self.object(folder))

    def object(self, folder: Path) -> Any:
        """Java's own object of a table."""
        return self._tables.load(str(folder))

    def reader(self, metadata_location: str) -> JavaTable:
        """A table as this metadata file has it."""
        io = self.iceberg.hadoop.HadoopFileIO(self._configuration)
        operations = self.iceberg.StaticTableOperations(metadata_location, io)
        return JavaTable(self, self.iceberg.BaseTable(operations, metadata_location))


class JavaTable:
    """table: Java's object of a table, which stays as it is until it is refreshed."""

    def __init__(self, tables: JavaTables, table: Any) -> None:
        self.table = table
        self.iceberg, self._java = tables.iceberg, tables.java

    @property
    def metadata_location(self) -> str:
        """Of the object's state."""
        return str(self.table.operations().current().metadataFileLocation())

    def first_row_ids(self) -> dict[str, int | None]:
        """Of main's live data files, by their names."""
        self.table.refresh()
        return {name_of_file(task.file()): task.file().firstRowId() for task in self.tasks("main")}

    def planned(self, branch: str) -> dict[str, tuple[str, ...]]:
        """Name of a live data file -> those of the delete files that apply to it."""
        self.table.refresh()
        return {
            name_of_file(task.file()): tuple(sorted(name_of_file(each) for each in task.deletes()))
            for task in self.tasks(branch)
        }

    def summary(self, branch: str) -> dict[str, str]:
        """Of the branch's head, with its operation."""
        self.table.refresh()
        snapshot = self.table.snapshot(branch)
        return {**snapshot.summary(), "operation": snapshot.operation()}

    def delete_rows(self, files: Sequence[DataFile]) -> None:
        """Commit delete files, if there are any."""
        if not files:
            return
        change = self.table.newRowDelta()
        for each in files:
            change.addDeletes(self.delete_file(each))
        change.commit()

    def data_file(self, file: DataFile) -> Any:
        """The record of a data file."""
        builder = self.iceberg.DataFiles.builder(self.table.spec()).withMetrics(self._metrics(file))
        return self._located(builder, file).build()

    def tasks(self, branch: str) -> Iterator[Any]:
        """The FileScanTasks of a branch in the object's state."""
        tasks = self.table.newScan().useRef(branch).planFiles().iterator()
        while tasks.hasNext():
            yield tasks.next()

    def delete_file(self, file: DataFile) -> Any:
        """The record of a delete file."""
        builder = self.iceberg.FileMetadata.deleteFileBuilder(self.table.spec())
        if file.content == FileContent.EQUALITY_DELETES:
            ids = self._java.lang.reflect.Array.newInstance(self._java.lang.Integer.TYPE, len(file.equality_ids or ()))
            for place, id_ in enumerate(file.equality_ids or ()):
                ids[place] = id_
            builder.ofEqualityDeletes(ids)
        else:
            builder.ofPositionDeletes()
        if file.referenced_data_file is not None:
            builder.withReferencedDataFile(file.referenced_data_file)
        if file.content_offset is not None:
            builder.withContentOffset(file.content_offset).withContentSizeInBytes(file.content_size_in_bytes)
        return self._located(builder.withMetrics(self._metrics(file)), file).build()

    def _located(self, builder: Any, file: DataFile) -> Any:
        [(column, value)] = file.partition.items()
        size = file.file_size_in_bytes
        located = builder.withPath(file.file_path).withFormat(file.file_format).withFileSizeInBytes(size)
        return located.withPartitionPath(f"{column}={value}")

    def _metrics(self, file: DataFile) -> Any:
        # py4j makes an Integer of each count. Java takes a count that is missing for no nulls.
        counts = self._java.util.HashMap()
        bounds = [self._buffers(each or {}) for each in (file.lower_bounds, file.upper_bounds)]
        rows = self._java.lang.Long.valueOf(str(file.record_count))
        return self.iceberg.Metrics(rows, None, counts, counts, None, *bounds)

    def _buffers(self, values: Mapping[int, bytes]) -> Any:
        found = self._java.util.HashMap()
        for key, value in values.items():
            found.put(key, self._java.nio.ByteBuffer.wrap(value))
        return found


def refusal(commit: Callable[[], None]) -> str | None:
    """Why Java refuses a commit; None if it does not."""
    try:
        commit()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _REFUSED:
            raise
        return str(error.java_exception.getMessage())
    return None


def name_of_file(file: Any) -> str:
    """The name by which `Contents` knows it."""
    return str(file.location()).rpartition("/")[2].rpartition(".")[0]
