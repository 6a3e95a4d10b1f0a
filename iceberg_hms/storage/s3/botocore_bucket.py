"""A bucket by botocore, which names every key: lists, deletions, and what obstore cannot name."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from urllib3.exceptions import HTTPError

from iceberg_hms.storage.s3.failures import INVALID_RANGE, KEPT, S3Failure

#: What a request in XML cannot say, or says otherwise.
_NOT_IN_XML: Final = re.compile(r"[^\x20-\x7e\x80-\ufffd\U00010000-\U0010ffff]")
#: An element from its name to its end; nothing looks at what is in it.
_WHOLE_XML: Final = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<(?:\w+:)?(\w+)(?:[^>]*/>|.*</(?:\w+:)?\1>)\s*", re.DOTALL)


def prepare(client: Any) -> Any:
    """Let a client of S3 delete many objects on every store; returns it."""
    events = client.meta.events
    events.register("before-sign.s3.DeleteObjects", _add_md5)
    # With the star it comes before botocore's own handler, which calls XML that is cut off a failure of the server.
    events.register("before-parse.*.DeleteObjects", _check_result)
    return client


def _add_md5(request: Any, **_: Any) -> None:
    # What stores before 2025 ask for; botocore sends a newer checksum alone.
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()


def _check_result(response_dict: dict[str, Any], **_: Any) -> None:
    """Make an empty result of what is none: botocore takes the page of a proxy for one."""
    if response_dict["status_code"] != HTTPStatus.OK:
        return
    found = _WHOLE_XML.fullmatch(response_dict["body"])
    if found is None or found[1] not in (b"DeleteResult", b"Error"):
        response_dict["body"] = b""
    elif found[1] == b"Error":
        response_dict["status_code"] = HTTPStatus.BAD_REQUEST


class BotocoreBucket:
    """Implements `bucket_client.BucketClient`. client: botocore's for S3, which `prepare` returned; it sends each
    request once."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def get(self, key: str, admit: Callable[[int], None]) -> bytes:
        with mapped():
            found = self._client.get_object(Bucket=self._bucket, Key=key)
            with found["Body"] as body:
                admit(found["ContentLength"])
                return bytes(body.read())

    def get_range(self, key: str, start: int, end: int) -> bytes:
        data = self._get_part(key, f"bytes={start}-{end - 1}")[1]
        if len(data) != end - start:
            raise S3Failure(416, INVALID_RANGE, f"it has {len(data)} bytes from {start} up to {end}")
        return data

    def get_tail(self, key: str, count: int) -> tuple[int, bytes]:
        return self._get_part(key, f"bytes=-{count}")

    def _get_part(self, key: str, spelled: str) -> tuple[int, bytes]:
        with mapped():
            found = self._client.get_object(Bucket=self._bucket, Key=key, Range=spelled)
            with found["Body"] as body:
                data = bytes(body.read())
        if "ContentRange" not in found:
            # As some stores do with an empty object.
            raise S3Failure(416, INVALID_RANGE, "it answers whole objects instead of ranges")
        # `bytes 0-9/10`
        return int(found["ContentRange"].rpartition("/")[2]), data

    def head(self, key: str) -> int:
        with mapped():
            return int(self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"])

    def put(self, key: str, data: bytes, *, is_new: bool) -> None:
        condition = {"IfNoneMatch": "*"} if is_new else {}
        with mapped():
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data, **condition)

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is no failure. Raises S3Failure."""
        with mapped():
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def delete_all(self, keys: Sequence[str]) -> tuple[set[str], dict[str, S3Failure]]:
        """Delete at most 1,000 objects in one request. Returns those that are gone, and why the store keeps others, by
        their keys. One that is in neither may still be there, and can be asked for alone: no request in XML can name
        it, the store did not answer for it, or answered what need not hold for a request of its own. Raises S3Failure,
        also if the store settled none of them."""
        asked = {key for key in keys if not _NOT_IN_XML.search(key)}
        if not asked:
            return set(), {}
        named = [{"Key": key} for key in keys if key in asked]
        with mapped():
            # Not quiet: silence would count as success, and a page of a proxy is silent too.
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": named})
        errors = {each.get("Key"): each for each in answer.get("Errors", ())}
        gone = {each.get("Key") for each in answer.get("Deleted", ())} & asked - errors.keys()
        kept = {
            key: S3Failure(HTTPStatus.FORBIDDEN, errors[key]["Code"], errors[key].get("Message", "no reason"))
            for key in errors.keys() & asked
            if errors[key].get("Code") in KEPT
        }
        if not gone and not kept:
            error: dict[str, str] = next((errors[key] for key in errors.keys() & asked), {})
            said = error.get("Message", "it does not say what became of any object")
            raise S3Failure(HTTPStatus.BAD_REQUEST, error.get("Code", "nothing"), said)
        return gone, kept

    def list_page(self, prefix: str, token: str | None) -> tuple[Sequence[Any], str | None]:
        """At most 1,000 objects as botocore describes them, and the token of the next page. Raises S3Failure."""
        after = {"ContinuationToken": token} if token else {}
        with mapped():
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **after)
        if "IsTruncated" not in page:
            # botocore takes any XML for a listing of nothing, and a proxy's page is XML too.
            raise S3Failure(None, "", "its answer is no listing")
        return page.get("Contents", ()), page.get("NextContinuationToken")


@contextmanager
def mapped() -> Iterator[None]:
    """Maps botocore's errors to S3Failure. The only place for that."""
    try:
        yield
    except ClientError as error:
        answer = error.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
        found = answer.get("Error", {})
        raise S3Failure(status, found.get("Code") or str(status), found.get("Message") or "no reason") from None
    except ParamValidationError as error:
        # A bucket or a key that S3 cannot have; nothing was sent.
        raise S3Failure(400, "InvalidRequest", str(error)) from None
    except HTTPError:
        # botocore maps it elsewhere, and not where it reads a body.
        raise S3Failure(None, "", "its answer broke off") from None
    except BotoCoreError as error:
        raise S3Failure(None, "", str(error)) from None
