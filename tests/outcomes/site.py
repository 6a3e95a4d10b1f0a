"""Several writers of one table, whose commits overtake each other or share a swap, beside a model of its rows.

Whatever happens, the rows are those of the acknowledged operations one after the other; a refused one leaves nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.coordinator.ports import SwapAnswer, Swapped, TableName
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.outcomes.numbers import Numbers
from tests.outcomes.rows import Contents, live_rows
from tests.outcomes.stage import join_commits

NAME: Final = TableName("logging", "events")
SCHEMA: Final = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("level", pa.string()), ("count", pa.int32())])
WRITERS: Final = 3
#: How many of the last states of the table a writer may have seen.
STATES: Final = 6
#: Seconds within which a coordinator ends after its last answer.

#: Branch -> the ids of its rows.
Refs = dict[str, frozenset[int]]


@dataclass(frozen=True)
class Planned:
    """An operation of one writer. submit: makes it on a table object. apply: what it does to the rows, given the ids of
    the snapshots that it added."""

    what: str
    submit: Callable[[Table], CommitReport]
    apply: Callable[[Refs, tuple[int, ...]], None]


@dataclass(frozen=True)
class Staged:
    """A snapshot that no ref named when it was made. before: the rows of its parent. replay: what publishing it does to
    other rows; None: it is published on its parent alone."""

    before: frozenset[int]
    replay: Callable[[frozenset[int]], frozenset[int]] | None


class QueuedError(Exception):
    """Raised in place of a report: the commit is in the queue."""

    def __init__(self, commit: PendingCommit) -> None:
        super().__init__()
        self.commit = commit


class QueueingAccess(TableAccess):
    """Queues commits, and waits for none of them."""

    def commit(
        self, name: TableName, change: Any, wait_seconds: float | None, *, size: int, prepared: Sequence[str] = ()
    ) -> CommitReport:
        coordinator, wait = self.services.coordinator, self.wait_seconds(wait_seconds)
        raise QueuedError(coordinator.submit(name, change, wait_seconds=wait, size=size, prepared=prepared))


class OvertakenPointer(MemoryTablePointer):
    """before_swaps: what others do just before the next swaps, one each. No lock of the fake is held meanwhile.

    carried: the files that were there when a swap was refused. What it carried stays, since a metastore that answers
    from a cache could still come to name it.
    """

    def __init__(self, files: MemoryFiles) -> None:
        super().__init__(namespaces=())
        self._files = files
        self.carried: set[str] = set()
        self.before_swaps: deque[Callable[[], None]] = deque()

    def move(self, method: str, name: TableName, move: Callable[[], SwapAnswer], atomic: bool = False) -> SwapAnswer:
        if self.before_swaps:
            self.before_swaps.popleft()()
        there = self._files.locations()
        answer = super().move(method, name, move, atomic)
        if not isinstance(answer, Swapped):
            self.carried.update(there)
        return answer


class Site:
    """The table, its writers, and the model.

    refs: branch -> the ids of its rows, by the model. history: snapshot -> the rows of its branch after it. staged:
    the snapshots that were staged. days: row -> its day. log: what was done, for messages.
    """

    def __init__(self, version: int) -> None:
        self.files, self.contents = MemoryFiles(), Contents()
        self.pointer = OvertakenPointer(self.files)
        self._stack = ExitStack()
        self.catalogs: list[Catalog] = [
            self._stack.enter_context(memory_catalog(files=self.files, pointer=self.pointer)) for _ in range(WRITERS)
        ]
        self.catalogs[0].create_namespace("logging")
        properties = {"format-version": str(version), "commit.manifest.min-count-to-merge": "4"}
        table = self.catalogs[0].create_table(NAME, SCHEMA, partition_spec=["day"], properties=properties)
        self._states = deque([(table.metadata, table.metadata_location)], STATES)
        self.refs: Refs = {}
        self.history: dict[int, frozenset[int]] = {}
        self.staged: dict[int, Staged] = {}
        self.days: dict[int, int] = {}
        self.log: list[str] = []
        self.counts = {"acknowledged": 0, "refused": 0}
        self._numbers = Numbers()
        self._count = 0

    def close(self) -> None:
        """End the writers, and look for files that they left: a coordinator deletes them after its answers."""
        catalog = self.catalogs[0]
        metadata = catalog.load_table(NAME).metadata
        join_commits()
        orphans = self._orphans(catalog, metadata)
        self._stack.close()
        assert not orphans, (orphans, self.log)

    def count(self) -> int:
        """A new number, for names."""
        self._count += 1
        return self._count

    def table(self, writer: int, state: int, *, queues: bool = False) -> Table:
        """A writer's object of one of the last states of the table. queues: see `QueueingAccess`."""
        catalog = self.catalogs[writer]
        access = (QueueingAccess if queues else TableAccess)(lambda: catalog.services)
        metadata, location = self._states[-1 - state % len(self._states)]
        return Table(access, NAME, metadata, location)

    def run(self, planned: Planned, table: Table) -> None:
        """One writer alone."""
        before = set(self.files.locations())
        if not self._settle(planned, lambda: planned.submit(table)):
            join_commits()
            left = set(self.files.locations()) - before
            assert not left, (planned.what, left)

    def run_overtaken(self, planned: Planned, table: Table, other: Planned, others: Table) -> None:
        """The other writer's commit lands between the plan and the swap of the first one."""

        def overtake() -> None:
            self._settle(other, lambda: other.submit(others))

        self.pointer.before_swaps.append(overtake)
        self._settle(planned, lambda: planned.submit(table))
        self.pointer.before_swaps.clear()

    def run_group(self, planned: Planned, table: Table, group: Sequence[tuple[Planned, Table]]) -> None:
        """Several commits of one process wait while another one swaps, so that they share the next swap."""
        queued: list[tuple[Planned, PendingCommit]] = []
        self.pointer.before_swaps.append(lambda: queued.extend(self._queue(group)))
        self._settle(planned, lambda: planned.submit(table))
        self.pointer.before_swaps.clear()
        for each, commit in queued:
            self._settle(each, commit.wait)

    def _queue(self, group: Sequence[tuple[Planned, Table]]) -> list[tuple[Planned, PendingCommit]]:
        found: list[tuple[Planned, PendingCommit]] = []
        for planned, table in group:
            try:
                report = planned.submit(table)
            except QueuedError as queued:
                found.append((planned, queued.commit))
            except RequirementFailed as error:
                self._refused(planned, error)
            else:
                assert report.snapshot_ids == (), "what is not queued changes nothing"
        return found

    def _settle(self, planned: Planned, wait: Callable[[], CommitReport]) -> bool:
        """Whether the operation was acknowledged; the model has it then."""
        try:
            report = wait()
        except RequirementFailed as error:
            self._refused(planned, error)
            return False
        self.log.append(f"{planned.what}: {report.snapshot_ids}")
        self.counts["acknowledged"] += 1
        planned.apply(self.refs, report.snapshot_ids)
        return True

    def _refused(self, planned: Planned, error: RequirementFailed) -> None:
        self.log.append(f"refused by {error.name}: {planned.what}")
        self.counts["refused"] += 1
        if not error.proved_failed:
            raise error

    def verify(self) -> None:
        """Compare the table with the model."""
        catalog = self.catalogs[0]
        table = catalog.load_table(NAME)
        expected = {name: tuple(sorted(rows)) for name, rows in self.refs.items()}
        assert live_rows(catalog, table, self.contents) == expected, "\n".join(self.log[-12:])
        self._numbers.verify(catalog, table.metadata)

        if table.metadata_location != self._states[-1][1]:
            self._states.append((table.metadata, table.metadata_location))

    def _orphans(self, catalog: Catalog, metadata: TableMetadata) -> set[str]:
        """Manifests and lists that no snapshot names, and that no refused swap carried."""
        named: set[str] = set()
        manifests = catalog.manifests()
        for snapshot in metadata.snapshots:
            named.add(str(snapshot.manifest_list))
            named.update(each.manifest_path for each in manifests.list(snapshot))
        return {each for each in self.files.locations() if each.endswith(".avro")} - named - self.pointer.carried
