"""Files of a scan in groups, beside Java's own TableScanUtil over the same files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.expressions.expression import ALWAYS_TRUE
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.planning.splits import ScanFile, pack
from integration.java_tables import JavaTable, JavaTables

MIB = 1024 * 1024
#: Of split size, lookback and open cost; Java's defaults are the first.
PACKINGS = ((128 * MIB, 10, 4 * MIB), (16 * MIB, 1, 0), (5 * MIB, 3, MIB), (1_000 * MIB, 10, 40 * MIB))
Parts = list[list[tuple[str, int, int]]]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_java_packs_the_same_groups(spark: Any, tmp_path: Path, version: int) -> None:
    tables = JavaTables(spark._jvm)
    tables.create(tmp_path, version, "day")
    table = tables.load(tmp_path)
    files = filled(table, spark._jvm.java, version, random.Random(version))
    table.table.refresh()
    tasks = list(table.tasks("main"))
    assert len(tasks) == len(files)
    assert len({len(task.deletes()) for task in tasks}) == (3 if version == 2 else 2)
    ours = [as_scan_file(files[str(task.file().location())], task) for task in tasks]
    for packing in PACKINGS:
        theirs = by_java(spark._jvm, tasks, packing)
        groups = pack(ours, *packing)
        found = [[(part.file.path, part.start, part.length) for part in group.tasks] for group in groups]
        assert found == theirs
        assert len(theirs) > 1


def filled(table: JavaTable, java: Any, version: int, chosen: random.Random) -> dict[str, DataFile]:
    """Data files of all sizes, some with offsets, and deletes of some of them."""
    files: dict[str, DataFile] = {}
    deletes: list[DataFile] = []
    append = table.table.newFastAppend()
    for number in range(150):
        size = int(chosen.paretovariate(0.6) * 400_000) % (700 * MIB) + 1
        day, format_ = number % 3, chosen.choice(("PARQUET", "PARQUET", "ORC", "AVRO"))
        offsets = sorted(chosen.sample(range(size), min(size, chosen.randrange(1, 6)))) if number % 4 else None
        path = f"file:/t/{number}.{format_.lower()}"
        files[path] = DataFile(path, format_, 1_000, size, partition={"day": day}, split_offsets=offsets)
        append.appendFile(data_file(table, java, files[path]))
        if number % 5 == 0:
            deletes += deletes_of(files[path], version, chosen)
    append.commit()
    table.delete_rows(deletes)
    return files


def data_file(table: JavaTable, java: Any, file: DataFile) -> Any:
    """Java's record of a data file, with its offsets."""
    builder = table.iceberg.DataFiles.builder(table.table.spec())
    builder.withPath(file.file_path).withFormat(file.file_format).withRecordCount(file.record_count)
    builder.withFileSizeInBytes(file.file_size_in_bytes).withPartitionPath(f"day={file.partition['day']}")
    if file.split_offsets is not None:
        # In a list, py4j would make an Integer of a small one.
        offsets = java.lang.reflect.Array.newInstance(java.lang.Long.TYPE, len(file.split_offsets))
        for place, each in enumerate(file.split_offsets):
            java.lang.reflect.Array.setLong(offsets, place, each)
        builder.withSplitOffsets(table.iceberg.util.ArrayUtil.toUnmodifiableLongList(offsets))
    return builder.build()


def deletes_of(file: DataFile, version: int, chosen: random.Random) -> list[DataFile]:
    """Position deletes of one file, once or twice; a deletion vector in v3."""
    known: dict[str, Any] = {
        "partition": file.partition,
        "content": FileContent.POSITION_DELETES,
        "referenced_data_file": file.file_path,
    }
    size = chosen.randrange(1, 30 * MIB)
    if version == 3:
        vector = {"content_offset": 4, "content_size_in_bytes": size}
        return [DataFile(f"{file.file_path}.puffin", "PUFFIN", 3, size + 50, **known, **vector)]
    return [DataFile(f"{file.file_path}.{each}", "PARQUET", 3, size, **known) for each in range(chosen.choice((1, 2)))]


def as_scan_file(file: DataFile, task: Any) -> ScanFile:
    """What a plan has of a file, with the deletes that Java found for it."""
    return ScanFile(
        path=file.file_path,
        format=file.file_format,
        rows=file.record_count,
        size=file.file_size_in_bytes,
        spec_id=0,
        partition=file.partition,
        sequence_number=1,
        first_row_id=None,
        split_offsets=file.split_offsets,
        deletes=tuple(
            DataFile(
                str(each.location()),
                str(each.format().name()),
                1,
                each.fileSizeInBytes(),
                content=FileContent.POSITION_DELETES,
                content_size_in_bytes=each.contentSizeInBytes(),
            )
            for each in task.deletes()
        ),
        residual=ALWAYS_TRUE,
    )


def by_java(jvm: Any, tasks: list[Any], packing: tuple[int, int, int]) -> Parts:
    given = jvm.java.util.ArrayList()
    for task in tasks:
        given.add(task)
    size, lookback, cost = packing
    groups = jvm.org.apache.iceberg.util.TableScanUtil.planTaskGroups(given, size, lookback, cost)
    return [
        [(str(task.file().location()), task.start(), task.length()) for task in jvm.java.util.ArrayList(group.tasks())]
        for group in groups
    ]
