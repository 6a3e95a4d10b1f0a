"""Each verb that deletes, on stores that do not delete many objects in one request: the objects go all the same; and
where the store deletes none, what stays is named in the report, the log and the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from iceberg_hms.config import Settings
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.rest.counters import Counters
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.faults.script import PASS, Action, FaultStep
from iceberg_hms.testing.memory_catalog import memory_catalog
from integration.stores import s3_proxy
from integration.stores.minio import ObjectStore
from integration.stores.s3_proxy import Answer, Rewrite, S3Proxy, S3Request

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64())])
FUTURE = datetime(2100, 1, 1, tzinfo=UTC)
QUICK = {"s3_retry_num_retries": 1, "s3_retry_min_wait_ms": 1, "s3_retry_max_wait_ms": 10}
_INSTEAD: Action = (FaultStep.REPLY,)


@dataclass(frozen=True)
class Odd:
    """How a store answers a deletion of many objects. action: whether it carries the deletion out."""

    rewrite: Rewrite
    action: Action = _INSTEAD


def error(status: int, code: str, message: str = "") -> Odd:
    return Odd(lambda request, _: Answer(status, code, message).encode(request))


def body(data: bytes, kind: str = "application/xml") -> Odd:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    return Odd(lambda _request, _reply: head + data)


def _half(_: S3Request, reply: bytes) -> bytes:
    data = reply.partition(b"\r\n\r\n")[2]
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {len(data) // 2}\r\n\r\n"
    return head.encode() + data[: len(data) // 2]


STORES = {
    "MinIO before 2025": error(400, "MissingContentMD5", "Missing required header for this request: Content-Md5."),
    "Ceph": error(400, "InvalidRequest", "Missing required header for this request: Content-MD5"),
    "without the call": error(501, "NotImplemented", "A header you provided implies functionality not implemented"),
    "with a proxy that forbids it": error(405, "MethodNotAllowed"),
    "with a policy that forbids it": error(403, "AccessDenied"),
    "with an error in a success": body(b"<Error><Code>NotImplemented</Code><Message>no</Message></Error>"),
    "with an empty answer": body(b""),
    "behind a page": body(b"<html><body>Sign in</body></html>", "text/html"),
    "that says nothing": body(b'<?xml version="1.0"?><DeleteResult></DeleteResult>'),
    "that cuts off what it did": Odd(_half, PASS),
}


class Scene:
    """A table in a bucket, reached through a proxy; rows of the metastore are in memory."""

    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self.proxy = S3Proxy(store.endpoint)
        self.root = f"s3://{bucket}/warehouse"
        settings = Settings.load(store.settings(endpoint=self.proxy.endpoint, **QUICK), environ={})
        self.runtime = ThreadRuntime()
        self.files: Any = RoutedFiles(
            remote_drivers(settings), gather=self.runtime.gather, io_threads=settings.io_threads
        )
        self.catalog = memory_catalog(files=self.files, warehouse=self.root, runtime=self.runtime)
        self.counters = Counters()
        self.events: list[Mapping[str, Any]] = []
        self.catalog.subscribe(self.events.append)
        self.catalog.subscribe(self.counters.count_event)
        self.catalog.create_namespace("db")
        self.table = self.catalog.create_table("db.t", SCHEMA)
        self.number = 0

    def append(self) -> str:
        self.number += 1
        location = f"{self.root}/db.db/t/data/{self.number}.parquet"
        self.files.write(location, b"0123456789")
        self.table.append([DataFile(location, "PARQUET", 1, 10)])
        return location

    def present(self) -> set[str]:
        return {each.location for each in self.files.list_files(self.root)}

    def close(self) -> None:
        self.catalog.close()
        self.proxy.close()


@pytest.fixture
def scene(object_store: ObjectStore, bucket: str) -> Iterator[Scene]:
    scene = Scene(object_store, bucket)
    yield scene
    scene.close()


@dataclass
class Done:
    """What a verb did. should_go: the files that it was to delete. left: what its report names; None: it has none."""

    should_go: set[str]
    left: set[str] | None = None


#: Prepares what a verb deletes, and returns what runs it.
Verb = Callable[[Scene], Callable[[], Done]]


def purge(scene: Scene) -> Callable[[], Done]:
    for _ in range(3):
        scene.append()

    def run() -> Done:
        present = scene.present()
        report = scene.catalog.purge_table("db.t")
        assert report is not None
        return Done(present, set(report.left))

    return run


def expire(scene: Scene) -> Callable[[], Done]:
    scene.append()
    gone = {str(scene.table.snapshots()[0].manifest_list)}
    scene.append()

    def run() -> Done:
        return Done(gone, set(scene.table.expire_snapshots(older_than=FUTURE).files.failed))

    return run


def orphans(scene: Scene) -> Callable[[], Done]:
    scene.append()
    left = {f"{scene.root}/db.db/t/data/orphan-{number}" for number in range(3)}
    for each in left:
        scene.files.write(each, b"")

    def run() -> Done:
        return Done(left, set(scene.table.remove_orphan_files(older_than=FUTURE, force=True).files.failed))

    return run


def old_metadata(scene: Scene) -> Callable[[], Done]:
    first = str(scene.table.metadata_location)
    scene.append()

    def run() -> Done:
        one = {"write.metadata.previous-versions-max": "1"}
        scene.table.set_properties({"write.metadata.delete-after-commit.enabled": "true", **one})
        # The next commit of the table waits until this one has tidied up.
        scene.append()
        assert len(scene.table.refresh().snapshots()) == 2
        return Done({first})

    return run


def aborted(scene: Scene) -> Callable[[], Done]:
    first = scene.append()
    before = scene.present()

    def run() -> Done:
        transaction = scene.table.transaction()
        transaction.delete_files([first])
        written = scene.present() - before
        assert written
        transaction.abort()
        return Done(written)

    return run


VERBS: Mapping[str, tuple[str, Verb]] = {
    "drop with purge": ("purge", purge),
    "expire_snapshots": ("expired snapshots", expire),
    "remove_orphan_files": ("orphans", orphans),
    "delete-after-commit": ("old metadata", old_metadata),
    "an aborted transaction": ("own files", aborted),
}
verbs = pytest.mark.parametrize("verb", VERBS)


@verbs
@pytest.mark.parametrize("store", STORES)
def test_what_is_to_go_goes(verb: str, store: str, scene: Scene) -> None:
    run = VERBS[verb][1](scene)
    odd = STORES[store]
    scene.proxy.on("POST", odd.action, key="?delete", times=None, rewrite=odd.rewrite)
    scene.proxy.forget()
    done = run()
    assert scene.proxy.count("POST", "?delete") == 1, "the store is asked once"
    assert done.should_go
    assert not done.should_go & scene.present()
    assert not done.left
    assert [each for each in scene.events if each["event"] == "files-left"] == []


@verbs
@pytest.mark.parametrize("answer", [s3_proxy.ACCESS_DENIED, s3_proxy.SLOW_DOWN], ids=lambda answer: answer.code)
def test_what_stays_is_named(verb: str, answer: Answer, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    why, prepare = VERBS[verb]
    run = prepare(scene)
    for method, key in (("POST", "?delete"), ("DELETE", "")):
        scene.proxy.answer(method, answer, key=key, times=None)
    with caplog.at_level(logging.WARNING):
        done = run()
    assert done.should_go <= scene.present()
    named = [each for event in scene.events if event["event"] == "files-left" for each in event["locations"]]
    assert done.should_go <= set(named)
    assert done.left in (None, set(named))
    lines = [each.getMessage() for each in caplog.records if f"({why})" in each.getMessage()]
    assert any(each in line and answer.code in line for line in lines for each in done.should_go)
    assert f'iceberg_hms_rest_files_left_total{{why="{why}"}} {len(named)}\n' in scene.counters.render()
