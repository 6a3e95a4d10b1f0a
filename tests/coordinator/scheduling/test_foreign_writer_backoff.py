"""When commits to a table pause for a foreign writer."""

from dataclasses import replace

import pytest

from iceberg_hms.coordinator.scheduling.foreign_writer_backoff import ForeignWriterBackoff
from iceberg_hms.errors import MetastoreUnavailable
from tests.coordinator.harness import NAME, Harness, append


class Clock(Harness):
    """A harness whose runtime's sleeps take their time at once. foreign: whether a foreign writer waits."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.create()
        self.foreign, self.asked, self.late = True, 0, 0.0
        self.runtime.now = lambda: self.late
        self.runtime.sleep = self.pass_by
        ports = replace(self.ports, foreign_writer_waits=self.waits)
        self.backoff = ForeignWriterBackoff(ports, self.settings, NAME)

    def waits(self, name):
        assert name == NAME
        self.asked += 1
        return self.foreign

    def pass_by(self, seconds):
        self.late += seconds

    def group(self, after=0.0, **of_others):
        """A group that ends so many seconds later."""
        self.late += after
        return self.backoff.pause_after_group(self.location(), **of_others)


def test_the_worker_checks_for_foreign_writers_from_time_to_time():
    harness = Clock()
    harness.foreign = False
    assert [harness.group(0.05) for _ in range(10)] == [False] * 10
    assert harness.asked == 3


def test_the_worker_checks_after_every_group_once_it_saw_a_foreign_writer():
    harness = Clock()
    harness.foreign = False
    harness.group(behind_foreign_writer=True, moved=True)
    assert [harness.group(0.05) for _ in range(10)] == [False] * 10
    assert harness.asked == 11
    harness.group(30.0)
    harness.group(0.05)
    assert harness.asked == 12


def test_a_foreign_writer_that_waited_counts_as_seen():
    harness = Clock()
    assert harness.group()
    harness.foreign = False
    assert [harness.group(after) for after in (2.0, 0.05, 0.05)] == [False] * 3
    assert harness.asked == 4


def test_commits_pause_without_a_check_for_a_foreign_writer_that_held_the_lock_and_lost():
    harness = Clock()
    harness.foreign = False
    assert harness.group(behind_foreign_writer=True)
    assert harness.asked == 0
    assert not harness.group(0.05, behind_foreign_writer=True), "the time budget is spent"


def test_another_process_of_ours_that_moves_the_table_is_no_foreign_writer():
    harness = Clock()
    harness.foreign = False
    assert [harness.group(0.05, moved=True) for _ in range(10)] == [False] * 10
    assert harness.asked == 3


def test_a_pause_ends_after_a_bounded_time():
    harness = Clock()
    assert harness.group()
    assert harness.late == pytest.approx(1.0, abs=0.11)
    [event] = [event for event in harness.events if event["event"] == "foreign-writer-backoff"]
    assert (event["table"], event["seconds"]) == (NAME, pytest.approx(1.0, abs=0.11))


def test_a_pause_ends_as_soon_as_the_table_has_moved():
    harness = Clock()
    location = harness.location()

    def land(seconds):
        harness.late += seconds
        if harness.late > 0.25:
            harness.pointer.point(NAME, "file:/theirs")

    harness.runtime.sleep = land
    assert harness.backoff.pause_after_group(location)
    assert harness.late == pytest.approx(0.3)


def test_a_pause_ends_when_the_pointer_cannot_be_loaded():
    harness = Clock()
    harness.pointer.load_errors.append(MetastoreUnavailable("gone"))
    assert harness.group()
    assert harness.late == 0


def test_pauses_take_only_their_share_of_the_time():
    harness = Clock(foreign_writer_max_share_percent=20)
    assert harness.group()
    assert not harness.group(after=3.5)
    assert harness.asked == 1
    assert harness.group(after=1.0)


@pytest.mark.parametrize(
    ("settings", "location"),
    [({"foreign_writer_max_wait_ms": 0}, "file:/x"), ({}, None)],
    ids=["switched off", "unknown location"],
)
def test_commits_do_not_pause_when_it_is_switched_off_or_the_location_is_unknown(settings, location):
    harness = Clock(**settings)
    assert not harness.backoff.pause_after_group(location)
    assert harness.asked == 0


def test_a_coordinator_checks_for_foreign_writers_after_a_group():
    harness = Harness()
    harness.create()
    asked = []
    harness.replace_ports(foreign_writer_waits=lambda name: bool(asked.append(name)))
    harness.commit(append("file:/a"))
    assert asked == [NAME]
