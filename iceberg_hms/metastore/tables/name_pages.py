"""A page of the names of a database's tables.

The metastore returns names of a database all at once and in no order: its filters know neither names nor offsets. For
12,000 tables it takes 50 ms for all names, 500 ms for the names that a filter leaves, and two minutes for all rows. So
a list that a filter left is kept while a client reads its pages, and where no filter works only the rows are read that
a page needs.
"""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from iceberg_hms.clock import Clock
from iceberg_hms.metastore.tables.table_names import TableNames

#: How old a list may be from which a page is cut, the first page excepted.
LIST_MAX_AGE_SECONDS: Final = 30.0
#: How many lists are kept, and how many names in all of them together.
LISTS_MAX: Final = 16
NAMES_MAX: Final = 500_000

#: Sorted names, and whether there may be more after them.
Page = tuple[Sequence[str], bool]


class NamePages:
    """Cuts pages. Safe for threads. list_all: of all tables and views instead of the Iceberg tables."""

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
