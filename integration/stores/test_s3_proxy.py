"""The proxy before an S3 endpoint does what a test programs, counts what passes, and changes nothing else."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, EndpointConnectionError

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.script import (
    CUT_BEFORE_REPLY,
    CUT_BEFORE_SEND,
    FREEZE,
    FREEZE_REPLY,
    POSTPONE,
    delay,
)
from integration.faults import LIMIT, in_background
from integration.stores import s3_proxy
from integration.stores.minio import ObjectStore
from integration.stores.s3_proxy import Answer, S3Proxy, S3Request, sequential_trips

pytestmark = pytest.mark.slow

KEY = "db.db/t/metadata/00001-a b%20ä+.metadata.json"


@pytest.fixture
def proxy(object_store: ObjectStore) -> Iterator[S3Proxy]:
    with S3Proxy(object_store.endpoint) as proxy:
        yield proxy


@pytest.fixture
def through(object_store: ObjectStore, proxy: S3Proxy) -> Iterator[Any]:
    """A client of the proxy."""
    client = object_store.client(endpoint=proxy.endpoint)
    yield client
    client.close()


@pytest.fixture
def direct(object_store: ObjectStore) -> Iterator[Any]:
    """A client of the store itself."""
    client = object_store.client()
    yield client
    client.close()


def keys(direct: Any, bucket: str) -> list[str]:
    return [each["Key"] for each in direct.list_objects_v2(Bucket=bucket).get("Contents", ())]


def put(client: Any, bucket: str, key: str = KEY, body: bytes = b"0123456789") -> None:
    client.put_object(Bucket=bucket, Key=key, Body=body)


def get(client: Any, bucket: str, key: str = KEY, **arguments: Any) -> bytes:
    data: bytes = client.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()
    return data


def test_all_requests_pass_unchanged_and_are_counted(through: Any, proxy: S3Proxy, bucket: str) -> None:
    large = bytes(range(256)) * 12_000
    put(through, bucket, body=large)
    put(through, bucket, "empty", b"")
    assert get(through, bucket) == large
    assert get(through, bucket, Range="bytes=-5") == large[-5:]
    assert get(through, bucket, "empty") == b""
    assert through.head_object(Bucket=bucket, Key=KEY)["ContentLength"] == len(large)
    listed = through.list_objects_v2(Bucket=bucket, Prefix="db.db/t/")
    assert [each["Key"] for each in listed["Contents"]] == [KEY]
    through.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": KEY}, {"Key": "none"}]})
    through.delete_object(Bucket=bucket, Key="empty")
    with pytest.raises(ClientError, match="NoSuchKey"):
        get(through, bucket)
    assert dict(proxy.counts) == {
        ("PUT", f"{bucket}/{KEY}"): 1,
        ("PUT", f"{bucket}/empty"): 1,
        ("GET", f"{bucket}/{KEY}"): 3,
        ("GET", f"{bucket}/empty"): 1,
        ("HEAD", f"{bucket}/{KEY}"): 1,
        ("GET", bucket): 1,
        ("POST", bucket): 1,
        ("DELETE", f"{bucket}/empty"): 1,
    }
    assert proxy.count("GET", "list-type=2") == proxy.count(key="delete") == 1
    assert proxy.most_in_flight == 1


def test_a_lost_answer_took_effect_and_a_lost_request_did_not(
    through: Any, direct: Any, proxy: S3Proxy, bucket: str
) -> None:
    lost = proxy.on("PUT", CUT_BEFORE_REPLY, key=".metadata.json", headers={"If-None-Match": "*"}, nth=2)
    unsent = proxy.on("PUT", CUT_BEFORE_SEND, key="unsent")
    for name in ("a.metadata.json", "b.avro"):
        through.put_object(Bucket=bucket, Key=name, Body=b"1", IfNoneMatch="*")
    through.put_object(Bucket=bucket, Key="c.metadata.json", Body=b"1")
    with pytest.raises(ConnectionClosedError):
        through.put_object(Bucket=bucket, Key="lost.metadata.json", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ConnectionClosedError):
        put(through, bucket, "unsent")
    put(through, bucket, "later")
    assert lost.done(LIMIT)
    assert unsent.done(LIMIT)
    assert keys(direct, bucket) == ["a.metadata.json", "b.avro", "c.metadata.json", "later", "lost.metadata.json"]


def test_a_request_hangs_until_it_is_released(through: Any, direct: Any, proxy: S3Proxy, bucket: str) -> None:
    before, after = proxy.on("PUT", FREEZE, key="before"), proxy.on("PUT", FREEZE_REPLY, key="after")
    hanging = [in_background(lambda name=name: put(through, bucket, name)) for name in ("before", "after")]
    assert before.held(LIMIT)
    assert after.held(LIMIT)
    assert keys(direct, bucket) == ["after"]
    assert not any(each.done() for each in hanging)
    assert proxy.most_in_flight == 2
    proxy.clear()
    for each in hanging:
        each.result(LIMIT)
    assert keys(direct, bucket) == ["after", "before"]


def test_a_postponed_request_takes_effect_after_its_client_gave_up(
    through: Any, direct: Any, proxy: S3Proxy, bucket: str
) -> None:
    postponed = proxy.on("PUT", POSTPONE)
    with pytest.raises(ConnectionClosedError):
        put(through, bucket)
    assert keys(direct, bucket) == []
    postponed.release()
    assert postponed.done(LIMIT)
    assert keys(direct, bucket) == [KEY]


def test_a_held_request_ends_with_the_proxy(
    object_store: ObjectStore, through: Any, proxy: S3Proxy, bucket: str
) -> None:
    held = proxy.on("PUT", FREEZE)
    hanging = in_background(lambda: put(through, bucket))
    assert held.held(LIMIT)
    proxy.close()
    with pytest.raises(BotoCoreError):
        hanging.result(LIMIT)


@pytest.mark.parametrize(
    "answer",
    [
        s3_proxy.SLOW_DOWN,
        s3_proxy.TOO_MANY_REQUESTS,
        s3_proxy.INTERNAL_ERROR,
        s3_proxy.EXPIRED_TOKEN,
        s3_proxy.NO_SUCH_BUCKET,
        s3_proxy.ACCESS_DENIED,
    ],
    ids=lambda answer: answer.code,
)
def test_an_answer_in_place_of_the_server_is_read_as_that_of_s3(
    through: Any, direct: Any, proxy: S3Proxy, bucket: str, answer: Answer
) -> None:
    proxy.answer("PUT", answer)
    # After a 400 botocore asks for the bucket's region, and then again.
    proxy.answer("HEAD", answer, times=None)
    with pytest.raises(ClientError) as refused:
        put(through, bucket)
    assert refused.value.response["Error"]["Code"] == answer.code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == answer.status
    with pytest.raises(ClientError) as bodyless:
        through.head_object(Bucket=bucket, Key=KEY)
    assert bodyless.value.response["Error"]["Code"] == str(answer.status)
    assert keys(direct, bucket) == []
    put(through, bucket)
    assert keys(direct, bucket) == [KEY]


def test_a_refusal_may_have_taken_effect(through: Any, direct: Any, proxy: S3Proxy, bucket: str) -> None:
    proxy.answer("PUT", s3_proxy.INTERNAL_ERROR, took_effect=True)
    with pytest.raises(ClientError, match="InternalError"):
        put(through, bucket)
    assert keys(direct, bucket) == [KEY]


def test_a_truncated_answer_ends_in_the_middle_of_its_body(through: Any, proxy: S3Proxy, bucket: str) -> None:
    put(through, bucket)
    proxy.truncate(key=KEY)
    body = through.get_object(Bucket=bucket, Key=KEY)["Body"]
    assert body.read(5) == b"01234"
    with pytest.raises(BotoCoreError, match=r"IncompleteRead|bytes read"):
        body.read()
    assert get(through, bucket) == b"0123456789"


def test_refused_connections_come_back(through: Any, proxy: S3Proxy, bucket: str) -> None:
    put(through, bucket)
    proxy.refuse()
    with pytest.raises(EndpointConnectionError):
        get(through, bucket)
    proxy.accept()
    assert get(through, bucket) == b"0123456789"


def test_every_request_waits_for_the_delay_and_those_side_by_side_wait_together(
    object_store: ObjectStore, proxy: S3Proxy, bucket: str
) -> None:
    client = object_store.client(endpoint=proxy.endpoint)
    put(client, bucket)
    proxy.delay = 0.2
    proxy.forget()
    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            list(pool.map(lambda _: get(client, bucket), range(4)))
    took = time.monotonic() - started
    client.close()
    assert 0.4 <= took < 1.2
    assert proxy.most_in_flight == 4
    assert sequential_trips(proxy.requests) == 2


def test_a_single_request_is_delayed(through: Any, proxy: S3Proxy, bucket: str) -> None:
    put(through, bucket)
    proxy.on("GET", delay(0.2), nth=2)
    get(through, bucket)
    get(through, bucket)
    quick, slow = (each.ended - each.started for each in proxy.requests if each.method == "GET")
    assert quick < 0.2 <= slow


def test_a_test_waits_for_a_request(through: Any, proxy: S3Proxy, bucket: str) -> None:
    hanging = proxy.on("PUT", FREEZE)
    future = in_background(lambda: put(through, bucket))
    assert proxy.wait_for("PUT", 1, LIMIT, key=KEY)
    assert not proxy.wait_for("PUT", 2, 0.01)
    hanging.release()
    future.result(LIMIT)


def test_trips_are_counted_by_what_did_not_overlap() -> None:
    def made(*spans: tuple[float, float]) -> list[S3Request]:
        return [S3Request("GET", "b/k", "", started, ended) for started, ended in spans]

    assert sequential_trips([]) == 0
    assert sequential_trips(made((1, 9), (1, 2), (3, 4), (5, 6))) == 3
    assert sequential_trips(made((1, 3), (2, 4), (2, 3))) == 1


@pytest.mark.parametrize(
    "noise",
    [b"hello\r\n\r\n", b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"x" * 200_000],
    ids=["no-http", "chunk-without-length", "endless"],
)
def test_noise_ends_its_connection_alone(through: Any, proxy: S3Proxy, bucket: str, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LIMIT) as stranger:
        stranger.sendall(noise)
        # Reset: what it sent on after the proxy hung up.
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    put(through, bucket)


def exchange(proxy: S3Proxy, *pieces: bytes) -> bytes:
    """Send each piece once the proxy answered the one before it; the first bytes of its last answer."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LIMIT) as client:
        answer = b""
        for piece in pieces:
            client.sendall(piece)
            answer = client.recv(4096)
        return answer


def test_a_body_in_chunks_passes(proxy: S3Proxy) -> None:
    head = b"PUT /none/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert exchange(proxy, head + b"3\r\nabc\r\n0\r\n\r\n").startswith(b"HTTP/1.1 4")


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked_after_the_delay(proxy: S3Proxy) -> None:
    proxy.delay = 0.1
    head = b"PUT /none/k HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    assert exchange(proxy, head) == b"HTTP/1.1 100 Continue\r\n\r\n"
    started = time.monotonic()
    assert exchange(proxy, head, b"abc").startswith(b"HTTP/1.1 4")
    assert time.monotonic() - started >= 0.2


def test_an_error_in_answer_to_a_head_has_no_body(proxy: S3Proxy) -> None:
    proxy.answer("", s3_proxy.SLOW_DOWN, times=None)
    bodies = [exchange(proxy, method + b" /b/k HTTP/1.1\r\nHost: x\r\n\r\n") for method in (b"GET", b"HEAD")]
    assert [body.partition(b"\r\n\r\n")[2] == b"" for body in bodies] == [False, True]


def test_a_target_that_is_no_endpoint_is_refused() -> None:
    for target in ("https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1"):
        with pytest.raises(InvalidInput, match="is not http"):
            S3Proxy(target)
