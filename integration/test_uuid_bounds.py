"""UUIDs, which Java orders as signed numbers and others by their bytes: neither reader misses a file of the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog

#: In the order of their bytes, and on either side of the sign.
LOW, MIDDLE, HIGH = UUID("00000000-0000-4000-8000-00000000000f"), UUID("7" * 32), UUID("f" * 32)
KEYS = (LOW, MIDDLE, HIGH)
OTHER = UUID("8" * 32)
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "key", "required": False, "type": "uuid"}]}
SPEC = {"fields": [{"source-id": 1, "field-id": 1000, "name": "key", "transform": "identity"}]}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Without a metastore: what matters is in the files."""
    with memory_catalog(files=RoutedFiles(), warehouse=f"file:{tmp_path}/warehouse") as made:
        made.create_namespace("db")
        yield made


def record(name: str, key: UUID, **fields: Any) -> DataFile:
    return DataFile(f"file:/data/{name}.parquet", "PARQUET", 1, 10, {"key": key}, **fields)


def vector(name: str, key: UUID, of: str) -> DataFile:
    return DataFile(
        f"file:/data/{name}.puffin",
        "PUFFIN",
        1,
        10,
        {"key": key},
        content=FileContent.POSITION_DELETES,
        referenced_data_file=f"file:/data/{of}.parquet",
        content_offset=4,
        content_size_in_bytes=6,
    )


@pytest.fixture
def of_java(spark: Any, catalog: Catalog, tmp_path: Path) -> Table:
    """A table in which Java has one data file for each key, and a deletion vector of each, in two manifests."""
    jvm = spark._jvm
    iceberg, java = jvm.org.apache.iceberg, jvm.java
    columns = java.util.ArrayList()
    columns.add(iceberg.types.Types.NestedField.optional(1, "key", iceberg.types.Types.UUIDType.get()))
    schema = iceberg.Schema(columns)
    spec = iceberg.PartitionSpec.builderFor(schema).identity("key").build()
    properties = java.util.HashMap()
    properties.put("format-version", "3")
    tables = iceberg.hadoop.HadoopTables(jvm.org.apache.hadoop.conf.Configuration())
    table = tables.create(schema, spec, properties, str(tmp_path / "of-java"))

    def placed(builder: Any, name: str, key: UUID) -> Any:
        builder = builder.withPath(f"file:/data/{name}").withFileSizeInBytes(10).withRecordCount(1)
        return builder.withPartitionPath(f"key={key}").build()

    append, deletes = table.newFastAppend(), table.newRowDelta()
    for at, key in enumerate(KEYS):
        append.appendFile(placed(iceberg.DataFiles.builder(spec), f"{at}.parquet", key))
        builder = iceberg.FileMetadata.deleteFileBuilder(spec).ofPositionDeletes()
        builder.withReferencedDataFile(f"file:/data/{at}.parquet").withContentOffset(4).withContentSizeInBytes(6)
        deletes.addDeletes(placed(builder.withFormat("puffin"), f"{at}.puffin", key))
    append.commit()
    deletes.commit()
    return catalog.register_table("db.of_java", table.operations().current().metadataFileLocation())


def planned(spark: Any, table: Table, key: UUID) -> list[str]:
    """The data files in which Java looks for a key."""
    iceberg = spark._jvm.org.apache.iceberg
    io = iceberg.hadoop.HadoopFileIO(spark._jvm.org.apache.hadoop.conf.Configuration())
    loaded = iceberg.BaseTable(iceberg.StaticTableOperations(table.metadata_location, io), "t")
    tasks = loaded.newScan().filter(iceberg.expressions.Expressions.equal("key", str(key))).planFiles().iterator()
    found = []
    while tasks.hasNext():
        found.append(str(tasks.next().file().location()))
    return found


def live(catalog: Catalog, table: Table) -> set[str]:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    manifests = catalog.manifests()
    return {
        entry.data_file.file_path.rpartition("/")[2]
        for entry in manifests.entries(manifests.list(snapshot), lambda each: each.is_live)
    }


@pytest.mark.parametrize("at", range(3))
def test_a_dynamic_overwrite_replaces_the_files_that_java_has_in_a_partition(
    catalog: Catalog, of_java: Table, at: int
) -> None:
    of_java.replace_partitions([record("new", KEYS[at])])
    others = {f"{each}.{kind}" for each in range(3) if each != at for kind in ("parquet", "puffin")}
    assert live(catalog, of_java) == {"new.parquet", *others}


@pytest.mark.parametrize("at", range(3))
def test_a_second_deletion_vector_for_a_file_is_refused(of_java: Table, at: int) -> None:
    with pytest.raises(RequirementFailed, match=f"/{at}.parquet has a deletion vector already"):
        of_java.row_delta([], [vector("second", KEYS[at], str(at))])


@pytest.mark.parametrize("kept", [KEYS, KEYS[1:], KEYS[:2], KEYS[:1]])
def test_java_finds_each_partition_of_a_manifest(spark: Any, catalog: Catalog, kept: tuple[UUID, ...]) -> None:
    table = catalog.create_table("db.partitioned", SCHEMA, partition_spec=SPEC)
    table.append([record("other", OTHER)])
    table.append([record(f"k{key}", key) for key in kept])
    for rewrite in (lambda: None, table.rewrite_manifests, lambda: table.delete_files(["file:/data/other.parquet"])):
        rewrite()
        for key in kept:
            assert planned(spark, table, key) == [f"file:/data/k{key}.parquet"]


@pytest.mark.parametrize("kept", [KEYS, KEYS[1:], KEYS[:2], KEYS[:1]])
def test_java_finds_each_value_of_a_file(spark: Any, catalog: Catalog, tmp_path: Path, kept: tuple[UUID, ...]) -> None:
    table = catalog.create_table("db.plain", SCHEMA)
    column = pa.field("key", pa.uuid(), metadata={"PARQUET:field_id": "1"})
    rows = pa.array([key.bytes for key in kept], pa.binary(16)).cast(pa.uuid())
    pq.write_table(pa.table([rows], schema=pa.schema([column])), tmp_path / "keys.parquet", store_schema=False)
    table.append([f"file:{tmp_path}/keys.parquet"])
    for key in kept:
        assert planned(spark, table, key) == [f"file:{tmp_path}/keys.parquet"]
