"""A swap that the metastore refuses twice, for a reason that is no conflict: an outage, or one change that it cannot
take."""

import pytest

from iceberg_hms.coordinator.outcome.outcome import Committed, Failed, Unknown
from iceberg_hms.coordinator.ports import Refused
from iceberg_hms.errors import (
    AccessDenied,
    CommitConflict,
    LockLost,
    LockNotAcquired,
    MetastoreRefused,
    MetastoreUnavailable,
)
from iceberg_hms.rest.errors import rule_for
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.harness import NAME, Harness, append, set_properties

POISON = "poison"


class Poisonable:
    """A table, a metastore that refuses what a test says, and groups that are committed to it."""

    def __init__(self, **settings):
        self.harness = Harness(**settings)
        self.harness.create()
        self.swaps = []
        self.locations = []
        self.error = MetastoreRefused("value too long for the column PARAM_VALUE")
        self.refuses = lambda metadata: POISON in "".join(metadata.properties)
        self._swap, self.harness.pointer.swap = self.harness.pointer.swap, self.swap

    def swap(self, base, location, metadata, replaced, sending, **kwargs):
        self.swaps.append(metadata)
        self.locations.append(location)
        if self.refuses(metadata):
            return Refused(False, self.error)
        return self._swap(base, location, metadata, replaced, sending, **kwargs)

    def group(self, *changes):
        """What became of each: its group's size if it landed, else the error."""
        members = self.harness.members(*changes)
        self.harness.group(*members)
        return [self.outcome(member) for member in members]

    def outcome(self, member):
        try:
            return member.result().group_size
        except Exception as error:  # noqa: BLE001 - the error is the outcome
            return error

    @property
    def scratch_writes(self):
        return self.harness.pointer.calls.count(("accepts_writes", NAME))


@pytest.fixture
def table():
    return Poisonable()


def appends(count):
    return [append(f"file:/{number:02d}") for number in range(count)]


def poison(number=0):
    return set_properties(**{f"{POISON}-{number}": "x"})


def poisoned_at(places, count):
    changes = appends(count)
    for place in places:
        changes[place] = poison(place)
    return changes


def assert_told(outcome, kind, status):
    assert isinstance(outcome, kind)
    assert outcome.proved_failed
    assert rule_for(outcome, commit=True).status == status


@pytest.mark.parametrize("count", [1, 5])
def test_when_the_metastore_writes_nothing_all_callers_are_asked_to_send_again(table, count):
    table.refuses = lambda _: True
    table.harness.pointer.writes = False
    files = set(table.harness.files.locations())
    for outcome in table.group(*appends(count)):
        assert_told(outcome, MetastoreUnavailable, 429)
        assert "value too long" in outcome.message
    assert len(table.swaps) == 2
    assert table.scratch_writes == 1
    left = set(table.harness.files.locations()) - files
    assert len(left) == len(table.swaps), "what a swap carried stays, and what none carried does not"
    table.refuses = lambda _: False
    assert table.group(append("file:/later")) == [1]


@pytest.mark.parametrize("writes", [True, None], ids=["other rows can be written", "nobody can tell"])
def test_a_lone_change_that_the_metastore_does_not_take_is_refused(table, writes):
    table.harness.pointer.writes = writes
    [outcome] = table.group(poison())
    assert_told(outcome, MetastoreRefused, 400)
    assert outcome.message == table.error.message
    assert not table.error.proved_failed, "the proof is in what the caller gets, not in what the metastore raised"
    assert len(table.swaps) == 2


@pytest.mark.parametrize("place", range(5))
def test_one_change_that_the_metastore_does_not_take_fails_alone(table, place):
    outcomes = table.group(*poisoned_at([place], 5))
    assert_told(outcomes.pop(place), MetastoreRefused, 400)
    assert all(isinstance(size, int) for size in outcomes)
    assert table.harness.data_files() == [f"file:/{number:02d}" for number in range(5) if number != place]
    assert not table.harness.lock.queues.entries(NAME)
    assert table.harness.lock.acquired == 1


def test_what_it_costs_to_find_one_of_many_is_bounded(table):
    outcomes = table.group(*poisoned_at([37], 64))
    assert_told(outcomes.pop(37), MetastoreRefused, 400)
    assert all(isinstance(size, int) for size in outcomes)
    assert len(table.swaps) == 2 + 2 * 6 + 1, "a half at a time, and the last one once more"
    assert table.scratch_writes == 1
    assert len(table.harness.data_files()) == 63


@pytest.mark.parametrize("places", [(0, 1), (2, 3), (0, 7), (1, 2)])
def test_two_of_them_are_no_outage_where_the_others_land(table, places):
    outcomes = table.group(*poisoned_at(places, 8))
    for place in places:
        assert_told(outcomes[place], MetastoreRefused, 400)
    assert all(isinstance(outcomes[place], int) for place in range(8) if place not in places)


@pytest.mark.parametrize("count", [2, 3, 8, 64])
def test_where_no_change_of_several_is_taken_it_is_an_outage_of_the_table(table, count):
    """another transaction of the metastore's database holds the table's row: others can be written"""
    table.refuses = lambda _: True
    for outcome in table.group(*appends(count)):
        assert_told(outcome, MetastoreUnavailable, 429)
    assert len(table.swaps) <= 2 + 2 * table.harness.settings.refusal_max_swaps
    assert not table.harness.data_files()


def test_without_further_swaps_the_others_have_to_come_again():
    table = Poisonable(refusal_max_swaps=0)
    for outcome in table.group(*poisoned_at([0], 2)):
        assert_told(outcome, MetastoreUnavailable, 429)
    assert len(table.swaps) == 2


def test_changes_that_no_swap_tried_before_the_limit_are_to_be_sent_again():
    """The metastore refuses more changes than the allowed number of swaps can find."""
    table = Poisonable(refusal_max_swaps=4)
    outcomes = table.group(*poisoned_at([5, 6], 8))
    assert all(isinstance(size, int) for size in outcomes[:4])
    for outcome in outcomes[4:]:
        assert_told(outcome, CommitConflict, 409) if not isinstance(outcome, int) else None
    assert len([outcome for outcome in outcomes if not isinstance(outcome, int)]) >= 2
    assert len(table.harness.data_files()) == len([outcome for outcome in outcomes if isinstance(outcome, int)])


def slowly(table, seconds):
    """Each refusal takes the metastore so long."""
    swap = table.harness.pointer.swap

    def slow(base, location, metadata, replaced, sending, **options):
        answer = swap(base, location, metadata, replaced, sending, **options)
        if isinstance(answer, Refused):
            table.harness.runtime.skipped += seconds
        return answer

    table.harness.pointer.swap = slow


def test_refusals_in_which_the_callers_time_runs_out_hold_the_lock_no_longer(table):
    slowly(table, 20)
    for outcome in table.group(*poisoned_at([3], 8)):
        assert_told(outcome, CommitConflict, 409)
        assert "value too long" in outcome.message
    assert len(table.swaps) == 2
    assert not table.harness.data_files()
    assert table.group(append("file:/later")) == [1]


def test_a_half_whose_callers_have_no_time_left_is_not_sent(table):
    slowly(table, 8)
    outcomes = table.group(*poisoned_at([0], 8))
    landed = [outcome for outcome in outcomes if isinstance(outcome, int)]
    for outcome in outcomes:
        assert_told(outcome, CommitConflict, 409) if not isinstance(outcome, int) else None
    assert len(table.swaps) == 4, "twice the group, a half, and a quarter"
    assert len(table.harness.data_files()) == len(landed)


def test_within_a_half_only_those_with_time_left_are_sent(table):
    members = table.harness.members(*appends(2), poison(), *appends(4)[2:])
    for member in members[:2]:
        member.deadline -= 25
    slowly(table, 4)
    table.harness.group(*members)
    outcomes = [table.outcome(member) for member in members]
    for outcome in outcomes[:2]:
        assert_told(outcome, CommitConflict, 409)
    assert_told(outcomes[2], MetastoreRefused, 400)
    assert all(isinstance(outcome, int) for outcome in outcomes[3:])
    assert table.harness.data_files() == ["file:/02", "file:/03"]


def test_each_part_is_a_new_metadata_file_under_the_one_lock(table):
    outcomes = table.group(*poisoned_at([2], 8))
    assert_told(outcomes[2], MetastoreRefused, 400)
    assert len(set(table.locations)) == len(table.locations) == len(table.swaps)
    assert table.harness.lock.acquired == 1


def test_every_caller_without_the_right_to_write_gets_access_denied(table):
    table.refuses, table.error = lambda _: True, AccessDenied("ada may not alter db.t")
    table.harness.pointer.writes = None
    for outcome in table.group(*appends(12)):
        assert_told(outcome, AccessDenied, 403)


def test_a_refusal_of_the_moment_fails_nobody_while_the_group_is_in_parts(table):
    told = []

    def refuses(metadata):
        lone = len(metadata.snapshots) - len(told) == 1
        if POISON in "".join(metadata.properties):
            return True
        if lone and not told:
            told.append(1)
            return True
        return False

    table.refuses = refuses
    outcomes = table.group(*poisoned_at([1], 2))
    assert told
    assert outcomes[0] == 1
    assert_told(outcomes[1], MetastoreRefused, 400)


def test_a_scratch_write_that_breaks_off_tells_nothing(table):
    def broken(name):
        raise ValueError("what no port names")

    table.harness.pointer.accepts_writes = broken
    outcomes = table.group(*poisoned_at([1], 3))
    assert_told(outcomes[1], MetastoreRefused, 400)
    assert len(table.harness.data_files()) == 2


def test_changes_land_in_the_order_in_which_they_came(table):
    changes = [set_properties(last=str(number)) for number in range(6)]
    changes[3] = poison()
    outcomes = table.group(*changes)
    assert isinstance(outcomes[3], MetastoreRefused)
    assert table.harness.metadata().properties["last"] == "5"


def test_a_lock_that_is_lost_in_between_is_taken_again(table):
    acquire, lost = table.harness.lock.acquire, []

    def loses(name, **kwargs):
        held = acquire(name, **kwargs)
        ensure = held.ensure_held

        def ensured():
            if len(table.swaps) == 4 and not lost:
                lost.append(1)
                raise LockLost("taken away")
            ensure()

        held.ensure_held = ensured
        return held

    table.harness.lock.acquire = loses
    outcomes = table.group(*poisoned_at([2], 6))
    assert lost
    assert_told(outcomes.pop(2), MetastoreRefused, 400)
    assert all(isinstance(size, int) for size in outcomes)


def test_an_error_in_between_leaves_nobody_without_an_answer(table):
    acquire = table.harness.lock.acquire

    def breaks(name, **kwargs):
        held = acquire(name, **kwargs)
        ensure = held.ensure_held

        def ensured():
            if len(table.swaps) == 5:
                raise MetastoreUnavailable("gone")
            ensure()

        held.ensure_held = ensured
        return held

    table.harness.lock.acquire = breaks
    outcomes = table.group(*poisoned_at([2], 6))
    landed = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert len(landed) == len(table.harness.data_files()) > 0
    for outcome in outcomes:
        assert isinstance(outcome, int | MetastoreUnavailable | CommitConflict)


def test_a_caller_that_leaves_in_between_is_left_out(table):
    changes = poisoned_at([0], 4)
    members = table.harness.members(*changes)
    refuses = table.refuses

    def leaves(metadata):
        if len(table.swaps) == 3:
            # Not of the half that is being sent.
            assert members[3].withdraw()
        return refuses(metadata)

    table.refuses = leaves
    table.harness.group(*members)
    outcomes = [table.outcome(member) for member in members]
    assert_told(outcomes[0], MetastoreRefused, 400)
    assert isinstance(outcomes[3], LockNotAcquired)
    assert table.harness.data_files() == ["file:/01", "file:/02"]


def test_all_that_landed_is_published_and_its_files_are_kept(table):
    landed = table.group(*poisoned_at([3], 8))
    reports = [event["report"] for event in table.harness.events if event["event"] == "committed"][1:]
    assert len(reports) == len([size for size in landed if isinstance(size, int)]) == 7
    named = {table.harness.location(), *(entry["metadata-file"] for entry in table.harness.metadata().metadata_log)}
    assert named <= table.harness.metadata_files()
    refused = len(table.swaps) - len(table.harness.metadata().metadata_log)
    assert len(table.harness.metadata_files() - named) == refused, "what was refused is left to a sweep"


def test_a_refusal_that_does_not_come_again_asks_for_no_scratch_write(table):
    table.refuses = lambda _: False
    table.harness.pointer.answers.append(ScriptedAnswer.REFUSED)
    assert table.group(*appends(3)) == [3, 3, 3]
    assert table.scratch_writes == 0


@pytest.mark.parametrize("number", [3, 4], ids=["once", "twice"])
@pytest.mark.parametrize("poisoned", [True, False], ids=["that is refused", "that lands"])
def test_those_set_aside_are_answered_after_a_swap_that_is_overdue(table, poisoned, number):
    """their callers cannot leave by themselves once their time is over while a swap carries them"""
    swap = table.harness.pointer.swap

    def slow(base, location, metadata, replaced, sending, **options):
        answer = swap(base, location, metadata, replaced, sending, **options)
        if len(table.swaps) == number:
            sending.overdue()
        return answer

    table.harness.pointer.swap = slow
    good = append("file:/a")
    members = table.harness.members(*((poison(), good) if poisoned else (good, poison())))
    table.harness.group(*members)
    first, second = (member.outcome for member in members)
    if poisoned or number == 3:
        assert isinstance(first, Unknown)
    else:
        assert isinstance(first, Committed)
    if poisoned:
        assert isinstance(second, Committed)
    else:
        assert isinstance(second, Unknown if number == 4 else Failed)
    assert table.harness.data_files() == ["file:/a"]


def test_a_refusal_that_is_no_conflict_ends_as_its_own_error(table):
    files = table.harness.metadata_files()
    table.harness.pointer.answers.extend([ScriptedAnswer.REFUSED, ScriptedAnswer.REFUSED])
    with pytest.raises(MetastoreRefused, match="refused"):
        table.harness.commit(append("file:/a"))
    assert len(table.harness.metadata_files() - files) == 2, "what was sent is left to a sweep for orphans"


def test_a_refusal_that_does_not_come_again_is_only_a_delay(table):
    table.harness.pointer.answers.append(ScriptedAnswer.REFUSED)
    table.harness.commit(append("file:/a"))
    assert table.harness.data_files() == ["file:/a"]
