"""Processes that use the Python API: operations that are planned on a state of the table which others leave behind.

APPEND       adds a data file
DELETE       removes a data file by its path
OVERWRITE    replaces all rows by a data file
MASK         deletes the rows of a data file by a delete file
REWRITE      replaces two data files by one with the same rows
MANIFESTS    rewrites manifests
TRANSACTION  removes a data file and adds one, in one swap
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from enum import StrEnum
from functools import partial
from string import ascii_lowercase
from typing import Any, Final

from iceberg_hms.catalog.services import Services
from iceberg_hms.catalog.stage_proofs import StageProofs
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.table_access import TableAccess
from iceberg_hms.changes.operations.manifests.conflicts import Isolation
from iceberg_hms.coordinator.operations.view_operations import ViewOperations
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_COLUMNS
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from iceberg_hms.metastore.tables.hive_tables import HmsHiveTables
from iceberg_hms.metastore.tables.view_pointer import HmsViewPointer
from simulation.world.cluster import TABLE, Cluster, ClusterNode
from simulation.world.columns import RecordedColumns
from simulation.world.history import Answer, WriteAttempt

#: Seconds within which it begins, and for which its state of the table gets old before it uses it.
_WITHIN = 2.0
#: How many snapshots an expiration keeps of each branch, at most.
_KEPT_MAX = 3
#: A time after all schedules, in milliseconds since 1970.
_AFTER_ALL: Final = 32_503_680_000_000


class Verb(StrEnum):
    APPEND = "append"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    MASK = "mask"
    REWRITE = "rewrite"
    MANIFESTS = "manifests"
    TRANSACTION = "transaction"


class TableUser:
    """A process with a catalog of its own. operations: how many it calls."""

    def __init__(self, cluster: Cluster, name: str, operations: int) -> None:
        self.node = ClusterNode(cluster, name, skew_ms=cluster.random.below(7_200_000) - 3_600_000)
        self._random = self.node.random
        self._operations = [f"{name}.{letter}" for letter in ascii_lowercase[:operations]]
        #: The snapshot ids of the operation that a thread calls.
        self._ids: ContextVar[list[int]] = ContextVar(f"snapshot ids of {name}")
        self._access = TableAccess(self._services)

    def start(self) -> None:
        self.node.runtime.spawn("user", self._run)

    def _run(self) -> None:
        runtime = self.node.runtime
        runtime.sleep(self._random.between(0.0, _WITHIN))
        at_once = self._random.chance(0.5)
        for operation in self._operations:
            if at_once:
                runtime.spawn(f"user {operation}", partial(self._fulfil, operation))
            else:
                self._fulfil(operation)

    def _fulfil(self, operation: str) -> None:
        try:
            loaded = self._access.load(TABLE)
            table = Table(self._access, TABLE, loaded.metadata, str(loaded.metadata_location))
            live = self._live(table)
        except IcebergHmsError:
            return
        if self._random.chance(0.7):
            self.node.sleep_beside(_WITHIN)
        verb = self._random.pick(tuple(Verb))
        attempts, call = self._planned(verb, operation, table, live)
        self._call(attempts, call)

    def _planned(
        self, verb: Verb, operation: str, table: Table, live: Sequence[str]
    ) -> tuple[Sequence[WriteAttempt], Callable[[], object]]:
        """What is attempted, and how. live: the table's data files without delete files."""
        random, rows = self._random, self.node.cluster.storage.rows
        isolation: Isolation = random.pick(("serializable", "snapshot"))
        wait = random.pick(self.node.cluster.waits)
        if len(live) < 2 or verb is Verb.APPEND:
            added = self.node.new_append(operation)
            return [added], lambda: table.append([self._file(added)], wait_seconds=wait)
        chosen = live[random.below(len(live) - 1) :][:2]
        match verb:
            case Verb.DELETE:
                removal = self._removal(operation, chosen[:1])
                return [removal], lambda: table.delete_files(chosen[:1], wait_seconds=wait)
            case Verb.OVERWRITE:
                added = self.node.new_append(operation)
                added.deleted_rows = frozenset(row for path in live for row in rows(path))
                # What others add meanwhile goes, too.
                added.deletes_all = isolation == "snapshot"
                return [added], lambda: table.overwrite([self._file(added)], isolation=isolation, wait_seconds=wait)
            case Verb.MASK:
                removal = self._removal(operation, chosen[:1])
                deletes = self._deletes(operation, chosen[0], table.metadata.format_version)
                return [removal], lambda: table.row_delta(deletes=[deletes], isolation=isolation, wait_seconds=wait)
            case Verb.REWRITE:
                rewrite = self.node.new_append(operation)
                rewrite.rewrites = True
                moved = tuple(row for path in chosen for row in rows(path))
                self.node.cluster.storage.carried[rewrite.data_file or ""] = moved
                # The file carries the ids of its rows.
                counts = dict.fromkeys(LINEAGE_COLUMNS, 0)
                file = replace(self._file(rewrite), record_count=len(moved), null_value_counts=counts)
                return [rewrite], lambda: table.rewrite(chosen, [file], wait_seconds=wait)
            case Verb.MANIFESTS:
                return [self._removal(operation, ())], lambda: table.rewrite_manifests(wait_seconds=wait)
            case _:
                removal = self._removal(f"{operation}-removal", chosen[:1])
                added = self.node.new_append(f"{operation}-append")
                added.committed_with = removal
                return [removal, added], lambda: self._transact(table, chosen[:1], added, wait)

    def _transact(self, table: Table, removed: Sequence[str], added: WriteAttempt, wait: float) -> None:
        with table.transaction(wait_seconds=wait) as transaction:
            transaction.delete_files(removed)
            transaction.append([self._file(added)])

    def _call(self, attempts: Sequence[WriteAttempt], call: Callable[[], object]) -> None:
        cluster, process = self.node.cluster, self.node.process
        self._ids.set([attempt.snapshot_id or 0 for attempt in attempts])
        answer, detail = Answer.COMMITTED, ""
        try:
            report = call()
        except CommitStateUnknown as error:
            answer, detail = Answer.UNKNOWN, error.message
        except IcebergHmsError as error:
            answer, detail = Answer.FAILED, f"{type(error).__name__}: {error.message}"
        else:
            if isinstance(report, CommitReport) and not report.snapshot_ids:
                answer, detail = Answer.FAILED, "there is nothing to do"
        for attempt in attempts:
            cluster.wire.note(process, f"{attempt.operation} is answered {answer.value}", detail)
            cluster.history.record_answer(attempt, answer)
            if answer is Answer.FAILED and attempt.data_file is not None:
                # A failure proves that the file is not in the table.
                cluster.storage.delete(attempt.data_file)

    def _live(self, table: Table) -> list[str]:
        """The data files of main that have no delete file."""
        head, manifests = table.current_snapshot(), self.node.manifests()
        files = (
            [] if head is None else [each.data_file for each in manifests.entries(manifests.list(head)) if each.is_live]
        )
        masked = {each.referenced_data_file for each in files if each.content != FileContent.DATA}
        return [each.file_path for each in files if each.content == FileContent.DATA and each.file_path not in masked]

    def _removal(self, operation: str, paths: Sequence[str]) -> WriteAttempt:
        """An attempt that adds no row."""
        attempt = self.node.new_append(operation)
        attempt.data_file = None
        attempt.deleted_rows = frozenset(row for path in paths for row in self.node.cluster.storage.rows(path))
        return attempt

    def _file(self, attempt: WriteAttempt) -> DataFile:
        path = attempt.data_file or ""
        self.node.cluster.storage.data.add(path)
        return DataFile(path, "PARQUET", 1, 10)

    def _deletes(self, operation: str, path: str, format_version: int) -> DataFile:
        """A delete file for all rows of a data file: a deletion vector from format version 3 on."""
        location = f"file:/t/data/{operation}-deletes"
        self.node.cluster.storage.data.add(location)
        rows = len(self.node.cluster.storage.rows(path))
        deletes = DataFile(
            location, "PARQUET", rows, 100, content=FileContent.POSITION_DELETES, referenced_data_file=path
        )
        if format_version < 3:
            return deletes
        return replace(deletes, file_format="PUFFIN", content_offset=4, content_size_in_bytes=40)

    def _services(self) -> Services:
        node = self.node
        ports, settings = node.commit_ports(), node.settings
        return Services(
            settings=settings,
            ports=ports,
            coordinator=node.coordinator(),
            namespaces=node.namespaces,
            lister=node.pointer,
            views=ViewOperations(ports, HmsViewPointer(node.pool, settings, clock=node.runtime), settings),
            hive_tables=HmsHiveTables(node.pool, settings, clock=node.runtime),
            stage_proofs=StageProofs(b""),
            open_input=_no_footers,
            use_manifest_memory=lambda _budget: None,
            manifest_columns=RecordedColumns(ports.manifests),
            new_snapshot_id=lambda: self._ids.get().pop(0),
            subscribe=lambda _listener: None,
            close=lambda: None,
        )


class TableExpirer(TableUser):
    """A process that expires snapshots once, and deletes the files that only they led to."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name, 1)

    def _fulfil(self, _operation: str) -> None:
        node = self.node
        try:
            loaded = self._access.load(TABLE)
            table = Table(self._access, TABLE, loaded.metadata, str(loaded.metadata_location))
            node.sleep_beside(_WITHIN)
            report = table.expire_snapshots(_AFTER_ALL, retain_last=1 + self._random.below(_KEPT_MAX))
        except IcebergHmsError as error:
            node.cluster.wire.note(node.process, "expires nothing", error)
            return
        node.cluster.wire.note(node.process, "expires", (*report.snapshot_ids, report.files.stopped))


def _no_footers(location: str) -> Any:
    raise AssertionError(f"{location} is given as a record")
