"""Finds a table whatever its name: searches all databases for its UUID.

The metastore answers for one database at a time, so a table is missed that another renames meanwhile, from a database
that was not looked at yet to one that was. Nobody can be kept from that: Java renames without a lock. So one look
proves nothing, and all databases are looked through twice, each time in the same order, which begins with the one that
the table was last known in:

- A table that stays where it was known is found by the first question.
- A look misses a table that is there only if it is renamed during that look, from a database that comes later to one
  that comes earlier, or is new: the databases are listed anew for each look.

So both looks miss a table only if it was renamed three times within them, each time into another database: away from
where it was known before the first question, and then towards the front during each look. A rename and its way back do
not do that. What the metastore hides from our user nobody can see.

A table that was dropped is nowhere, until somebody registers one of its files. So "nowhere" means that nothing in the
metastore names the table; whether a swap may still be under way is for the caller to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, Pointer, TableName
from iceberg_hms.coordinator.protocol.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.errors import MetastoreUnavailable, MissingFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

_LOOKS: Final = 2


class UuidLookup:
    """Setting: commit.uuid-lookup.total-timeout-ms (0 = nobody looks)."""

    def __init__(self, world: CommitPorts, cache: MetadataCache, settings: Settings) -> None:
        self._world = world
        self._cache = cache
        self._seconds = settings.uuid_lookup_total_timeout_ms / 1000

    def find(self, uuid: str, known_as: TableName) -> Sequence[TableVersion]:
        """The tables that have a UUID, as they are now: one, unless somebody registered it twice; none: it is nowhere.
        known_as: the name under which the table was last known.

        Raises MetastoreError, MissingFile, CorruptFile, StorageError where nobody can tell.
        """
        deadline = self._world.runtime.now() + self._seconds
        found: list[TableVersion] = []
        for _ in range(_LOOKS):
            for namespace in self._databases(known_as):
                found += self._within(namespace, uuid, deadline)
            if found:
                break
        return found

    def _databases(self, known_as: TableName) -> list[str]:
        others = [each for each in self._world.pointer.databases() if each != known_as.namespace]
        return [known_as.namespace, *others]

    def _within(self, namespace: str, uuid: str, deadline: float) -> Iterator[TableVersion]:
        rows = self._world.pointer.find_by_uuid(namespace, uuid, timeout_seconds=self._left(deadline))
        for pointer in rows.matching:
            metadata = self._cache.get(pointer.metadata_location)
            # What a row says may be outdated: others register a file over a table, and leave it as it was.
            if _has(metadata, uuid):
                yield TableVersion(pointer, metadata)
        for pointer in rows.without_uuid:
            self._left(deadline)
            if self._is(pointer, uuid):
                yield TableVersion(pointer, self._cache.get(pointer.metadata_location))

    def _is(self, pointer: Pointer, uuid: str) -> bool:
        """Whether a table whose row says no UUID has this one. Its metadata is not kept: most are other tables."""
        try:
            return _has(self._cache.peek(pointer.metadata_location), uuid)
        except MissingFile:
            # A row that names nothing is no table.
            return False

    def _left(self, deadline: float) -> float:
        left = deadline - self._world.runtime.now()
        if left <= 0:
            raise MetastoreUnavailable(
                f"no time is left to look for a table in all databases ({self._seconds:g} s)",
                next_step="raise commit.uuid-lookup.total-timeout-ms",
            )
        return left


def _has(metadata: TableMetadata, uuid: str) -> bool:
    return metadata.uuid is not None and metadata.uuid.lower() == uuid.lower()
