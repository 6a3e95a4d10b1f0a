"""Where the pointers of many tables are, for who knows where they were.

The metastore makes about ten queries of its database for each row that it answers: a second for 1,000 tables. A filter
of all names by their metadata location is one query, 10 ms for as many tables. No filter says "not where it was", so
the names are asked for by one character of the location: the last digit of the metadata file's version, which each
commit advances, or in some turns a digit of its random id. A table whose character is another one has moved, and
its row is read. One that moved and has the same character again is overlooked in this turn.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

from iceberg_hms.clock import Clock
from iceberg_hms.errors import MetastoreUnavailable, NoSuchNamespace
from iceberg_hms.metastore.connection.faults import ServerFault
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION
from iceberg_hms.metastore.tables.table_names import TableNames

logger = logging.getLogger(__name__)

#: The ends of names that all writers give to metadata files: version, random UUID. Of others the row is read.
_NAME: Final = re.compile(r"[0-9]-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.metadata\.json\Z")
_SUFFIX: Final = len(".metadata.json")
#: How far from the end of such a name the last digit of the version is, and the last twelve of the UUID.
_VERSION_DIGIT: Final = _SUFFIX + 36 + 2
_RANDOM_DIGITS: Final = range(_SUFFIX + 1, _SUFFIX + 13)
#: In every so many turns all rows are read, so that nothing is overlooked for longer.
FULL_TURNS: Final = 16
#: In every so many turns a random digit is asked for: the version's is the same again after ten commits.
_RANDOM_TURNS: Final = 4
#: How many rows tell how long one takes.
_SAMPLE_ROWS: Final = 20


class PointerLocations:
    """Of one metastore. Safe for threads: what it learns is only ever a number."""

    def __init__(self, names: TableNames, clock: Clock) -> None:
        self._names = names
        self._clock = clock
        #: How long the metastore took for one row, last; None: not known yet.
        self._row_seconds: float | None = None

    def read(
        self, namespace: str, names: Collection[str] | None, known: Mapping[str, str], turn: int
    ) -> dict[str, str]:
        """As `TableLister.locations_in`. Raises MetastoreUnavailable for an error that may pass, such as an outage of
        the metastore's database."""
        try:
            return self._read(namespace, names, known, turn)
        except ServerFault as fault:
            if not fault.final:
                raise MetastoreUnavailable(
                    f"The metastore could not read the tables of {namespace}: {fault.detail}"
                ) from fault
            raise

    def _read(
        self, namespace: str, names: Collection[str] | None, known: Mapping[str, str], turn: int
    ) -> dict[str, str]:
        if names is not None:
            return self._of_rows(namespace, names)
        begun = self._clock.monotonic()
        try:
            found = self._names.filtered_iceberg(namespace)
        except NoSuchNamespace:
            return {}
        filter_seconds = self._clock.monotonic() - begun
        if found is None:
            return self._of_rows(namespace, None)
        if not known or turn % FULL_TURNS == 0 or self._row_seconds is None:
            return self._of_rows(namespace, found)
        distance, digits = _character_of(turn)
        if len(digits) * filter_seconds >= len(found) * self._row_seconds:
            # Few tables of ours among many others.
            return self._of_rows(namespace, found)
        try:
            kept = self._unmoved(namespace, known, distance, digits)
        except (ServerFault, NoSuchNamespace) as error:
            logger.info("The metastore did not filter names by location, so all rows are read: %s", error)
            return self._of_rows(namespace, found)
        there = {name: known[name] for name in found if name in kept}
        return there | self._of_rows(namespace, [name for name in found if name not in kept])

    def _unmoved(self, namespace: str, known: Mapping[str, str], distance: int, digits: str) -> set[str]:
        """The tables whose pointer has the same character as the known one, and no other."""
        seen: defaultdict[str, list[str]] = defaultdict(list)
        for digit in digits:
            pattern = f".*{digit}{'.' * (distance - 1)}"
            for name in self._names.located_like(namespace, pattern):
                seen[name].append(digit)
        # A server that takes the pattern for another one, or a table that moves meanwhile, shows by two digits or none.
        return {
            name
            for name, location in known.items()
            if _NAME.search(location) and seen.get(name) == [location[-distance]]
        }

    def _of_rows(self, namespace: str, names: Collection[str] | None) -> dict[str, str]:
        begun = self._clock.monotonic()
        rows: list[tuple[str, Any]] = [
            (row.tableName, row.parameters.get(METADATA_LOCATION)) for row in self._names.iceberg_rows(namespace, names)
        ]
        seconds = self._clock.monotonic() - begun
        if len(rows) >= _SAMPLE_ROWS:
            self._row_seconds = seconds / len(rows)
        return {name: location for name, location in rows if location}


def _character_of(turn: int) -> tuple[int, str]:
    """Which character a turn asks for: its distance from the end, and what it may be."""
    if turn % _RANDOM_TURNS:
        return _VERSION_DIGIT, "0123456789"
    return _RANDOM_DIGITS[turn // _RANDOM_TURNS % len(_RANDOM_DIGITS)], "0123456789abcdef"
