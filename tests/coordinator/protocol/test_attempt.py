"""A group on its way to a swap: which snapshots tell that it landed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from iceberg_hms.coordinator.protocol.attempt import CommitAttempt
from tests.coordinator.harness import Harness, append, set_properties


def test_snapshots_tell_of_a_group_only_if_each_of_it_adds_one() -> None:
    harness = Harness()
    harness.create()
    first, second, third = harness.members(
        append("file:/a", snapshot_id=1), append("file:/b", snapshot_id=2), set_properties(a="b")
    )
    attempt = CommitAttempt(cast("Any", None), harness.metadata(), "file:/m", (first, second), (), ())
    assert (list(attempt.snapshot_ids), list(attempt.carried_ids)) == ([1, 2], [1, 2])
    mixed = replace(attempt, members=(first, third))
    assert (list(mixed.snapshot_ids), list(mixed.carried_ids)) == ([], [1])
