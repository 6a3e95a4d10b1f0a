"""The real clock and its ids."""

from __future__ import annotations

import time
import uuid

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK, Clock, ClockReading, SystemClock, instant


def test_the_system_clock_is_a_clock() -> None:
    clock: Clock = SystemClock()
    assert isinstance(SYSTEM_CLOCK, SystemClock)
    assert clock.monotonic() <= clock.monotonic()


def test_wall_clock_is_milliseconds_since_1970() -> None:
    before = time.time() * 1000
    now = SYSTEM_CLOCK.now_ms()
    after = time.time() * 1000
    assert isinstance(now, int)
    assert before - 1 <= now <= after + 1


def test_sleep_lasts_at_least_that_long_on_the_monotonic_clock() -> None:
    clock = SystemClock()
    start = clock.monotonic()
    clock.sleep(0.01)
    assert clock.monotonic() - start >= 0.01


def test_uuids_are_random_lower_case_and_dashed() -> None:
    ids = {SYSTEM_CLOCK.uuid() for _ in range(100)}
    assert len(ids) == 100
    for text in ids:
        assert str(uuid.UUID(text)) == text
        assert uuid.UUID(text).version == 4


def test_snapshot_ids_are_different_and_fit_a_signed_long() -> None:
    ids = [SYSTEM_CLOCK.snapshot_id() for _ in range(1_000)]
    assert len(set(ids)) == len(ids)
    assert all(0 < value < 2**63 for value in ids)
    assert max(ids) > 2**61, "the upper bits are random too"


def test_jitter_is_at_least_zero_and_less_than_one() -> None:
    values = [SYSTEM_CLOCK.jitter() for _ in range(1_000)]
    assert all(0 <= value < 1 for value in values)
    assert len(set(values)) > 900


def test_all_clocks_of_a_reading_advance() -> None:
    clock = SystemClock()
    before = clock.read_clocks()
    clock.sleep(0.02)
    after = clock.read_clocks()
    assert before < after
    assert abs(after.wall - time.time()) < 60
    assert after.boot >= after.running
    assert 0.0 < after.min_seconds_since(before) <= after.max_seconds_since(before)


@pytest.mark.parametrize(
    ("advances", "least", "most"),
    [
        ((10.0, 10.0, 10.0), 10.0, 10.0),
        ((10.0, 70.0, 70.0), 10.0, 70.0),
        ((10.0, 10.0, 70.0), 10.0, 70.0),
        ((10.0, 10.0, -50.0), 0.0, 10.0),
        ((0.0, 0.0, -50.0), 0.0, 0.0),
    ],
    ids=["quiet", "suspended", "wall set forth, or a paused virtual machine", "wall set back", "only that"],
)
def test_a_holder_takes_the_clock_that_advanced_most_and_others_the_one_that_advanced_least(
    advances: tuple[float, float, float], least: float, most: float
) -> None:
    before = ClockReading(5.0, 100.0, 1_000.0)
    after = ClockReading(*(then + more for then, more in zip((5.0, 100.0, 1_000.0), advances, strict=True)))
    assert (after.min_seconds_since(before), after.max_seconds_since(before)) == (least, most)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1_617_271_200_001, "2021-04-01 10:00:00.001 UTC"),
        (0, "1970-01-01 00:00:00.000 UTC"),
        (-1, "1969-12-31 23:59:59.999 UTC"),
        (2**63 - 1, "9223372036854775807"),
        (None, None),
    ],
)
def test_instants_are_utc_and_never_fail(milliseconds: int | None, text: str | None) -> None:
    assert instant(milliseconds) == text
