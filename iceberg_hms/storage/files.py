"""The Files port: each location goes to its kind of store."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.locations import Location, parse
from iceberg_hms.storage.driver import Driver, File, together
from iceberg_hms.storage.gather import Gather, run_sequentially
from iceberg_hms.storage.local_store import LocalStore
from iceberg_hms.storage.remote_files import RemoteFiles
from iceberg_hms.storage.retries import Retries

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

_LOCAL: Final = "file"
#: A host with a port, or a bucket. More would reach the store's client as options: another user, his ticket, any key of
#: its configuration.
_AUTHORITY: Final = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{1,5})?", re.ASCII)
#: Makes a driver and says how often it tries again; called once, when a location of its scheme is first used.
MakeDriver = Callable[[], tuple[Driver, Retries]]


class Store(Protocol):
    """The files of one kind of store, as `coordinator.ports.Files` says."""

    def read(self, location: str, limit: Limit) -> bytes: ...

    def open(self, location: str) -> Any: ...

    def create(self, files: Sequence[File], made: list[str]) -> None:
        """Create files, and add the location of each to `made` once it is there. Raises as `Files.write_all`."""
        ...

    def length(self, location: str) -> int: ...

    def delete(self, location: str) -> bool: ...

    def delete_all(self, locations: Sequence[str]) -> Deleted: ...

    def list_files(self, folder: str) -> Iterator[ListedFile]: ...

    def folder_exists(self, location: str) -> bool | None: ...


class RoutedFiles:
    """Implements `coordinator.ports.Files`. Safe to share between threads.

    drivers: of the remote stores, by the scheme that `locations.parse` gives; one for `file` treats local files as
    those of a remote store. fsync: flush local files to the disk
    before `write` returns. gather: runs functions in parallel, as `Runtime.gather` does, `io_threads` at a time.
    read_retries: how often to read a local file again after an error, as Java does with metadata.
    """

    def __init__(
        self,
        drivers: Mapping[str, MakeDriver] | None = None,
        *,
        fsync: bool = True,
        gather: Gather = run_sequentially,
        io_threads: int = 1,
        read_retries: int = 0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._drivers = drivers or {}
        self._gather = gather
        self._io_threads = io_threads
        self._local = LocalStore(Retries(read_retries, clock=clock), fsync=fsync, gather=gather)
        self._stores: dict[str, Store] = {} if _LOCAL in self._drivers else {_LOCAL: self._local}

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        """The whole file. Raises MissingFile, StorageError, CorruptFile for more bytes than the limit and for what is
        no regular file, and InvalidInput for an invalid location."""
        return self._store(location).read(location, limit)

    def open(self, location: str) -> Any:
        """A file to read parts of, as for footers: `size()`, `seek(position)`, `read(count)`, and a context that closes
        it. Raises as `read`."""
        return self._store(location).open(location)

    def write(self, location: str, data: bytes) -> None:
        self.write_all([(location, data)])

    def write_all(self, files: Sequence[File]) -> None:
        found, refused = self._by_store(files, lambda file: file[0])
        for error in refused.values():
            raise error
        made: list[str] = []
        try:
            for store, some in found:
                store.create(some, made)
        except IcebergHmsError:
            for location, error in self.delete_all(made).failed.items():
                logger.warning("%s, which no table names, could not be deleted: %s", location, error)
            raise

    def length(self, location: str) -> int:
        return self._store(location).length(location)

    def delete(self, location: str) -> bool:
        return self._store(location).delete(location)

    def delete_all(self, locations: Sequence[str]) -> Deleted:
        found, refused = self._by_store(locations, lambda location: location)
        return together([Deleted((), refused), *(store.delete_all(some) for store, some in found)])

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        yield from self._store(folder).list_files(folder)

    def list_links(self, folder: str) -> Iterator[str]:
        if parse(folder).is_local:
            yield from self._local.list_links(folder)

    def folder_exists(self, location: str) -> bool | None:
        return self._store(location).folder_exists(location)

    def make_folder(self, location: str) -> None:
        if parse(location).is_local:
            self._local.make_folder(location)

    def real_path(self, location: str) -> str:
        parsed = parse(location)
        if parsed.is_local:
            return self._local.real_path(location)
        return f"{parsed.scheme}://{parsed.authority}{parsed.path}"

    def is_link(self, location: str) -> bool:
        return parse(location).is_local and self._local.is_link(location)

    def _by_store(
        self, items: Sequence[Item], location_of: Callable[[Item], str]
    ) -> tuple[Collection[tuple[Store, list[Item]]], dict[str, IcebergHmsError]]:
        """Each store that has some of the items, with these; and what is wrong with the locations of the others."""
        found: dict[int, tuple[Store, list[Item]]] = {}
        refused: dict[str, IcebergHmsError] = {}
        for item in items:
            location = location_of(item)
            try:
                store = self._store(location)
            except IcebergHmsError as error:
                refused[location] = error
            else:
                found.setdefault(id(store), (store, []))[1].append(item)
        return found.values(), refused

    def _store(self, location: str) -> Store:
        """The store of a location. Raises InvalidInput for an invalid one, and for an unknown scheme."""
        parsed = parse(location)
        scheme = parsed.scheme
        if not parsed.is_local:
            _check_authority(parsed)
        found = self._stores.get(scheme)
        if found is not None:
            return found
        if scheme not in self._drivers:
            known = ", ".join((_LOCAL, *self._drivers))
            raise InvalidInput(f"No filesystem for scheme {scheme!r}; known are {known}")
        # No lock: the first one made is kept.
        driver, retries = self._drivers[scheme]()
        made = RemoteFiles(driver, retries, gather=self._gather, io_threads=self._io_threads)
        return self._stores.setdefault(scheme, made)


def _check_authority(location: Location) -> None:
    """Raises InvalidInput unless the authority is just a host, a port or a bucket."""
    if not _AUTHORITY.fullmatch(location.authority):
        raise InvalidInput(
            f"The authority of a {location.scheme} location must be a plain host and port, or a bucket",
            next_step="configure users, tickets and endpoints where the server runs, not in a location",
        )
