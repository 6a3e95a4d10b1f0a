"""The driver for S3, and for whatever speaks its protocol."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final

from iceberg_hms.clock import Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Deleted, ListedFile
from iceberg_hms.errors import FileAlreadyExists, IcebergHmsError, InvalidInput, MissingFile
from iceberg_hms.format.file_bounds import Limit
from iceberg_hms.format.locations import Location, parse
from iceberg_hms.storage.s3 import obstore_bucket
from iceberg_hms.storage.s3.bucket_client import BucketClient
from iceberg_hms.storage.s3.clients import S3Clients
from iceberg_hms.storage.s3.failures import EXPIRED, INVALID_RANGE, NOT_IMPLEMENTED, S3Failure

_BUCKET_ROOT: Final = "name an object in the bucket: s3://bucket/key"
#: What UTF-8 has no bytes for.
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


@dataclass(slots=True)
class _InUse:
    """The clients of one process."""

    mutex: threading.Lock = field(default_factory=threading.Lock)
    clients: S3Clients | None = None


class S3Driver:
    """Implements `storage.driver.Driver`. Reads `s3.*` of the settings. Safe to share between threads, and with forked
    children."""

    #: What S3 takes in one request.
    deleted_together = 1_000

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        #: By process id: a child that used its parent's connections would take the answers to the parent's requests.
        self._of_process: dict[int, _InUse] = {}
        #: Buckets of stores without conditional writes.
        self._unconditional: set[str] = set()

    def read(self, location: str, limit: Limit) -> bytes:
        with _Mapped(self, location):
            bucket, key = self._object(location)
            return bucket.get(key, partial(limit.check, location))

    def read_range(self, location: str, start: int, end: int) -> bytes:
        with _Mapped(self, location):
            bucket, key = self._object(location)
            return bucket.get_range(key, start, end)

    def read_tail(self, location: str, count: int) -> tuple[int, bytes]:
        with _Mapped(self, location):
            bucket, key = self._object(location)
            try:
                return bucket.get_tail(key, count)
            except S3Failure as failure:
                if failure.code != INVALID_RANGE or self.length(location):
                    raise
                return 0, b""

    def create(self, location: str, data: bytes) -> None:
        with _Mapped(self, location):
            bucket, key = self._object(location)
            name = parse(location).authority
            if name not in self._unconditional:
                try:
                    # The store checks what it received by its signed hash, and keeps all of it or nothing.
                    bucket.put(key, data, is_new=True)
                except S3Failure as failure:
                    if failure.code not in NOT_IMPLEMENTED:
                        raise
                    self._unconditional.add(name)
                else:
                    return
            # Every name that we write is new, so a look before is enough.
            try:
                bucket.head(key)
            except S3Failure as failure:
                if failure.status != HTTPStatus.NOT_FOUND:
                    raise
                bucket.put(key, data, is_new=False)
            else:
                raise FileAlreadyExists(location)

    def length(self, location: str) -> int:
        with _Mapped(self, location):
            bucket, key = self._object(location)
            try:
                return bucket.head(key)
            except S3Failure as failure:
                if failure.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST):
                    raise
            # The answer to GET says whether the object is missing or the bucket, and whether credentials expired.
            return bucket.get_tail(key, 1)[0]

    def delete(self, location: str) -> bool:
        try:
            self.length(location)
        except MissingFile:
            return False
        self.remove(location)
        return True

    def remove(self, location: str) -> None:
        with _Mapped(self, location):
            parsed = parse(location)
            self._current().botocore(parsed.authority).delete(_key(parsed))

    def remove_all(self, locations: Sequence[str]) -> Deleted:
        keys: dict[str, dict[str, list[str]]] = {}
        failed: dict[str, IcebergHmsError] = {}
        for location in locations:
            parsed = parse(location)
            try:
                key = _key(parsed)
            except InvalidInput as error:
                failed[location] = error
            else:
                keys.setdefault(parsed.authority, {}).setdefault(key, []).append(location)
        deleted: list[str] = []
        for bucket, named in keys.items():
            with _Mapped(self, f"s3://{bucket}"):
                gone, kept = self._current().botocore(bucket).delete_all(list(named))
            deleted += [each for key, spelled in named.items() if key in gone for each in spelled]
            failed |= {each: failure.as_error(each) for key, failure in kept.items() for each in named[key]}
        return Deleted(deleted, failed)

    def list_page(self, folder: str, token: Any) -> tuple[Sequence[ListedFile], Any]:
        parsed, above = parse(folder), folder.rstrip("/")
        _check_bucket(parsed)
        prefix = f"{parsed.path.rstrip('/')}/"[1:]
        with _Mapped(self, folder):
            objects, following = self._current().botocore(parsed.authority).list_page(prefix, token)
        return [
            ListedFile(
                f"{above}/{each['Key'][len(prefix) :]}", each["Size"], int(each["LastModified"].timestamp() * 1_000)
            )
            for each in objects
            # Hadoop marks an empty folder by an object whose name ends so.
            if not each["Key"].endswith("/")
        ], following

    def folder_exists(self, location: str) -> None:
        _check_bucket(parse(location))

    def forget(self, clients: S3Clients | None) -> None:
        """Make new clients, with credentials that are found anew, unless another thread did. clients: those in
        use before the request; None if there were none."""
        in_use = self._in_use
        with in_use.mutex:
            if clients is None or in_use.clients is clients:
                in_use.clients = None

    @property
    def clients(self) -> S3Clients | None:
        """Those in use."""
        return self._in_use.clients

    @property
    def _in_use(self) -> _InUse:
        process = os.getpid()
        found = self._of_process.get(process)
        return found if found is not None else self._of_process.setdefault(process, _InUse())

    def _object(self, location: str) -> tuple[BucketClient, str]:
        """The bucket of an object, by the client that can name it, and its key."""
        parsed = parse(location)
        key = _key(parsed)
        clients = self._current()
        if obstore_bucket.can_name(key):
            return clients.obstore(parsed.authority), key
        return clients.botocore(parsed.authority), key

    def _current(self) -> S3Clients:
        """The clients, with valid credentials."""
        in_use = self._in_use
        clients = in_use.clients
        if clients is None:
            with in_use.mutex:
                clients = in_use.clients = in_use.clients or S3Clients(self._settings, self._clock)
        clients.renew()
        return clients


def _check_bucket(location: Location) -> None:
    if not location.authority:
        raise InvalidInput(f"No bucket: s3://{location.path}", next_step=_BUCKET_ROOT)


def _key(location: Location) -> str:
    _check_bucket(location)
    key = location.path[1:]
    if not key or _SURROGATE.search(key):
        raise InvalidInput(f"No object: {f's3://{location.authority}/{key}'!a}", next_step=_BUCKET_ROOT)
    return key


class _Mapped:
    """Maps S3Failure to ours, and lets the driver find new credentials when the store calls these expired."""

    def __init__(self, driver: S3Driver, location: str) -> None:
        self._driver = driver
        self._location = location
        self._clients = driver.clients

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, S3Failure):
            return
        if error.code in EXPIRED:
            self._driver.forget(self._clients)
        raise error.as_error(self._location) from None
