"""Work whose caller has left."""

from __future__ import annotations

import pytest

from iceberg_hms.caller_left import stop_if_caller_left, working_for
from iceberg_hms.errors import CommitFailed


def test_work_without_a_caller_goes_on() -> None:
    stop_if_caller_left()


def test_work_stops_when_its_caller_has_left() -> None:
    left = False
    with working_for(lambda: left):
        stop_if_caller_left()
        left = True
        with pytest.raises(CommitFailed, match="its caller left"):
            stop_if_caller_left()
    stop_if_caller_left()


def test_work_within_work_has_its_own_caller() -> None:
    with working_for(lambda: True), working_for(lambda: False):
        stop_if_caller_left()
