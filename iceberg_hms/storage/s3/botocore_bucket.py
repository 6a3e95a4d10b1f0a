"""A bucket by botocore, which names every key: lists, deletions, and what obstore cannot name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from urllib3.exceptions import HTTPError

from iceberg_hms.storage.s3.failures import INVALID_RANGE, S3Failure

#: What a request in XML cannot say, or says otherwise.
_NOT_IN_XML: Final = re.compile(r"[^\x20-\x7e\x80-\ufffd\U00010000-\U0010ffff]")


class BotocoreBucket:
    """Implements `bucket_client.BucketClient`. client: botocore's for S3; it sends each request once."""

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

    def delete_all(self, keys: Sequence[str]) -> dict[str, S3Failure]:
        """Delete at most 1,000 objects in one request, and those that it cannot name in one each. Returns why one may
        still be there, by its key. Raises S3Failure."""
        kept: dict[str, S3Failure] = {}
        for key in filter(_NOT_IN_XML.search, keys):
            try:
                self.delete(key)
            except S3Failure as failure:
                kept[key] = failure
        named = [{"Key": key} for key in keys if not _NOT_IN_XML.search(key)]
        if not named:
            return kept
        with mapped():
            deleted = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": named, "Quiet": True})
        for each in deleted.get("Errors", ()):
            if each["Key"] not in keys:
                raise S3Failure(None, "", "it answers for objects that it was not asked to delete")
            status = 403 if each["Code"] == "AccessDenied" else 500
            kept[each["Key"]] = S3Failure(status, each["Code"], each.get("Message", ""))
        return kept

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
