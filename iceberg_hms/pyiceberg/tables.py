"""PyIceberg's Table and Transaction, which know a blind append: a transaction that read nothing of the table.

PyIceberg sends the same updates for an `append` and for an `overwrite` or `upsert` that found nothing to replace, and
validates the second after a conflict. So only the transaction can say which of them a commit is: it sees which verbs
its caller called. If they were `append` or `add_files` alone, PyIceberg read nothing of the table, and no other
writer's commit can make the append wrong. Every other verb, and every one that a later release brings, counts as one
that read it: PyIceberg validates and retries, as with any catalog.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO
from pyiceberg.table import DataScan, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier

from iceberg_hms.catalog.services import Services
from iceberg_hms.datafiles.file_columns import TableOfFiles
from iceberg_hms.datafiles.parquet_files import found_in_parquet
from iceberg_hms.format.metadata.table_metadata import TableMetadata as OurMetadata
from iceberg_hms.pyiceberg import upstream
from iceberg_hms.pyiceberg.errors import as_pyiceberg
from iceberg_hms.pyiceberg.scans import HmsScan, our_metadata

#: The verbs that read nothing. `add_files` looks for duplicates, once: PyIceberg does not look again after a conflict.
BLIND_VERBS: Final = frozenset({"append", "add_files"})
#: What ends a transaction.
_ENDS: Final = frozenset({"commit_transaction"})

#: Whether the transaction that commits now is a blind append.
_is_blind: ContextVar[bool] = ContextVar("iceberg_hms_blind_append", default=False)


def commits_blind_append() -> bool:
    """Whether the commit under way in this context is a blind append."""
    return _is_blind.get()


def _noted(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def call(self: HmsTransaction, *arguments: Any, **keywords: Any) -> Any:
        with self._verb(name):
            return verb(self, *arguments, **keywords)

    return call


def notes_verbs(kind: type[HmsTransaction]) -> type[HmsTransaction]:
    """Make every verb of a transaction note that it was called, also those that a release of PyIceberg adds."""
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in _ENDS:
            setattr(kind, name, _noted(name, function))
    return kind


@notes_verbs
class HmsTransaction(Transaction):
    """A transaction that knows which verbs its caller called."""

    def __init__(self, table: Table, autocommit: bool = False) -> None:
        super().__init__(table, autocommit)
        self._verbs: set[str] = set()
        self._is_in_verb = False

    @property
    def is_blind_append(self) -> bool:
        """Whether all that was called so far only appends."""
        appends = all(type(each) in upstream.APPENDS for each in upstream.producers(self))
        return appends and bool(self._verbs) and self._verbs <= BLIND_VERBS

    def add_files(self, file_paths: list[str], *arguments: Any, **keywords: Any) -> None:
        """As PyIceberg's, for files that every reader reads, not PyIceberg alone. Raises InvalidInput, which is a
        ValueError, for any other: nothing was changed."""
        with as_pyiceberg():
            table = TableOfFiles(our_metadata(self.table_metadata))
            for each in file_paths:
                found_in_parquet(each, table, self._open)
        super().add_files(file_paths, *arguments, **keywords)

    def _open(self, location: str) -> pa.PythonFile:
        """PyIceberg's files have different methods, by the library that opens them."""
        return pa.PythonFile(self._table.io.new_input(location).open(), mode="r")

    def commit_transaction(self) -> Table:
        """Commit. A blind append is put on whatever the table's branch is by then."""
        token = _is_blind.set(self.is_blind_append)
        try:
            return super().commit_transaction()
        finally:
            _is_blind.reset(token)

    @contextmanager
    def _verb(self, name: str) -> Iterator[None]:
        """Verbs call each other: the one that the caller called counts."""
        if self._is_in_verb:
            yield
            return
        self._verbs.add(name)
        self._is_in_verb = True
        try:
            yield
        finally:
            self._is_in_verb = False


class HmsTable(Table):
    """A table whose transactions are HmsTransaction, and whose scans our planner plans.

    plans: where to plan; None: PyIceberg plans. ours: the same metadata in our library, if the caller has it."""

    def __init__(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        metadata_location: str,
        io: FileIO,
        catalog: Catalog,
        *,
        plans: Callable[[], Services] | None = None,
        ours: OurMetadata | None = None,
    ) -> None:
        super().__init__(identifier, metadata, metadata_location, io, catalog)
        self._plans = plans
        # Of which state: a commit or `refresh` replaces the table's.
        self._ours = None if ours is None else (metadata, ours)

    def transaction(self) -> Transaction:
        """A transaction on this table."""
        return HmsTransaction(self)

    def scan(self, *arguments: Any, **keywords: Any) -> DataScan:
        """As PyIceberg's."""
        scan = super().scan(*arguments, **keywords)
        if self._plans is None:
            return scan
        known = self._ours
        if known is None or known[0] is not self.metadata:
            try:
                known = self._ours = self.metadata, our_metadata(self.metadata)
            except ValueError:
                return scan
        return HmsScan.planned_by(scan, self._plans(), known[1])
