"""Short-lived credentials for the folders of one table: STS AssumeRole with a session policy.

The store grants what the role may do and the policy names, and no more. A folder is a prefix that ends in `/`, so the
folder `t` is not that of `t2`. In a policy `*`, `?` and `$` stand for something else than themselves, and not every
store knows a way to quote them: a folder with such a character gets no credentials.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import botocore.session

from iceberg_hms.clock import Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import (
    ConfigError,
    CredentialsUnavailable,
    IcebergHmsError,
    LocationNotAllowed,
    StorageError,
    own_copy,
)
from iceberg_hms.format.locations import parse
from iceberg_hms.storage.s3.botocore_bucket import mapped
from iceberg_hms.storage.s3.credentials import make_source_session, make_sts_client, region_of, retries_of
from iceberg_hms.storage.s3.failures import S3Failure

#: Credentials that are kept for other callers, of so many sets of folders.
KEPT_MAX: Final = 4_096
#: The part of their lifetime for which they are handed out: who gets them has at least the rest.
HANDED_OUT: Final = 2 / 3
#: Characters of a session policy at most (AWS and MinIO).
POLICY_MAX: Final = 2_048
#: MinIO looks at no role, but STS's protocol asks for one.
_ANY_ROLE: Final = "arn:aws:iam::000000000000:role/iceberg-hms"
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
#: What a policy or a store takes for something else than a name.
_ODD: Final = re.compile(r"[*?$\\\x00-\x1f\x7f]|//|(?:^|/)\.{1,2}/")

_READ: Final = ("s3:GetObject",)
_WRITE: Final = (*_READ, "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")

#: A role, a policy and seconds -> credentials as STS describes them. Raises StorageError.
AssumeRole = Callable[[str, str, int], Mapping[str, Any]]

_Key = tuple[tuple[str, ...], bool]


@dataclass(frozen=True, slots=True)
class _Kept:
    """properties: for clients, with secrets. until: of the monotonic clock, in seconds."""

    until: float
    properties: Mapping[str, str] = field(repr=False)


class StsVending:
    """Implements `catalog.services.CredentialVending`. Safe to share between threads.

    role_arn: the role to assume; "": that of `s3.role-arn`. duration_seconds: how long credentials live.
    assume: what makes them; None: STS.
    Raises ConfigError if the settings name no credentials with which a role can be assumed, or on AWS no role.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        role_arn: str,
        duration_seconds: int,
        assume: AssumeRole | None = None,
    ) -> None:
        self._assume = assume or _Sts(settings).assume_role
        self._role = role_arn or settings.s3_role_arn or (_ANY_ROLE if settings.s3_endpoint else "")
        if not self._role:
            raise ConfigError(
                "`rest.vended-credentials` is sts, and AWS needs a role to assume",
                next_step="set `rest.vended-role-arn`",
            )
        if settings.s3_anonymous:
            raise ConfigError(
                "`rest.vended-credentials` is sts, but with `s3.anonymous` there are no credentials to assume a role",
                next_step="leave one of them out",
            )
        self._settings = settings
        self._clock = clock
        self._seconds = duration_seconds
        self._retries = retries_of(settings, clock, total_seconds=settings.s3_request_timeout)
        #: The longest that a call takes, with its last attempt.
        self._patience = settings.s3_connect_timeout + 2 * settings.s3_request_timeout
        self._mutex = threading.Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._under_way: dict[_Key, Future[Mapping[str, str]]] = {}

    @cached_property
    def client_properties(self) -> Mapping[str, str]:
        """As the port says."""
        settings = self._settings
        # A session takes milliseconds to make.
        with mapped():
            region = region_of(settings, botocore.session.Session())
        found = {"client.region": region, "s3.region": region}
        if settings.s3_endpoint:
            found["s3.endpoint"] = settings.s3_endpoint
        if settings.s3_uses_path_style is not None:
            found["s3.path-style-access"] = str(settings.s3_uses_path_style).lower()
        return found

    def serves(self, location: str) -> bool:
        """As the port says."""
        try:
            return parse(f"{location.rstrip('/')}/").scheme == "s3"
        except IcebergHmsError:
            return False

    def vend(self, folders: Sequence[str], *, write: bool) -> Mapping[str, str]:
        """As the port says."""
        key = tuple(sorted(set(folders))), write
        with self._mutex:
            kept = self._kept.get(key)
            if kept is not None and self._clock.monotonic() < kept.until:
                self._kept.move_to_end(key)
                return kept.properties
            others = self._under_way.get(key)
            if others is None:
                mine: Future[Mapping[str, str]] = Future()
                self._under_way[key] = mine
        return self._lead(key, mine) if others is None else self._follow(others)

    def _lead(self, key: _Key, mine: Future[Mapping[str, str]]) -> Mapping[str, str]:
        """Make credentials for all callers that ask for the same meanwhile."""
        try:
            made = self._make(*key)
        except BaseException as error:
            with self._mutex:
                del self._under_way[key]
            mine.set_exception(error)
            raise
        with self._mutex:
            self._kept[key] = made
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
            del self._under_way[key]
        mine.set_result(made.properties)
        return made.properties

    def _follow(self, others: Future[Mapping[str, str]]) -> Mapping[str, str]:
        try:
            return others.result(self._patience)
        except FutureTimeoutError:
            raise CredentialsUnavailable("STS did not answer in time") from None
        except IcebergHmsError as error:
            raise own_copy(error) from error

    def _make(self, folders: Iterable[str], write: bool) -> _Kept:
        policy = session_policy(folders, write=write, partition=self._role.split(":")[1])
        # From before the call: so the end is never too late, whatever the clocks of the two machines say.
        asked = self._clock.monotonic()
        try:
            found = self._retries.call(lambda: self._assume(self._role, policy, self._seconds))
        except StorageError as error:
            raise CredentialsUnavailable(error.message) from error
        properties = {
            "s3.access-key-id": found["AccessKeyId"],
            "s3.secret-access-key": found["SecretAccessKey"],
            "s3.session-token": found["SessionToken"],
            "s3.session-token-expires-at-ms": str(int(found["Expiration"].timestamp() * 1_000)),
        }
        return _Kept(asked + self._seconds * HANDED_OUT, properties)


class _Sts:
    """Assumes roles. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None

    def assume_role(self, role: str, policy: str, seconds: int) -> Mapping[str, Any]:
        """As `AssumeRole`."""
        try:
            with mapped():
                answer = self._current().assume_role(
                    RoleArn=role,
                    RoleSessionName=self._settings.s3_role_session_name,
                    Policy=policy,
                    DurationSeconds=seconds,
                )
        except S3Failure as failure:
            # The next attempt finds the server's own credentials anew.
            self._client = None
            raise failure.as_error(f"STS AssumeRole of {role}") from None
        credentials: Mapping[str, Any] = answer["Credentials"]
        return credentials

    def _current(self) -> Any:
        client = self._client
        if client is None:
            # Not with those of `s3.role-arn`: a session that assumes a role lives an hour at most, on MinIO not at all.
            # No lock: two threads may make one each.
            client = self._client = make_sts_client(self._settings, make_source_session(self._settings))
        return client


def session_policy(folders: Iterable[str], *, write: bool, partition: str = "aws") -> str:
    """The policy for folders and what is below them, and for nothing else, as JSON. partition: AWS's, such as `aws-cn`.
    Raises LocationNotAllowed for a folder that no policy can name exactly, and for too many."""
    prefixes: dict[str, list[str]] = {}
    for folder in folders:
        bucket, prefix = _bucket_and_prefix(folder)
        prefixes.setdefault(bucket, []).append(prefix)
    arn = f"arn:{partition}:s3:::"
    objects = [f"{arn}{bucket}/{prefix}*" for bucket, found in prefixes.items() for prefix in found]
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": list(_WRITE if write else _READ), "Resource": objects}
    ]
    statements += [
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": [f"{arn}{bucket}"],
            "Condition": {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in found]}},
        }
        for bucket, found in prefixes.items()
    ]
    # In ASCII, as AWS asks.
    text = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(text) > POLICY_MAX:
        raise LocationNotAllowed("the table's folder", "has a name that is too long for a policy of the store")
    return text


def _bucket_and_prefix(folder: str) -> tuple[str, str]:
    found = parse(f"{folder.rstrip('/')}/")
    prefix = found.path[1:]
    if found.scheme != "s3" or not _BUCKET.fullmatch(found.authority) or not prefix or _ODD.search(prefix):
        raise LocationNotAllowed(
            "the table's folder",
            "is a whole bucket, or its name has characters that mean more than themselves in a policy of the store",
        )
    return found.authority, prefix
