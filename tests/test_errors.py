"""The tree of errors: what a handler may rely on."""

from __future__ import annotations

import copy
import errno
import inspect
import pickle
import traceback
import weakref

import pytest

from iceberg_hms import errors
from iceberg_hms.errors import IcebergHmsError

TYPES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, IcebergHmsError)]

EXAMPLES: list[IcebergHmsError] = [
    errors.NoSuchNamespace("nyc"),
    errors.NoSuchTable("nyc.flights"),
    errors.NotAnIcebergTable("nyc.flights", "a view"),
    errors.NotAnIcebergTable("nyc.delays", "VIRTUAL_VIEW", is_view=True),
    errors.NoSuchView("nyc.delays"),
    errors.NotAnIcebergView("nyc.delays", "VIRTUAL_VIEW"),
    errors.NotAnIcebergView("nyc.flights", "EXTERNAL_TABLE", is_table=True),
    errors.MissingFile("file:/a b"),
    errors.AlreadyIceberg("nyc.flights", "file:/a b"),
    errors.CannotMigrate("nyc.flights: no", report={"files": 1}),
    errors.NamespaceNotEmpty("nyc"),
    errors.HiveTableKept("nyc.raw", "file:/a b", "the search took too long"),
    errors.RequirementFailed("assert-table-uuid", "UUID does not match", expected="a", found="b"),
    errors.CannotMigrate("file:/a b is damaged", report=None),
    errors.CorruptFile("file:/a b", "truncated"),
    errors.FileBeyondLimit("file:/a b", "it has more than 7 bytes"),
    errors.LocationNotAllowed("location"),
    errors.ScopeMissing("etl", "write[sales]", "commit"),
    errors.ReadOnly(),
]
EXAMPLES += [kind("what happened") for kind in TYPES if kind not in {type(example) for example in EXAMPLES}]


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
    "CannotMigrate",
    "DoesNotFit",
    "InvalidView",
    "UnsupportedFormat",
    "NotFound",
    "NoSuchNamespace",
    "NoSuchTable",
    "NotAnIcebergTable",
    "NoSuchView",
    "NotAnIcebergView",
    "NoSuchPlanId",
    "NoSuchPlanTask",
    "MissingFile",
    "AlreadyExists",
    "AlreadyIceberg",
    "FileAlreadyExists",
    "NamespaceNotEmpty",
    "CommitFailed",
    "RequirementFailed",
    "LockNotAcquired",
    "CommitConflict",
    "InvariantViolated",
    "QueueFull",
    "NotAuthenticated",
    "LocationNotAllowed",
    "ReadOnly",
    "ScopeMissing",
    "IssuerUnavailable",
    "CredentialsUnavailable",
    "PlanUnavailable",
    "ProvedFailure",
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


def test_a_foreign_table_is_a_missing_table_for_a_caller_that_catches_no_such_table() -> None:
    error = errors.NotAnIcebergTable("nyc.flights", "VIRTUAL_VIEW")
    assert isinstance(error, errors.NoSuchTable)
    assert (error.table, error.found) == ("nyc.flights", "VIRTUAL_VIEW")


def test_a_table_loaded_as_a_view_is_a_missing_view_and_the_reverse() -> None:
    table = errors.NotAnIcebergView("nyc.flights", "EXTERNAL_TABLE", is_table=True)
    assert isinstance(table, errors.NoSuchView)
    assert table.message == "View does not exist: nyc.flights"
    view = errors.NotAnIcebergTable("nyc.delays", "VIRTUAL_VIEW", is_view=True)
    assert view.message == "Table does not exist: nyc.delays"


def test_bad_input_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="no such field"):
        raise errors.InvalidInput("no such field")


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_crosses_the_border_of_a_process_whole(error: IcebergHmsError) -> None:
    for arrived in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(arrived) is type(error)
        assert str(arrived) == str(error)
        assert vars(arrived) == vars(error)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_what_was_proved_of_an_error_is_part_of_its_type_and_crosses_the_border_of_a_process(
    error: IcebergHmsError,
) -> None:
    proved = errors.proved(error)
    assert proved is not error
    for arrived in (proved, pickle.loads(pickle.dumps(proved)), copy.copy(proved), errors.own_copy(proved)):
        assert type(arrived) is type(proved)
        assert isinstance(arrived, type(error))
        assert str(arrived) == str(error)
        assert arrived.proved_failed is not isinstance(error, errors.CommitStateUnknown)
    assert type(errors.proved(proved)) is type(proved)


def test_an_error_that_proves_nothing_is_left_as_it_is_when_a_copy_of_it_is_proved() -> None:
    error = errors.MetastoreRefused("value too long")
    assert isinstance(errors.proved(error), errors.ProvedFailure)
    assert not error.proved_failed
    assert not errors.MetastoreRefused("another").proved_failed


def test_an_error_of_another_tree_is_copied_whole_and_carries_no_proof() -> None:
    class Named(Exception):
        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__(f"no {name}")

    copied = errors.proved(Named("x"))
    assert isinstance(copied, Named)
    assert (str(copied), copied.name) == ("no x", "x")
    assert not hasattr(copied, "proved_failed")


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/data/f.parquet"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        SyntaxError("never closed", ("rules.py", 1, 2, "(", 1, 2)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_a_copy_would_shorten_is_raised_itself(error: Exception) -> None:
    assert str(errors.proved(error)) == str(error)
    assert vars(errors.proved(error)) == vars(error)


def test_an_error_whose_class_cannot_be_called_without_more_is_raised_itself() -> None:
    class Demanding(Exception):
        def __new__(cls, what: str, *, really: bool) -> Demanding:
            return super().__new__(cls, what)

        def __init__(self, what: str, *, really: bool) -> None:
            super().__init__(what)

    error = Demanding("no copy", really=True)
    assert errors.proved(error) is error


def test_a_proved_error_is_named_as_its_kind_in_counters_logs_and_tracebacks() -> None:
    error = errors.LockUnavailable("no lock table")
    assert traceback.format_exception_only(errors.proved(error)) == traceback.format_exception_only(error)
    assert repr(errors.proved(error)) == repr(error)


def test_copies_of_one_error_do_not_share_what_is_added_to_their_tracebacks() -> None:
    original = errors.StorageError("full")
    with pytest.raises(errors.StorageError):
        raise original
    before = original.__traceback__
    for _ in range(2):
        copied = errors.proved(original)
        with pytest.raises(errors.StorageError):
            raise copied
        assert original.__traceback__ is before
        assert copied.__traceback__ is not None
        assert copied.__traceback__.tb_next is before, "it begins with the traceback of the original"


class Content:
    """Something large that a frame holds."""


def test_released_frames_hold_nothing_and_are_shown_still() -> None:
    alive: weakref.WeakSet[Content] = weakref.WeakSet()
    kept: list[Exception] = []

    def hold(cause: Exception | None) -> None:
        content = Content()
        alive.add(content)
        raise errors.CorruptFile("x", "it is damaged") from cause

    for _ in range(2):
        try:
            hold(kept[-1] if kept else None)
        except errors.CorruptFile as error:
            kept.append(error)
    assert len(alive) == 2
    errors.release_frames(kept[-1])
    assert len(alive) == 0
    assert "in hold" in "".join(traceback.format_exception(kept[-1]))
