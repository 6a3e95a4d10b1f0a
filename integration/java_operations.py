"""The operations of the table of outcomes by Java's own API.

Java validates as Spark asks it to for an isolation level (SparkWrite, SparkPositionDeltaWrite of Iceberg 1.11).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from iceberg_hms.expressions import as_expression
from iceberg_hms.expressions.json_form import to_json
from iceberg_hms.format.manifests.manifest import DataFile
from integration.java_tables import JavaTable, JavaTables, name_of_file, refusal
from tests.outcomes.actions import Case, converted
from tests.outcomes.rows import Contents
from tests.outcomes.stage import FILES, deletes_of, first_deletes, first_file, late_deletes

#: Operations that Java has an equivalent of.
OPERATIONS: Final = (
    "append",
    "delete_where",
    "delete_files",
    "overwrite",
    "replace_partitions",
    "rewrite",
    "rewrite_deletes",
    "convert_to_positions",
    "convert_to_vectors",
    "row_delta_positions",
    "row_delta_equality",
    "row_delta_vectors",
)


class StageTables(JavaTables):
    """Makes the stage's table, as `tests.outcomes.stage` says. contents: of the files of the last one."""

    contents: Contents

    def make(self, folder: Path, version: int, kinds: frozenset[str]) -> None:
        """kinds: of the deletes that it has."""
        self.contents = Contents()
        self.create(folder, version, "day")
        table = self.load_stage(folder, kinds)
        for names, branch in (("Z", "main"), ("AB", "main"), ("CD", "main"), ("E", "audit")):
            table.append_first(names, branch)

    def load_stage(self, folder: Path, kinds: frozenset[str]) -> StageTable:
        """Another object of the table, which others leave behind."""
        return StageTable(self, folder, kinds)


class StageTable(JavaTable):
    """One object of the stage's table. kinds: of the deletes that it has from the beginning."""

    def __init__(self, tables: StageTables, folder: Path, kinds: frozenset[str]) -> None:
        super().__init__(tables, tables.object(folder))
        self._contents = tables.contents
        self._kinds = kinds
        self._files = {name: first_file(self._contents, name, kinds) for name in FILES}

    def append_first(self, names: str, branch: str) -> None:
        """Append files of the stage, with their deletes."""
        append = self.table.newFastAppend()
        for name in names:
            append.appendFile(self.data_file(self._files[name]))
        if branch != "main":
            self.table.manageSnapshots().createBranch(branch).commit()
        append.toBranch(branch).commit()
        self.delete_rows([each for name in names for each in first_deletes(self._contents, name, self._kinds)])

    def rows(self) -> list[int]:
        """Of main; one that is there twice counts twice. Raises Py4JJavaError if Java cannot plan a scan."""
        self.table.refresh()
        found: list[int] = []
        for task in self.tasks("main"):
            gone = set[int]().union(*(self._contents.deletes[name_of_file(each)] for each in task.deletes()))
            found += [row for row in self._contents.rows[name_of_file(task.file())] if row not in gone]
        return found

    def delete_late(self) -> None:
        """Commit equality deletes of a row of A."""
        self.delete_rows([late_deletes(self._contents)])

    def commit(self, case: Case) -> str | None:
        """Make an operation, and commit it. Returns why Java refuses it; None if it does not."""
        make = {
            "append": self._append,
            "delete_where": self._delete_where,
            "delete_files": self._delete_files,
            "overwrite": self._overwrite,
            "replace_partitions": self._replace_partitions,
            "rewrite": self._rewrite,
            "rewrite_deletes": self._rewrite_deletes,
            "convert_to_positions": self._convert,
            "convert_to_vectors": self._convert,
        }.get(case.operation, self._row_delta)
        return refusal(lambda: make(case).toBranch(case.branch).commit())

    def _append(self, case: Case) -> Any:
        return self.table.newFastAppend().appendFile(self._new_file(case))

    def _delete_where(self, case: Case) -> Any:
        return self.table.newDelete().deleteFromRowFilter(self._where(case))

    def _delete_files(self, case: Case) -> Any:
        # By its path py4j would find SnapshotProducer's own deleteFile(String).
        return self.table.newDelete().deleteFile(self.data_file(self._files[case.target])).validateFilesExist()

    def _overwrite(self, case: Case) -> Any:
        rows = self._where(case)
        change = self.table.newOverwrite().overwriteByRowFilter(rows).addFile(self._new_file(case))
        change = self._from_start(change, case).conflictDetectionFilter(rows)
        if _is_serializable(case):
            change.validateNoConflictingData()
        return change.validateNoConflictingDeletes()

    def _replace_partitions(self, case: Case) -> Any:
        change = self._from_start(self.table.newReplacePartitions().addFile(self._new_file(case)), case)
        if _is_serializable(case):
            change.validateNoConflictingData()
        return change.validateNoConflictingDeletes()

    def _rewrite(self, case: Case) -> Any:
        new = self._contents.data_file(f"rewritten-{case.role}", case.day, *FILES[case.target][1])
        change = self._from_start(self.table.newRewrite(), case)
        change.dataSequenceNumber(self._start(case).sequenceNumber())
        return change.deleteFile(self.data_file(self._files[case.target])).addFile(self.data_file(new))

    def _rewrite_deletes(self, case: Case) -> Any:
        old = deletes_of(self._contents, case.target, f"deletes-{case.target}")
        return self._replace_deletes(
            case, old, deletes_of(self._contents, case.target, f"rewritten-deletes-{case.role}")
        )

    def _convert(self, case: Case) -> Any:
        return self._replace_deletes(case, *converted(case, self._contents))

    def _replace_deletes(self, case: Case, old: DataFile, new: DataFile) -> Any:
        [number] = {
            each.dataSequenceNumber()
            for task in self.tasks(case.branch)
            for each in task.deletes()
            if each.location() == old.file_path
        }
        change = self._from_start(self.table.newRewrite(), case)
        return change.deleteFile(self.delete_file(old)).addFile(self.delete_file(new), number)

    def _row_delta(self, case: Case) -> Any:
        name, ids, contents = f"deletes-{case.role}", case.deleted_ids, self._contents
        match case.operation:
            case "row_delta_positions":
                deletes = contents.position_deletes(name, case.day, case.target, *ids)
            case "row_delta_equality":
                deletes = contents.equality_deletes(name, case.day, *ids)
            case _:
                deletes = contents.deletion_vector(name, case.day, case.target, *ids)
        change = self.table.newRowDelta().addRows(self._new_file(case)).addDeletes(self.delete_file(deletes))
        change = self._from_start(change, case).conflictDetectionFilter(self._where(case))
        if deletes.referenced_data_file is not None:
            change.validateDataFilesExist([deletes.referenced_data_file]).validateDeletedFiles()
        if _is_serializable(case):
            change.validateNoConflictingDataFiles()
        return change.validateNoConflictingDeleteFiles()

    def _start(self, case: Case) -> Any:
        return self.table.snapshot(case.branch)

    def _from_start(self, change: Any, case: Case) -> Any:
        return change.validateFromSnapshot(self._start(case).snapshotId())

    def _where(self, case: Case) -> Any:
        form = json.dumps(to_json(as_expression(case.where[0])))
        return self.iceberg.expressions.ExpressionParser.fromJson(form, self.table.schema())

    def _new_file(self, case: Case) -> Any:
        return self.data_file(
            self._contents.data_file(case.new_name, case.day, *sorted(row for row, _ in case.new_rows))
        )


def _is_serializable(case: Case) -> bool:
    return case.role == "in_flight" and case.cell.isolation == "serializable"
