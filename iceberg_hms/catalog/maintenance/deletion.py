"""Deletes files that a table does not lead to, and looks at the table again meanwhile.

Why that is safe. A file is deleted only if no snapshot of metadata that was read *after* its deletion was decided leads
to it. Later metadata can lead to it again only in these ways:

- A branch or tag moves to a removed snapshot. No update brings one back under its id, and every swap is made for the
  current metadata: the coordinator stages a change on it, and other writers' swaps are refused and built again.
- A cherry-pick takes a removed snapshot's files. Ours needs the snapshot in the table when it is committed. A stock
  client that read it before its removal adds the files by name, as in the next but one.
- A snapshot keeps files of its parent. Its parent must be in the table, so its files were live.
- A writer adds the same file once more, by name. Nothing in the format forbids that. So the table is read again before
  each batch, and what new snapshots lead to is kept. What lands while one batch is deleted is seen too late: a writer
  that adds a file that the table just dropped may lose it, here as with Java's expiration.
- A swap that was sent before the removal, without compare-and-swap and with its lock lost, takes the table back to
  metadata from before. That loses acknowledged commits as well; docs/metastore.md says when it can happen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from iceberg_hms.catalog.maintenance.reachable_files import ReachableFiles, in_batches
from iceberg_hms.catalog.maintenance.reports import DeletedFiles, FoundFile, Progress
from iceberg_hms.coordinator.files.cleanup import PUBLISHED_MAX, delete_files
from iceberg_hms.coordinator.files.own_files import OwnFiles
from iceberg_hms.coordinator.ports import CommitPorts
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.locations import parse, same_folder

#: How many files are deleted between two looks at the table.
BATCH: Final = PUBLISHED_MAX
_SLASHES: Final = re.compile("/{2,}")


class Deletion:
    """Files that may be deleted: `found` minus all that is shown to be reachable. Not safe for threads.

    start: the table as it was when its reachable files were read first. reached: what has been read of them. load: the
    table as it is now. on_progress: told of the deleted files. why: as the events
    `files-deleted` and `files-left` have it.
    """

    def __init__(
        self,
        ports: CommitPorts,
        start: TableVersion,
        reached: ReachableFiles,
        load: Callable[[], TableVersion],
        on_progress: Progress,
        why: str,
    ) -> None:
        self.identity = FileIdentity(ports.files.real_path, ports.files.is_link)
        self._ports = ports
        self._seen = start
        self._reached = reached
        self._load = load
        self._on_progress = on_progress
        self._why = why
        self._found: dict[str, FoundFile] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, files: Iterable[FoundFile]) -> None:
        """Files that may be deleted, in the order of their deletion."""
        for file in files:
            self._found.setdefault(self.identity.key(file.location), file)

    def get(self, location: str) -> FoundFile | None:
        """The file that may be deleted and that a location means."""
        return self._found.get(self.identity.key(location))

    def keep(self, locations: Iterable[str]) -> None:
        """What the table leads to, and what symbolic links lead to that it names. Stops reading where nothing is left
        to be kept. Raises StorageError."""
        if not self._found:
            return
        for location in locations:
            for key in self.identity.keys(location):
                if self._found.pop(key, None) is not None and not self._found:
                    return

    def keep_foreign(self, own: OwnFiles, result: DeletedFiles) -> None:
        """Keep what is not the table's own; the result lists it."""
        for key, file in list(self._found.items()):
            if file.location not in own:
                result.kept.append(file.location)
                del self._found[key]

    def files(self) -> list[FoundFile]:
        return list(self._found.values())

    def delete(self, result: DeletedFiles) -> None:
        """Delete what is left. Raises nothing of ours: the result says where it stopped."""
        try:
            for keys in in_batches(list(self._found), BATCH):
                why = self._look_again()
                if why:
                    result.stopped = why
                    return
                # A new snapshot may have taken some of them.
                self._delete([self._found[key] for key in keys if key in self._found], result)
                self._on_progress("deleting", len(result.deleted) + len(result.failed))
        except IcebergHmsError as error:
            result.stopped = str(error)

    def _look_again(self) -> str:
        """Keep what commits since the last look lead to. Returns why nothing may be deleted; empty if it may. Raises as
        `Coordinator.load` and `ReachableFiles`."""
        now = self._load()
        if now.pointer.metadata_location == self._seen.pointer.metadata_location:
            return ""
        if now.metadata.uuid != self._seen.metadata.uuid:
            return f"another table has the name {now.pointer.name} now"
        if not same_folder(now.pointer.location, self._seen.pointer.location):
            return f"the table moved to {now.pointer.location}"
        self._seen = now
        self.keep([now.pointer.metadata_location])
        self.keep(self._reached.all_new(now.metadata))
        return ""

    def _delete(self, files: Sequence[FoundFile], result: DeletedFiles) -> None:
        failed = delete_files(self._ports, self._seen.pointer.name, [each.location for each in files], self._why).failed
        result.failed.update({location: str(error) for location, error in failed.items()})
        result.deleted.extend(each for each in files if each.location not in failed)


class FileIdentity:
    """Keys of locations; equal ones may mean the same file.

    A table's metadata may spell one file in several ways, and each location is compared byte for byte everywhere else.
    Here an unequal spelling would cost the file. So everything that could be another spelling of a path counts as the
    same: scheme, authority, double slashes, and symbolic links of folders on a local disk. Taking two files for one
    keeps a file too many, which does no harm.

    real_path, is_link: those of `Files`. The first is called once for each folder, not for each file.
    """

    def __init__(self, real_path: Callable[[str], str], is_link: Callable[[str], bool]) -> None:
        self._real_path = real_path
        self._is_link = is_link
        self._folders: dict[str, str] = {}

    def key(self, location: str) -> str:
        """The path without scheme and authority. A location that cannot be parsed or resolved is its own key."""
        folder, slash, name = location.rpartition("/")
        if not slash or not folder or name in (".", ".."):
            return location
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = self._resolved(folder)
        return f"{found}/{name}"

    def keys(self, location: str) -> tuple[str, ...]:
        """The key of a location, and if it names a symbolic link that of the file behind. Looks at the file. Raises
        StorageError if nobody can say whether it is a link."""
        key = self.key(location)
        try:
            if self._is_link(location):
                return key, self.key(self._real_path(location))
        except InvalidInput:
            # No file has such a location.
            pass
        return (key,)

    def _resolved(self, folder: str) -> str:
        try:
            path = parse(self._real_path(folder)).path
        except InvalidInput:
            return folder
        except IcebergHmsError:
            # A loop of links, or a folder that may not be read: nothing is deleted there, since nothing resolves it for
            # `OwnFiles` either.
            return folder
        return _SLASHES.sub("/", path).rstrip("/")
