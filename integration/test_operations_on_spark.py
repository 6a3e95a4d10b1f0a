"""Every operation of the Python API on a table of real files: Spark and PyIceberg read the rows of a plain model after
each, and Spark's metadata tables agree with ours. Then the same operations by Spark's SQL on a twin table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from integration.beside_model import BesideModel, numbered

COLUMNS = pa.schema([("id", pa.int64()), ("level", pa.string()), ("name", pa.string())])
_POSITION_COLUMNS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Catalog]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as connected:
        yield connected


@pytest.fixture
def make(spark: Any, metastore: Any, catalog: Catalog, namespace: str, tmp_path: Path) -> Callable[..., BesideModel]:
    """Makes a table `t`, or another name, and its model."""

    def made(version: int, terms: list[str] | None, name: str = "t", **properties: str) -> BesideModel:
        catalog.create_table(
            f"{namespace}.{name}",
            COLUMNS,
            partition_spec=terms,
            properties={"format-version": str(version), **{k.replace("_", "."): v for k, v in properties.items()}},
        )
        folder = tmp_path / name
        folder.mkdir()
        return BesideModel(spark, metastore, catalog, f"{namespace}.{name}", folder)

    return made


@contextmanager
def refused(assumption: str) -> Iterator[None]:
    """The operation is refused for this assumption."""
    with pytest.raises(RequirementFailed) as caught:
        yield
    assert caught.value.name == assumption


VERSIONS = [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_and_metadata_tables_follow_every_operation(make: Any, version: int) -> None:
    t = make(version, ["level"])
    a1, a2 = t.write(numbered("a", range(3))), t.write(numbered("a", range(3, 6)))
    b1, c1 = t.write(numbered("b", range(10, 14))), t.write(numbered("c", range(20, 22)))
    t.table.append(t.adopt(a1, a2, b1))
    t.check()
    t.table.append(t.adopt(c1))
    t.table.rewrite_manifests()
    t.check()

    t.table.update_schema().add_column("score", "double").rename_column("name", "label").commit()
    t.check()
    t.table.update_spec().add_field("id", "bucket[2]").commit()
    mixed = t.write([{"id": 30, "level": "a", "label": "x", "score": 0.5}])
    t.table.append(t.adopt(mixed))
    t.check()

    t.table.delete_files(t.drop(b1))
    t.check()
    one = t.write([{"id": each, "level": "a", "label": f"row {each}", "score": None} for each in (0, 2, 4)])
    other = t.write([{"id": each, "level": "a", "label": f"row {each}", "score": None} for each in (1, 3, 5)])
    with pytest.raises(InvalidInput, match="do not give the bucket"):
        t.table.rewrite([a1, a2], [one, other])
    t.check()
    t.table.update_spec().remove_field("id_bucket_2").commit()
    rows = [{"id": each, "level": "a", "label": f"row {each}", "score": None} for each in range(6)]
    all_of_a = t.write(rows, moved=True)
    t.table.rewrite(t.drop(a1, a2), t.adopt(all_of_a))
    t.check()

    replaced = t.write([{"id": 99, "level": "c", "label": "new", "score": 9.0}])
    t.table.replace_partitions([replaced])
    if version > 1:
        # In version 1 the removed field stays, as void: the older file is in a partition of another spec, as in Java.
        t.drop(c1)
    t.adopt(replaced)
    t.check()
    with refused("whole-files"):
        t.table.delete("id = 3")
    t.table.delete("id = 30 AND level = 'a'")
    t.drop(mixed)
    t.check()
    over = t.write([{"id": 200, "level": "d", "label": "new", "score": 1.0}])
    t.table.overwrite([over], "level = 'd'")
    t.adopt(over)
    t.check()
    t.table.create_tag("before", max_ref_age_ms=86_400_000)
    t.table.create_branch("audit")
    on_branch = t.write([{"id": 77, "level": "z", "label": "audit", "score": 1.0}])
    t.table.append([on_branch], branch="audit")
    t.check()
    t.table.fast_forward("main", "audit")
    t.adopt(on_branch)
    t.check()
    with t.table.transaction() as tx:
        tx.update_schema().delete_column("score").commit()
        tx.delete_files([on_branch])
        tx.set_properties({"owner": "x"})
    t.drop(on_branch)
    t.table.rewrite_manifests()
    t.check()
    with refused("files-exist"):
        t.table.delete_files([on_branch])
    t.check()
    newest = t.table.snapshots()[-1].timestamp_ms
    t.table.expire_snapshots(newest + 1, retain_last=1)
    assert len(t.table.snapshots()) == 3, "those of main, the branch and the tag"
    t.check()


def position_deletes(t: BesideModel, at: dict[str, list[int]], partition: dict[str, Any]) -> DataFile:
    """A position delete file as an engine writes it; the model lacks the rows from now on."""
    path = t.folder / f"deletes-{uuid.uuid4()}.parquet"
    pairs = sorted((location, position) for location, found in at.items() for position in found)
    rows = pa.Table.from_pylist([{"file_path": p, "pos": n} for p, n in pairs], schema=_POSITION_COLUMNS)
    pq.write_table(rows, path)
    for location, found in at.items():
        for position in sorted(found, reverse=True):
            del t.files[location][position]
    return DataFile(
        file_path=f"file:{path}",
        file_format="PARQUET",
        record_count=len(pairs),
        file_size_in_bytes=path.stat().st_size,
        partition=partition,
        content=FileContent.POSITION_DELETES,
        spec_id=t.table.spec().spec_id,
    )


def equality_deletes(t: BesideModel, ids: list[int], partition: dict[str, Any]) -> DataFile:
    """An equality delete file by `id`; the model lacks the rows from now on. PyIceberg refuses to read such a table."""
    path = t.folder / f"deletes-{uuid.uuid4()}.parquet"
    column = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table({"id": ids}, schema=pa.schema([column])), path)
    for location, rows in t.files.items():
        t.files[location] = [row for row in rows if row[1] not in ids]
    t.pyiceberg_reads = False
    return DataFile(
        file_path=f"file:{path}",
        file_format="PARQUET",
        record_count=len(ids),
        file_size_in_bytes=path.stat().st_size,
        partition=partition,
        content=FileContent.EQUALITY_DELETES,
        equality_ids=[1],
        spec_id=t.table.spec().spec_id,
    )


def test_position_and_equality_deletes_apply_below_rewrites_and_deletes(make: Any) -> None:
    t = make(2, ["level"])
    a1, a2 = t.write(numbered("a", range(4))), t.write(numbered("a", range(4, 8)))
    b1 = t.write(numbered("b", range(10, 14)))
    t.table.append(t.adopt(a1, a2, b1))
    t.table.row_delta(deletes=[position_deletes(t, {a1: [0, 3], a2: [1]}, {"level": "a"})])
    t.check()
    t.table.row_delta(deletes=[position_deletes(t, {b1: [2]}, {"level": "b"})])
    compacted = t.write(numbered("a", [1, 2]))
    t.table.rewrite(t.drop(a1), t.adopt(compacted))
    t.check()
    late = t.write(numbered("b", [13, 50]))
    t.table.row_delta(deletes=[equality_deletes(t, [13, 4], {"level": "b"}), equality_deletes(t, [4], {"level": "a"})])
    t.table.append(t.adopt(late))
    t.check()
    t.table.rewrite_manifests()
    t.check()
    t.table.delete_files(t.drop(b1))
    t.check()
    t.table.delete_files(t.drop(a2, compacted))
    t.check()


def as_positions(t: BesideModel, location: str, positions: list[int]) -> DataFile:
    """Position deletes of rows that the model lacks already."""
    rows = t.files[location]
    t.files[location] = [{}] * (max(positions) + 1)
    found = position_deletes(t, {location: positions}, {"level": "a"})
    t.files[location] = rows
    return replace(found, referenced_data_file=location)


@pytest.mark.parametrize("first", ["conversion", "compaction"])
def test_equality_deletes_that_become_positions_beside_a_compaction_stay(make: Any, first: str) -> None:
    t = make(2, ["level"])
    a1, a2 = t.write(numbered("a", range(4))), t.write(numbered("a", range(4, 8)))
    t.table.append(t.adopt(a1, a2))
    before_the_delete, compacted = t.table, t.write(numbered("a", range(8)))
    old = equality_deletes(t, [2], {"level": "a"})
    t.table.row_delta(deletes=[old])
    t.check()
    new, after_the_delete = as_positions(t, a1, [2]), t.table
    with refused("deletes-kept"):
        after_the_delete.rewrite(remove_deletes=[old])

    def convert() -> None:
        after_the_delete.rewrite(remove_deletes=[old], add_deletes=[new], referenced_files=[a2])

    def compact() -> None:
        before_the_delete.rewrite([a1, a2], [compacted])

    if first == "conversion":
        convert()
        t.pyiceberg_reads = True
        t.check()
        with refused("no-new-deletes-for-files"):
            compact()
    else:
        compact()
        with refused("deletes-kept"):
            convert()
        t.drop(a1, a2)
        t.adopt(compacted)
        t.files[compacted] = [row for row in t.files[compacted] if row[1] != 2]
    t.check()


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_deletes_that_spark_wrote_apply_below_our_operations(spark: Any, make: Any, version: int) -> None:
    """Position delete files in version 2, deletion vectors in version 3."""
    t = make(version, ["level"], write_delete_mode="merge-on-read")
    a1, a2 = t.write(numbered("a", range(6))), t.write(numbered("a", range(6, 12)))
    b1 = t.write(numbered("b", range(20, 26)))
    t.table.append(t.adopt(a1, a2, b1))
    spark.sql(f"DELETE FROM {t.name} WHERE id IN (0, 7, 21)")
    for location, rows in t.files.items():
        t.files[location] = [row for row in rows if row[1] not in (0, 7, 21)]
    assert t.live(FileContent.POSITION_DELETES)
    t.check()
    stale = t.table
    spark.sql(f"DELETE FROM {t.name} WHERE id = 1")
    t.files[a1] = [row for row in t.files[a1] if row[1] != 1]
    compacted = t.write(numbered("a", [1, 2, 3, 4, 5]))
    with refused("no-new-deletes-for-files"):
        stale.rewrite([a1], [compacted])
    t.check()
    again = t.write(numbered("a", [2, 3, 4, 5]), moved=True)
    t.table.rewrite(t.drop(a1), t.adopt(again))
    t.check()
    t.table.delete_files(t.drop(b1))
    t.check()
    t.table.rewrite_manifests()
    t.check()
    fresh = t.write(numbered("a", [100, 101]))
    t.table.replace_partitions([fresh])
    t.drop(a2, again)
    t.adopt(fresh)
    t.check()


def twins(make: Any, version: int) -> tuple[BesideModel, BesideModel, dict[str, str]]:
    """Two equal tables; the second one's files by those of the first."""
    ours, theirs = make(version, ["level"], "ours"), make(version, ["level"], "theirs")
    same = {}
    for rows in (numbered("a", range(3)), numbered("a", range(3, 6)), numbered("b", range(10, 13))):
        same[ours.write(rows)] = theirs.write(rows)
        for each, location in ((ours, list(same)[-1]), (theirs, list(same.values())[-1])):
            each.table.append(each.adopt(location))
    return ours, theirs, same


def overwrite_partitions(spark: Any, table: BesideModel, values: str) -> None:
    """A dynamic overwrite by SQL."""
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(f"INSERT OVERWRITE {table.name} VALUES {values}")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def compare(ours: BesideModel, theirs: BesideModel) -> None:
    assert ours.content() == theirs.content()
    assert ours.counts() == theirs.counts()


@pytest.mark.parametrize("version", VERSIONS)
def test_sparks_sql_gives_a_twin_table_the_same_files_and_counts(spark: Any, make: Any, version: int) -> None:
    ours, theirs, _ = twins(make, version)
    compare(ours, theirs)
    a1, a2, b1 = ours.files
    call = "CALL spark_catalog.system"

    whole = ours.write(numbered("a", range(6)), moved=True)
    ours.table.rewrite(ours.drop(a1, a2), ours.adopt(whole))
    options = "map('min-input-files', '2')"
    spark.sql(f"{call}.rewrite_data_files(table => '{theirs.name}', options => {options})")
    compare(ours, theirs)

    ours.table.rewrite_manifests()
    spark.sql(f"{call}.rewrite_manifests('{theirs.name}')")
    assert ours.content() == theirs.content()

    fresh = ours.write(numbered("b", [50, 51]))
    ours.table.replace_partitions([fresh])
    ours.drop(b1)
    ours.adopt(fresh)
    overwrite_partitions(spark, theirs, "(50, 'b', 'row 50'), (51, 'b', 'row 51')")
    compare(ours, theirs)

    ours.table.delete_files(ours.drop(fresh))
    spark.sql(f"DELETE FROM {theirs.name} WHERE level = 'b'")
    compare(ours, theirs)

    again = ours.write(numbered("c", [60, 61, 62]))
    ours.table.append(ours.adopt(again))
    values = ", ".join(f"({each}, 'c', 'row {each}')" for each in (60, 61, 62))
    spark.sql(f"INSERT INTO {theirs.name} VALUES {values}")
    compare(ours, theirs)
    new = ours.write(numbered("c", [63]))
    ours.table.overwrite([new], "level = 'c'")
    ours.drop(again)
    ours.adopt(new)
    spark.sql(f"INSERT OVERWRITE {theirs.name} PARTITION (level = 'c') VALUES (63, 'row 63')")
    compare(ours, theirs)
    ours.table.delete("level = 'c'")
    ours.drop(new)
    spark.sql(f"DELETE FROM {theirs.name} WHERE level = 'c'")
    compare(ours, theirs)

    ours.table.update_schema().add_column("score", "double").rename_column("name", "label").commit()
    spark.sql(f"ALTER TABLE {theirs.name} ADD COLUMN score double")
    spark.sql(f"ALTER TABLE {theirs.name} RENAME COLUMN name TO label")
    ours.table.update_spec().add_field("id", "bucket[4]").commit()
    spark.sql(f"ALTER TABLE {theirs.name} ADD PARTITION FIELD bucket(4, id)")
    row = {"id": 70, "level": "q", "label": "mixed", "score": 1.5}
    ours.table.append(ours.adopt(ours.write([row])))
    spark.sql(f"INSERT INTO {theirs.name} VALUES (70, 'q', 'mixed', 1.5)")
    compare(ours, theirs)

    ours.table.update_spec().remove_field("id_bucket_4").commit()
    spark.sql(f"ALTER TABLE {theirs.name} DROP PARTITION FIELD id_bucket_4")
    row = {"id": 80, "level": "a", "label": "over", "score": 2.5}
    over = ours.write([row])
    ours.table.replace_partitions([over])
    if version > 1:
        ours.drop(whole)
    ours.adopt(over)
    overwrite_partitions(spark, theirs, "(80, 'a', 'over', 2.5)")
    compare(ours, theirs)
    left, right = ours.table.metadata, theirs.table.metadata
    assert left.schema.same_as(right.schema)
    assert [spec.raw for spec in left.specs] == [spec.raw for spec in right.specs]
    ours.check()
