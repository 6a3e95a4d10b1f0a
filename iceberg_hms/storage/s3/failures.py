"""What S3 or the way to it answered instead of a result, as errors of ours. One table for both client libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iceberg_hms.errors import FileAlreadyExists, IcebergHmsError, MissingFile, StorageError, StorageRefused

#: Codes of credentials that were valid once, or are not known everywhere yet.
EXPIRED: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidTokenId", "TokenRefreshRequired"}
)
#: A suffix of an empty object, or a range beyond the end.
INVALID_RANGE: Final = "InvalidRange"
#: What stores answer that have no conditional writes.
NOT_IMPLEMENTED: Final = frozenset({"NotImplemented", "501"})
#: Codes with a status of 4xx that say nothing about the request.
_TRANSIENT: Final = frozenset(
    {
        "BadDigest",
        "ConditionalRequestConflict",
        "IncompleteBody",
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "XMinioClientDisconnected",
    }
)
#: What a store answers for an object that it will not delete, however it is asked.
KEPT: Final = frozenset({"AccessDenied", "ObjectLocked"})
_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429})
#: Not the status 404 alone, with which something else than a store answers, too.
_NO_SUCH_KEY: Final = "NoSuchKey"
_TAKEN: Final = frozenset({"PreconditionFailed", "412"})

_ALLOW: Final = (
    "allow these credentials s3:GetObject, s3:PutObject and s3:DeleteObject below the table's folder, and "
    "s3:ListBucket on the bucket"
)
_NEXT_STEPS: Final = {
    "NoSuchBucket": "make the bucket, or correct the location, `s3.endpoint` or `s3.region`",
    "AccessDenied": _ALLOW,
    # The answer to HEAD has no code.
    "403": _ALLOW,
    "404": "see whether an S3 service answers at `s3.endpoint`",
    "InvalidAccessKeyId": "correct `s3.access-key-id`, or the credentials that the AWS tools find",
    "SignatureDoesNotMatch": "correct `s3.secret-access-key`, or the credentials that the AWS tools find",
    "PermanentRedirect": "set `s3.region` to the region of the bucket",
    "AuthorizationHeaderMalformed": "set `s3.region` to the region of the bucket",
    "IllegalLocationConstraintException": "set `s3.region` to the region of the bucket",
}
_EXPIRED_STEP: Final = "renew the credentials: `s3.session-token`, or those that the AWS tools find"
_LATER_STEP: Final = "see whether the store works and can be reached at `s3.endpoint`, then try again"


@dataclass
class S3Failure(Exception):
    """status: of HTTP; None if there was no answer. code: S3's, or the status. message: without secrets."""

    status: int | None
    code: str
    message: str

    def as_error(self, location: str) -> IcebergHmsError:
        """The error for the file of a location."""
        text = (
            f"{location}: the store answered {self.code}: {self.message}" if self.status else self._unanswered(location)
        )
        if self.code == _NO_SUCH_KEY:
            return MissingFile(location)
        if self.code in _TAKEN:
            return FileAlreadyExists(location)
        if self.code in EXPIRED:
            return StorageError(text, next_step=_EXPIRED_STEP)
        if self._is_transient:
            return StorageError(text, next_step=_LATER_STEP)
        return StorageRefused(text, next_step=_NEXT_STEPS.get(self.code))

    def _unanswered(self, location: str) -> str:
        return f"{location}: the store did not answer: {self.message}"

    @property
    def _is_transient(self) -> bool:
        if self.status is None or self.code in _TRANSIENT or self.status in _TRANSIENT_STATUS:
            return True
        return self.status >= 500 and self.code not in NOT_IMPLEMENTED
