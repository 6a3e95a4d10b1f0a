"""Finds a table under any name: searches all databases for its UUID.

The metastore answers for one database at a time, so one pass misses a table that another writer renames meanwhile from
a database that was not searched yet to one that was. Nothing prevents that: Java renames without a lock. So one pass
proves nothing, and all databases are searched twice, each time in the same order, starting with the table's last known
database:

- The first question finds a table that stayed where it was last known.
- A pass misses an existing table only if a rename during that pass moves it from a later database to an earlier or new
  one: each pass lists the databases anew.

So both passes miss a table only if it was renamed three times within them, each time into another database: away from
where it was last known before the first question, and then towards the front during each pass. A rename and its way
back do not do that. Nobody can find what the metastore hides from our user.

A dropped table is nowhere, until a writer registers one of its files. So "nowhere" means that no row of the metastore
names the table; the caller must know whether a swap may still be under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, Pointer, TableName
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.errors import MetastoreUnavailable, MissingFile

_PASSES: Final = 2


Found = TypeVar("Found")


def search_twice(
    ports: CommitPorts,
    last_known: TableName,
    seconds: float,
    within: Callable[[str, Callable[[], float]], Iterable[Found]],
) -> list[Found]:
    """What is found in all databases, as above: in the first pass, or else in the second.

    last_known: the name that was last known of what is searched for. seconds: the most that both passes may take.
    within: searches a database; its second argument says how much of that time remains, or raises MetastoreUnavailable.
    Raises as the search."""
    deadline = ports.runtime.now() + seconds

    def remaining() -> float:
        remaining = deadline - ports.runtime.now()
        if remaining <= 0:
            raise MetastoreUnavailable(
                f"timed out after {seconds:g} s searching all databases for a table or view",
                next_step="raise commit.uuid-lookup.total-timeout-ms",
            )
        return remaining

    found: list[Found] = []
    for _ in range(_PASSES):
        others = [each for each in ports.pointer.databases() if each != last_known.namespace]
        for namespace in (last_known.namespace, *others):
            found += within(namespace, remaining)
        if found:
            break
    return found


class UuidLookup:
    """Setting: commit.uuid-lookup.total-timeout-ms (0 = never search)."""

    def __init__(self, ports: CommitPorts, cache: MetadataCache, settings: Settings) -> None:
        self._ports = ports
        self._cache = cache
        self._timeout = settings.uuid_lookup_total_timeout_ms / 1000

    def find(self, uuid: str, last_known: TableName) -> Sequence[TableVersion]:
        """The tables that have a UUID, as they are now: one, or more if a writer registered it twice; none if it is
        nowhere. last_known: the table's last known name.

        Raises MetastoreError, MissingFile, CorruptFile, StorageError if the search failed.
        """
        return search_twice(self._ports, last_known, self._timeout, partial(self._within, uuid))

    def _within(self, uuid: str, namespace: str, remaining: Callable[[], float]) -> Iterator[TableVersion]:
        rows = self._ports.pointer.find_by_uuid(namespace, uuid, timeout_seconds=remaining())
        for pointer in rows.matching:
            metadata = self._cache.get(pointer.metadata_location)
            # A row's UUID may be outdated: other writers register a file over a table, and leave it as it was.
            if metadata.has_uuid(uuid):
                yield TableVersion(pointer, metadata)
        for pointer in rows.without_uuid:
            remaining()
            if self._matches(pointer, uuid):
                yield self._cache.version(pointer)

    def _matches(self, pointer: Pointer, uuid: str) -> bool:
        """Whether a table whose row has no UUID has this one. Its metadata is not cached: most are other tables."""
        try:
            return self._cache.peek(pointer.metadata_location).has_uuid(uuid)
        except MissingFile:
            # A row whose metadata file is gone is no table.
            return False
