"""What became of a change."""

from __future__ import annotations

from iceberg_hms.coordinator.outcome.outcome import broke_off
from iceberg_hms.errors import CommitStateUnknown
from tests.coordinator.harness import NAME


def test_a_commit_that_a_defect_interrupts_is_unknown_and_names_the_defect() -> None:
    error = broke_off(NAME, ValueError("a defect"))
    assert isinstance(error, CommitStateUnknown)
    assert error.message == "a commit to db.t broke off: ValueError: a defect"
    assert not error.proved_failed
