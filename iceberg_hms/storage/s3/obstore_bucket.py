"""A bucket by obstore, which sends requests outside of the interpreter.

A request takes it 0.17 ms of a processor, and botocore 1.2 to 1.7 ms, pyarrow 0.5 to 1.4 ms (4 KiB, 16 at a time, MinIO
on the same two cores): with either of these a busy table would get a third of the commits. It cannot name every key:
`can_name`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

if TYPE_CHECKING:
    from obstore.store import ClientConfig

from iceberg_hms.storage.s3.failures import INVALID_RANGE, S3Failure

#: Keys that obstore sends as they are: segments with something else in them than dots alone, and no control characters.
_NAMEABLE: Final = re.compile(r"(?!.*(?:^|/)\.{1,2}(?:/|$))[^/\x00-\x1f\x7f]+(?:/[^/\x00-\x1f\x7f]+)*")
#: What `_failure` looks for in an error, whose text has the key in it.
_MISLEADING: Final = re.compile(r"status code|<|CONTENT_RANGE|redirect without|non-partial")
_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]+)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,500})</Message>")
#: What obstore's chain of causes says, and what we say; the first that is found.
_CAUSES: Final = (
    ("TimedOut", "it timed out"),
    ("ConnectionRefused", "it refused the connection"),
    ("dns error", "its host name is unknown"),
    ("certificate", "its certificate is not accepted"),
    ("", "the connection broke"),
)
#: An idle connection is closed before the store closes it (AWS: some 20 s).
_IDLE: Final = timedelta(seconds=15)


class _Process:
    """Whether obstore's threads run in this process; a forked child has none of them, and would wait forever."""

    uses_obstore = False
    lost_threads = False

    @classmethod
    def forked(cls) -> None:
        cls.lost_threads = cls.lost_threads or cls.uses_obstore


os.register_at_fork(after_in_child=_Process.forked)


def can_name(key: str) -> bool:
    """Whether obstore works in this process, and sends a key as it is (it refuses `a//b` and `..`, and takes a slash
    from the end), and whether its errors say what the store answered and not what the key says."""
    return not _Process.lost_threads and _NAMEABLE.fullmatch(key) is not None and not _MISLEADING.search(key)


class ObstoreBucket:
    """Implements `bucket_client.BucketClient` for keys that `can_name` allows. store: made by `make_store`."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    def get(self, key: str, admit: Callable[[int], None]) -> bytes:
        with _mapped():
            found = obstore.get(self._store, key)
            admit(found.meta["size"])
            return bytes(found.bytes())

    def get_range(self, key: str, start: int, end: int) -> bytes:
        with _mapped():
            return bytes(obstore.get_range(self._store, key, start=start, end=end))

    def get_tail(self, key: str, count: int) -> tuple[int, bytes]:
        with _mapped():
            found = obstore.get(self._store, key, options={"range": {"suffix": count}})
            return found.meta["size"], bytes(found.bytes())

    def head(self, key: str) -> int:
        with _mapped():
            return int(obstore.head(self._store, key)["size"])

    def put(self, key: str, data: bytes, *, is_new: bool) -> None:
        with _mapped():
            # One request, whatever the length: a multipart upload is not conditional as a whole on every store.
            obstore.put(self._store, key, data, mode="create" if is_new else "overwrite", use_multipart=False)


def make_store(
    bucket: str,
    *,
    endpoint: str,
    region: str,
    path_style: bool,
    credentials: Callable[[], Any] | None,
    connect_seconds: int,
    request_seconds: int,
    certificates: bytes | None,
) -> S3Store:
    """A client for one bucket. endpoint: empty for AWS. credentials: called for each request, or until what it returns
    expires (obstore's S3CredentialProvider); None sends unsigned requests. certificates: of authorities to trust
    besides the usual ones, as PEM."""
    if endpoint and not path_style:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    client: ClientConfig = {
        "allow_http": endpoint.startswith("http:"),
        "connect_timeout": timedelta(seconds=connect_seconds),
        "timeout": timedelta(seconds=request_seconds),
        "pool_idle_timeout": _IDLE,
    }
    if certificates:
        client["root_certificate"] = certificates
    _Process.uses_obstore = True
    options: dict[str, Any] = {"credential_provider": credentials} if credentials else {"skip_signature": True}
    if endpoint:
        options["endpoint"] = endpoint
    return S3Store(
        bucket,
        region=region,
        virtual_hosted_style_request=not path_style,
        client_options=client,
        # `RemoteFiles` retries: it knows whether an earlier attempt may have taken effect.
        retry_config={"max_retries": 0},
        **options,
    )


@contextmanager
def _mapped() -> Iterator[None]:
    """Maps obstore's errors to S3Failure. The only place for that."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        # What it says besides may have a token in it.
        raise _failure(str(error)) from None


def _failure(text: str) -> S3Failure:
    """The failure that an error of obstore describes: a line, and then all its causes."""
    status, code, message = (pattern.search(text) for pattern in (_STATUS, _CODE, _MESSAGE))
    if status is not None:
        found = code[1] if code else status[1]
        return S3Failure(int(status[1]), found, message[1] if message else "no reason")
    if "redirect without LOCATION" in text:
        return S3Failure(301, "PermanentRedirect", "the bucket is in another region")
    if "non-partial" in text:
        # As some stores do with an empty object.
        return S3Failure(416, INVALID_RANGE, "it answers whole objects instead of ranges")
    if "CONTENT_RANGE" in text:
        # What it makes of `bytes 0--1/0`, with which MinIO describes the end of an empty object.
        return S3Failure(416, INVALID_RANGE, "the object is empty")
    return S3Failure(None, "", next(said for cause, said in _CAUSES if cause in text))
