from __future__ import annotations

import inspect

import pytest
from pyiceberg import exceptions

from iceberg_hms import errors
from iceberg_hms.pyiceberg.errors import as_pyiceberg

#: PyIceberg deletes the files of a commit after these.
DELETES = (exceptions.CommitFailedException, exceptions.ValidationException)

FAILED = exceptions.CommitFailedException
INVALID = exceptions.ValidationException
UNKNOWN = exceptions.CommitStateUnknownException

CASES: list[tuple[errors.IcebergHmsError, type[Exception], type[Exception], type[Exception]]] = [
    # error, elsewhere, on a commit, and on a commit where it is proved that nothing was changed
    (errors.InvalidInput("x"), errors.InvalidInput, INVALID, INVALID),
    (errors.UnsupportedFormat("x"), errors.UnsupportedFormat, INVALID, INVALID),
    (errors.InvalidView("x"), errors.InvalidView, INVALID, INVALID),
    (errors.CannotMigrate("x", report=None), errors.CannotMigrate, INVALID, INVALID),
    (errors.LocationNotAllowed("location"), errors.LocationNotAllowed, INVALID, INVALID),
    (errors.DoesNotFit("x"), errors.DoesNotFit, INVALID, INVALID),
    (errors.ReadOnly(), errors.ReadOnly, INVALID, INVALID),
    (errors.NoSuchPlanId("x"), errors.NoSuchPlanId, INVALID, INVALID),
    (errors.NoSuchPlanTask("x"), errors.NoSuchPlanTask, INVALID, INVALID),
    (errors.PlanUnavailable("x"), errors.PlanUnavailable, INVALID, INVALID),
    (
        errors.NoSuchNamespace("n"),
        exceptions.NoSuchNamespaceError,
        exceptions.NoSuchNamespaceError,
        exceptions.NoSuchNamespaceError,
    ),
    (errors.NoSuchTable("n.t"), exceptions.NoSuchTableError, exceptions.NoSuchTableError, exceptions.NoSuchTableError),
    (
        errors.NotAnIcebergTable("n.t", "a view"),
        exceptions.NoSuchIcebergTableError,
        exceptions.NoSuchIcebergTableError,
        exceptions.NoSuchIcebergTableError,
    ),
    (errors.NoSuchWarehouse("w"), errors.NoSuchWarehouse, UNKNOWN, INVALID),
    (errors.NoSuchView("n.v"), exceptions.NoSuchViewError, exceptions.NoSuchViewError, exceptions.NoSuchViewError),
    (
        errors.NotAnIcebergView("n.t", "a table"),
        exceptions.NoSuchViewError,
        exceptions.NoSuchViewError,
        exceptions.NoSuchViewError,
    ),
    (errors.MissingFile("file:/x"), FileNotFoundError, FileNotFoundError, FileNotFoundError),
    (errors.AlreadyExists("x"), exceptions.TableAlreadyExistsError, FAILED, FAILED),
    (errors.AlreadyIceberg("n.t", None), exceptions.TableAlreadyExistsError, FAILED, FAILED),
    (errors.FileAlreadyExists("file:/x"), exceptions.TableAlreadyExistsError, FAILED, FAILED),
    (errors.NamespaceNotEmpty("n"), exceptions.NamespaceNotEmptyError, INVALID, INVALID),
    (errors.HiveTableKept("n.t", "file:/x", "y"), errors.HiveTableKept, UNKNOWN, INVALID),
    (errors.CommitFailed("x"), FAILED, FAILED, FAILED),
    (errors.RequirementFailed("a", "x"), FAILED, FAILED, FAILED),
    (errors.LockNotAcquired("x"), FAILED, FAILED, FAILED),
    (errors.CommitConflict("x"), FAILED, FAILED, FAILED),
    (errors.InvariantViolated("x"), FAILED, FAILED, FAILED),
    (errors.CommitStateUnknown("x"), UNKNOWN, UNKNOWN, UNKNOWN),
    (errors.NotAuthenticated("x"), errors.NotAuthenticated, INVALID, INVALID),
    (errors.ScopeMissing("c", "s", "a"), errors.ScopeMissing, INVALID, INVALID),
    (errors.IssuerUnavailable("x"), errors.IssuerUnavailable, INVALID, INVALID),
    (errors.QueueFull("x"), errors.QueueFull, FAILED, FAILED),
    (errors.MetastoreUnavailable("x"), exceptions.ServiceUnavailableError, UNKNOWN, FAILED),
    (errors.CompareAndSwapUnproven("x"), exceptions.ServiceUnavailableError, UNKNOWN, FAILED),
    (errors.MetastoreRefused("x"), errors.MetastoreRefused, UNKNOWN, INVALID),
    (errors.AccessDenied("x"), exceptions.ForbiddenError, UNKNOWN, INVALID),
    (errors.LockUnavailable("x"), errors.LockUnavailable, UNKNOWN, FAILED),
    (errors.LockLost("x"), errors.LockLost, UNKNOWN, INVALID),
    (errors.StorageError("x"), errors.StorageError, UNKNOWN, FAILED),
    (errors.StorageRefused("x"), errors.StorageRefused, UNKNOWN, FAILED),
    (errors.CredentialsUnavailable("x"), errors.CredentialsUnavailable, INVALID, INVALID),
    (errors.ResourceExhausted("x"), errors.ResourceExhausted, UNKNOWN, FAILED),
    (errors.CorruptFile("file:/x", "cut"), errors.CorruptFile, UNKNOWN, FAILED),
    (errors.FileBeyondLimit("file:/x", "large"), errors.FileBeyondLimit, UNKNOWN, FAILED),
    (errors.ConfigError("x"), errors.ConfigError, UNKNOWN, INVALID),
    (errors.EngineError("x"), errors.EngineError, UNKNOWN, INVALID),
]
ERRORS = [error for error, *_ in CASES]


def raised(error: Exception, *, commit: bool = False, **options: type[Exception]) -> Exception:
    """What a caller gets instead of the error."""
    with pytest.raises(Exception) as caught, as_pyiceberg(commit=commit, **options):
        raise error
    return caught.value


@pytest.mark.parametrize(("error", "elsewhere", "on_commit", "proved"), CASES)
def test_each_error_has_its_own_of_pyiceberg(
    error: Exception, elsewhere: type[Exception], on_commit: type[Exception], proved: type[Exception]
) -> None:
    assert type(raised(error)) is elsewhere
    assert type(raised(error, commit=True)) is on_commit
    assert type(raised(errors.proved(error), commit=True)) is proved


def test_these_tests_cover_every_error_class() -> None:
    tree = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.IcebergHmsError)}
    only_bases = {errors.IcebergHmsError, errors.NotFound, errors.MetastoreError, errors.ProvedFailure}
    assert tree - set(map(type, ERRORS)) == only_bases


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("commit", [False, True])
def test_pyiceberg_deletes_the_files_of_a_commit_only_on_proof(error: errors.IcebergHmsError, commit: bool) -> None:
    assert error.proved_failed or not isinstance(raised(error, commit=commit), DELETES)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("commit", [False, True])
def test_what_ours_says_is_said_and_ours_is_the_cause(error: errors.IcebergHmsError, commit: bool) -> None:
    found = raised(error, commit=commit)
    assert str(found) == str(error)
    assert found is error or found.__cause__ is error


def test_a_name_that_is_taken_is_said_of_the_kind_that_the_call_makes() -> None:
    taken = errors.AlreadyExists("x")
    for kind in (exceptions.NamespaceAlreadyExistsError, exceptions.ViewAlreadyExistsError):
        assert type(raised(taken, exists=kind)) is kind
        assert type(raised(errors.NoSuchTable("n.t"), exists=kind)) is exceptions.NoSuchTableError


def test_the_errors_of_others_pass() -> None:
    other = KeyError("k")
    assert raised(other) is other
    assert raised(other, commit=True) is other
