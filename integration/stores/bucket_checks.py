"""Checks a table from its bucket: by botocore alone, and by nothing that a catalog says but the pointer.

report = check_bucket(object_store, pointer.metadata_location, acknowledged=[path, snapshot_id])
report.raise_if_broken()
assert report.unreferenced == ()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from iceberg_hms.catalog.events import LoggedEvents
from iceberg_hms.catalog.maintenance.reachable_files import ReachableFiles
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import CommitPorts, ListedFile, Pointer, TableName
from iceberg_hms.errors import MissingFile
from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.locations import file_key, parse
from iceberg_hms.format.metadata import metadata_file
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning.manifest_columns import ManifestColumns
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.manifests import ManifestStore
from iceberg_hms.testing.history import HistoryFinding, HistoryReport, HistoryRule, check_table
from integration.stores.minio import ObjectStore

_TABLE = TableName("bucket", "table")


@dataclass(frozen=True)
class BucketReport:
    """The result of a check.

    history: of `iceberg_hms.testing.history`. lost: values of summaries that were not there exactly once, as findings.
    unreferenced: the locations below the table's folder to which no snapshot and no metadata leads; none are known if
    the history has findings.
    """

    history: HistoryReport
    lost: tuple[HistoryFinding, ...]
    unreferenced: tuple[str, ...]

    @property
    def findings(self) -> tuple[HistoryFinding, ...]:
        return (*self.history.findings, *self.lost)

    def raise_if_broken(self) -> None:
        """Raise AssertionError that lists the findings, if there are any."""
        assert not self.findings, "\n".join([self.history.metadata_location, *map(str, self.findings)])


def check_bucket(
    store: ObjectStore,
    metadata_location: str,
    *,
    acknowledged: Iterable[int | str] = (),
    refused: Iterable[int | str] = (),
    summaries: Mapping[str, Iterable[str]] | None = None,
) -> BucketReport:
    """Read a table's whole history from its bucket. No writer may be active.

    acknowledged, refused: snapshot ids and locations of data files, as for `check_table`.
    summaries: a property of snapshots' summaries -> its values, each of which one snapshot of main's history must have.
    """
    client = store.client()
    try:
        files: Any = BucketFiles(client)
        metadata = metadata_file.decode(files.read(metadata_location), metadata_location)
        manifests = ManifestStore(files, Settings.load({}, environ={}), ThreadRuntime())
        ports = _ports(files, manifests, metadata, metadata_location)
        history = check_table(ports, _TABLE, acknowledged=acknowledged, refused=refused)
        found = () if history.findings else tuple(_unreferenced(files, ports, manifests, metadata))
        return BucketReport(history, tuple(_lost(metadata, summaries or {})), found)
    finally:
        client.close()


class BucketFiles:
    """The reading half of the Files port, on botocore; a bucket is listed once, when it is first asked for. What does
    not lie on S3 is read as a local file."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._local = RoutedFiles()
        #: Bucket -> key -> the object's length and its time.
        self._buckets: dict[str, dict[str, tuple[int, int]]] = {}

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        """Raises MissingFile; and as botocore for a bucket that is missing or refused."""
        parsed = parse(location)
        if parsed.scheme != "s3":
            return self._local.read(location, limit)
        try:
            found = self._client.get_object(Bucket=parsed.authority, Key=parsed.path[1:])
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                raise MissingFile(location) from error
            raise
        data: bytes = found["Body"].read()
        return data

    def length(self, location: str) -> int:
        """Raises as `read`."""
        parsed = parse(location)
        if parsed.scheme != "s3":
            return self._local.length(location)
        found = self._objects(parsed.authority).get(parsed.path[1:])
        if found is None:
            raise MissingFile(location)
        return found[0]

    def list_files(self, folder: str) -> Iterator[ListedFile]:
        """The objects below a folder of a bucket, or the files below a local one. Raises as `read`."""
        parsed, above = parse(folder), folder.rstrip("/")
        if parsed.scheme != "s3":
            yield from self._local.list_files(folder)
            return
        prefix = f"{parsed.path.strip('/')}/"
        for key, (length, modified_ms) in self._objects(parsed.authority).items():
            # pyarrow marks a folder whose last file it deleted by an object whose name ends so.
            if key.startswith(prefix) and not key.endswith("/"):
                yield ListedFile(f"{above}/{key.removeprefix(prefix)}", length, modified_ms)

    def _objects(self, bucket: str) -> dict[str, tuple[int, int]]:
        if bucket not in self._buckets:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            self._buckets[bucket] = {
                each["Key"]: (each["Size"], int(each["LastModified"].timestamp() * 1_000))
                for page in pages
                for each in page.get("Contents", ())
            }
        return self._buckets[bucket]


class _KnownPointer:
    """The pointer port for a table of which the metadata alone is known."""

    def __init__(self, pointer: Pointer) -> None:
        self._pointer = pointer

    def load(self, _name: TableName) -> Pointer:
        return self._pointer


def _ports(files: Any, manifests: ManifestStore, metadata: TableMetadata, location: str) -> CommitPorts:
    log = metadata.metadata_log
    previous = str(log[-1]["metadata-file"]) if log else None
    pointer: Any = _KnownPointer(Pointer(_TABLE, location, previous, {}, None))
    no_lock: Any = None
    return CommitPorts(pointer, no_lock, files, manifests.open, manifests.runtime, LoggedEvents())


def _unreferenced(
    files: BucketFiles, ports: CommitPorts, manifests: ManifestStore, metadata: TableMetadata
) -> Iterator[str]:
    reachable = ReachableFiles(ports, ManifestColumns(manifests), lambda _what, _count: None).all_new(metadata)
    known = {file_key(ports.pointer.load(_TABLE).metadata_location), *map(file_key, reachable)}
    for each in files.list_files(metadata.location):
        if file_key(each.location) not in known:
            yield each.location


def _lost(metadata: TableMetadata, summaries: Mapping[str, Iterable[str]]) -> Iterator[HistoryFinding]:
    head = metadata.ref(MAIN_BRANCH)
    history = [] if head is None else list(metadata.ancestors(head.snapshot_id))
    for name, values in summaries.items():
        counts = Counter(each.summary.get(name) for each in history)
        for value in values:
            if counts[value] != 1:
                yield HistoryFinding(HistoryRule.LOST, f"{counts[value]} snapshots have {name}={value}")
