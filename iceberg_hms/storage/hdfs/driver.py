"""The driver for HDFS, by hdfs-native: pyarrow needs libhdfs and a Hadoop installation, which no wheel brings.

It writes a new file under a name of its own, which no other attempt uses, and renames it without replacing another
file. To create it under its final name, and to delete it there after a failure, is not safe. A name node that hung may
carry out a deletion that was given up after a later attempt has written that name, and then a file is gone that a table
points at. Without the deletion no later attempt could succeed: the name node knows the file as open or empty. The
rename takes no measurable time (three data nodes on two cores, p50 of each way in three rounds: 9-21 and 10-18 ms for
20 kB, 646-685 and 624-650 ms for 16 files of 1 MiB in parallel).

What a killed process leaves is such a file of its own. The name node closes it when the process's lease expires, and an
orphan sweep of the table deletes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

from hdfs_native import AsyncClient, WriteOptions

from iceberg_hms.clock import Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import ListedFile
from iceberg_hms.errors import IcebergHmsError, InvalidInput, MissingFile, StorageRefused
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.format.locations import parse
from iceberg_hms.storage.driver import Entry, list_folder
from iceberg_hms.storage.hdfs import event_loop
from iceberg_hms.storage.hdfs.failures import as_error, folder_named
from iceberg_hms.storage.hdfs.site import HdfsSite
from iceberg_hms.storage.hdfs.user import PROCESS_USER

Result = TypeVar("Result")

#: Seconds for one call, in which a pair of name nodes may change places; and for each MiB that it moves.
CALL_SECONDS: Final = 30.0
_SECONDS_PER_MIB: Final = 1.0
_MIB: Final = 1024 * 1024
#: Seconds for removing what a failed write left.
_CLEANUP_SECONDS: Final = 5.0

_ROOT: Final = "name a file: hdfs://cluster/folder/file"


class HdfsDriver:
    """Implements `storage.driver.Driver` for `hdfs` and `viewfs`. Reads `hdfs.*` of the settings. Safe to share between
    threads. call_seconds: how long a call may take.

    Raises StorageRefused for settings that cannot be obeyed, also together with those of another driver.
    """

    def __init__(self, settings: Settings, clock: Clock, call_seconds: float = CALL_SECONDS) -> None:
        self._clock = clock
        self._seconds = call_seconds
        self._site = HdfsSite(settings)
        PROCESS_USER.become(settings.hdfs_user)
        self._clients: dict[str, AsyncClient] = {}
        #: How often a client was given up: each new one begins with another name node.
        self._turns = 0

    def read(self, location: str, limit: Limit) -> bytes:
        async def open_file(client: AsyncClient, path: str) -> Any:
            return await client.read(path)

        reader = self._call(location, open_file)
        # Here, since it may ask for whom this thread works.
        limit.check(location, len(reader))

        async def read(_: AsyncClient, __: str) -> bytes:
            return bytes(await reader.read())

        return self._call(location, read, len(reader))

    def read_range(self, location: str, start: int, end: int) -> bytes:
        async def read(client: AsyncClient, path: str) -> bytes:
            reader = await client.read(path)
            return bytes(await reader.read_range(start, end - start))

        return self._call(location, read, end - start)

    def read_tail(self, location: str, count: int) -> tuple[int, bytes]:
        async def read(client: AsyncClient, path: str) -> tuple[int, bytes]:
            reader = await client.read(path)
            size = len(reader)
            length = min(count, size)
            return size, bytes(await reader.read_range(size - length, length))

        return self._call(location, read, count)

    def create(self, location: str, data: bytes) -> None:
        path = parse(location).path
        # No dot comes first: sweeps of orphan files leave hidden ones alone.
        beside = f"{path.rpartition('/')[0]}/{self._clock.uuid()}.tmp"

        async def write(client: AsyncClient, path: str) -> None:
            writer = await client.create(beside, WriteOptions(overwrite=False, create_parent=True))
            await writer.write(data)
            await writer.close()
            await client.rename(beside, path, False)

        async def remove(client: AsyncClient, _: str) -> None:
            await client.delete(beside, False)

        try:
            self._call(location, write, len(data))
        except IcebergHmsError as error:
            # What cannot be removed now is no file of a table: an orphan sweep finds it.
            with contextlib.suppress(IcebergHmsError):
                self._call(location, remove, limit=_CLEANUP_SECONDS)
            if isinstance(error, MissingFile):
                raise StorageRefused(
                    f"Cannot create {location}: its folder was removed, or is a file",
                    next_step="choose another folder",
                ) from error
            raise

    def length(self, location: str) -> int:
        async def length(client: AsyncClient, path: str) -> int:
            status = await client.get_file_info(path)
            if status.isdir:
                raise folder_named(location)
            return int(status.length)

        return self._call(location, length)

    def delete(self, location: str) -> bool:
        async def delete(client: AsyncClient, path: str) -> bool:
            # HDFS deletes an empty folder like a file.
            if (await client.get_file_info(path)).isdir:
                raise folder_named(location)
            return bool(await client.delete(path, False))

        try:
            return self._call(location, delete)
        except MissingFile:
            return False

    def list_page(self, folder: str, token: Any) -> tuple[Sequence[ListedFile], Any]:
        def entries(inner: str) -> Iterator[Entry]:
            async def read(client: AsyncClient, path: str) -> list[Any]:
                whole = f"{path.rstrip('/')}/{inner}".rstrip("/") or "/"
                # A file that is listed has its own path.
                return [each async for each in client.list_status(whole) if each.path != whole]

            try:
                found = self._call(folder, read)
            except MissingFile:
                return
            for each in found:
                name = each.path.rpartition("/")[2]
                yield name, each.isdir, int(each.length), int(each.modification_time)

        return list_folder(folder, token, entries)

    def folder_exists(self, location: str) -> bool:
        async def is_folder(client: AsyncClient, path: str) -> bool:
            return bool((await client.get_file_info(path)).isdir)

        try:
            return self._call(location, is_folder)
        except MissingFile:
            return False

    def _call(
        self,
        location: str,
        ask: Callable[[AsyncClient, str], Coroutine[Any, Any, Result]],
        size: int = 0,
        *,
        limit: float = float("inf"),
    ) -> Result:
        """What a coroutine returns. size: the bytes that it moves. limit: of its time, in seconds."""
        parsed = parse(location)
        if parsed.path == "/":
            raise InvalidInput(f"No file: {location}", next_step=_ROOT)
        url = self._site.url(parsed)
        client: AsyncClient | None = None
        try:
            client = self._client(url)
            seconds = min(self._seconds + size / _MIB * _SECONDS_PER_MIB, limit)
            return event_loop.run(ask(client, parsed.path), seconds)
        except IcebergHmsError:
            raise
        except TimeoutError as error:
            self._give_up(url, client)
            raise as_error(location, error) from error
        except (OSError, RuntimeError, ValueError) as error:
            raise as_error(location, error) from error

    def _client(self, url: str) -> AsyncClient:
        found = self._clients.get(url)
        if found is None:
            # No lock: the first one made is kept.
            found = self._clients.setdefault(
                url, AsyncClient(url, self._site.for_client(url, self._turns), self._site.folder)
            )
        return found

    def _give_up(self, url: str, client: AsyncClient | None) -> None:
        """Let the next call make a new client, which connects anew: this one's connection may hang for good."""
        # Of the many calls that a name node that hangs lets time out, one counts.
        if client is not None and self._clients.get(url) is client:
            self._clients.pop(url, None)
            self._turns += 1
