"""The tree of errors: what a handler may rely on."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from iceberg_hms import errors
from iceberg_hms.errors import IcebergHmsError

TYPES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, IcebergHmsError)]

EXAMPLES: list[IcebergHmsError] = [
    errors.NoSuchNamespace("nyc"),
    errors.NoSuchTable("nyc.flights"),
    errors.NotAnIcebergTable("nyc.flights", "a view"),
    errors.MissingFile("file:/a b"),
    errors.NamespaceNotEmpty("nyc"),
    errors.RequirementFailed("assert-table-uuid", "UUID does not match", expected="a", found="b"),
    errors.CorruptFile("file:/a b", "truncated"),
]
EXAMPLES += [kind("what happened") for kind in TYPES if kind not in {type(example) for example in EXAMPLES}]


def test_the_tree_is_the_one_that_the_docstring_draws() -> None:
    drawn: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"( {4}|[ |]+\+-- )([A-Za-z]+)", line)
        if not found:
            continue
        indent = len(found[1])
        stack = [(depth, name) for depth, name in stack if depth < indent]
        if stack:
            drawn[found[2]] = stack[-1][1]
        stack.append((indent, found[2]))
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in TYPES if kind is not IcebergHmsError}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_the_text_has_the_message_and_the_next_step(error: IcebergHmsError) -> None:
    assert error.message in str(error)
    assert error.next_step in str(error)
    assert "\n" not in str(error)


def test_a_next_step_can_be_given_or_left_out() -> None:
    assert str(errors.StorageError("disk full", next_step="make room")) == "disk full (make room)"
    assert str(errors.StorageError("disk full", next_step="")) == "disk full"
    assert str(IcebergHmsError("it broke")) == "it broke"


PROVED = {
    "InvalidInput",
    "UnsupportedFormat",
    "NotFound",
    "NoSuchNamespace",
    "NoSuchTable",
    "NotAnIcebergTable",
    "MissingFile",
    "AlreadyExists",
    "NamespaceNotEmpty",
    "CommitFailed",
    "RequirementFailed",
    "LockNotAcquired",
    "CommitConflict",
    "InvariantViolated",
    "QueueFull",
}


def test_files_may_be_deleted_after_exactly_these_errors() -> None:
    assert {kind.__name__ for kind in TYPES if kind.proved_failed} == PROVED


def test_an_unknown_outcome_is_never_taken_for_a_failure_and_asks_to_delete_nothing() -> None:
    assert not issubclass(errors.CommitStateUnknown, errors.CommitFailed)
    assert not errors.CommitStateUnknown("lost").proved_failed
    assert "delete nothing" in errors.CommitStateUnknown("lost").next_step


def test_an_assumption_names_itself_and_both_sides() -> None:
    error = errors.RequirementFailed("assert-ref-snapshot-id", "branch main has changed", expected=1, found=2)
    assert (error.name, error.expected, error.found) == ("assert-ref-snapshot-id", 1, 2)
    assert error.message == "Requirement failed: branch main has changed"


def test_a_foreign_table_is_a_missing_table_for_whoever_does_not_look_closer() -> None:
    error = errors.NotAnIcebergTable("nyc.flights", "VIRTUAL_VIEW")
    assert isinstance(error, errors.NoSuchTable)
    assert (error.table, error.found) == ("nyc.flights", "VIRTUAL_VIEW")


def test_bad_input_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="no such field"):
        raise errors.InvalidInput("no such field")


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_crosses_the_border_of_a_process_whole(error: IcebergHmsError) -> None:
    for arrived in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(arrived) is type(error)
        assert str(arrived) == str(error)
        assert vars(arrived) == vars(error)
