"""Commits of operations that nobody overtakes (`tests.outcomes.alone`), by Java's own API."""

from __future__ import annotations

from typing import Any

from integration.java_tables import JavaTable, refusal
from tests.outcomes.alone import Plan, Planned, Step


def commit_step(table: JavaTable, step: Step) -> str | None:
    """Make a commit. Returns why Java refuses it; None if it does not."""
    table.table.refresh()
    make = {
        "append": _append,
        "replace_partitions": _replace_partitions,
        "row_delta": _row_delta,
        "rewrite": _rewrite,
        "upgrade": _upgrade,
    }[step.call]
    return refusal(lambda: make(table, step).commit())


def plan(table: JavaTable) -> Plan:
    """What a scan of the table reads. Raises Py4JJavaError if Java cannot plan it."""
    first = table.first_row_ids()
    return {name: Planned(first[name], deletes) for name, deletes in table.planned("main").items()}


def _append(table: JavaTable, step: Step) -> Any:
    change = table.table.newFastAppend()
    for each in step.data:
        change.appendFile(table.data_file(each))
    return change


def _replace_partitions(table: JavaTable, step: Step) -> Any:
    change = _from_start(table, table.table.newReplacePartitions())
    for each in step.data:
        change.addFile(table.data_file(each))
    return change.validateNoConflictingData().validateNoConflictingDeletes()


def _row_delta(table: JavaTable, step: Step) -> Any:
    change = _from_start(table, table.table.newRowDelta())
    for data in step.data:
        change.addRows(table.data_file(data))
    for new in step.deletes:
        change.addDeletes(table.delete_file(new))
    for old in step.replaced:
        change.removeDeletes(table.delete_file(old))
    named = [each.referenced_data_file for each in step.deletes if each.referenced_data_file is not None]
    change.validateDataFilesExist([*named, *step.referenced_files]).validateDeletedFiles()
    return change.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()


def _rewrite(table: JavaTable, step: Step) -> Any:
    replaced = {each.file_path for each in step.replaced}
    numbers = [
        each.dataSequenceNumber()
        for task in table.tasks("main")
        for each in task.deletes()
        if each.location() in replaced
    ]
    change = _from_start(table, table.table.newRewrite())
    if step.data:
        change.dataSequenceNumber(table.table.currentSnapshot().sequenceNumber())
    for data in (*step.removed, *step.data):
        (change.deleteFile if data in step.removed else change.addFile)(table.data_file(data))
    for old in step.replaced:
        change.deleteFile(table.delete_file(old))
    for new in step.deletes:
        change.addFile(table.delete_file(new), max(numbers))
    return change


def _upgrade(table: JavaTable, step: Step) -> Any:
    return table.table.updateProperties().set("format-version", "3")


def _from_start(table: JavaTable, change: Any) -> Any:
    return change.validateFromSnapshot(table.table.currentSnapshot().snapshotId())
