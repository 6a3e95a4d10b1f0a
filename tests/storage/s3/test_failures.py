"""What a store answers instead of a result: the same error by both client libraries, retried where that helps."""

from __future__ import annotations

import configparser
import traceback
from pathlib import Path

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import (
    CommitFailed,
    FileAlreadyExists,
    IcebergHmsError,
    MissingFile,
    StorageError,
    StorageRefused,
)
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.storage.ranged_file import TAIL_BYTES
from iceberg_hms.work import working_for
from tests.storage.buckets import BY_BOTOCORE, BY_OBSTORE, Waits, files_on
from tests.storage.scripted_store import CLOSED, Answer, ScriptedStore, refusal

TOKEN = "hush-token"
OK = Answer(200, b"abc", {"Last-Modified": "Sat, 28 Nov 2026 00:00:00 GMT", "ETag": '"1"'})
PUT = Answer(200, b"", {"ETag": '"1"'})
TAKEN = refusal(412, "PreconditionFailed")
both_libraries = pytest.mark.parametrize("key", [BY_OBSTORE, BY_BOTOCORE], ids=["obstore", "botocore"])


def once(store: ScriptedStore, *answers: Answer, **settings: object) -> RoutedFiles:
    """Files of a store that gives these answers; nothing is retried."""
    store.answers = list(answers)
    return files_on(store.url, s3_retry_num_retries=0, **settings)


@both_libraries
@pytest.mark.parametrize(
    ("status", "code", "kind", "step"),
    [
        (404, "NoSuchKey", MissingFile, "check the path"),
        (412, "PreconditionFailed", FileAlreadyExists, "choose another name"),
        (404, "NoSuchBucket", StorageRefused, "make the bucket"),
        (403, "AccessDenied", StorageRefused, "s3:GetObject"),
        (403, "InvalidAccessKeyId", StorageRefused, "s3.access-key-id"),
        (403, "SignatureDoesNotMatch", StorageRefused, "s3.secret-access-key"),
        (400, "AuthorizationHeaderMalformed", StorageRefused, "s3.region"),
        (400, "IllegalLocationConstraintException", StorageRefused, "s3.region"),
        (400, "InvalidArgument", StorageRefused, "check the store's settings"),
        (400, "ExpiredToken", StorageError, "renew the credentials"),
        (400, "InvalidToken", StorageError, "renew the credentials"),
        (400, "TokenRefreshRequired", StorageError, "renew the credentials"),
        (503, "SlowDown", StorageError, "try again"),
        (503, "ServiceUnavailable", StorageError, "try again"),
        (500, "InternalError", StorageError, "try again"),
        (429, "TooManyRequests", StorageError, "try again"),
        (400, "RequestTimeout", StorageError, "try again"),
        (403, "RequestTimeTooSkewed", StorageError, "try again"),
        (400, "IncompleteBody", StorageError, "try again"),
        (409, "OperationAborted", StorageError, "try again"),
    ],
)
def test_each_answer_has_its_error(
    key: str, status: int, code: str, kind: type[Exception], step: str, scripted: ScriptedStore
) -> None:
    files = once(scripted, refusal(status, code, "the reason"))
    with pytest.raises(kind) as caught:
        files.read(f"s3://bucket/{key}")
    assert type(caught.value) is kind
    assert isinstance(caught.value, IcebergHmsError)
    assert step in caught.value.next_step
    if isinstance(caught.value, StorageError):
        assert caught.value.message == f"s3://bucket/{key}: the store answered {code}: the reason"


@both_libraries
def test_a_404_that_is_no_store_s_proves_nothing(key: str, scripted: ScriptedStore) -> None:
    files = once(scripted, Answer(404, b"<html>Not here</html>", {"Content-Type": "text/html"}))
    for call in (files.read, files.length, files.delete, files.open):
        with pytest.raises(StorageRefused) as caught:
            call(f"s3://bucket/{key}")
        assert "s3.endpoint" in caught.value.next_step


@both_libraries
def test_a_head_without_permission_is_refused_with_what_to_allow(key: str, scripted: ScriptedStore) -> None:
    with pytest.raises(StorageRefused) as caught:
        once(scripted, Answer(403)).length(f"s3://bucket/{key}")
    assert "s3:ListBucket" in caught.value.next_step


@both_libraries
@pytest.mark.parametrize("answer", [CLOSED, Answer(200, OK.body, OK.headers, missing=2)], ids=["closed", "cut off"])
def test_an_answer_that_breaks_off_is_a_storage_error_and_asked_for_again(
    key: str, answer: Answer, scripted: ScriptedStore
) -> None:
    with pytest.raises(StorageError, match="did not answer") as caught:
        once(scripted, answer).read(f"s3://bucket/{key}")
    assert not isinstance(caught.value, StorageRefused)
    scripted.answers = [answer, OK]
    assert files_on(scripted.url).read(f"s3://bucket/{key}") == b"abc"


@both_libraries
def test_a_store_that_hangs_is_given_up_within_the_setting(key: str, scripted: ScriptedStore) -> None:
    files = once(scripted, Answer(200, hang=True), s3_request_timeout=1)
    with pytest.raises(StorageError, match="did not answer"):
        files.read(f"s3://bucket/{key}")
    assert len(scripted.requests) == 1


def test_a_listing_that_is_cut_off_is_a_storage_error_and_no_short_listing(scripted: ScriptedStore) -> None:
    page = b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>t/x</Key>"
    with pytest.raises(StorageError, match="try again"):
        list(once(scripted, Answer(200, page, {"Content-Type": "application/xml"})).list_files("s3://bucket/t"))


@both_libraries
def test_a_create_whose_answer_was_lost_succeeds_once(key: str, scripted: ScriptedStore) -> None:
    length = Answer(200, b"abc", OK.headers)
    part = Answer(206, b"abc", {**OK.headers, "Content-Range": "bytes 0-2/3"})
    scripted.answers = [CLOSED, TAKEN, length, part]
    files_on(scripted.url).write(f"s3://bucket/{key}", b"abc")
    assert scripted.methods == ["PUT", "PUT", "HEAD", "GET"]
    assert [request.headers["if-none-match"] for request in scripted.requests[:2]] == ["*", "*"]


@both_libraries
@pytest.mark.parametrize("found", [b"abcd", b"abd"], ids=["longer", "other"])
def test_a_create_after_a_lost_answer_whose_name_has_another_content_fails(
    key: str, found: bytes, scripted: ScriptedStore
) -> None:
    part = Answer(206, found[:3], {**OK.headers, "Content-Range": f"bytes 0-2/{len(found)}"})
    scripted.answers = [CLOSED, TAKEN, Answer(200, found, OK.headers), part]
    with pytest.raises(FileAlreadyExists):
        files_on(scripted.url).write(f"s3://bucket/{key}", b"abc")
    scripted.answers = [TAKEN]
    scripted.requests.clear()
    with pytest.raises(FileAlreadyExists):
        files_on(scripted.url).write(f"s3://bucket/{key}", b"abc")
    assert scripted.methods == ["PUT"], "without a lost answer nothing is compared"


@both_libraries
def test_a_store_without_conditional_writes_is_looked_at_before_each_write(key: str, scripted: ScriptedStore) -> None:
    scripted.answers = [refusal(501, "NotImplemented"), Answer(404), PUT, OK]
    files = files_on(scripted.url)
    files.write(f"s3://bucket/{key}", b"abc")
    with pytest.raises(FileAlreadyExists):
        files.write(f"s3://bucket/{key}", b"abc")
    assert scripted.methods == ["PUT", "HEAD", "PUT", "HEAD"]
    assert ["if-none-match" in request.headers for request in scripted.requests] == [True, False, False, False]


@both_libraries
def test_a_conflict_of_conditional_writes_is_retried(key: str, scripted: ScriptedStore) -> None:
    scripted.answers = [refusal(409, "ConditionalRequestConflict"), refusal(503, "SlowDown"), PUT]
    clock = Waits()
    files_on(scripted.url, clock).write(f"s3://bucket/{key}", b"abc")
    assert clock.slept == [0.1, 0.4]


@both_libraries
def test_what_a_store_refuses_is_not_asked_again(key: str, scripted: ScriptedStore) -> None:
    scripted.answers = [refusal(403, "AccessDenied")]
    clock = Waits()
    with pytest.raises(StorageRefused):
        files_on(scripted.url, clock).write(f"s3://bucket/{key}", b"abc")
    assert (scripted.methods, clock.slept) == (["PUT"], [])


@both_libraries
@pytest.mark.parametrize(
    "answer",
    [
        refusal(416, "InvalidRange"),
        Answer(206, b"", {**OK.headers, "Content-Range": "bytes 0--1/0"}),
        Answer(200, b"", OK.headers),
    ],
    ids=["aws", "minio", "whole"],
)
def test_the_end_of_an_empty_file_is_empty(key: str, answer: Answer, scripted: ScriptedStore) -> None:
    files = once(scripted, answer, Answer(200, b"", OK.headers))
    with files.open(f"s3://bucket/{key}") as file:
        assert (file.size(), file.read(8)) == (0, b"")


@both_libraries
def test_a_store_that_ignores_ranges_gives_no_wrong_bytes(key: str, scripted: ScriptedStore) -> None:
    tail = Answer(206, b"z" * TAIL_BYTES, {**OK.headers, "Content-Range": f"bytes {100_000 - TAIL_BYTES}-99999/100000"})
    files = once(scripted, tail, Answer(200, b"y" * 100_000, OK.headers))
    with files.open(f"s3://bucket/{key}") as file:
        file.seek(500)
        with pytest.raises(StorageError):
            file.read(10)


def test_a_caller_that_left_ends_the_retries(scripted: ScriptedStore) -> None:
    scripted.answers = [refusal(503, "SlowDown")]
    with working_for(lambda: len(scripted.requests) == 2), pytest.raises(CommitFailed, match="left"):
        files_on(scripted.url).read("s3://bucket/x")
    assert len(scripted.requests) == 2


def credentials(path: Path, token: str) -> None:
    parser = configparser.ConfigParser()
    parser["default"] = {"aws_access_key_id": "AKID", "aws_secret_access_key": "s", "aws_session_token": token}
    with path.open("w") as file:
        parser.write(file)


@both_libraries
def test_expired_credentials_are_found_anew_in_the_shared_file(
    key: str, scripted: ScriptedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    shared = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    credentials(shared, "old")
    scripted.answers = [refusal(400, "ExpiredToken"), OK]

    class Rewritten(Waits):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            credentials(shared, "new")

    files = files_on(scripted.url, Rewritten(), s3_access_key_id="", s3_secret_access_key="")
    assert files.read(f"s3://bucket/{key}") == b"abc"
    assert [request.headers["x-amz-security-token"] for request in scripted.requests] == ["old", "new"]


@both_libraries
def test_expired_credentials_of_the_settings_are_reported(key: str, scripted: ScriptedStore) -> None:
    scripted.answers = [refusal(400, "ExpiredToken")]
    files = files_on(scripted.url, s3_retry_num_retries=2)
    # The answer to HEAD does not say why.
    for call in (files.read, files.length):
        with pytest.raises(StorageError, match="ExpiredToken") as caught:
            call(f"s3://bucket/{key}")
        assert "s3.session-token" in caught.value.next_step
        assert scripted.methods.count("GET") == 3
        scripted.requests.clear()


@both_libraries
@pytest.mark.parametrize("status", [400, 403, 404, 503])
def test_no_failure_shows_a_secret(key: str, status: int, scripted: ScriptedStore) -> None:
    quoted = f"<StringToSign>x-amz-security-token:{TOKEN}</StringToSign><Token-0>{TOKEN}</Token-0>"
    files = once(scripted, refusal(status, "SignatureDoesNotMatch", more=quoted), s3_session_token=TOKEN)
    location = f"s3://bucket/{key}"
    for call in (
        lambda: files.read(location),
        lambda: files.length(location),
        lambda: files.write(location, b""),
        lambda: list(files.list_files(location)),
    ):
        with pytest.raises(StorageError) as caught:
            call()
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(caught.value)
        assert "hush" not in shown
    assert scripted.requests[0].headers["x-amz-security-token"] == TOKEN
    settings = Settings(s3_access_key_id="AKID", s3_secret_access_key="hush-secret", s3_session_token=TOKEN)
    assert "hush" not in repr(settings) + str(settings.shown())


@pytest.mark.parametrize("body", [b"<html/>", b"<html><body>Sign in</body></html>", b""])
def test_a_page_that_is_no_listing_is_not_an_empty_folder(body: bytes, scripted: ScriptedStore) -> None:
    files = once(scripted, Answer(200, body, {"Content-Type": "application/xml"}))
    with pytest.raises(StorageError):
        list(files.list_files("s3://bucket/t"))
