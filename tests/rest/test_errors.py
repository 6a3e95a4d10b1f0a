from __future__ import annotations

import inspect

import orjson
import pytest
from starlette.exceptions import HTTPException

from iceberg_hms import errors
from iceberg_hms.rest.errors import MESSAGE_MAX, RULES, error_response, rule_for

CASES: list[tuple[Exception, int, str, int, str]] = [
    # error, (status, type) elsewhere, (status, type) on a commit
    (errors.InvalidInput("x"), 400, "BadRequestException", 400, "BadRequestException"),
    (errors.DoesNotFit("x"), 400, "BadRequestException", 400, "BadRequestException"),
    (errors.CannotMigrate("x", report=None), 400, "BadRequestException", 400, "BadRequestException"),
    (errors.UnsupportedFormat("x"), 400, "BadRequestException", 400, "BadRequestException"),
    (errors.InvalidView("x"), 400, "IllegalArgumentException", 400, "IllegalArgumentException"),
    (errors.LocationNotAllowed("location"), 403, "ForbiddenException", 403, "ForbiddenException"),
    (errors.ReadOnly(), 403, "ForbiddenException", 403, "ForbiddenException"),
    (errors.NoSuchNamespace("n"), 404, "NoSuchNamespaceException", 404, "NoSuchNamespaceException"),
    (errors.NoSuchTable("n.t"), 404, "NoSuchTableException", 404, "NoSuchTableException"),
    (errors.NotAnIcebergTable("n.t", "a view"), 404, "NoSuchTableException", 404, "NoSuchTableException"),
    (errors.NoSuchWarehouse("w"), 404, "NoSuchWarehouseException", 500, "CommitStateUnknownException"),
    (errors.NoSuchView("n.v"), 404, "NoSuchViewException", 404, "NoSuchViewException"),
    (errors.NotAnIcebergView("n.t", "a table"), 404, "NoSuchViewException", 404, "NoSuchViewException"),
    (errors.MissingFile("file:/x"), 404, "NotFoundException", 404, "NotFoundException"),
    (errors.AlreadyExists("x"), 409, "AlreadyExistsException", 409, "AlreadyExistsException"),
    (errors.CannotMigrate("a file is damaged", report=None), 400, "BadRequestException", 400, "BadRequestException"),
    (errors.AlreadyIceberg("n.t", None), 409, "AlreadyExistsException", 409, "AlreadyExistsException"),
    (errors.FileAlreadyExists("file:/x"), 409, "AlreadyExistsException", 409, "AlreadyExistsException"),
    (errors.NamespaceNotEmpty("n"), 409, "NamespaceNotEmptyException", 409, "NamespaceNotEmptyException"),
    (errors.HiveTableKept("n.t", "file:/x", "y"), 400, "IllegalArgumentException", 500, "CommitStateUnknownException"),
    (errors.CommitFailed("x"), 409, "CommitFailedException", 409, "CommitFailedException"),
    (errors.RequirementFailed("a", "x"), 409, "CommitFailedException", 409, "CommitFailedException"),
    (errors.LockNotAcquired("x"), 409, "CommitFailedException", 409, "CommitFailedException"),
    (errors.CommitConflict("x"), 409, "CommitFailedException", 409, "CommitFailedException"),
    (errors.InvariantViolated("x"), 409, "CommitFailedException", 409, "CommitFailedException"),
    (errors.CommitStateUnknown("x"), 500, "CommitStateUnknownException", 500, "CommitStateUnknownException"),
    (errors.NotAuthenticated("x"), 401, "NotAuthorizedException", 401, "NotAuthorizedException"),
    (errors.ScopeMissing("c", "s", "a"), 403, "ForbiddenException", 403, "ForbiddenException"),
    (errors.IssuerUnavailable("x"), 429, "TooManyRequestsException", 429, "TooManyRequestsException"),
    (errors.QueueFull("x"), 429, "TooManyRequestsException", 429, "TooManyRequestsException"),
    (errors.MetastoreUnavailable("x"), 503, "ServiceUnavailableException", 429, "TooManyRequestsException"),
    (errors.CompareAndSwapUnproven("x"), 503, "ServiceUnavailableException", 429, "TooManyRequestsException"),
    (errors.MetastoreRefused("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.AccessDenied("x"), 403, "ForbiddenException", 500, "CommitStateUnknownException"),
    (errors.LockUnavailable("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.LockLost("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.StorageError("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.StorageRefused("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.CredentialsUnavailable("x"), 503, "ServiceUnavailableException", 429, "TooManyRequestsException"),
    (errors.NoSuchPlanId("x"), 404, "NoSuchPlanIdException", 404, "NoSuchPlanIdException"),
    (errors.NoSuchPlanTask("x"), 404, "NoSuchPlanTaskException", 404, "NoSuchPlanTaskException"),
    (errors.PlanUnavailable("x"), 503, "ServiceUnavailableException", 429, "TooManyRequestsException"),
    (errors.ResourceExhausted("x"), 503, "ServiceUnavailableException", 500, "CommitStateUnknownException"),
    (errors.CorruptFile("file:/x", "cut"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.FileBeyondLimit("file:/x", "large"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.ConfigError("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (errors.EngineError("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (RuntimeError("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
    (ValueError("x"), 500, "ServiceFailureException", 500, "CommitStateUnknownException"),
]


@pytest.mark.parametrize(("error", "status", "type_", "commit_status", "commit_type"), CASES)
def test_each_error_has_its_status_and_java_type(
    error: Exception, status: int, type_: str, commit_status: int, commit_type: str
) -> None:
    rule = rule_for(error, commit=False)
    assert (rule.status, rule.type) == (status, type_)
    rule = rule_for(error, commit=True)
    assert (rule.status, rule.type) == (commit_status, commit_type)


def test_these_tests_cover_every_error_class() -> None:
    tree = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.IcebergHmsError)}
    tested = {type(error) for error, *_ in CASES}
    only_bases = {errors.IcebergHmsError, errors.NotFound, errors.MetastoreError, errors.ProvedFailure}
    assert tree - tested == only_bases


@pytest.mark.parametrize("error", [error for error, *_ in CASES])
def test_a_commit_gets_4xx_only_on_proof(error: Exception) -> None:
    status = rule_for(error, commit=True).status
    proved = getattr(error, "proved_failed", False)
    assert status == 429 or (400 <= status < 500) == proved


def test_an_error_that_the_coordinator_proved_is_4xx() -> None:
    error = errors.proved(errors.AccessDenied("no right to alter the table"))
    assert rule_for(error, commit=True).status == 403
    lockless = errors.proved(errors.LockUnavailable("no lock API"))
    assert rule_for(lockless, commit=True).status == 409
    refused = errors.proved(errors.MetastoreRefused("types incompatible"))
    assert rule_for(refused, commit=True).status == 400
    assert rule_for(refused, commit=False).status == 500
    no_file = errors.proved(errors.ResourceExhausted("/w/t/metadata/1.metadata.json: Too many open files"))
    assert (rule_for(no_file, commit=True).status, rule_for(no_file, commit=True).headers) == (
        429,
        {"Retry-After": "1"},
    )


def test_a_new_subtype_gets_the_rule_of_its_nearest_base() -> None:
    class NewKind(errors.NoSuchTable): ...

    assert rule_for(NewKind("n.t"), commit=False).type == "NoSuchTableException"


@pytest.mark.parametrize("error", [errors.QueueFull("x"), errors.MetastoreUnavailable("x")])
@pytest.mark.parametrize("commit", [True, False])
def test_responses_to_retry_have_a_retry_after(error: Exception, commit: bool) -> None:
    assert int(error_response(error, "the-id", commit=commit).headers["Retry-After"]) >= 1


def test_no_other_response_has_a_retry_after() -> None:
    inviting = {kind for kind, rule in RULES.items() if "Retry-After" in rule.headers}
    assert inviting == {
        errors.QueueFull,
        errors.IssuerUnavailable,
        errors.MetastoreUnavailable,
        errors.ResourceExhausted,
        errors.CredentialsUnavailable,
        errors.PlanUnavailable,
    }
    assert "Retry-After" not in error_response(errors.CommitStateUnknown("x"), "the-id", commit=True).headers


def message_of(error: Exception, *, commit: bool = False) -> str:
    body = orjson.loads(error_response(error, "the-id", commit=commit).body)
    return str(body["error"]["message"])


def test_texts_that_clients_compare_equal_javas() -> None:
    assert message_of(errors.NoSuchTable("ns.tbl")) == "Table does not exist: ns.tbl"
    assert message_of(errors.NoSuchNamespace("ns")) == "Namespace does not exist: ns"
    assert message_of(errors.NamespaceNotEmpty("ns")) == "Namespace ns is not empty"


def test_other_texts_name_the_next_step() -> None:
    assert "delete nothing" in message_of(errors.CommitStateUnknown("no answer"), commit=True)
    assert "metastore_uri" in message_of(errors.MetastoreUnavailable("nobody answers"))


def test_unexpected_errors_are_never_shown() -> None:
    try:
        int("password=secret")
    except ValueError as error:
        message = message_of(error)
    assert "secret" not in message
    assert "Traceback" not in message
    assert "the-id" in message


def test_errors_of_http_itself_have_a_type_too() -> None:
    response = error_response(HTTPException(405, "no", {"Allow": "GET"}), "the-id")
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET"
    assert orjson.loads(response.body)["error"]["type"] == "MethodNotAllowedException"
    assert orjson.loads(error_response(HTTPException(418), "the-id").body)["error"]["type"] == "RESTException"


def test_a_long_message_is_cut() -> None:
    """It may quote a name of many megabytes, which a slow client would have the server keep."""
    text = f"begins{'x' * MESSAGE_MAX}ends"
    message = orjson.loads(error_response(errors.InvalidInput(text, next_step=""), "the-id").body)["error"]["message"]
    assert len(message) < MESSAGE_MAX + 10
    assert (message[:6], message[-4:]) == ("begins", "ends")


@pytest.mark.parametrize("commit", [False, True])
def test_a_file_that_exists_already_is_not_named(commit: bool) -> None:
    response = error_response(errors.FileAlreadyExists("/srv/lake/x"), "an id", commit=commit)
    assert response.status_code == 409
    assert b"/srv" not in bytes(response.body)
