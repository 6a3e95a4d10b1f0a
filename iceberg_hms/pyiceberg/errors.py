"""Our errors as PyIceberg's: its programs, and its own retry, know those.

PyIceberg deletes the files of a commit that raised CommitFailedException or ValidationException, and tries again after
the first; after anything else it keeps them (pyiceberg 0.12: `Transaction.commit_transaction`). So a commit raises
these two only where it is proved that nothing was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyiceberg import exceptions

from iceberg_hms import errors

_RULES: Final[Mapping[type[BaseException], type[Exception]]] = {
    errors.NoSuchNamespace: exceptions.NoSuchNamespaceError,
    errors.NotAnIcebergTable: exceptions.NoSuchIcebergTableError,
    errors.NoSuchTable: exceptions.NoSuchTableError,
    errors.NoSuchView: exceptions.NoSuchViewError,
    errors.MissingFile: FileNotFoundError,
    errors.AlreadyExists: exceptions.TableAlreadyExistsError,
    errors.NamespaceNotEmpty: exceptions.NamespaceNotEmptyError,
    errors.CommitFailed: exceptions.CommitFailedException,
    errors.CommitStateUnknown: exceptions.CommitStateUnknownException,
    errors.MetastoreUnavailable: exceptions.ServiceUnavailableError,
    errors.AccessDenied: exceptions.ForbiddenError,
}
#: What passes by itself: PyIceberg's retry may succeed.
_PASSING: Final = (
    errors.MetastoreUnavailable,
    errors.LockUnavailable,
    errors.ResourceExhausted,
    errors.QueueFull,
    errors.StorageError,
)


@contextmanager
def as_pyiceberg(
    *, exists: type[Exception] = exceptions.TableAlreadyExistsError, commit: bool = False
) -> Iterator[None]:
    """Raise PyIceberg's errors instead of ours, with ours as their cause. Ours for which PyIceberg has no word pass
    (InvalidInput is a ValueError).

    exists: of a name that is taken. commit: whether the block commits updates to a table.
    """
    try:
        yield
    except errors.IcebergHmsError as error:
        found = _of_commit(error) if commit else _of(error)
        if found is None:
            raise
        if found is exceptions.TableAlreadyExistsError:
            found = exists
        raise found(str(error)) from error


def _of(error: errors.IcebergHmsError) -> type[Exception] | None:
    return next((_RULES[kind] for kind in type(error).__mro__ if kind in _RULES), None)


def _of_commit(error: errors.IcebergHmsError) -> type[Exception]:
    if isinstance(error, errors.CommitStateUnknown) or not error.proved_failed:
        return exceptions.CommitStateUnknownException
    # A commit that creates a table loses to another that did, as to any other commit.
    if isinstance(error, (errors.CommitFailed, errors.AlreadyExists, *_PASSING)):
        return exceptions.CommitFailedException
    known = _of(error) if isinstance(error, errors.NotFound) else None
    return known or exceptions.ValidationException
