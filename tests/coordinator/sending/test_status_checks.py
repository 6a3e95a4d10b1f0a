"""How often a table is checked for a swap that was not answered."""

from dataclasses import replace

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.sending.status_checks import LONGEST_WAIT_SECONDS, status_checks, status_checks_until
from tests.coordinator.harness import QuickRuntime


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({}, [1.0, 2.0, 4.0]),
        ({"status_check_num_retries": 0}, []),
        ({"status_check_num_retries": 5, "status_check_max_wait_ms": 3_000}, [1.0, 2.0, 3.0, 3.0, 3.0]),
        ({"status_check_total_timeout_ms": 500}, []),
    ],
)
def test_the_first_check_is_at_once_and_the_others_within_their_bounds(changes, waits):
    runtime = QuickRuntime()
    settings = replace(Settings.load({}, environ={}), **changes)
    assert len(list(status_checks(runtime, settings))) == 1 + len(waits)
    assert runtime.slept == waits


class Clock(QuickRuntime):
    late = 0.0

    def now(self):
        return self.late

    def sleep(self, seconds):
        self.late += seconds
        super().sleep(seconds)


def test_no_check_comes_after_the_total_timeout():
    runtime = Clock()
    settings = replace(Settings.load({}, environ={}), status_check_num_retries=9, status_check_total_timeout_ms=4_000)
    assert len(list(status_checks(runtime, settings))) == 3
    assert runtime.slept == [1.0, 2.0]


def test_checks_until_a_deadline_are_unlimited_in_number_and_the_last_is_at_the_deadline():
    runtime = Clock()
    settings = Settings.load({}, environ={})
    checked_at = [runtime.now() for _ in status_checks_until(runtime, settings, 40.0)]
    assert checked_at == [1.0, 3.0, 7.0, 15.0, 25.0, 35.0, 40.0]
    assert max(runtime.slept) == LONGEST_WAIT_SECONDS
    assert list(status_checks_until(runtime, settings, 40.0)) == []
