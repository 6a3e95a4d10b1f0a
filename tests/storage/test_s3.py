"""The driver of S3 on moto's server: the contract, every key, pages, bulk deletion, credentials, forks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import AlreadyExists, InvalidInput, MissingFile, StorageRefused
from iceberg_hms.storage.s3 import obstore_bucket
from iceberg_hms.testing.contracts.files import CHECKS
from tests.forking import said_by
from tests.storage.buckets import BY_BOTOCORE, BY_OBSTORE, files_on
from tests.storage.scripted_store import Answer, ScriptedStore

Check = Callable[[Files, str], None]


@pytest.fixture
def botocore_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a forked child, which has none of obstore's threads."""
    monkeypatch.setattr(obstore_bucket, "can_name", lambda key: False)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_s3_keeps_the_contract(check: Check, moto: str, bucket: str) -> None:
    check(files_on(moto), f"s3a://{bucket}/a root")


def test_all_schemes_of_s3_name_one_object(moto: str, bucket: str) -> None:
    files = files_on(moto)
    files.write(f"s3://{bucket}/x", b"one")
    for scheme in ("s3", "s3a", "s3n", "S3A"):
        assert files.read(f"{scheme}://{bucket}/x") == b"one"
        with pytest.raises(AlreadyExists):
            files.write(f"{scheme}://{bucket}/x", b"two")
        assert [each.location for each in files.list_files(f"{scheme}://{bucket}/")] == [f"{scheme}://{bucket}/x"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.usefixtures("botocore_alone")
def test_botocore_alone_keeps_the_contract(check: Check, moto: str, bucket: str) -> None:
    check(files_on(moto), f"s3://{bucket}/a root")


@pytest.mark.parametrize(
    "key",
    ["a//b", "../x", "x/../y", ".", "a/./b", "slash/", "/lead", "//", "one\x01two", "a\tb", "a\rb", "del\x7f",
     "a<Code>NoSuchKey</Code>", "status code: 404", "plain", "ü%2F+ &?#"],
)  # fmt: skip
def test_every_key_names_its_own_object(key: str, moto: str, moto_client: Any, bucket: str) -> None:
    files, location, data = files_on(moto), f"s3a://{bucket}/{key}", key.encode()
    files.write(location, data)
    stored = moto_client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in stored] == [key]
    assert files.read(location) == data
    assert files.length(location) == len(data)
    with files.open(location) as file:
        assert file.read(100) == data
    with pytest.raises(AlreadyExists):
        files.write(location, b"other")
    # A name that ends in a slash marks a folder.
    assert [each.location for each in files.list_files(f"s3a://{bucket}/")] == [location] * (not key.endswith("/"))
    assert files.delete(location) is True
    assert "Contents" not in moto_client("s3").list_objects_v2(Bucket=bucket)
    files.write_all([(location, data), (f"s3a://{bucket}/beside", b"x")])
    deleted = files.delete_all([location, f"s3a://{bucket}/beside"])
    assert deleted.failed == {}
    assert "Contents" not in moto_client("s3").list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("location", ["s3://{}", "s3://{}/", "s3:///key", "s3://{}/half\ud800"])
def test_what_no_bucket_can_have_is_refused_and_spoils_no_bulk_deletion(location: str, moto: str, bucket: str) -> None:
    files, location = files_on(moto), location.format(bucket)
    for call in (files.read, files.length, files.delete, files.open):
        with pytest.raises(InvalidInput):
            call(location)
    files.write(f"s3://{bucket}/x", b"")
    deleted = files.delete_all([location, f"s3://{bucket}/x"])
    assert deleted.failed.keys() == {location}
    with pytest.raises(MissingFile):
        files.length(f"s3://{bucket}/x")


@pytest.mark.parametrize("key", [BY_OBSTORE, BY_BOTOCORE])
def test_a_missing_bucket_is_neither_a_missing_file_nor_an_empty_folder(key: str, moto: str) -> None:
    files, location = files_on(moto), f"s3://there-is-none/{key}"
    calls: Mapping[str, Callable[[], object]] = {
        "read": lambda: files.read(location),
        "length": lambda: files.length(location),
        "open": lambda: files.open(location),
        "write": lambda: files.write(location, b""),
        "delete": lambda: files.delete(location),
        "list": lambda: list(files.list_files(location)),
    }
    for name, call in calls.items():
        with pytest.raises(StorageRefused, match="NoSuchBucket") as caught:
            call()
        assert "make the bucket" in caught.value.next_step, name
    [failed] = files.delete_all([location]).failed.values()
    assert isinstance(failed, StorageRefused)


def test_a_listing_of_many_pages_has_each_file_once_and_no_markers(moto: str, moto_client: Any, bucket: str) -> None:
    names = [f"t/{number % 7}/{number}.avro" for number in range(2_500)]
    # By requests it would take ten seconds.
    store = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"]
    for name in [*names, "t/", "t/3/"]:
        store.put_object(bucket, name, b"")
    files = files_on(moto)
    found = [each.location for each in files.list_files(f"s3://{bucket}/t")]
    assert sorted(found) == sorted(f"s3://{bucket}/{name}" for name in names)
    assert files.delete_all(found).failed == {}
    left = moto_client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in left] == ["t/", "t/3/"]


_FORK = """
import os, sys
from tests.storage.buckets import files_on
files, root = files_on(sys.argv[1]), sys.argv[2]
files.write(f"{root}/parent", b"parent")
files.delete_all([f"{root}/none"])
child = os.fork()
if child == 0:
    try:
        files.write(f"{root}/child", files.read(f"{root}/parent") + b"'s child")
        files.delete_all([f"{root}/parent"])
        os._exit(0)
    finally:
        os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
files.write(f"{root}/after", b"")
print(sorted(each.location.rpartition("/")[2] for each in files.list_files(root)), files.read(f"{root}/child"))
"""


def test_a_forked_child_goes_on_with_the_store_of_its_parent(moto: str, bucket: str) -> None:
    # `said_by` ends the process after a minute.
    assert said_by(_FORK, moto, f"s3://{bucket}/fork") == "0\n['after', 'child'] b\"parent's child\"\n"


def test_a_forked_child_takes_no_connection_of_its_parent(scripted: ScriptedStore) -> None:
    """Both wait for an answer on a connection at once: on a shared one, each might get the other's."""
    scripted.answers = [
        Answer(
            200,
            b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
            {"Content-Type": "application/xml"},
        )
    ]
    code = """
import os, sys
from tests.storage.buckets import files_on
files = files_on(sys.argv[1])
list(files.list_files("s3://bucket/parent"))
child = os.fork()
if child == 0:
    try:
        list(files.list_files("s3://bucket/child"))
        os._exit(0)
    finally:
        os._exit(1)
os.waitpid(child, 0)
list(files.list_files("s3://bucket/again"))
"""
    assert said_by(code, scripted.url) == ""
    parent, child, again = [request.client for request in scripted.requests]
    assert parent == again
    assert child != parent


def test_a_role_is_assumed_at_the_store_s_own_sts(moto: str, bucket: str) -> None:
    files = files_on(moto, s3_role_arn="arn:aws:iam::123456789012:role/tables")
    for key in (BY_OBSTORE, BY_BOTOCORE):
        files.write(f"s3://{bucket}/{key}", b"x")
        assert files.read(f"s3://{bucket}/{key}") == b"x"


def test_a_public_bucket_is_read_without_a_signature(scripted: ScriptedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "found")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "found")
    scripted.answers = [Answer(200, b"abc", {"Last-Modified": "Sat, 28 Nov 2026 00:00:00 GMT", "ETag": '"1"'})]
    files = files_on(scripted.url, s3_anonymous=True, s3_access_key_id="", s3_secret_access_key="")
    for key in (BY_OBSTORE, BY_BOTOCORE):
        assert files.read(f"s3://bucket/{key}") == b"abc"
    assert all("authorization" not in request.headers for request in scripted.requests)


def test_without_credentials_the_error_says_which_settings_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    files = files_on("http://127.0.0.1:9", s3_access_key_id="", s3_secret_access_key="")
    with pytest.raises(StorageRefused, match="No credentials for S3") as caught:
        files.read("s3://bucket/x")
    assert "s3.access-key-id" in caught.value.next_step
