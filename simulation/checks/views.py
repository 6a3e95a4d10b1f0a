"""What must hold of views after every step.

view-is-whole               the metadata file of every view exists
acknowledged-is-in-view     an acknowledged creation or replacement is in its view, until the view is dropped
refused-is-not-in-view      one that was answered as failed never is, unless it is a creation whose view was renamed, or
                            dropped before the answer
view-files-kept             no file is deleted that a view's row names
view-stays-itself           a swap keeps the view's UUID
view-answer-is-true         a rename or drop that was answered as failed was not made; an acknowledged one was, by
                            its process or by another
view-user-answered          at the end every process that lives has all answers
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS
from iceberg_hms.format.views import view_file
from iceberg_hms.format.views.view_metadata import ViewMetadata
from simulation.checks.view import name_of
from simulation.world.history import Answer, History, ViewCallKind
from simulation.world.metastore import RowChange
from simulation.world.storage import Storage


class ViewChecker:
    """Keeps what the views are, and calls `fail` with the first broken invariant."""

    def __init__(self, storage: Storage, history: History, fail: Callable[[str], None]) -> None:
        self._storage = storage
        self._fail = fail
        self._calls = history.view_calls
        history.on_view_answer = self._check
        self._dropped: set[str] = set()
        self._renamed: set[str] = set()
        self._views: dict[TableName, tuple[str, ViewMetadata]] = {}

    def on_row_change(self, change: RowChange) -> None:
        """Called when a view's row changed."""
        before = self._views.pop(change.renamed_from or change.table, None)
        self._match(change)
        if change.location is None:
            if before is not None:
                # A creation that a metastore carries out a second time brings the first metadata back.
                self._dropped.add(before[1].uuid)
            return
        data = self._storage.files.get(change.location)
        if data is None:
            self._fail(f"view-is-whole: {change.table} names {name_of(change.location)}, which is not there")
            return
        metadata = view_file.decode(data, change.location, DEFAULT_BOUNDS)
        if before is not None and before[1].uuid != metadata.uuid:
            self._fail(f"view-stays-itself: {name_of(change.location)} is another view than {name_of(before[0])}")
        self._views[change.table] = (change.location, metadata)
        if change.renamed_from is not None:
            self._renamed.add(metadata.uuid)
        for call in self._calls:
            if call.mark in metadata.properties:
                call.made, call.uuid = True, metadata.uuid
        self._check()

    def on_delete(self, location: str) -> None:
        """Called before a file is deleted."""
        for name, (current, _) in self._views.items():
            if current == location:
                self._fail(f"view-files-kept: {name_of(location)} is deleted, and {name} needs it")

    def check_at_rest(self, alive: Collection[str]) -> None:
        """Check what must hold when nothing runs any more."""
        waiting = [each.mark for each in self._calls if each.answer is Answer.NOTHING and each.caller in alive]
        if waiting:
            self._fail(f"view-user-answered: no answer to {', '.join(waiting)}")

    def _match(self, change: RowChange) -> None:
        gone = change.table if change.location is None else None
        kind = ViewCallKind.DROP if change.location is None else ViewCallKind.RENAME
        for call in self._calls:
            if call.answer is not Answer.NOTHING:
                continue
            if call.kind is ViewCallKind.DROP:
                call.effect_seen |= call.name in (gone, change.renamed_from)
            elif call.kind is ViewCallKind.RENAME:
                call.effect_seen |= change.renamed_from == call.name
        name = gone or change.renamed_from
        own = [each for each in self._calls if (each.caller, each.kind, each.name) == (change.process, kind, name)]
        if own:
            # A process calls one operation after the other: a late change is that of a call of unknown outcome.
            doubtful = [each for each in own if each.answer is Answer.UNKNOWN and not each.made]
            (doubtful or own[-1:])[0].made = True

    def _check(self) -> None:
        by_uuid = {metadata.uuid: metadata for _, metadata in self._views.values()}
        for call in self._calls:
            sets_mark = call.kind in (ViewCallKind.CREATE, ViewCallKind.REPLACE)
            # A creation that the metastore made and refused is not looked for under other names; and if another process
            # dropped its view and made one, a look cannot tell it from a creation that came too late.
            was_dropped = call.uuid in self._dropped and call.uuid not in by_uuid
            is_lost = call.kind is ViewCallKind.CREATE and (call.uuid in self._renamed or was_dropped)
            if sets_mark and call.answer is Answer.FAILED and call.made and not is_lost:
                self._fail(f"refused-is-not-in-view: {call.mark} was answered as failed, and was in {call.name}")
            if sets_mark and call.answer is Answer.COMMITTED and call.uuid not in self._dropped:
                view = by_uuid.get(call.uuid or "")
                if call.uuid is None or (view is not None and call.mark not in view.properties):
                    self._fail(f"acknowledged-is-in-view: {call.mark} was acknowledged, and is not in {call.name}")
            if not sets_mark and call.answer is Answer.FAILED and call.made:
                self._fail(f"view-answer-is-true: the {call.kind} {call.mark} was answered as failed, and was made")
            if not sets_mark and call.answer is Answer.COMMITTED and not call.effect_seen:
                self._fail(f"view-answer-is-true: the {call.kind} {call.mark} was acknowledged, and was not made")
