"""Finds and deletes files in a table's folder that the table does not lead to (Java: DeleteOrphanFilesSparkAction).

The folder is listed first, and the table is read after that: a file that a commit adds meanwhile is listed and live, or
not listed. A file that a writer has not committed yet is protected by its age alone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, Literal

from iceberg_hms.catalog.maintenance.deletion import Deletion
from iceberg_hms.catalog.maintenance.reachable_files import ReachableFiles, logged_earlier
from iceberg_hms.catalog.maintenance.reports import DeletedFiles, FileKind, FoundFile, OrphanReport, Progress
from iceberg_hms.changes.operations.snapshots.expire_snapshots import require_gc
from iceberg_hms.coordinator.files.own_files import OwnFiles, files_in_folder
from iceberg_hms.coordinator.locations.folder_overlaps import HiveRows, overlapping
from iceberg_hms.coordinator.ports import CommitPorts, Pointer
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.datafiles.folder_names import FolderNames
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import join, same_folder
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning.manifest_columns import ManifestColumns

#: What to do with a file that the table names with another scheme or authority than the listing has.
PrefixMismatch = Literal["error", "ignore", "delete"]

#: Tables of the file system catalog, and engines that read a folder, keep here which metadata file is current.
VERSION_HINT: Final = "version-hint.text"
#: How long to read the rows of all databases: at 4 ms a row that is 900,000 of them.
_SEARCH_SECONDS: Final = 3_600.0
#: How many files are listed between two calls of `on_progress`.
_TOLD_EVERY: Final = 10_000
#: How many files an error names.
_NAMED_MAX: Final = 5
_PREFIX: Final = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?")
#: Java's default: connectors of one store.
_EQUAL_SCHEMES: Final = {"s3n": "s3", "s3a": "s3"}


@dataclass(frozen=True, slots=True)
class Prefixes:
    """When two prefixes of a path mean one store. Comparing is by scheme and authority without case; one that is
    missing is equal to any, as in Java.

    mismatch: what to do with a listed file whose path the table names with another prefix. equal_schemes,
    equal_authorities: names -> the name that they are equal to; names may be a list with commas. Raises InvalidInput
    for another mismatch.
    """

    mismatch: PrefixMismatch = "error"
    equal_schemes: Mapping[str, str] = field(default_factory=dict)
    equal_authorities: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mismatch not in ("error", "ignore", "delete"):
            raise InvalidInput(f"prefix_mismatch must be error, ignore or delete, but is {self.mismatch!r}")

    def comparer(self) -> Callable[[str, str], bool]:
        """Whether the prefixes of two locations are equal."""
        schemes = {**_EQUAL_SCHEMES, **_flat(self.equal_schemes)}
        authorities = _flat(self.equal_authorities)

        def parts(location: str) -> tuple[str, str]:
            found = _PREFIX.match(location)
            scheme, authority = (found[1] or "", found[2] or "") if found else ("", "")
            scheme, authority = scheme.lower(), authority.lower()
            return schemes.get(scheme, scheme), authorities.get(authority, authority)

        def equal(one: str, other: str) -> bool:
            return all(not a or not b or a == b for a, b in zip(parts(one), parts(other), strict=True))

        return equal


class OrphanFiles:
    """Orphans of one table.

    columns: of manifests, without a cache. load: the table as it is now. read_metadata: the metadata in a file.
    on_progress: told of listed files, of manifests that were read, and of deleted files.
    """

    def __init__(
        self,
        ports: CommitPorts,
        columns: ManifestColumns,
        load: Callable[[], TableVersion],
        read_metadata: Callable[[str], TableMetadata],
        on_progress: Progress,
    ) -> None:
        self._ports = ports
        self._columns = columns
        self._load = load
        self._read_metadata = read_metadata
        self._on_progress = on_progress

    def remove(
        self, seen_uuid: str | None, older_than_ms: int, folder: str | None, prefixes: Prefixes, *, dry_run: bool
    ) -> OrphanReport:
        """Delete files that were written before a time and that the table does not lead to.

        seen_uuid: of the table that the caller sees. older_than_ms: milliseconds since 1970 UTC. folder: where to look;
        None: in the table's folder.
        Raises InvalidInput for a folder that is not the table's own, if `gc.enabled` is not true, and for a prefix
        mismatch; RequirementFailed if another table has the name; MissingFile, CorruptFile, StorageError if something
        that the table leads to cannot be read; MetastoreError. Nothing is deleted then.
        """
        start = self._load()
        _require_same(start, seen_uuid)
        require_gc(start.metadata)
        root = folder or start.pointer.location or ""
        self._own(start.pointer, root)
        listed, old = self._old_files(root, older_than_ms, start.metadata)

        now = self._load()
        _require_same(now, seen_uuid)
        require_gc(now.metadata)
        if not same_folder(now.pointer.location, start.pointer.location):
            raise InvalidInput(f"the table moved to {now.pointer.location} meanwhile", next_step="call it again")
        # Once more: a table may have been registered in the folder since, over files that are old.
        own = self._own(now.pointer, root)
        result = DeletedFiles()
        reached = ReachableFiles(self._ports, self._columns, self._on_progress)
        deletion = Deletion(self._ports, now, reached, self._load, self._on_progress, "orphans")
        deletion.add(old)
        deletion.keep_foreign(own, result)
        mismatched = self._keep_reachable(deletion, now, reached, prefixes)
        if dry_run:
            result.deleted.extend(deletion.files())
        else:
            deletion.delete(result)
        return OrphanReport(listed, result, mismatched)

    def _own(self, row: Pointer, root: str) -> OwnFiles:
        """What lies in the table's folder. Raises InvalidInput if the folder is not the table's, or if any other table
        or view, Hive's included, shares it: none may since the table got it, but Hive's DDL asks nobody. Raises
        MetastoreError."""
        own = files_in_folder(self._ports, row)
        if own.reason:
            raise InvalidInput(f"no file of {row.name} is known to be an orphan: {own.reason}")
        if join(root, "x") not in own:
            raise InvalidInput(
                f"{root} does not lie in the table's own folder {row.location}, so its files may be another table's",
                next_step="name a folder below the table's location, or none",
            )
        for other in overlapping(self._ports, row.name, str(row.location), hive=HiveRows.ALL, seconds=_SEARCH_SECONDS):
            raise InvalidInput(
                f"{other.name} has the folder {other.location}, which is, contains or lies in that of {row.name} "
                f"({row.location}): its files would be taken for orphans",
                next_step="give one of them a folder of its own",
            )
        return own

    def _old_files(self, root: str, older_than_ms: int, metadata: TableMetadata) -> tuple[int, list[FoundFile]]:
        """How many files the folder has, and those that are old enough and not hidden. Raises StorageError."""
        is_hidden = FolderNames.of(metadata).is_hidden
        listed = 0
        old: list[FoundFile] = []
        for each in self._ports.files.list_files(root):
            listed += 1
            if listed % _TOLD_EVERY == 0:
                self._on_progress("listing", listed)
            inner = each.location[len(root.rstrip("/")) + 1 :]
            if each.modified_ms < older_than_ms and not is_hidden(inner):
                old.append(FoundFile(each.location, FileKind.UNKNOWN, each.length))
        return listed, old

    def _keep_reachable(
        self, deletion: Deletion, now: TableVersion, reached: ReachableFiles, prefixes: Prefixes
    ) -> tuple[str, ...]:
        """Keep what the table leads to. Returns what it names with another prefix, and what was kept all the same."""
        equal = prefixes.comparer()
        mismatched: dict[str, tuple[str, FoundFile]] = {}

        def live() -> Iterator[str]:
            earlier = logged_earlier(now.metadata, self._read_metadata)
            for location in chain(_beside(now), earlier, reached.all_new(now.metadata)):
                key = deletion.identity.key(location)
                found = deletion.get(location)
                if found is not None and not equal(found.location, location):
                    mismatched[key] = (location, found)
                elif key in mismatched and equal(mismatched[key][1].location, location):
                    # Named in both ways.
                    del mismatched[key]
                yield location

        walk = live()
        deletion.keep(walk)
        if mismatched:
            deque(walk, maxlen=0)
        if not mismatched:
            return ()
        found = [each for _, each in mismatched.values()]
        if prefixes.mismatch == "error":
            some = ", ".join(f"{named} ({each.location})" for named, each in islice(mismatched.values(), _NAMED_MAX))
            raise InvalidInput(
                f"the table names {len(mismatched)} files with another scheme or authority than their folder: {some}",
                next_step="say which are equal (equal_schemes, equal_authorities), or keep these files: "
                'prefix_mismatch="ignore"',
            )
        if prefixes.mismatch == "delete":
            deletion.add(found)
            return ()
        return tuple(each.location for each in found)


def _require_same(version: TableVersion, uuid: str | None) -> None:
    if uuid is not None and version.metadata.uuid != uuid:
        raise RequirementFailed(
            "assert-table-uuid",
            f"another table has the name {version.pointer.name} now",
            expected=uuid,
            found=version.metadata.uuid,
        )


def _beside(now: TableVersion) -> Iterable[str]:
    """What no metadata names: what the table's row does, and version hints."""
    row = now.pointer
    folders = {row.metadata_location.rpartition("/")[0], join(now.metadata.location, "metadata")}
    named = [each for each in (row.metadata_location, row.previous_metadata_location) if each is not None]
    return [*named, *(join(folder, VERSION_HINT) for folder in folders)]


def _flat(names: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for listed, name in names.items():
        found.update((each.strip().lower(), name.strip().lower()) for each in listed.split(","))
    return found
