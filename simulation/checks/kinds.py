"""What must hold of a table that becomes Iceberg's and Hive's again, after every step.

kind-is-whole               the row is all of a Hive table's, or all of an Iceberg table's whose files exist
hive-change-kept            what a program of Hive's changed is in the Hive row, or in the row that an undo writes back
kind-history                a swap of the Iceberg table logs the file that it replaces
kind-stays                  an Iceberg table becomes a Hive table by an undo alone
kind-answer-is-true         what was answered as failed was not made, and never is; what was acknowledged was made
kind-files-kept             no file is deleted that the row names
kind-caller-answered        at the end every process that lives has all answers
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import orjson

from iceberg_hms.coordinator.ports import HIVE_TABLE
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.metastore.tables.kind_of_row import decode
from iceberg_hms.metastore.tables.parameters import EXTERNAL, EXTERNAL_TABLE, MANAGED_TABLE, METADATA_LOCATION
from simulation.world.history import Answer, History, KindCall, KindOfCall
from simulation.world.hive_table import FORMAT, HIVE, HIVE_MARK, is_hive
from simulation.world.metastore import Metastore, RowChange
from simulation.world.storage import Storage

_OPEN: Final = (Answer.NOTHING, Answer.UNKNOWN)


class KindChecker:
    """Looks at the row after each of its changes, and calls `fail` with the first broken invariant."""

    def __init__(self, storage: Storage, history: History, metastore: Metastore, fail: Callable[[str], None]) -> None:
        self._storage = storage
        self._history = history
        self._metastore = metastore
        self._fail = fail
        self._was_hive = True
        history.on_kind_answer = self._check

    def on_row_change(self, change: RowChange) -> None:
        """Called when the table's row changed, if it was or is an Iceberg table's."""
        row = self._metastore.rows[HIVE]
        was_hive, self._was_hive = self._was_hive, is_hive(row)
        if is_hive(row):
            self._look_at_hive(row)
            if not was_hive:
                self._note_undo(change)
        else:
            self._look_at_iceberg(row, None if was_hive else change.replaced)
        self._check()

    def on_delete(self, location: str) -> None:
        """Called before a file is deleted."""
        row = self._metastore.rows.get(HIVE)
        if row is None or is_hive(row):
            return
        if location in (row.parameters[METADATA_LOCATION], row.parameters.get(HIVE_TABLE)):
            self._fail(f"kind-files-kept: {location} is deleted, and the row names it")

    def check_at_rest(self, alive: Collection[str]) -> None:
        """Check what must hold when nothing runs any more."""
        waiting = [
            each.mark for each in self._history.kind_calls if each.answer is Answer.NOTHING and each.caller in alive
        ]
        if waiting:
            self._fail(f"kind-caller-answered: no answer to {', '.join(waiting)}")

    def _look_at_hive(self, row: Any) -> None:
        parameters = row.parameters
        odd = {EXTERNAL, HIVE_TABLE, "uuid", "current-schema"} & parameters.keys()
        if odd or row.tableType != MANAGED_TABLE or row.sd.inputFormat != FORMAT or len(row.sd.cols) != 1:
            self._fail(f"kind-is-whole: a Hive row of {row.tableType} with {row.sd.inputFormat} and {sorted(odd)}")
        self._look_for_mark(parameters, "the Hive row")

    def _look_at_iceberg(self, row: Any, replaced: str | None) -> None:
        parameters = row.parameters
        location, saved = parameters[METADATA_LOCATION], parameters.get(HIVE_TABLE)
        missing = [each for each in (location, saved) if each is not None and each not in self._storage.files]
        if missing or row.tableType != EXTERNAL_TABLE or parameters.get(EXTERNAL) != "TRUE":
            self._fail(f"kind-is-whole: an Iceberg row of {row.tableType} that lacks {missing}")
            return
        if saved is not None:
            record = decode(HIVE, orjson.loads(self._storage.files[saved])["record"])
            self._look_for_mark(record.parameters, "what an undo would write")
        metadata = TableMetadata.parse(self._storage.files[location])
        log = [entry["metadata-file"] for entry in metadata.metadata_log]
        if replaced is not None and replaced not in log:
            self._fail(f"kind-history: {location} replaced {replaced}, and does not log it")
        for call in self._history.kind_calls:
            is_migration = call.kind is KindOfCall.MIGRATE
            call.made |= call.mark == metadata.uuid if is_migration else call.mark in metadata.properties

    def _look_for_mark(self, parameters: Mapping[str, str], where: str) -> None:
        last = self._history.hive_marks[-1] if self._history.hive_marks else None
        if parameters.get(HIVE_MARK) != last:
            self._fail(f"hive-change-kept: {where} has {parameters.get(HIVE_MARK)} in place of {last}")

    def _note_undo(self, change: RowChange) -> None:
        undos = [each for each in self._history.kind_calls if each.kind is KindOfCall.UNDO]
        own = [each for each in undos if each.caller == change.process and each.answer in _OPEN and not each.made]
        if not own:
            self._fail(f"kind-stays: {change.process} made a Hive table of it without an undo")
            return
        # A process calls one operation after the other: a late change is that of a call of unknown outcome.
        doubtful = [each for each in own if each.answer is Answer.UNKNOWN]
        (doubtful or own)[0].made = True
        for call in own:
            call.effect_seen = True

    def _check(self) -> None:
        for call in self._history.kind_calls:
            if call.kind is not KindOfCall.KEEP and self._is_untrue(call):
                self._fail(f"kind-answer-is-true: {call.kind} {call.mark} was answered {call.answer.value}")

    def _is_untrue(self, call: KindCall) -> bool:
        if call.answer is Answer.FAILED:
            return call.made
        return call.answer is Answer.COMMITTED and not (call.made or call.effect_seen)
