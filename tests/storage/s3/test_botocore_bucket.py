"""Deletions of many objects on stores that answer them in every way but the right one: the objects go all the same, or
each that stays is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pytest

from iceberg_hms.errors import StorageRefused
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles
from tests.storage.buckets import Waits, settings_on
from tests.storage.scripted_store import CLOSED, Answer, Request, ScriptedStore, refusal

XML = {"Content-Type": "application/xml"}
HTML = {"Content-Type": "text/html"}
KEYS = [f"t/{number}" for number in range(14)]
LOCATIONS = [f"s3://bucket/{key}" for key in KEYS]


class Bucket(ScriptedStore):
    """Keeps keys. bulk: what it answers to a deletion of these keys; None: it deletes them. locked: keys that it keeps,
    with status 403."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        self.requests.clear()
        self.keys = set(KEYS)
        self.locked: set[str] = set()
        self.bulk: Callable[[Bucket, Sequence[str]], Answer] = Bucket.right

    def next_answer(self, request: Request) -> Answer:
        self.requests.append(request)
        key = unquote(request.path.removeprefix("/bucket/"))
        if request.method == "POST":
            return self.bulk(self, re.findall("<Key>(.*?)</Key>", request.body.decode()))
        if key in self.locked:
            return refusal(403, "AccessDenied")
        self.keys.discard(key)
        return Answer(204)

    def right(self, keys: Sequence[str]) -> Answer:
        kept = [key for key in keys if key in self.locked]
        gone = [key for key in keys if key not in self.locked]
        self.keys.difference_update(gone)
        return result(gone, kept, "AccessDenied")

    def half(self, keys: Sequence[str]) -> Answer:
        return self.right(keys[::2])


def result(gone: Sequence[str], kept: Sequence[str] = (), code: str = "") -> Answer:
    deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in gone)
    errors = "".join(f"<Error><Key>{key}</Key><Code>{code}</Code><Message>no</Message></Error>" for key in kept)
    return Answer(200, f"<?xml version='1.0'?><DeleteResult>{deleted}{errors}</DeleteResult>".encode(), XML)


def always(answer: Answer) -> Callable[[Bucket, Sequence[str]], Answer]:
    return lambda _bucket, _keys: answer


def each_key(code: str) -> Callable[[Bucket, Sequence[str]], Answer]:
    return lambda _bucket, keys: result((), keys, code)


def cut_off(bucket: Bucket, keys: Sequence[str]) -> Answer:
    whole = bucket.right(keys)
    return replace(whole, body=whole.body[: len(whole.body) // 2])


@dataclass(frozen=True)
class Case:
    """remembered: whether the store is asked for many at once only in the first of two calls."""

    bulk: Callable[[Bucket, Sequence[str]], Answer]
    remembered: bool = True


CASES = {
    "old MinIO": Case(always(refusal(400, "MissingContentMD5"))),
    "Ceph": Case(always(refusal(400, "InvalidRequest", "Missing required header: Content-MD5"))),
    "an appliance": Case(always(refusal(501, "NotImplemented"))),
    "400 without a code": Case(always(Answer(400))),
    "400 for the XML": Case(always(refusal(400, "MalformedXML"))),
    "501 without a body": Case(always(Answer(501))),
    "405": Case(always(refusal(405, "MethodNotAllowed"))),
    "405 of a proxy": Case(always(Answer(405, b"<html><body>405 Not Allowed</body></html>", HTML))),
    "403 for many alone": Case(always(refusal(403, "AccessDenied"))),
    "403 of a firewall": Case(always(Answer(403, b"<html>Forbidden<br></html>", HTML))),
    "404 of a proxy": Case(always(Answer(404, b"<html>Not here</html>", HTML))),
    "411": Case(always(refusal(411, "MissingContentLength"))),
    "415": Case(always(Answer(415, b"text", HTML))),
    "200 with an error": Case(always(Answer(200, refusal(200, "NotImplemented").body, XML))),
    "200 with an error that passes": Case(always(Answer(200, refusal(200, "InternalError").body, XML)), False),
    "200 without a body": Case(always(Answer(200, b"", XML))),
    "204": Case(always(Answer(204))),
    "a page": Case(always(Answer(200, b"<html><body>Sign in</body></html>", HTML))),
    "a page that is no XML": Case(always(Answer(200, b"<html><br>Sign in", HTML))),
    "text": Case(always(Answer(200, b"OK", HTML))),
    "JSON": Case(always(Answer(200, b"{}", {"Content-Type": "application/json"}))),
    "XML that is cut off": Case(cut_off),
    "a result of nothing": Case(always(Answer(200, b"<DeleteResult/>", XML))),
    "a result of others": Case(always(result(["t/other", "t/14"]))),
    "errors for others": Case(always(result((), ["t/other"], "AccessDenied"))),
    "each key not implemented": Case(each_key("NotImplemented")),
    "each key refused for its header": Case(each_key("InvalidRequest")),
    "each key busy": Case(each_key("SlowDown"), False),
    "each key failed": Case(each_key("InternalError"), False),
    "some keys left out": Case(Bucket.half, False),
    "500 for many alone": Case(always(refusal(500, "InternalError")), False),
    "503 for many alone": Case(always(refusal(503, "SlowDown")), False),
    "no answer to many": Case(always(CLOSED), False),
    "AWS": Case(Bucket.right, False),
}
cases = pytest.mark.parametrize("name", CASES)


class Scene:
    """One store for all tests, which cost a second each with a client of their own."""

    def __init__(self, bucket: Bucket) -> None:
        settings = settings_on(bucket.url, s3_retry_num_retries=2)
        self.bucket = bucket
        self._made = remote_drivers(settings, Waits())["s3"]()

    def files(self) -> RoutedFiles:
        """What knows nothing of the store."""
        return RoutedFiles({"s3": lambda: self._made})


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Bucket() as bucket:
        yield Scene(bucket)


@pytest.fixture
def bucket(scene: Scene) -> Bucket:
    scene.bucket.reset()
    return scene.bucket


@pytest.fixture
def files(scene: Scene) -> RoutedFiles:
    return scene.files()


@cases
def test_what_a_store_does_not_delete_together_goes_alone_and_what_it_keeps_is_named(
    name: str, bucket: Bucket, files: RoutedFiles
) -> None:
    case = CASES[name]
    bucket.bulk = case.bulk
    bucket.locked = {"t/0", "t/7", "t/13"}
    first = files.delete_all(LOCATIONS[:10])
    asked = bucket.methods.count("POST")
    second = files.delete_all(LOCATIONS[10:])
    assert bucket.keys == bucket.locked
    failed = {**first.failed, **second.failed}
    assert failed.keys() == {f"s3://bucket/{key}" for key in bucket.locked}
    assert all(isinstance(each, StorageRefused) and "AccessDenied" in str(each) for each in failed.values())
    assert sorted([*first.locations, *second.locations, *failed]) == sorted(LOCATIONS)
    assert (bucket.methods.count("POST") == asked) is case.remembered


@cases
def test_a_store_that_deletes_nothing_is_asked_for_few_objects_alone(
    name: str, bucket: Bucket, files: RoutedFiles
) -> None:
    case = CASES[name]
    bucket.bulk = always(refusal(403, "AccessDenied")) if name == "AWS" else case.bulk
    bucket.locked = set(KEYS)
    deleted = files.delete_all(LOCATIONS)
    assert deleted.failed.keys() == set(LOCATIONS)
    assert (deleted.locations, bucket.keys) == ([], set(KEYS))
    if name != "some keys left out":
        assert bucket.methods.count("DELETE") <= 8


def test_a_result_names_keys_as_they_are(bucket: Bucket, files: RoutedFiles) -> None:
    keys = [" lead", "end ", "a&b<c>", "ä/%20+", '"q"', "a'b", "]]>"]
    bucket.keys = set(keys)

    def right(bucket: Bucket, escaped: Sequence[str]) -> Answer:
        bucket.keys = set()
        return result(escaped)

    bucket.bulk = right
    deleted = files.delete_all([f"s3://bucket/{key}" for key in keys])
    assert (len(deleted.locations), deleted.failed, bucket.methods) == (len(keys), {}, ["POST"])


def test_keys_that_no_xml_can_name_say_nothing_of_the_store(bucket: Bucket, files: RoutedFiles) -> None:
    bucket.keys = {"odd\x01", "plain"}
    for key in ("odd\x01", "plain"):
        assert files.delete_all([f"s3://bucket/{key}"]).locations == [f"s3://bucket/{key}"]
    assert (bucket.methods, bucket.keys) == (["DELETE", "POST"], set())


def test_a_deletion_has_the_digest_that_old_stores_ask_for(bucket: Bucket, files: RoutedFiles) -> None:
    files.delete_all(LOCATIONS[:1])
    headers = bucket.requests[0].headers
    assert len(headers["content-md5"]) == 24
    assert "content-md5" in headers["authorization"], "it is signed"
