"""Names and rows of Iceberg tables, and names of views, found by the parameters of their rows.

The metastore filters by a parameter within one database. Filters here say LIKE, never '=': databases that keep
parameters as long text (Derby with the official schema, Oracle) compare them with LIKE alone, and Hive takes 20 s to
refuse anything else. LIKE takes a regular expression. Where no filter works, all rows are read.
"""

from __future__ import annotations

import bisect
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.errors import MetastoreUnavailable, NoSuchNamespace
from iceberg_hms.metastore.connection.faults import NO_DATABASE, Fault, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import GetTablesRequest
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION, UUID, is_iceberg, is_iceberg_view

logger = logging.getLogger(__name__)

#: Rows asked for in one call.
_ROWS_PER_CALL: Final = 100
#: The same for small pages, which most rows of a database may not belong to.
_ROWS_LEAST: Final = 20
#: How often to search again if names changed between two calls.
_SEARCHES_MAX: Final = 3

#: Faults that prove that the server cannot filter names.
_CANNOT_FILTER: Final = frozenset({Fault.UNKNOWN_METHOD, Fault.NOT_COMPARABLE})
_PARAMETER: Final = "hive_filter_field_params__"
_ICEBERG_FILTER: Final = f'{_PARAMETER}table_type like "ICEBERG" or {_PARAMETER}table_type like "iceberg"'
_VIEW_FILTER: Final = f'{_PARAMETER}table_type like "ICEBERG-VIEW" or {_PARAMETER}table_type like "iceberg-view"'
_HAS_UUID_FILTER: Final = f'{_PARAMETER}{UUID} like ".*"'
#: Text that needs no escaping in a filter.
_PLAIN: Final = re.compile(r"[0-9A-Za-z-]+")
#: Text that a filter asks for as "anything": the rest need no escaping in any of the metastore's databases.
_NOT_PLAIN: Final = re.compile(r"[^0-9A-Za-z-]+")
#: Each folder above another one costs one more call.
_FOLDERS_MAX: Final = 32
#: How old a list may be from which a page is cut, the first page excepted.
LIST_MAX_AGE_SECONDS: Final = 30.0
#: How many lists are kept, and how many names in all of them together.
LISTS_MAX: Final = 16
NAMES_MAX: Final = 500_000

#: Sorted names, and whether there may be more after them.
Page = tuple[Sequence[str], bool]


def _near_folder_filters(path: str) -> Sequence[str]:
    """Filters for rows whose metadata files lie in a folder, or in `metadata` of one above it; none if they would say
    too much, or nothing. One for each folder: the metastore joins its tables anew for each term of a filter, and Derby
    takes a second to plan eight joins."""
    *above, last = [_NOT_PLAIN.sub(".*", each) for each in path.strip("/").split("/")]
    if not last.strip(".*") or len(above) > _FOLDERS_MAX:
        return ()
    patterns = [f".*/{last}/.*", *(f".*/{each}/metadata/.*" for each in dict.fromkeys(above))]
    return [f'{_PARAMETER}{METADATA_LOCATION} like "{each}"' for each in patterns]


class TableNames:
    """Asks one metastore. Safe for threads: what it learns of the server is only ever a flag."""

    def __init__(self, pool: ClientPool, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pool = pool
        self._clock = clock
        self._filters = True
        self._refusal = ""

    def databases(self) -> list[str]:
        """Names of all databases, sorted."""
        return sorted(self._pool.ask("get_all_databases"))

    def database_folders(self, *, seconds: float) -> dict[str, list[str]]:
        """The folders of all databases. Raises MetastoreUnavailable after this time."""
        deadline = self._clock.monotonic() + seconds
        found: dict[str, list[str]] = {}
        for name in self.databases():
            if self._clock.monotonic() > deadline:
                raise MetastoreUnavailable("There was no time to ask all databases for their folders", next_step="")
            try:
                database = self._pool.ask("get_database", name=name)
            except ServerFault as fault:
                if fault.fault not in NO_DATABASE:
                    raise
                continue
            found[name] = [each for each in (database.locationUri, database.managedLocationUri) if each]
        return found

    def rows_of(self, namespace: str, *, seconds: float) -> Iterator[Any]:
        """All rows of a database; none for a database that is not there. Raises MetastoreUnavailable after this
        time."""
        return self._rows(namespace, self.all_in(namespace), self._clock.monotonic() + seconds)

    def iceberg_rows(
        self, namespace: str, names: Collection[str] | None = None, *, seconds: float | None = None
    ) -> Iterator[Any]:
        """The rows of a database's Iceberg tables, or of those among them with these names, which are lower case; none
        for a database that is not there. Raises MetastoreUnavailable after this time; None: however long it takes."""
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        wanted = None if names is None else set(names)
        try:
            found = self.filtered_iceberg(namespace) if wanted is None else sorted(wanted)
            found = self.all_in(namespace) if found is None else found
            for row in self._rows(namespace, found, deadline):
                # The metastore's database may take another spelling for a row's.
                if is_iceberg(row.parameters or {}) and (wanted is None or row.tableName.lower() in wanted):
                    yield row
        except NoSuchNamespace:
            return
        except ServerFault as fault:
            if fault.fault not in NO_DATABASE:
                raise

    def all_in(self, namespace: str) -> list[str]:
        """Names of all tables and views of a database; none for a database that is not there."""
        names: list[str] = self._pool.ask("get_all_tables", db_name=namespace)
        return names

    def iceberg_in(self, namespace: str) -> list[str]:
        """Names of the Iceberg tables of a database; none, or NoSuchNamespace, for a database that is not there."""
        return self._named(namespace, _ICEBERG_FILTER, self._iceberg_rows)

    def views_in(self, namespace: str) -> list[str]:
        """Names of the Iceberg views of a database; none, or NoSuchNamespace, for a database that is not there."""
        return self._named(namespace, _VIEW_FILTER, self._view_rows)

    def _named(self, namespace: str, words: str, read: Callable[[str], Iterator[Any]]) -> list[str]:
        """words: the filter. read: the same rows, for servers that cannot filter."""
        if not self._filters:
            return [row.tableName for row in read(namespace)]
        try:
            return self._filtered(namespace, words)
        except ServerFault as fault:
            names = [row.tableName for row in read(namespace)]
            # The rows could be read, so this is no outage.
            self._note_refused_filter(fault)
            return names

    def filtered_iceberg(self, namespace: str) -> list[str] | None:
        """As `iceberg_in`, if the server can filter; None if it cannot."""
        if not self._filters:
            return None
        try:
            return self._filtered(namespace, _ICEBERG_FILTER)
        except ServerFault as fault:
            # That names can be read proves that this is no outage.
            self.all_in(namespace)
            self._note_refused_filter(fault)
            return None

    def located_like(self, namespace: str, pattern: str) -> list[str]:
        """Names of the rows of a database whose metadata location matches a pattern as a whole: of plain characters,
        `.` for any one and `.*` for any number. Raises NoSuchNamespace; ServerFault if the server cannot filter so."""
        return self._filtered(namespace, f'{_PARAMETER}{METADATA_LOCATION} like "{pattern}"')

    def iceberg_after(self, namespace: str, after: str | None, limit: int) -> tuple[list[str], bool]:
        """The first `limit` names of Iceberg tables after `after`, sorted, and whether there may be more. Reads no more
        rows than it must."""
        names = sorted(name for name in self.all_in(namespace) if after is None or name > after)
        found: list[str] = []
        step = min(_ROWS_PER_CALL, max(limit, _ROWS_LEAST))
        for start in range(0, len(names), step):
            rows = self._rows(namespace, names[start : start + step], None)
            found += sorted(row.tableName for row in rows if is_iceberg(row.parameters or {}))
            if len(found) >= limit:
                return found[:limit], len(found) > limit or start + step < len(names)
        return found, False

    def with_uuid(self, namespace: str, uuid: str, *, seconds: float) -> Sequence[Any]:
        """Rows of a database's Iceberg tables that say this UUID, in any case, or none; none for a database that is not
        there. Raises MetastoreUnavailable after this time, and for rows that come and go meanwhile."""
        deadline = self._clock.monotonic() + seconds
        try:
            rows = self._found_rows(namespace, uuid, deadline)
        except NoSuchNamespace:
            return ()
        return [row for row in rows if row.parameters.get(UUID, uuid).lower() == uuid.lower()]

    def near_folder(self, namespace: str, path: str, *, seconds: float) -> Sequence[Any]:
        """Rows of a database's Iceberg tables and views whose metadata files lie in a folder, by its last name, or in
        the folder `metadata` of one of those that contain it; none for a database that is not there. path: of the
        folder, with slashes. Raises MetastoreUnavailable after this time."""
        deadline = self._clock.monotonic() + seconds
        try:
            filters = _near_folder_filters(path)
            if not self._filters or not filters:
                return list(self._rows_with_metadata(namespace, self.all_in(namespace), deadline))
            try:
                names = list(dict.fromkeys(name for each in filters for name in self._filtered(namespace, each)))
            except ServerFault as fault:
                rows = list(self._rows_with_metadata(namespace, self.all_in(namespace), deadline))
                self._note_refused_filter(fault)
                return rows
            return list(self._rows_with_metadata(namespace, names, deadline))
        except NoSuchNamespace:
            return ()

    def _found_rows(self, namespace: str, uuid: str, deadline: float) -> list[Any]:
        if self._filters and _PLAIN.fullmatch(uuid):
            try:
                return self._rows_by_filter(namespace, uuid, deadline)
            except ServerFault as fault:
                rows = list(self._iceberg_rows(namespace, deadline))
                self._note_refused_filter(fault)
                return rows
        return list(self._iceberg_rows(namespace, deadline))

    def _rows_by_filter(self, namespace: str, uuid: str, deadline: float) -> list[Any]:
        for _ in range(_SEARCHES_MAX):
            # A row that gets its UUID meanwhile is found by the last query.
            named = set(self._filtered(namespace, _HAS_UUID_FILTER))
            unnamed = [name for name in self._filtered(namespace, _ICEBERG_FILTER) if name not in named]
            spellings = dict.fromkeys((uuid, uuid.lower(), uuid.upper()))
            same = self._filtered(namespace, " or ".join(f'{_PARAMETER}{UUID} like "{each}"' for each in spellings))
            wanted = list(dict.fromkeys([*same, *unnamed]))
            rows = list(self._rows(namespace, wanted, deadline))
            if len(rows) == len(wanted):
                return [row for row in rows if is_iceberg(row.parameters or {})]
        raise MetastoreUnavailable(f"Tables of {namespace} came and went during the search for a UUID", next_step="")

    def _iceberg_rows(self, namespace: str, deadline: float | None = None) -> Iterator[Any]:
        rows = self._rows(namespace, self.all_in(namespace), deadline)
        return (row for row in rows if is_iceberg(row.parameters or {}))

    def _rows_with_metadata(self, namespace: str, names: Sequence[str], deadline: float) -> Iterator[Any]:
        """Those of Iceberg tables and views."""
        for row in self._rows(namespace, names, deadline):
            parameters = row.parameters or {}
            if is_iceberg(parameters) or is_iceberg_view(row.tableType, parameters):
                yield row

    def _view_rows(self, namespace: str) -> Iterator[Any]:
        rows = self._rows(namespace, self.all_in(namespace), None)
        return (row for row in rows if is_iceberg_view(row.tableType, row.parameters or {}))

    def _rows(self, namespace: str, names: Sequence[str], deadline: float | None) -> Iterator[Any]:
        """The rows of those tables that exist."""
        for start in range(0, len(names), _ROWS_PER_CALL):
            if deadline is not None and self._clock.monotonic() > deadline:
                raise MetastoreUnavailable(f"{namespace} has too many tables to search them in time", next_step="")
            request = GetTablesRequest(dbName=namespace, tblNames=names[start : start + _ROWS_PER_CALL])
            yield from self._pool.ask("get_table_objects_by_name_req", req=request).tables

    def _filtered(self, namespace: str, words: str) -> list[str]:
        try:
            names: list[str] = self._pool.ask(
                "get_table_names_by_filter", dbname=namespace, filter=words, max_tables=-1
            )
        except ServerFault as fault:
            if fault.fault in NO_DATABASE:
                raise NoSuchNamespace(namespace) from None
            raise
        self._refusal = ""
        return names

    def _note_refused_filter(self, fault: ServerFault) -> None:
        """Stop filtering if the server cannot do it. Not every release says why: there the same text twice in a row is
        the proof."""
        if fault.fault in _CANNOT_FILTER or fault.detail == self._refusal:
            logger.info("The metastore cannot filter table names (%s); from now on all rows are read", fault.detail)
            self._filters = False
        else:
            logger.info("The metastore did not filter table names (%s); all rows were read instead", fault.detail)
            self._refusal = fault.detail


class NamePages:
    """Pages of the names of a database's tables. Safe for threads.

    The metastore returns names of a database all at once and in no order: its filters know neither names nor offsets.
    For 12,000 tables it takes 50 ms for all names, 500 ms for the names that a filter leaves, and two minutes for all
    rows. So a list that a filter left is kept while a client reads its pages, and where no filter works only the rows
    are read that a page needs.

    list_all: of all tables and views instead of the Iceberg tables."""

    def __init__(self, names: TableNames, *, list_all: bool, clock: Clock) -> None:
        self._names = names
        self._list_all = list_all
        self._clock = clock
        self._mutex = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, list[str]]] = OrderedDict()

    def page(self, namespace: str, after: str | None, limit: int) -> Page:
        """The first `limit` names after `after`; None: from the beginning. A database that is not there has none."""
        found = None if after is None else self._kept_list(namespace)
        if found is None:
            if self._list_all:
                return _cut(sorted(self._names.all_in(namespace)), after, limit)
            filtered = self._names.filtered_iceberg(namespace)
            if filtered is None:
                return self._names.iceberg_after(namespace, after, limit)
            found = sorted(filtered)
            self._keep(namespace, found, limit)
        return _cut(found, after, limit)

    def _kept_list(self, namespace: str) -> list[str] | None:
        with self._mutex:
            read, names = self._kept.get(namespace, (0.0, None))
        return names if names is not None and self._clock.monotonic() - read <= LIST_MAX_AGE_SECONDS else None

    def _keep(self, namespace: str, names: list[str], limit: int) -> None:
        with self._mutex:
            self._kept.pop(namespace, None)
            if limit < len(names) <= NAMES_MAX:
                self._kept[namespace] = (self._clock.monotonic(), names)
            while len(self._kept) > LISTS_MAX or sum(len(each) for _, each in self._kept.values()) > NAMES_MAX:
                self._kept.popitem(last=False)


def _cut(names: list[str], after: str | None, limit: int) -> Page:
    start = 0 if after is None else bisect.bisect_right(names, after)
    return names[start : start + limit], start + limit < len(names)
