"""The HTTP status and the Java exception name of each error: one table, searched along the error's MRO.

Stock clients act on the status, and some on the name (ErrorHandlers.java of Iceberg 1.11):

- 404 makes Spark's session catalog fall back to Hive, unless it names a namespace or a file; so an outage is never 404.
- 409 on a commit: nothing was changed; the client refreshes and tries again.
- 4xx on a commit makes the client delete the files that it wrote, so it needs proof
  (`IcebergHmsError.proved_failed`). Without proof a commit's error is 500, CommitStateUnknownException.
- 429 with Retry-After: Java's HTTP client sends the request again, whatever its method. For work that did not start,
  and for an outage during which nothing was committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms import errors

#: How long clients wait before they send a refused request again: the shortest time that the header can express.
RETRY_AFTER_SECONDS: Final = 1
#: Characters of an error's message at most: it may quote what a client sent, and no budget counts it.
MESSAGE_MAX: Final = 16_384

#: The status of a commit that provably failed and that its client may try again.
CONFLICT: Final = 409

_RETRY: Final = {"Retry-After": str(RETRY_AFTER_SECONDS)}


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """status: HTTP. type: the name of Java's exception. headers: sent along."""

    status: int
    type: str
    headers: Mapping[str, str] = field(default_factory=dict)


RULES: Final[Mapping[type[BaseException], ErrorRule]] = {
    errors.InvalidInput: ErrorRule(400, "BadRequestException"),
    # What Java's own builder of views raises.
    errors.InvalidView: ErrorRule(400, "IllegalArgumentException"),
    errors.NotAuthenticated: ErrorRule(
        401, "NotAuthorizedException", {"WWW-Authenticate": 'Bearer realm="iceberg-hms"'}
    ),
    errors.AccessDenied: ErrorRule(403, "ForbiddenException"),
    errors.ScopeMissing: ErrorRule(403, "ForbiddenException"),
    errors.LocationNotAllowed: ErrorRule(403, "ForbiddenException"),
    errors.ReadOnly: ErrorRule(403, "ForbiddenException"),
    errors.NoSuchNamespace: ErrorRule(404, "NoSuchNamespaceException"),
    errors.NoSuchWarehouse: ErrorRule(404, "NoSuchWarehouseException"),
    errors.NoSuchTable: ErrorRule(404, "NoSuchTableException"),
    errors.NoSuchView: ErrorRule(404, "NoSuchViewException"),
    errors.NoSuchPlanId: ErrorRule(404, "NoSuchPlanIdException"),
    errors.NoSuchPlanTask: ErrorRule(404, "NoSuchPlanTaskException"),
    errors.NotFound: ErrorRule(404, "NotFoundException"),
    errors.AlreadyExists: ErrorRule(409, "AlreadyExistsException"),
    errors.NamespaceNotEmpty: ErrorRule(409, "NamespaceNotEmptyException"),
    # Java's client shows its users the message of this one alone.
    errors.HiveTableKept: ErrorRule(400, "IllegalArgumentException"),
    errors.CommitFailed: ErrorRule(409, "CommitFailedException"),
    errors.QueueFull: ErrorRule(429, "TooManyRequestsException", _RETRY),
    errors.IssuerUnavailable: ErrorRule(429, "TooManyRequestsException", _RETRY),
    errors.CommitStateUnknown: ErrorRule(500, "CommitStateUnknownException"),
    errors.MetastoreUnavailable: ErrorRule(503, "ServiceUnavailableException", _RETRY),
    errors.ResourceExhausted: ErrorRule(503, "ServiceUnavailableException", _RETRY),
    errors.CredentialsUnavailable: ErrorRule(503, "ServiceUnavailableException", _RETRY),
    errors.PlanUnavailable: ErrorRule(503, "ServiceUnavailableException", _RETRY),
    Exception: ErrorRule(500, "ServiceFailureException"),
}

#: Where a commit differs. An outage before anything was sent is a reason to wait, not an unknown outcome; a lock that
#: cannot be acquired is a conflict.
COMMIT_RULES: Final[Mapping[type[BaseException], ErrorRule]] = {
    errors.LockUnavailable: ErrorRule(409, "CommitFailedException"),
    errors.MetastoreUnavailable: ErrorRule(429, "TooManyRequestsException", _RETRY),
}

#: What a client sees instead of an error's message; "": the message. Messages that consist of what the client sent, or
#: of names that it may read, are shown. Others may name paths and hosts of the server, or repeat what a file or the
#: metastore says: the client gets a request id, by which an operator finds them in the log. A new type is hidden.
_TEXTS: Final[Mapping[type, str]] = {
    errors.InvalidInput: "",
    errors.NotFound: "",
    errors.LocationNotAllowed: "",
    errors.ReadOnly: "",
    errors.AlreadyExists: "",
    errors.FileAlreadyExists: "There is a file already where the server would write one",
    errors.NamespaceNotEmpty: "",
    errors.HiveTableKept: "",
    errors.CommitFailed: "",
    # These name who holds a lock, from which host, and repeat the metastore's words on changes of others.
    errors.LockNotAcquired: "The lock of the table was not acquired in time",
    errors.CommitConflict: "The commit was not made, because of other commits",
    errors.QueueFull: "",
    errors.NotAuthenticated: "",
    errors.ScopeMissing: "",
    errors.IssuerUnavailable: "",
    errors.MissingFile: "The file of the table's metadata_location does not exist, or one that it names",
    errors.CommitStateUnknown: "It is not known whether the change was made",
    errors.PlanUnavailable: "",
    errors.MetastoreUnavailable: "The metastore does not answer",
    errors.MetastoreRefused: "The metastore refused the request",
    errors.AccessDenied: "The metastore does not allow this server to do it",
    errors.LockUnavailable: "The lock of the table cannot be taken",
    errors.ResourceExhausted: "The server is short of memory or of open files",
    errors.CredentialsUnavailable: "The store gave no credentials for the table",
    errors.StorageError: "A file could not be read or written",
    errors.CorruptFile: "A file is damaged",
    errors.FileBeyondLimit: "A file is beyond a limit of this server",
    errors.IcebergHmsError: "The server failed",
}

_UNKNOWN: Final = RULES[errors.CommitStateUnknown]
_REFUSED: Final = RULES[errors.InvalidInput]
_DEFERRED: Final = RULES[errors.QueueFull]

#: Names for errors before a handler runs; Java has no exceptions of its own for the last ones.
_HTTP_TYPES: Final = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    405: "MethodNotAllowedException",
    408: "RequestTimeoutException",
    413: "RequestTooLargeException",
    415: "UnsupportedMediaTypeException",
    422: "UnprocessableEntityException",
}


def rule_for(error: Exception, *, commit: bool) -> ErrorRule:
    """The rule for an error. commit: whether the request was a commit of table updates."""
    rule = _nearest(error, COMMIT_RULES) if commit else None
    rule = rule or _nearest(error, RULES) or RULES[Exception]
    if not commit or rule.status == 429:
        return rule
    if getattr(error, "proved_failed", False):
        if rule.status == 503:
            # Proved, and it passes: the client sends the commit again.
            return _DEFERRED
        # Proved, and no conflict: the client must neither try again nor keep its files.
        return _REFUSED if rule.status >= 500 else rule
    return _UNKNOWN


def error_response(error: Exception, request_id: str, *, commit: bool = False) -> Response:
    """The response for an error: an ErrorModel without a stack. Of an unexpected error, and of one whose text is
    hidden, the client gets the request's id, under which the log has the error (`failure_log`)."""
    if isinstance(error, HTTPException):
        rule = ErrorRule(error.status_code, _HTTP_TYPES.get(error.status_code, "RESTException"), error.headers or {})
        return render(rule, error.detail)
    rule = rule_for(error, commit=commit)
    if isinstance(error, errors.IcebergHmsError):
        instead = _instead_of(error)
        return render(rule, _hidden(error, instead, request_id) if instead else _text(error, rule))
    return render(rule, f"Internal error; the server's log has it under {request_id}")


def is_hidden(error: Exception) -> bool:
    """Whether the client gets another text than the error's own."""
    return isinstance(error, errors.IcebergHmsError) and bool(_instead_of(error))


def cause_of(error: Exception) -> str:
    """One of few names: the requirement that failed, or the type of the error."""
    return error.name if isinstance(error, errors.RequirementFailed) else type(error).__name__


def render(rule: ErrorRule, message: str) -> Response:
    """An ErrorModel (REST spec: IcebergErrorResponse). Of a message that quotes a very long name, its beginning and its
    end."""
    if len(message) > MESSAGE_MAX:
        half = MESSAGE_MAX // 2
        message = f"{message[:half]} ... {message[-half:]}"
    body = {"error": {"message": message, "type": rule.type, "code": rule.status}}
    return Response(orjson.dumps(body), rule.status, dict(rule.headers), "application/json")


def _instead_of(error: errors.IcebergHmsError) -> str:
    return _TEXTS[next(kind for kind in type(error).__mro__ if kind in _TEXTS)]


def _hidden(error: errors.IcebergHmsError, instead: str, request_id: str) -> str:
    # The steps of CommitStateUnknown are fixed texts, and say what the client must not delete. Other errors' own steps
    # may name what their messages name.
    step = error.next_step if isinstance(error, errors.CommitStateUnknown) else type(error).default_next_step
    text = f"{instead}; the server's log has the reason under {request_id}"
    return f"{text} ({step})" if step else text


def _text(error: errors.IcebergHmsError, rule: ErrorRule) -> str:
    # Without the next step: clients know it after 404 and 409, and Iceberg's compatibility kit compares these texts
    # with Java's.
    return error.message if rule.status in (404, 409) else str(error)


def _nearest(error: Exception, rules: Mapping[type[BaseException], ErrorRule]) -> ErrorRule | None:
    return next((rules[kind] for kind in type(error).__mro__ if kind in rules), None)
