"""Which HTTP status and which Java exception name stand for which error: one table, searched along the error's MRO.

Stock clients choose what to do by the status, and some by the name (ErrorHandlers.java of Iceberg 1.11):

- 404 lets Spark's session catalog fall back to Hive, unless it names a namespace or a file; so it never stands for an
  outage.
- 409 on a commit means: nothing was changed; the client refreshes and tries again.
- 4xx on a commit tells the client to delete the files that it wrote, so it is sent on proof only
  (`IcebergHmsError.proved_failed`). Without proof a commit's error is 500, CommitStateUnknownException.
- 429 with Retry-After is sent again by Java's HTTP client whatever the method: for work that was not begun, and for an
  outage in which nothing landed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms import errors
from iceberg_hms.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

#: What clients are asked to wait before they send a refused request again. The shortest that the header can say.
RETRY_AFTER_SECONDS: Final = 1

_RETRY: Final = {"Retry-After": str(RETRY_AFTER_SECONDS)}


@dataclass(frozen=True, slots=True)
class Rule:
    """status: HTTP. type: the name of Java's exception. headers: sent along."""

    status: int
    type: str
    headers: Mapping[str, str] = field(default_factory=dict)


RULES: Final[Mapping[type[BaseException], Rule]] = {
    errors.InvalidInput: Rule(400, "BadRequestException"),
    errors.AccessDenied: Rule(403, "ForbiddenException"),
    errors.NoSuchNamespace: Rule(404, "NoSuchNamespaceException"),
    errors.NoSuchTable: Rule(404, "NoSuchTableException"),
    errors.NotFound: Rule(404, "NotFoundException"),
    errors.AlreadyExists: Rule(409, "AlreadyExistsException"),
    errors.NamespaceNotEmpty: Rule(409, "NamespaceNotEmptyException"),
    errors.CommitFailed: Rule(409, "CommitFailedException"),
    errors.QueueFull: Rule(429, "TooManyRequestsException", _RETRY),
    errors.CommitStateUnknown: Rule(500, "CommitStateUnknownException"),
    errors.MetastoreUnavailable: Rule(503, "ServiceUnavailableException", _RETRY),
    Exception: Rule(500, "ServiceFailureException"),
}

#: Where a commit differs. An outage that was met before anything was sent is a reason to wait, not a doubt; and a lock
#: that cannot be had is a conflict.
COMMIT_RULES: Final[Mapping[type[BaseException], Rule]] = {
    errors.LockUnavailable: Rule(409, "CommitFailedException"),
    errors.MetastoreUnavailable: Rule(429, "TooManyRequestsException", _RETRY),
}

_UNKNOWN: Final = RULES[errors.CommitStateUnknown]
_REFUSED: Final = RULES[errors.InvalidInput]

#: Names for what goes wrong before a handler is asked; Java has no exceptions of its own for the last ones.
_HTTP_TYPES: Final = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    404: "NotFoundException",
    405: "MethodNotAllowedException",
    408: "RequestTimeoutException",
    413: "RequestTooLargeException",
    422: "UnprocessableEntityException",
}


def rule_for(error: Exception, *, commit: bool) -> Rule:
    """The rule of an error; `commit` says that the request was a commit of table updates."""
    rule = _nearest(error, COMMIT_RULES) if commit else None
    rule = rule or _nearest(error, RULES) or RULES[Exception]
    if not commit or rule.status == 429:
        return rule
    if getattr(error, "proved_failed", False):
        # Proved, and not a conflict: the client must neither try again nor keep its files.
        return _REFUSED if rule.status >= 500 else rule
    return _UNKNOWN


def error_response(error: Exception, *, commit: bool = False, clock: Clock = SYSTEM_CLOCK) -> Response:
    """The answer for an error: an ErrorModel without a stack. What we did not expect is logged with a reference, and
    only the reference is sent."""
    if isinstance(error, HTTPException):
        rule = Rule(error.status_code, _HTTP_TYPES.get(error.status_code, "RESTException"), error.headers or {})
        return render(rule, error.detail)
    rule = rule_for(error, commit=commit)
    if isinstance(error, errors.IcebergHmsError):
        if rule.status >= 500:
            logger.warning("answered %d %s: %s", rule.status, rule.type, error)
        return render(rule, _text(error, rule))
    reference = clock.uuid()
    logger.error("unexpected error, reference %s", reference, exc_info=error)
    return render(rule, f"Internal error; the server's log has it under {reference}")


def render(rule: Rule, message: str) -> Response:
    """An ErrorModel (REST spec: IcebergErrorResponse)."""
    body = {"error": {"message": message, "type": rule.type, "code": rule.status}}
    return Response(orjson.dumps(body), rule.status, dict(rule.headers), "application/json")


def _text(error: errors.IcebergHmsError, rule: Rule) -> str:
    # Clients know what to do after 404 and 409, and Iceberg's compatibility kit compares these texts with Java's.
    return error.message if rule.status in (404, 409) else str(error)


def _nearest(error: Exception, rules: Mapping[type[BaseException], Rule]) -> Rule | None:
    return next((rules[kind] for kind in type(error).__mro__ if kind in rules), None)
