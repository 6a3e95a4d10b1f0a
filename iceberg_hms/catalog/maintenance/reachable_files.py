"""Which files a table's metadata leads to.

Everything here reads what must stay, so nothing is passed over: a list or manifest that cannot be read raises, and then
nothing may be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from iceberg_hms.catalog.maintenance.reports import FileKind, FoundFile, Progress
from iceberg_hms.coordinator.ports import CommitPorts
from iceberg_hms.errors import CorruptFile, FileBeyondLimit, MissingFile
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning import layout
from iceberg_hms.planning.manifest_columns import ManifestColumns

Item = TypeVar("Item")

#: How many manifest lists are read at once, and how many manifests between two calls of `on_progress`.
_LISTS: Final = 16
_MANIFESTS: Final = 64


class ReachableFiles:
    """The files that versions of one table lead to. A later version is cheap: what was read for an earlier one is not
    read again, since lists and manifests never change. Not safe for threads.

    columns: of manifests, without a cache. on_progress: told of the manifests that were read.
    """

    def __init__(self, ports: CommitPorts, columns: ManifestColumns, on_progress: Progress) -> None:
        self._ports = ports
        self._columns = columns
        self._on_progress = on_progress
        self._lists: set[str | int] = set()
        self._manifests: set[str] = set()
        self._read = 0

    def manifests(self, metadata: TableMetadata) -> list[ManifestFile]:
        """The manifests of all snapshots that no earlier call gave. Raises MissingFile, CorruptFile, StorageError."""
        new = [each for each in metadata.snapshots if (each.manifest_list or each.snapshot_id) not in self._lists]
        found: dict[str, ManifestFile] = {}
        for each in manifests_of(self._ports, new):
            if each.manifest_path not in self._manifests:
                found[each.manifest_path] = each
        self._lists.update(each.manifest_list or each.snapshot_id for each in new)
        self._manifests.update(found)
        return list(found.values())

    def content(self, manifests: Sequence[ManifestFile]) -> Iterator[str]:
        """The locations of the live files of manifests. Raises as `manifests`."""
        for some in in_batches(manifests, _MANIFESTS):
            for batch in self._columns.read(some, frozenset()):
                yield from layout.values_of(batch, layout.FILE_PATH)
            self._read += len(some)
            self._on_progress("reading manifests of live snapshots", self._read)

    def all_new(self, metadata: TableMetadata) -> Iterator[str]:
        """All files that a version leads to, without those that earlier calls gave, but for the ones that the metadata
        itself names. Raises as `manifests`, and CorruptFile for metadata that names a file in no way that is known."""
        yield from named_by(metadata)
        manifests = self.manifests(metadata)
        yield from (each.manifest_path for each in manifests)
        yield from self.content(manifests)


def in_batches(items: Iterable[Item], count: int) -> Iterator[tuple[Item, ...]]:
    """The items in tuples of at most so many."""
    waiting = iter(items)
    while batch := tuple(islice(waiting, count)):
        yield batch


def manifests_of(ports: CommitPorts, snapshots: Sequence[Snapshot]) -> Iterator[ManifestFile]:
    """The manifests of snapshots, each as often as it is listed. Raises MissingFile, CorruptFile, StorageError."""
    for some in in_batches(snapshots, _LISTS):
        # An instance of the port is not safe for threads.
        for files in ports.runtime.gather([partial(ports.manifests().list, each) for each in some]):
            yield from files


def live_files(columns: ManifestColumns, manifests: Sequence[ManifestFile]) -> Iterator[FoundFile]:
    """The live files of manifests. Raises as `manifests_of`."""
    names = (layout.FILE_PATH, layout.CONTENT, layout.FILE_SIZE)
    for batch in columns.read(manifests, frozenset()):
        for path, content, size in zip(*(layout.values_of(batch, name) for name in names), strict=True):
            yield FoundFile(path, FileKind.of(content), size)


def named_by(metadata: TableMetadata) -> Iterator[str]:
    """The files that the metadata itself names: manifest lists, v1 snapshots' manifests, statistics, the metadata log.
    Raises CorruptFile for an entry without a location."""
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is not None:
            yield snapshot.manifest_list
        yield from snapshot.manifests
    yield from (path for _, path, _ in statistics_of(metadata))
    yield from _log(metadata)


def logged_earlier(metadata: TableMetadata, read: Callable[[str], TableMetadata]) -> Iterator[str]:
    """The metadata files that fell out of the metadata log, back to the table's first one as far as they are there: the
    oldest file of each log has a log of its own (Java: ReachableFileUtil.metadataFileLocations). What else these
    versions lead to is not reachable.

    read: the metadata in a file. Raises what it raises; a file that is gone or damaged is passed over as in Java, for
    the next one of its log."""
    found = _log(metadata)
    known = set(found)
    while found:
        earlier = _first_readable(found, read)
        found = [] if earlier is None else [each for each in _log(earlier) if each not in known]
        known.update(found)
        yield from found


def _log(metadata: TableMetadata) -> list[str]:
    return [_text(entry, "metadata-log", "metadata-file") for entry in _entries(metadata, "metadata-log")]


def _first_readable(locations: Iterable[str], read: Callable[[str], TableMetadata]) -> TableMetadata | None:
    for location in locations:
        try:
            return read(location)
        except FileBeyondLimit:
            # Java may read it.
            raise
        except (MissingFile, CorruptFile):
            continue
    return None


def statistics_of(metadata: TableMetadata) -> Iterator[tuple[int, str, int | None]]:
    """Of each statistics file: its snapshot, its location and its length. Raises as `named_by`."""
    for key in ("statistics", "partition-statistics"):
        for entry in _entries(metadata, key):
            length = entry.get("file-size-in-bytes")
            size = length if isinstance(length, int) else None
            yield int(entry.get("snapshot-id") or 0), _text(entry, key, "statistics-path"), size


def _entries(metadata: TableMetadata, key: str) -> Iterator[Mapping[str, Any]]:
    entries = metadata.fields.get(key) or ()
    for entry in entries if isinstance(entries, Sequence) and not isinstance(entries, str) else (entries,):
        if not isinstance(entry, Mapping):
            raise CorruptFile(metadata.location, f"an entry of {key} in its metadata is no object: {entry!r}")
        yield entry


def _text(entry: Mapping[str, Any], key: str, name: str) -> str:
    found = entry.get(name)
    if not isinstance(found, str):
        raise CorruptFile(key, f"an entry has no {name}, so nobody knows which file it keeps: {entry!r}")
    return found
