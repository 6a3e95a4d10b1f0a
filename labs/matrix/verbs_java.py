"""Iceberg's core API 1.11 by itself, in a JVM without Spark and in that of a Spark driver.

A caller that validates means: insert my row if the table lacks it. In Spark's JVM each snapshot says `engine-name` and
the like (EnvironmentContext), but not `spark.app.id`, which SparkWrite and SparkPositionDeltaWrite set alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labs.matrix import rows
from labs.matrix.rows import BASE, BLIND, SERIALIZABLE, Effect, Meaning, new_row
from labs.matrix.verb import Run, Verb
from labs.matrix.writers import JavaClient, Writer


def _verbs(
    name: str, effect: Effect, call: Callable[[JavaClient, Any, Any], Any], promise: str, source: str
) -> tuple[Verb, ...]:
    """In both places. call: with the client, the loaded table and a file with the new row; gives the operation."""

    def run_with(attribute: str) -> Run:
        def run(writer: Writer, table: str) -> None:
            client = getattr(writer, attribute)
            loaded = client.load(table)
            call(client, loaded, client.data_file(loaded, new_row(writer.who))).commit()

        return run

    meaning = Meaning(effect, promise, f"org/apache/iceberg/{source}")
    places = {"plain_java": "", "java_in_spark": ", in Spark's driver"}
    return tuple(Verb(f"Java {name}{where}", run_with(at), meaning, client=at) for at, where in places.items())


def _seen(update: Any, table: Any) -> Any:
    return update.validateFromSnapshot(table.currentSnapshot().snapshotId())


def _overwrite(_client: JavaClient, table: Any, file: Any) -> Any:
    update = _seen(table.newOverwrite().addFile(file), table)
    return update.validateNoConflictingData().validateNoConflictingDeletes()


def _row_delta(_client: JavaClient, table: Any, file: Any) -> Any:
    return _seen(table.newRowDelta().addRows(file), table).validateNoConflictingDataFiles()


def _rewrite(client: JavaClient, table: Any, _file: Any) -> Any:
    new = client.data_file(table, *(row for row in BASE if row.day == "d0"))
    update = table.newRewrite().validateFromSnapshot(table.currentSnapshot().snapshotId())
    return update.rewriteFiles(client.set_of(client.live_file(table, "d0")), client.set_of(new))


VERBS = (
    *_verbs("newAppend", rows.add, lambda _c, t, f: t.newAppend().appendFile(f), BLIND, "MergeAppend.java"),
    *_verbs("newFastAppend", rows.add, lambda _c, t, f: t.newFastAppend().appendFile(f), BLIND, "FastAppend.java"),
    *_verbs(
        "newOverwrite, a file added, validated",
        rows.add_if_absent,
        _overwrite,
        SERIALIZABLE,
        "BaseOverwriteFiles.java: operation() is append, validate() checks added files",
    ),
    *_verbs(
        "newRowDelta, rows added, validated",
        rows.add_if_absent,
        _row_delta,
        SERIALIZABLE,
        "BaseRowDelta.java: operation() is append, validate() checks added files",
    ),
    *_verbs(
        "newReplacePartitions of an empty partition",
        rows.replace(lambda row: row.day == rows.NEW_DAY),
        lambda _c, t, f: t.newReplacePartitions().addFile(f),
        SERIALIZABLE,
        "BaseReplacePartitions.java: partitions are dropped anew on each attempt",
    ),
    *_verbs(
        "newRewrite", rows.nothing, _rewrite, SERIALIZABLE, "BaseRewriteFiles.java: what it rewrites must be there"
    ),
)
