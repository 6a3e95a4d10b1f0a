"""Branches, tags, rollback, cherry-pick and write-audit-publish beside Spark.

Spark does the same by SQL to a twin table: refs, log and history must be equal, apart from ids and times. Then what one
of them staged the other publishes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from integration.spark_statements import outcome

VERSIONS = [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]

Operation = Callable[[Any, list[int]], object]


@dataclass(frozen=True)
class Step:
    """ours: with a table and its snapshots in the order of their making. sql: the same in Spark; {t} is the table, {0}
    its first snapshot, and {after_1} a moment after the second one."""

    ours: Operation
    sql: str


def _after(table: Any, snapshot_id: int) -> int:
    return int(table.snapshot_by_id(snapshot_id).timestamp_ms) + 1


STEPS = [
    Step(lambda table, _: table.create_branch("audit"), "ALTER TABLE {t} CREATE BRANCH audit"),
    Step(
        lambda table, ids: table.create_branch(
            "kept",
            ids[0],
            min_snapshots_to_keep=3,
            max_snapshot_age_ms=172_800_000,
            max_ref_age_ms=86_400_000,
        ),
        "ALTER TABLE {t} CREATE BRANCH kept AS OF VERSION {0} RETAIN 1 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS",
    ),
    Step(lambda table, ids: table.create_tag("eod", ids[1]), "ALTER TABLE {t} CREATE TAG eod AS OF VERSION {1}"),
    Step(
        lambda table, _: table.create_tag("now", max_ref_age_ms=86_400_000),
        "ALTER TABLE {t} CREATE TAG now RETAIN 1 DAYS",
    ),
    Step(
        lambda table, ids: table.replace_branch("kept", ids[1]),
        "ALTER TABLE {t} REPLACE BRANCH kept AS OF VERSION {1}",
    ),
    Step(lambda table, ids: table.replace_tag("eod", ids[0]), "ALTER TABLE {t} REPLACE TAG eod AS OF VERSION {0}"),
    Step(
        lambda table, _: table.set_branch_retention("audit", min_snapshots_to_keep=5),
        "ALTER TABLE {t} REPLACE BRANCH audit AS OF VERSION {2} WITH SNAPSHOT RETENTION 5 SNAPSHOTS",
    ),
    Step(
        lambda table, ids: table.rollback_to_snapshot(ids[0]),
        "CALL spark_catalog.system.rollback_to_snapshot('{t}', {0})",
    ),
    Step(
        lambda table, ids: table.set_current_snapshot(ids[2]),
        "CALL spark_catalog.system.set_current_snapshot('{t}', {2})",
    ),
    Step(
        lambda table, _: table.set_current_snapshot(ref_name="kept"),
        "CALL spark_catalog.system.set_current_snapshot(table => '{t}', ref => 'kept')",
    ),
    Step(
        lambda table, _: table.fast_forward("main", "audit"),
        "CALL spark_catalog.system.fast_forward(table => '{t}', branch => 'main', to => 'audit')",
    ),
    Step(
        lambda table, ids: table.rollback_to_timestamp(_after(table, ids[1])),
        "CALL spark_catalog.system.rollback_to_timestamp('{t}', TIMESTAMP '{after_1}')",
    ),
    Step(lambda table, ids: table.cherry_pick(ids[2]), "CALL spark_catalog.system.cherrypick_snapshot('{t}', {2})"),
    Step(
        lambda table, ids: table.rollback_to_snapshot(ids[0]),
        "CALL spark_catalog.system.rollback_to_snapshot('{t}', {0})",
    ),
    Step(lambda table, ids: table.cherry_pick(ids[2]), "CALL spark_catalog.system.cherrypick_snapshot('{t}', {2})"),
    Step(lambda table, _: table.remove_branch("kept"), "ALTER TABLE {t} DROP BRANCH kept"),
    Step(lambda table, _: table.remove_tag("now"), "ALTER TABLE {t} DROP TAG now"),
]


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as made:
        yield made


def rows(spark: Any, statement: str) -> list[str]:
    """Sorted. What Spark refuses fails the test."""
    found = outcome(spark, statement)
    assert found.error is None, (statement, found)
    return found.rows


def filled(spark: Any, name: str, version: int, **properties: str) -> None:
    """A table with three snapshots, each of one row."""
    given = ", ".join(f"'{key}' = '{value}'" for key, value in {"format-version": str(version), **properties}.items())
    spark.sql(f"CREATE TABLE {name} (a INT) USING iceberg TBLPROPERTIES ({given})")
    for number in (1, 2, 3):
        spark.sql(f"INSERT INTO {name} VALUES ({number})")


def in_order(metadata: TableMetadata) -> list[int]:
    return [each.snapshot_id for each in metadata.snapshots]


def shape(metadata: TableMetadata) -> dict[str, Any]:
    """Refs, log, history and operations, with snapshots by the order of their making."""
    at = {id_: number for number, id_ in enumerate(in_order(metadata))}
    refs = {
        name: (at[ref.snapshot_id], ref.type, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
        for name, ref in metadata.refs.items()
    }
    snapshots = [
        (
            None if each.parent_snapshot_id is None else at[each.parent_snapshot_id],
            each.operation,
            at.get(int(each.summary.get("source-snapshot-id", "-1"))),
            each.summary.get("published-wap-id"),
            each.summary.get("total-records"),
            each.sequence_number,
            each.first_row_id,
            each.added_rows,
        )
        for each in metadata.snapshots
    ]
    return {"refs": refs, "log": [at[entry["snapshot-id"]] for entry in metadata.snapshot_log], "snapshots": snapshots}


def utc(timestamp_ms: int) -> str:
    """For SQL: the sessions are in UTC."""
    return datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def check_seen_by_spark(spark: Any, table: Any) -> None:
    """Spark's metadata tables and time travel say what our table object says."""
    name, metadata = str(table.name()), table.metadata
    assert rows(spark, f"SELECT name, type, snapshot_id FROM {name}.refs") == sorted(
        str((ref_name, ref.type.upper(), ref.snapshot_id)) for ref_name, ref in table.refs().items()
    )
    assert rows(spark, f"SELECT snapshot_id, parent_id FROM {name}.snapshots") == sorted(
        str((each.snapshot_id, each.parent_snapshot_id)) for each in table.snapshots()
    )
    current = {each.snapshot_id for each in table.ancestors()}
    assert rows(spark, f"SELECT snapshot_id, is_current_ancestor FROM {name}.history") == sorted(
        str((entry.snapshot_id, entry.snapshot_id in current)) for entry in table.history()
    )
    for ref_name, ref in table.refs().items():
        by_name = rows(spark, f"SELECT * FROM {name} VERSION AS OF '{ref_name}'")
        assert by_name == rows(spark, f"SELECT * FROM {name} VERSION AS OF {ref.snapshot_id}")
        if ref_name == "main":
            assert by_name == rows(spark, f"SELECT * FROM {name}")
    for entry in metadata.snapshot_log:
        at = entry["timestamp-ms"]
        found = table.snapshot_as_of_timestamp(at).snapshot_id
        assert rows(spark, f"SELECT * FROM {name} TIMESTAMP AS OF '{utc(at)}'") == rows(
            spark, f"SELECT * FROM {name} VERSION AS OF {found}"
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_each_operation_leaves_what_spark_leaves_and_spark_reads_it(
    spark: Any, catalog: Any, namespace: str, version: int
) -> None:
    ours, theirs = f"{namespace}.ours", f"{namespace}.theirs"
    for name in (ours, theirs):
        filled(spark, name, version)
    table, twin = catalog.load_table(ours), catalog.load_table(theirs)
    assert shape(table.metadata) == shape(twin.metadata)
    for step in STEPS:
        ids = in_order(twin.metadata)
        rows(spark, step.sql.format(*ids, t=theirs, after_1=utc(_after(twin, ids[1]))))
        step.ours(table, in_order(table.metadata))
        assert shape(table.metadata) == shape(twin.refresh().metadata), step.sql
    check_seen_by_spark(spark, table)
    assert rows(spark, f"SELECT * FROM {ours}") == rows(spark, f"SELECT * FROM {theirs}") == ["(1,)", "(3,)"]
    spark.sql(f"INSERT INTO {ours} VALUES (9)")
    assert rows(spark, f"SELECT * FROM {ours}") == ["(1,)", "(3,)", "(9,)"]


@pytest.mark.slow
def test_what_spark_refuses_we_refuse(spark: Any, catalog: Any, namespace: str) -> None:
    name = f"{namespace}.t"
    filled(spark, name, 2)
    table = catalog.load_table(name)
    first, second, third = in_order(table.metadata)
    table.rollback_to_snapshot(first)
    spark.sql(f"INSERT INTO {name} VALUES (4)")
    table.refresh().create_tag("eod")
    before = table.metadata_location
    system = "CALL spark_catalog.system"
    refused: dict[str, Callable[[], object]] = {
        f"{system}.rollback_to_snapshot('{name}', {third})": lambda: table.rollback_to_snapshot(third),
        f"{system}.rollback_to_snapshot('{name}', 7)": lambda: table.rollback_to_snapshot(7),
        f"{system}.rollback_to_timestamp('{name}', TIMESTAMP '2001-01-01')": lambda: table.rollback_to_timestamp(1),
        f"{system}.cherrypick_snapshot('{name}', {first})": lambda: table.cherry_pick(first),
        f"{system}.cherrypick_snapshot('{name}', 7)": lambda: table.cherry_pick(7),
        f"{system}.publish_changes('{name}', 'unknown')": lambda: table.publish_changes("unknown"),
        f"ALTER TABLE {name} CREATE BRANCH eod": lambda: table.create_branch("eod"),
        f"ALTER TABLE {name} CREATE TAG x AS OF VERSION 7": lambda: table.create_tag("x", 7),
        f"ALTER TABLE {name} DROP BRANCH missing": lambda: table.remove_branch("missing"),
    }
    for statement, call in refused.items():
        assert outcome(spark, statement).error is not None, statement
        with pytest.raises(RequirementFailed):
            call()
    assert table.refresh().metadata_location == before
    assert table.snapshot_by_id(second) is not None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("moved", [False, True], ids=["next", "main moved"])
@pytest.mark.slow
def test_what_spark_staged_we_publish(spark: Any, catalog: Any, namespace: str, version: int, moved: bool) -> None:
    name = f"{namespace}.t"
    filled(spark, name, version, **{"write.wap.enabled": "true"})
    stage_by_spark(spark, name, "nightly", 4)
    assert rows(spark, f"SELECT count(*) FROM {name}") == ["(3,)"]
    if moved:
        spark.sql(f"INSERT INTO {name} VALUES (5)")
    table = catalog.load_table(name)
    report = table.publish_changes("nightly")
    assert bool(report.snapshot_ids) == moved
    assert rows(spark, f"SELECT * FROM {name} ORDER BY a") == [f"({n},)" for n in (1, 2, 3, 4, *([5] if moved else []))]
    check_seen_by_spark(spark, table)
    assert outcome(spark, f"CALL spark_catalog.system.publish_changes('{name}', 'nightly')").error is not None
    with pytest.raises(RequirementFailed):
        table.publish_changes("nightly")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("moved", "by"), [(False, "publish_changes"), (True, "publish_changes"), (True, "cherrypick_snapshot")]
)
def test_what_we_staged_spark_publishes(
    spark: Any, catalog: Any, namespace: str, version: int, moved: bool, by: str
) -> None:
    name = f"{namespace}.t"
    filled(spark, name, version)
    table = catalog.load_table(name)
    file = new_file(spark, namespace)
    (staged,) = table.append([file], wap_id="nightly").snapshot_ids
    assert rows(spark, f"SELECT count(*) FROM {name}") == ["(3,)"]
    assert rows(spark, f"SELECT * FROM {name} VERSION AS OF {staged}") == ["(1,)", "(2,)", "(3,)", "(77,)"]
    if moved:
        spark.sql(f"INSERT INTO {name} VALUES (5)")
    what = "'nightly'" if by == "publish_changes" else str(staged)
    rows(spark, f"CALL spark_catalog.system.{by}('{name}', {what})")
    assert rows(spark, f"SELECT count(*) FROM {name} WHERE a = 77") == ["(1,)"]
    for refused in (lambda: table.refresh().publish_changes("nightly"), lambda: table.cherry_pick(staged)):
        with pytest.raises(RequirementFailed):
            refused()
    check_seen_by_spark(spark, table.refresh())


@pytest.mark.slow
def test_a_dynamic_overwrite_that_spark_staged_is_picked_beside_other_partitions(
    spark: Any, catalog: Any, namespace: str
) -> None:
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (a INT, p STRING) USING iceberg PARTITIONED BY (p) "
        "TBLPROPERTIES ('write.wap.enabled' = 'true')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')")
    for wap_id in ("first", "second"):
        spark.conf.set("spark.wap.id", wap_id)
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        try:
            spark.sql(f"INSERT OVERWRITE {name} VALUES (10, 'x')")
        finally:
            spark.conf.unset("spark.wap.id")
            spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    spark.sql(f"INSERT INTO {name} VALUES (3, 'y')")
    table = catalog.load_table(name)
    table.publish_changes("first")
    assert rows(spark, f"SELECT * FROM {name}") == ["(10, 'x')", "(2, 'y')", "(3, 'y')"]
    with pytest.raises(RequirementFailed, match="overwrote partition p=x"):
        table.publish_changes("second")
    refused = outcome(spark, f"CALL spark_catalog.system.publish_changes('{name}', 'second')")
    assert refused.error is not None
    assert "changed partition" in refused.message


@pytest.mark.slow
def test_a_dynamic_overwrite_that_we_staged_spark_picks_beside_other_partitions(
    spark: Any, catalog: Any, namespace: str
) -> None:
    name, source = f"{namespace}.t", f"{namespace}.source"
    for each in (name, source):
        spark.sql(f"CREATE TABLE {each} (a INT, p STRING) USING iceberg PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')")
    spark.sql(f"INSERT INTO {source} VALUES (10, 'x')")
    file = str(spark.sql(f"SELECT file_path FROM {source}.files").collect()[0][0])
    table = catalog.load_table(name)
    table.replace_partitions([file], wap_id="nightly")
    spark.sql(f"INSERT INTO {name} VALUES (3, 'y')")
    rows(spark, f"CALL spark_catalog.system.publish_changes('{name}', 'nightly')")
    assert rows(spark, f"SELECT * FROM {name}") == ["(10, 'x')", "(2, 'y')", "(3, 'y')"]
    check_seen_by_spark(spark, table.refresh())


@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True], ids=["next", "main moved"])
@pytest.mark.parametrize("what", ["overwrite", "delete_files", "rewrite"])
def test_what_else_we_staged_spark_publishes_if_it_is_the_next_one(
    spark: Any, catalog: Any, namespace: str, what: str, moved: bool
) -> None:
    name = f"{namespace}.t"
    first = new_file(spark, namespace)
    spark.sql(f"INSERT INTO {namespace}.source VALUES (77)")
    both = {str(row[0]) for row in spark.sql(f"SELECT file_path FROM {namespace}.source.files").collect()}
    (second,) = both - {first}
    spark.sql(f"CREATE TABLE {name} (a INT) USING iceberg")
    table = catalog.load_table(name)
    table.append([first])
    match what:
        case "overwrite":
            table.delete("true", wap_id="nightly")
        case "delete_files":
            table.delete_files([first], wap_id="nightly")
        case _:
            table.rewrite([first], [second], wap_id="nightly")
    assert rows(spark, f"SELECT * FROM {name}") == ["(77,)"]
    if moved:
        spark.sql(f"INSERT INTO {name} VALUES (5)")
        refused = outcome(spark, f"CALL spark_catalog.system.publish_changes('{name}', 'nightly')")
        assert "not append, dynamic overwrite, or fast-forward" in refused.message
        with pytest.raises(RequirementFailed, match="neither an append nor a dynamic partition overwrite"):
            table.refresh().publish_changes("nightly")
    else:
        rows(spark, f"CALL spark_catalog.system.publish_changes('{name}', 'nightly')")
        assert rows(spark, f"SELECT * FROM {name}") == (["(77,)"] if what == "rewrite" else [])
        check_seen_by_spark(spark, table.refresh())


@pytest.mark.slow
def test_a_branch_is_written_by_spark_audited_by_us_and_published(spark: Any, catalog: Any, namespace: str) -> None:
    name = f"{namespace}.t"
    filled(spark, name, 2)
    table = catalog.load_table(name)
    table.create_branch("audit")
    spark.sql(f"INSERT INTO {name}.branch_audit VALUES (4)")
    with pytest.raises(RequirementFailed, match="branch audit has moved"):
        table.fast_forward("main", "audit")
    table.refresh().fast_forward("main", "audit")
    assert rows(spark, f"SELECT * FROM {name}") == ["(1,)", "(2,)", "(3,)", "(4,)"]
    spark.sql(f"INSERT INTO {name} VALUES (5)")
    table.rename_branch("audit", "checked")
    assert rows(spark, f"SELECT * FROM {name} VERSION AS OF 'checked'") == ["(1,)", "(2,)", "(3,)", "(4,)"]
    table.refresh()
    check_seen_by_spark(spark, table)


def stage_by_spark(spark: Any, name: str, wap_id: str, number: int) -> None:
    spark.conf.set("spark.wap.id", wap_id)
    try:
        spark.sql(f"INSERT INTO {name} VALUES ({number})")
    finally:
        spark.conf.unset("spark.wap.id")


def new_file(spark: Any, namespace: str) -> str:
    """A data file with the row 77, of a table of its own."""
    spark.sql(f"CREATE TABLE {namespace}.source (a INT) USING iceberg")
    spark.sql(f"INSERT INTO {namespace}.source VALUES (77)")
    return str(spark.sql(f"SELECT file_path FROM {namespace}.source.files").collect()[0][0])
