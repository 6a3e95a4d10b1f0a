"""Times of callers, and the snapshot that was current then."""

from __future__ import annotations

import datetime

import pytest

from iceberg_hms.catalog.time_travel import as_millis, snapshot_as_of
from iceberg_hms.errors import InvalidInput
from tests.changes.tables import snapshot as snapshot_of
from tests.changes.tables import table, with_main

UTC = datetime.UTC


def test_milliseconds_are_themselves():
    assert as_millis(1_700_000_000_123) == 1_700_000_000_123
    assert as_millis(-1) == -1


@pytest.mark.parametrize("zone", [UTC, datetime.timezone(datetime.timedelta(hours=5, minutes=30))])
def test_a_datetime_is_the_instant_that_it_names(zone):
    assert as_millis(datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000, UTC).astimezone(zone)) == 1_704_164_645_678


def test_microseconds_are_cut_off_or_rounded_up():
    time = datetime.datetime(1970, 1, 1, 0, 0, 0, 1_001, UTC)
    assert (as_millis(time), as_millis(time, round_up=True)) == (1, 2)
    whole = datetime.datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC)
    assert (as_millis(whole), as_millis(whole, round_up=True)) == (1, 1)


def test_a_datetime_without_a_zone_is_refused():
    with pytest.raises(InvalidInput, match="has no time zone"):
        as_millis(datetime.datetime(2024, 1, 1))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("odd", [True, 1.5, "2024-01-01", None])
def test_other_times_are_refused(odd):
    with pytest.raises(InvalidInput, match="whole milliseconds"):
        as_millis(odd)


def log(*entries):
    raws = [snapshot_of(1), snapshot_of(2)]
    times = [{"timestamp-ms": time, "snapshot-id": id_} for time, id_ in entries]
    return with_main(1, snapshots=raws, snapshot_log=times)


def test_the_log_tells_what_was_current_also_across_a_rollback():
    metadata = log((1_000, 1), (2_000, 2), (3_000, 1))
    assert [snapshot_as_of(metadata, at).snapshot_id for at in (1_000, 1_999, 2_000, 2_999, 3_000, 9_999)] == [
        1,
        1,
        2,
        2,
        1,
        1,
    ]


def test_of_entries_with_one_time_the_first_counts_as_in_java():
    assert snapshot_as_of(log((1_000, 1), (1_000, 2)), 1_000).snapshot_id == 1


def test_what_became_current_at_the_time_itself_counts_unless_the_caller_says_otherwise():
    metadata = log((1_000, 1), (2_000, 2))
    assert [snapshot_as_of(metadata, at, inclusive=False).snapshot_id for at in (1_001, 2_000, 2_001)] == [1, 1, 2]
    assert snapshot_as_of(metadata, 1_000, inclusive=False) is None


def test_nobody_knows_what_was_current_before_the_log():
    assert snapshot_as_of(log((1_000, 1)), 999) is None
    assert snapshot_as_of(table(), 999) is None
