"""Each operation on S3 beside each fault of the store: the right result or the right error, within a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import FileAlreadyExists, StorageError, StorageRefused
from iceberg_hms.stores import open_files
from iceberg_hms.testing.faults.script import (
    CUT_BEFORE_REPLY,
    CUT_BEFORE_SEND,
    FREEZE,
    FREEZE_REPLY,
    POSTPONE,
    Action,
)
from integration.faults import LIMIT
from integration.stores import s3_proxy
from integration.stores.minio import ObjectStore
from integration.stores.s3_proxy import Answer, S3Proxy

pytestmark = pytest.mark.slow

DATA = bytes(range(256)) * 400
OLD = {"t/old": len(DATA)}
#: Where another attempt is expected: no load of the machine may use up the time for it.
PATIENT = {"s3_request_timeout": 60, "s3_retry_num_retries": 2, "s3_retry_min_wait_ms": 1, "s3_retry_max_wait_ms": 10}
#: Where no attempt can succeed.
IMPATIENT = {**PATIENT, "s3_request_timeout": 1}
#: Seconds. An attempt of one second, one or two more that begin in the next, twice that of a deletion, which looks
#: first; and time for a busy machine.
BOUND = 20.0


class Scene:
    """A bucket with one file, a client that looks at it from outside, and our files through a proxy."""

    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self.bucket = bucket
        self.proxy = S3Proxy(store.endpoint)
        self.client = store.client()
        self.client.put_object(Bucket=bucket, Key="t/old", Body=DATA)
        self._settings = store.settings(endpoint=self.proxy.endpoint)
        self.files = self.files_with(**PATIENT)

    def files_with(self, **settings: int) -> Files:
        return open_files(Settings.load({**self._settings, **settings}, environ={}))

    def at(self, key: str) -> str:
        return f"s3a://{self.bucket}/t/{key}"

    def content(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.bucket, Key=f"t/{key}")["Body"].read()
        return data

    def keys(self) -> dict[str, int]:
        """The keys of the bucket, and their lengths."""
        found = self.client.list_objects_v2(Bucket=self.bucket)
        return {each["Key"]: each["Size"] for each in found.get("Contents", ())}

    def close(self) -> None:
        self.proxy.close()
        self.client.close()


@pytest.fixture
def scene(object_store: ObjectStore, bucket: str) -> Iterator[Scene]:
    scene = Scene(object_store, bucket)
    yield scene
    scene.close()


def read_tail(scene: Scene) -> bytes:
    with scene.files.open(scene.at("old")) as file:
        file.seek(file.size() - 8)
        data: bytes = file.read(8)
        return data


def list_all(scene: Scene) -> dict[str, int]:
    return {each.location.removeprefix(scene.at("")): each.length for each in scene.files.list_files(scene.at(""))}


def delete_all(scene: Scene) -> list[str]:
    """Raises what kept a file."""
    deleted = scene.files.delete_all([scene.at("old"), scene.at("none")])
    for error in deleted.failed.values():
        raise error
    return [each.removeprefix(scene.at("")) for each in deleted.locations]


@dataclass(frozen=True)
class Operation:
    """run: calls it. result: what it returns. after: the bucket's keys then. method: of its last request."""

    run: Callable[[Scene], Any]
    result: Any
    after: dict[str, int]
    method: str


OPERATIONS = {
    "read": Operation(lambda scene: scene.files.read(scene.at("old")), DATA, OLD, "GET"),
    "open": Operation(read_tail, DATA[-8:], OLD, "GET"),
    "length": Operation(lambda scene: scene.files.length(scene.at("old")), len(DATA), OLD, "HEAD"),
    "create": Operation(
        lambda scene: scene.files.write(scene.at("new"), DATA), None, {**OLD, "t/new": len(DATA)}, "PUT"
    ),
    "list": Operation(list_all, {"old": len(DATA)}, OLD, "GET"),
    "delete": Operation(lambda scene: scene.files.delete(scene.at("old")), True, {}, "DELETE"),
    "delete_all": Operation(delete_all, ["old", "none"], {}, "POST"),
}

operations = pytest.mark.parametrize("name", OPERATIONS)


def one_of(*answers: Answer) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("answer", answers, ids=lambda answer: answer.code)


def succeeds(scene: Scene, name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.run(scene) == operation.result
    assert scene.keys() == operation.after


def fails(scene: Scene, name: str) -> StorageError:
    """The error of an operation, which is never that a file is missing, or is there already."""
    started = time.monotonic()
    with pytest.raises(StorageError) as failed:
        OPERATIONS[name].run(scene)
    assert time.monotonic() - started < BOUND
    return failed.value


@operations
@one_of(s3_proxy.SLOW_DOWN, s3_proxy.TOO_MANY_REQUESTS, s3_proxy.INTERNAL_ERROR, s3_proxy.EXPIRED_TOKEN)
def test_a_refusal_that_passes_changes_no_result(scene: Scene, name: str, answer: Answer) -> None:
    refused = scene.proxy.answer(OPERATIONS[name].method, answer)
    succeeds(scene, name)
    assert refused.done(0)


@operations
def test_a_request_that_is_lost_changes_no_result(scene: Scene, name: str) -> None:
    lost = scene.proxy.on(OPERATIONS[name].method, CUT_BEFORE_SEND)
    succeeds(scene, name)
    assert lost.done(0)


@pytest.mark.parametrize("name", [each for each in OPERATIONS if each != "delete"])
def test_an_answer_that_is_lost_changes_no_result(scene: Scene, name: str) -> None:
    lost = scene.proxy.on(OPERATIONS[name].method, CUT_BEFORE_REPLY)
    succeeds(scene, name)
    assert lost.done(0)


def test_a_deletion_whose_answer_is_lost_finds_the_file_gone(scene: Scene) -> None:
    scene.proxy.on("DELETE", CUT_BEFORE_REPLY)
    # Whether this deletion or another one removed the file, the store does not say.
    assert scene.files.delete(scene.at("old")) is False
    assert scene.keys() == {}


@pytest.mark.parametrize("name", ["read", "open", "list"])
def test_an_answer_that_is_truncated_is_read_again(scene: Scene, name: str) -> None:
    cut = scene.proxy.truncate()
    succeeds(scene, name)
    assert cut.done(0)


@operations
@one_of(s3_proxy.SLOW_DOWN, s3_proxy.INTERNAL_ERROR, s3_proxy.EXPIRED_TOKEN)
def test_a_refusal_that_lasts_is_an_error_after_so_many_retries(scene: Scene, name: str, answer: Answer) -> None:
    method = OPERATIONS[name].method
    scene.proxy.answer("", answer, times=None)
    error = fails(scene, name)
    assert scene.proxy.count("HEAD" if name == "delete" else method) == 1 + PATIENT["s3_retry_num_retries"]
    assert not isinstance(error, StorageRefused), "another attempt may succeed later"
    assert error.next_step
    assert scene.keys() == OLD
    scene.proxy.clear()
    scene.proxy.forget()
    succeeds(scene, name)
    assert scene.proxy.count(method) == 1


@operations
def test_a_refusal_for_good_is_not_tried_again(scene: Scene, name: str) -> None:
    refused = OPERATIONS[name].method
    # What is refused together is tried alone.
    for method in {refused, "DELETE"}:
        scene.proxy.answer(method, s3_proxy.ACCESS_DENIED, times=None)
    assert isinstance(fails(scene, name), StorageRefused)
    assert scene.proxy.count(refused) == 1
    assert scene.keys() == OLD


@operations
def test_a_missing_bucket_is_no_missing_file(scene: Scene, name: str) -> None:
    present, scene.bucket = scene.bucket, f"{scene.bucket}-none"
    error = fails(scene, name)
    assert isinstance(error, StorageRefused)
    assert "NoSuchBucket" in str(error)
    scene.bucket = present
    assert scene.keys() == OLD


@operations
@pytest.mark.parametrize("action", [FREEZE, FREEZE_REPLY], ids=["before", "after"])
def test_a_store_that_hangs_is_an_error_in_time(scene: Scene, name: str, action: Action) -> None:
    scene.files = scene.files_with(**IMPATIENT)
    scene.proxy.on("", action, times=None)
    assert "did not answer" in str(fails(scene, name))
    # A single deletion looks first, and so deletes nothing.
    arrived = action == FREEZE_REPLY and name != "delete"
    assert scene.keys() == (OPERATIONS[name].after if arrived else OLD)


@operations
def test_a_store_that_cannot_be_reached_is_an_error(scene: Scene, name: str) -> None:
    scene.proxy.refuse()
    assert "did not answer" in str(fails(scene, name))
    assert scene.keys() == OLD
    scene.proxy.accept()
    succeeds(scene, name)


@one_of(s3_proxy.INTERNAL_ERROR, s3_proxy.SLOW_DOWN)
def test_a_create_that_was_refused_and_took_effect_is_a_success(scene: Scene, answer: Answer) -> None:
    scene.proxy.answer("PUT", answer, took_effect=True)
    succeeds(scene, "create")
    assert scene.content("new") == DATA


def test_a_create_whose_answer_is_lost_does_not_take_the_file_of_another_for_its_own(scene: Scene) -> None:
    other = DATA[::-1]
    scene.client.put_object(Bucket=scene.bucket, Key="t/new", Body=other)
    scene.proxy.on("PUT", CUT_BEFORE_REPLY)
    with pytest.raises(FileAlreadyExists):
        scene.files.write(scene.at("new"), DATA)
    assert scene.content("new") == other


def test_a_create_that_arrives_after_its_retry_changes_nothing(scene: Scene) -> None:
    late = scene.proxy.on("PUT", POSTPONE)
    succeeds(scene, "create")
    late.release()
    assert late.done(LIMIT)
    assert scene.content("new") == DATA


@pytest.mark.parametrize("action", [FREEZE, POSTPONE], ids=["hangs", "broke"])
def test_a_create_that_was_given_up_and_arrives_replaces_no_file(scene: Scene, action: Action) -> None:
    scene.files = scene.files_with(**IMPATIENT)
    late = scene.proxy.on("PUT", action, times=None)
    fails(scene, "create")
    assert scene.keys() == OLD
    other = DATA[::-1]
    scene.client.put_object(Bucket=scene.bucket, Key="t/new", Body=other)
    late.release()
    assert late.done(LIMIT)
    assert scene.content("new") == other


@pytest.mark.parametrize("action", [FREEZE, POSTPONE], ids=["hangs", "broke"])
def test_a_create_that_was_given_up_may_arrive_whole(scene: Scene, action: Action) -> None:
    """So callers never give the name to anything else."""
    scene.files = scene.files_with(**IMPATIENT)
    late = scene.proxy.on("PUT", action, times=None)
    fails(scene, "create")
    late.release()
    assert late.done(LIMIT)
    assert scene.content("new") == DATA
