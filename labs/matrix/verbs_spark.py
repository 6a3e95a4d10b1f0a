"""Spark 4.1 with Iceberg 1.11 through its REST catalog.

Sources, below org/apache/iceberg/spark/source: an INSERT and a MERGE that only inserts (Spark's RewriteMergeIntoTable
makes an append of it) are `SparkWrite.BatchAppend`, which validates nothing. Copy-on-write commands are
`SparkWrite.CopyOnWriteOperation`, merge-on-read ones `SparkPositionDeltaWrite`; both validate, serializable by default.
An overwrite validates only what the write options `isolation-level` and `validate-from-snapshot-id` ask for, but it
takes rows away anew on each attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from labs.matrix import rows
from labs.matrix.rows import BASE, BLIND, NEW_DAY, NEW_ID, SERIALIZABLE, Effect, Meaning, Row, new_row
from labs.matrix.verb import Run, Verb
from labs.matrix.writers import COLUMNS, Writer

_BATCH_APPEND = "SparkWrite.java: BatchAppend calls newAppend() and validates nothing"
_OVERWRITE = "SparkWrite.java: OverwriteByFilter and DynamicOverwrite remove what is there at each attempt"
_ROW_LEVEL = "SparkWrite.java: CopyOnWriteOperation; SparkPositionDeltaWrite.java: commit(messages, summary)"
_CHERRY_PICK = "CherryPickOperation.java: what is staged is applied to the head of each attempt"

COPY_ON_WRITE, MERGE_ON_READ = "copy-on-write", "merge-on-read"
STREAM_SECONDS = 60


def _sql(statement: str) -> Run:
    """`{t}` is the table, `{who}` the writer, `{p}` its catalog, `{n}` the table's name without it."""

    def run(writer: Writer, table: str) -> None:
        text = statement.format(t=f"{writer.place}.{table}", who=writer.who, p=writer.place, n=table)
        writer.spark.sql(text).collect()

    return run


def _with(key: str, value: str, run: Run) -> Run:
    """With a setting of the session."""

    def with_setting(writer: Writer, table: str) -> None:
        writer.spark.conf.set(key, value.format(who=writer.who))
        try:
            run(writer, table)
        finally:
            writer.spark.conf.unset(key)

    return with_setting


def _frame(writer: Writer) -> Any:
    return writer.spark.createDataFrame([tuple(new_row(writer.who))], COLUMNS)


def _write_to(end: Callable[[Any], object]) -> Run:
    return lambda writer, table: end(_frame(writer).writeTo(f"{writer.place}.{table}"))


def _where(condition: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(condition)


def _compare_and_append(writer: Writer, table: str) -> None:
    head = writer.world.catalog.load_table(table).metadata.current_snapshot.snapshot_id
    options = {"isolation-level": "serializable", "validate-from-snapshot-id": str(head)}
    to = _frame(writer).writeTo(f"{writer.place}.{table}")
    for key, value in options.items():
        to = to.option(key, value)
    to.overwrite(_where("false"))


def _stream(mode: str) -> Run:
    def run(writer: Writer, table: str) -> None:
        source, checkpoint = writer.world.new_folder(), writer.world.new_folder()
        _frame(writer).write.parquet(str(source))
        stream = writer.spark.readStream.schema(COLUMNS).parquet(str(source))
        if mode == "complete":
            stream = stream.groupBy("id", "name", "day").count().drop("count")
        to = stream.writeStream.format("iceberg").outputMode(mode).option("checkpointLocation", str(checkpoint))
        query = to.trigger(availableNow=True).toTable(f"{writer.place}.{table}")
        if not query.awaitTermination(STREAM_SECONDS):
            query.stop()
            raise TimeoutError(f"a stream took more than {STREAM_SECONDS} seconds")

    return run


def _add_files(writer: Writer, table: str) -> None:
    folder = writer.world.new_folder()
    _frame(writer).write.partitionBy("day").parquet(str(folder))
    _sql(f"CALL {{p}}.system.add_files(table => '{{n}}', source_table => '`parquet`.`{folder}`')")(writer, table)


_INSERT = _sql(f"INSERT INTO {{t}} VALUES ({NEW_ID}, '{{who}}', '{NEW_DAY}')")
_STAGE = _with("spark.wap.id", "wap-{who}", _INSERT)


def _stage_and_move(writer: Writer, table: str) -> None:
    """Two staged changes, and a head that neither was made on."""
    _STAGE(writer, table)
    writer.world.catalog.load_table(table).append([f"file:{writer.world.file(Row(4, 'old', 'd2'))}"])


def _cherry_pick(writer: Writer, table: str) -> None:
    snapshots = writer.world.catalog.load_table(table).metadata.snapshots
    [staged] = [each for each in snapshots if each.summary.get("wap.id") == f"wap-{writer.who}"]
    _sql(f"CALL {{p}}.system.cherrypick_snapshot('{{n}}', {staged.snapshot_id})")(writer, table)


def _verb(name: str, run: Run, effect: Effect, promise: str, source: str, **more: Any) -> Verb:
    return Verb(f"Spark {name}", run, Meaning(effect, promise, source), client="spark", **more)


def _merge(source: Row, *clauses: str) -> Run:
    made = f"SELECT {source.id}L AS id, '{{who}}' AS name, '{source.day}' AS day"
    return _sql(f"MERGE INTO {{t}} t USING ({made}) s ON t.id = s.id {' '.join(clauses)}")


_NEW, _OLD = new_row(""), BASE[0]
_MATCHED, _DELETE = "WHEN MATCHED THEN UPDATE SET *", "WHEN MATCHED AND t.id = 2 THEN DELETE"
_NOT_MATCHED = "WHEN NOT MATCHED THEN INSERT *"


def _row_level(mode: str) -> list[Verb]:
    """MERGE, UPDATE and DELETE in one mode."""
    properties: Mapping[str, str] = {f"write.{command}.mode": mode for command in ("merge", "update", "delete")}

    def verb(name: str, run: Run, effect: Effect, promise: str = SERIALIZABLE, source: str = _ROW_LEVEL) -> Verb:
        return _verb(f"{name}, {mode}", run, effect, promise, source, properties=properties)

    upsert, update = rows.upsert(NEW_ID), rows.update(1)
    return [
        verb("MERGE insert of a new key", _merge(_NEW, _NOT_MATCHED), rows.add_if_absent, BLIND, _BATCH_APPEND),
        verb("MERGE update + insert of a new key", _merge(_NEW, _MATCHED, _NOT_MATCHED), upsert),
        verb("MERGE update + insert of a key that is there", _merge(_OLD, _MATCHED, _NOT_MATCHED), update),
        verb("MERGE update + delete + insert of a new key", _merge(_NEW, _DELETE, _MATCHED, _NOT_MATCHED), upsert),
        verb(
            "MERGE update + delete + insert of a key that is there",
            _merge(_OLD, _DELETE, _MATCHED, _NOT_MATCHED),
            update,
        ),
        verb("UPDATE of one row", _sql("UPDATE {t} SET name = '{who}' WHERE id = 1"), update),
        verb("UPDATE, no row matches", _sql("UPDATE {t} SET name = '{who}' WHERE id = 77"), rows.nothing),
        verb("DELETE of one row", _sql("DELETE FROM {t} WHERE id = 1"), rows.delete(lambda row: row.id == 1)),
        verb("DELETE, no row matches", _sql("DELETE FROM {t} WHERE id = 77"), rows.nothing),
    ]


_EMPTY_DAY = rows.replace(lambda row: row.day == NEW_DAY)
_ALL = rows.replace(lambda _row: True)
_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
_WAP: Mapping[str, Any] = {"properties": {"write.wap.enabled": "true"}}
_AS = f"USING iceberg PARTITIONED BY (day) AS SELECT {NEW_ID}L AS id, '{{who}}' AS name, '{NEW_DAY}' AS day"

VERBS = (
    _verb("INSERT", _INSERT, rows.add, BLIND, _BATCH_APPEND),
    _verb("writeTo append", _write_to(lambda to: to.append()), rows.add, BLIND, _BATCH_APPEND),
    _verb(
        "INSERT OVERWRITE of an empty partition, static",
        _sql(f"INSERT OVERWRITE {{t}} PARTITION (day = '{NEW_DAY}') SELECT {NEW_ID}L, '{{who}}'"),
        _EMPTY_DAY,
        SERIALIZABLE,
        _OVERWRITE,
    ),
    _verb(
        "INSERT OVERWRITE of the table, static",
        _sql(f"INSERT OVERWRITE {{t}} VALUES ({NEW_ID}, '{{who}}', '{NEW_DAY}')"),
        _ALL,
        SERIALIZABLE,
        _OVERWRITE,
    ),
    _verb(
        "INSERT OVERWRITE of an empty partition, dynamic",
        _with(_DYNAMIC, "dynamic", _sql(f"INSERT OVERWRITE {{t}} VALUES ({NEW_ID}, '{{who}}', '{NEW_DAY}')")),
        _EMPTY_DAY,
        SERIALIZABLE,
        _OVERWRITE,
    ),
    _verb(
        "INSERT OVERWRITE of a partition with rows, dynamic",
        _with(_DYNAMIC, "dynamic", _sql(f"INSERT OVERWRITE {{t}} VALUES ({NEW_ID}, '{{who}}', 'd0')")),
        rows.replace(lambda row: row.day == "d0", day="d0"),
        SERIALIZABLE,
        _OVERWRITE,
    ),
    _verb(
        "writeTo overwrite of an empty partition",
        _write_to(lambda to: to.overwrite(_where(f"day = '{NEW_DAY}'"))),
        _EMPTY_DAY,
        SERIALIZABLE,
        _OVERWRITE,
    ),
    _verb(
        "writeTo overwrite where false, validated",
        _compare_and_append,
        rows.add_if_absent,
        SERIALIZABLE,
        "BaseOverwriteFiles.java: operation() is append, dataConflictDetectionFilter() is every row",
    ),
    _verb(
        "writeTo overwritePartitions of an empty partition",
        _write_to(lambda to: to.overwritePartitions()),
        _EMPTY_DAY,
        SERIALIZABLE,
        _OVERWRITE,
    ),
    *_row_level(COPY_ON_WRITE),
    *_row_level(MERGE_ON_READ),
    _verb(
        "DELETE of a partition",
        _sql("DELETE FROM {t} WHERE day = 'd0'"),
        rows.delete(lambda row: row.day == "d0"),
        SERIALIZABLE,
        "SparkTable.java: deleteWhere() removes what is there at each attempt",
    ),
    _verb("CTAS", _sql(f"CREATE TABLE {{t}} {_AS}"), rows.add, SERIALIZABLE, "assert-create", creates=True),
    _verb("RTAS", _sql(f"CREATE OR REPLACE TABLE {{t}} {_AS}"), _ALL, SERIALIZABLE, "it reads nothing"),
    _verb("stream, append", _stream("append"), rows.add, BLIND, "SparkWrite.java: StreamingAppend"),
    _verb("stream, complete", _stream("complete"), _ALL, SERIALIZABLE, "SparkWrite.java: StreamingOverwrite"),
    _verb("add_files", _add_files, rows.add, BLIND, "SparkTableUtil.java: newAppend()"),
    _verb("INSERT with wap.id", _STAGE, rows.nothing, BLIND, _BATCH_APPEND, **_WAP),
    _verb(
        "publish_changes on the head it was staged on",
        _sql("CALL {p}.system.publish_changes('{n}', 'wap-{who}')"),
        rows.add,
        BLIND,
        _CHERRY_PICK,
        prepare=_STAGE,
        **_WAP,
    ),
    _verb(
        "publish_changes on a later head",
        _sql("CALL {p}.system.publish_changes('{n}', 'wap-{who}')"),
        rows.add,
        BLIND,
        _CHERRY_PICK,
        prepare=_stage_and_move,
        **_WAP,
    ),
    _verb("cherrypick_snapshot", _cherry_pick, rows.add, BLIND, _CHERRY_PICK, prepare=_stage_and_move, **_WAP),
    _verb(
        "rewrite_data_files",
        _sql("CALL {p}.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))"),
        rows.nothing,
        SERIALIZABLE,
        "BaseRewriteFiles.java: what it rewrites must be there",
    ),
)
