"""A Java catalog, through py4j, and what the checks of Java share."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from integration.interop import HIVE_CATALOG, REST_CATALOG
from labs.clients.lab import Lab, Place

REST: Final = "RESTCatalog"
HIVE: Final = "HiveCatalog"

#: As Java numbers the columns of `SCHEMA` and of `COUNTED`.
_FIELDS: Final = (("id", "long", pa.int64()), ("name", "string", pa.string()), ("count", "long", pa.int64()))
SCHEMA: Final = _FIELDS[:2]
COUNTED: Final = _FIELDS


class Catalog:
    """kind: REST or HIVE. jvm: py4j's view of the JVM."""

    def __init__(self, jvm: Any, lab: Lab, kind: str) -> None:
        self.jvm = jvm
        self.iceberg = jvm.org.apache.iceberg
        self.kind = kind
        self._lab = lab
        properties = jvm.java.util.HashMap()
        properties.put("uri", lab.uri if kind == REST else lab.metastore_uri)
        properties.put("warehouse", lab.warehouse)
        if kind == REST:
            properties.remove("warehouse")
            properties.put("token", lab.token)
        implementation = REST_CATALOG if kind == REST else HIVE_CATALOG
        conf = jvm.org.apache.hadoop.conf.Configuration()
        self.java = self.iceberg.CatalogUtil.loadCatalog(implementation, f"clients-{uuid.uuid4()}", properties, conf)

    def again(self, kind: str | None = None) -> Catalog:
        """A second catalog object, of this or the other kind."""
        return Catalog(self.jvm, self._lab, kind or self.kind)

    def close(self) -> None:
        if self.kind == REST:
            self.java.close()

    def name(self, table: str) -> Any:
        return self.iceberg.catalog.TableIdentifier.parse(table)

    def namespace(self, namespace: str) -> Any:
        return self.name(f"{namespace}.any").namespace()

    def load(self, place: Place, name: str = "t") -> Any:
        return self.java.loadTable(self.name(place.table(name)))

    def schema(self, fields: tuple[tuple[str, str, Any], ...] = SCHEMA) -> Any:
        columns = [
            {"id": number, "name": name, "type": kind, "required": False}
            for number, (name, kind, _) in enumerate(fields, 1)
        ]
        return self.iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": columns}))

    def builder(
        self, place: Place, name: str = "t", *, by: str = "", fields: tuple[tuple[str, str, Any], ...] = SCHEMA
    ) -> Any:
        """A builder of a table. by: a column to partition by identity."""
        schema = self.schema(fields)
        builder = self.java.buildTable(self.name(place.table(name)), schema)
        return (
            builder.withPartitionSpec(self.iceberg.PartitionSpec.builderFor(schema).identity(by).build())
            if by
            else builder
        )

    def make(self, place: Place, name: str = "t", *, by: str = "", properties: Mapping[str, str] | None = None) -> Any:
        """A new table with `id` and `name`."""
        builder = self.builder(place, name, by=by)
        for key, value in (properties or {}).items():
            builder = builder.withProperty(key, value)
        return builder.create()

    def file(self, place: Place, table: Any, *rows: tuple[Any, ...], partition: str = "") -> Any:
        """A new Parquet file as Java's DataFile. rows: `(id, name)` or `(id, name, count)`. partition: `name=row 1`."""
        path = _written(place.folder, rows)
        builder = self.iceberg.DataFiles.builder(table.spec()).withPath(f"file:{path}").withFormat("PARQUET")
        builder = builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(rows))
        return (builder.withPartitionPath(partition) if partition else builder).build()

    def append(self, place: Place, table: Any, *ids: int) -> Any:
        """One file with a row for each id; the table, as committed."""
        table.newAppend().appendFile(self.file(place, table, *rows(*ids))).commit()
        return table

    def ids(self, table: Any, snapshot: int | None = None) -> list[int]:
        """As Java's generic reader reads them."""
        builder = self.iceberg.data.IcebergGenerics.read(table)
        found = (builder if snapshot is None else builder.useSnapshot(snapshot)).build()
        try:
            return sorted(record.getField("id") for record in each(found))
        finally:
            found.close()

    def live_files(self, table: Any) -> list[Any]:
        plan = table.newScan().planFiles()
        try:
            return [task.file() for task in each(plan)]
        finally:
            plan.close()

    def set_of(self, *items: Any) -> Any:
        made = self.jvm.java.util.HashSet()
        for item in items:
            made.add(item)
        return made


def rows(*ids: int) -> list[tuple[int, str]]:
    return [(id_, f"row {id_}") for id_ in ids]


def each(iterable: Any) -> Iterator[Any]:
    """What a Java Iterable gives; py4j itself iterates over collections alone."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def check_ids(catalog: Catalog, place: Place, expected: list[int], name: str = "t") -> None:
    """Java and PyIceberg read the same rows."""
    found = catalog.ids(catalog.load(place, name))
    assert found == expected, f"Java reads {found} and not {expected}"
    theirs = sorted(row["id"] for row in place.lab.rows(place.table(name)))
    assert theirs == expected, f"PyIceberg reads {theirs} and not {expected}"


def fails(call: Callable[[], object]) -> str:
    """What Java throws, as `package.Class: message`, which it must."""
    from py4j.protocol import Py4JJavaError

    try:
        call()
    except Py4JJavaError as error:
        return thrown(error)
    raise AssertionError("it did not fail")


def thrown(error: Any) -> str:
    return str(error.java_exception.toString())


def position_delete(catalog: Catalog, place: Place, table: Any, file: Any, position: int) -> Any:
    """Deletes a row of a file."""
    path = place.folder / f"{uuid.uuid4()}-deletes.parquet"
    fields = [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
    pq.write_table(pa.table({"file_path": [file.location()], "pos": [position]}, schema=pa.schema(fields)), path)
    builder = catalog.iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofPositionDeletes()
    builder = builder.withPath(f"file:{path}").withFormat("PARQUET").withRecordCount(1)
    return builder.withFileSizeInBytes(path.stat().st_size).build()


def _written(folder: Path, values: tuple[tuple[Any, ...], ...]) -> Path:
    path = folder / f"{uuid.uuid4()}.parquet"
    names = _FIELDS[: len(values[0])]
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, _, kind) in enumerate(names, 1)
    ]
    columns = dict(zip((name for name, _, _ in names), map(list, zip(*values, strict=True)), strict=True))
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path)
    return path
