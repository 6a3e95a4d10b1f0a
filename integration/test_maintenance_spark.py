"""Expiring snapshots and removing orphan files beside Spark's procedures: on copies of one table the same goes.

Spark calls Java's ExpireSnapshots and DeleteOrphanFiles.
"""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.catalog.table import Table
from iceberg_hms.format.locations import file_key
from integration.spark_statements import outcome

VERSIONS = [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]

#: Columns of Spark's answer to expire_snapshots.
COUNTED = {
    "deleted_data_files_count": "data",
    "deleted_position_delete_files_count": "position-deletes",
    "deleted_equality_delete_files_count": "equality-deletes",
    "deleted_manifest_files_count": "manifest",
    "deleted_manifest_lists_count": "manifest-list",
    "deleted_statistics_files_count": "statistics",
}


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as made:
        yield made


def run(spark: Any, *statements: str) -> None:
    for statement in statements:
        found = outcome(spark, statement)
        assert found.error is None, (statement, found)


def filled(spark: Any, name: str, version: int) -> None:
    """Inserts, deletes, an update by position deletes, a branch, a tag, a rollback and a cherry-pick."""
    merge = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update")) if version > 1 else ""
    properties = f"'format-version' = '{version}'" + (f", {merge}" if merge else "")
    run(
        spark,
        f"CREATE TABLE {name} (a INT, b STRING) USING iceberg PARTITIONED BY (b) TBLPROPERTIES ({properties})",
        *(f"INSERT INTO {name} VALUES ({number}, 'x'), ({number}, 'y')" for number in range(4)),
        f"ALTER TABLE {name} CREATE BRANCH audit",
        f"INSERT INTO {name}.branch_audit VALUES (10, 'z')",
        f"DELETE FROM {name} WHERE a = 1",
        f"ALTER TABLE {name} CREATE TAG eod RETAIN 1 DAYS",
        f"UPDATE {name} SET a = 20 WHERE a = 2",
        f"INSERT OVERWRITE {name} VALUES (30, 'x')",
    )


def in_order(table: Table) -> list[int]:
    return [each.snapshot_id for each in table.snapshots()]


def files_below(table: Table) -> set[str]:
    folder = Path(table.metadata.location.removeprefix("file:"))
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() and each.suffix != ".crc"}


def kinds(paths: set[str]) -> Counter[str]:
    """How many files there are of each folder and kind: their names are random."""

    def kind(path: str) -> str:
        folder, _, name = path.rpartition("/")
        return f"{folder}/{name.partition('-')[0] if name.startswith('snap-') else ''}{Path(name).suffix}"

    return Counter(map(kind, paths))


def later(table: Table, number: int) -> datetime.datetime:
    """Just after a snapshot was made."""
    made_at = table.snapshots()[number].timestamp_ms + 1
    return datetime.datetime.fromtimestamp(made_at / 1000, datetime.UTC)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "case", ["all", *(pytest.param(each, marks=pytest.mark.slow) for each in ("time", "retain", "ids", "dropped-refs"))]
)
def test_the_same_snapshots_and_files_expire_as_with_spark(
    spark: Any, catalog: Any, namespace: str, version: int, case: str
) -> None:
    ours, theirs = f"{namespace}.ours", f"{namespace}.theirs"
    for name in (ours, theirs):
        filled(spark, name, version)
        if case == "dropped-refs":
            run(spark, f"ALTER TABLE {name} DROP BRANCH audit", f"ALTER TABLE {name} DROP TAG eod")
    table, twin = catalog.load_table(ours), catalog.load_table(theirs)
    made, twins = in_order(table), in_order(twin)
    before = files_below(table)
    assert (len(made), kinds(before)) == (len(twins), kinds(files_below(twin)))
    end, twins_end = later(table, -1), later(twin, -1)
    options: dict[str, Any] = {
        "all": {"older_than": end},
        "time": {"older_than": later(table, 3)},
        "retain": {"older_than": end, "retain_last": 3},
        "ids": {"snapshot_ids": made[1:3]},
        "dropped-refs": {"older_than": end},
    }[case]
    sql = {
        "all": f"older_than => TIMESTAMP '{twins_end:%Y-%m-%d %H:%M:%S.%f}'",
        "time": f"older_than => TIMESTAMP '{later(twin, 3):%Y-%m-%d %H:%M:%S.%f}'",
        "retain": f"older_than => TIMESTAMP '{twins_end:%Y-%m-%d %H:%M:%S.%f}', retain_last => 3",
        "ids": f"snapshot_ids => ARRAY({twins[1]}, {twins[2]})",
        "dropped-refs": f"older_than => TIMESTAMP '{twins_end:%Y-%m-%d %H:%M:%S.%f}'",
    }[case]
    report = table.expire_snapshots(**options)
    (answer,) = spark.sql(f"CALL spark_catalog.system.expire_snapshots(table => '{theirs}', {sql})").collect()
    twin.refresh()
    assert report.snapshot_ids
    left = [made.index(id_) for id_ in in_order(table)]
    assert left == [twins.index(id_) for id_ in in_order(twin)]
    assert set(table.refs()) == set(twin.refs())
    assert dict(report.files.counts) == {COUNTED[key]: n for key, n in answer.asDict().items() if n}
    assert kinds(files_below(table)) == kinds(files_below(twin))
    folder = file_key(table.metadata.location)
    deleted = {file_key(each).removeprefix(f"{folder}/") for each in report.files.locations}
    assert deleted == before - files_below(table)
    for name in ("main", *(each for each in table.refs() if each != "main")):
        one, other = (sorted(spark.sql(f"SELECT * FROM {t} VERSION AS OF '{name}'").collect()) for t in (ours, theirs))
        assert one == other


def test_the_same_files_are_orphans_as_with_spark(spark: Any, catalog: Any, namespace: str) -> None:
    name = f"{namespace}.t"
    filled(spark, name, 2)
    run(spark, f"ALTER TABLE {name} SET TBLPROPERTIES ('write.metadata.previous-versions-max' = '3')")
    table = catalog.load_table(name)
    folder = Path(table.metadata.location.removeprefix("file:"))
    for inner in (
        "data/orphan.parquet",
        "data/b=q/orphan.parquet",
        "metadata/orphan-m0.avro",
        "top",
        "_x/y",
        "data/.z",
    ):
        (folder / inner).parent.mkdir(exist_ok=True)
        (folder / inner).touch()
    (folder / "data" / "young").touch()
    for each in folder.rglob("*"):
        if each.is_file() and each.name != "young":
            os.utime(each, (1_600_000_000, 1_600_000_000))
    call = f"CALL spark_catalog.system.remove_orphan_files(table => '{name}', dry_run => true)"
    theirs = {row[0].removeprefix("file:") for row in spark.sql(call).collect()}
    report = table.remove_orphan_files(dry_run=True)
    ours = {each.removeprefix("file:") for each in report.files.locations}
    earlier = {each for each in theirs if each.endswith(".metadata.json")}
    assert earlier, "Spark takes metadata files for orphans that older logs lead to"
    assert ours == theirs - earlier
    assert {f"{folder}/{each}" for each in ("data/orphan.parquet", "top", "metadata/orphan-m0.avro")} <= ours
    before = sorted(spark.sql(f"SELECT * FROM {name}").collect())
    assert table.remove_orphan_files().files.failed == {}
    assert {row[0].removeprefix("file:") for row in spark.sql(call).collect()} == earlier
    spark.sql(f"REFRESH TABLE {name}")
    assert sorted(spark.sql(f"SELECT * FROM {name}").collect()) == before
