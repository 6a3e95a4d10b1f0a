"""Each row of the table in status_check.py, with a metastore that says what the test tells it to."""

from dataclasses import replace

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import Committed
from iceberg_hms.coordinator.ports import CommitPorts, Pointer, Refused, Swapped, TableName, Unanswered
from iceberg_hms.coordinator.reading.metadata_cache import MetadataCache, TableVersion
from iceberg_hms.coordinator.sending.status_check import (
    LONGEST_WAIT_SECONDS,
    SwapStatusCheck,
    TableSwap,
    status_checks,
    status_checks_until,
)
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.errors import CommitStateUnknown, LockLost, LockNotAcquired, MetastoreRefused, MetastoreUnavailable
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.documents import raw
from tests.coordinator.harness import Harness, QuickRuntime, append, set_properties

NAME = TableName("db", "t")
GONE = MetastoreUnavailable("gone")


class ScriptedPointer:
    """locations: what the next looks find; the last one stays. again: what a second swap answers."""

    def __init__(self, *locations, again=None):
        self.locations = list(locations)
        self.again = again
        self.sent_again = 0
        self.on_swap = lambda: None
        self.looks = 0

    def load(self, name):
        self.looks += 1
        location = self.locations.pop(0) if len(self.locations) > 1 else self.locations[0]
        if isinstance(location, Exception):
            raise location
        return Pointer(name, location, None, {}, None)

    def swap(self, base, location, metadata, replaced, sending, *, owns_folder=False):
        assert sending.require_cas, "a second swap goes out only where compare-and-swap is proven atomic"
        self.sent_again += 1
        self.on_swap()
        if isinstance(self.again, Exception):
            raise self.again
        return self.again


class ScriptedLock:
    lease_seconds = 300.0
    row = None
    exclusive = True
    require_cas = False

    def __init__(self, runtime, age=0.0, lost=False, renews=True):
        self.age, self.lost, self.renews, self.renewed, self.left = age, lost, renews, 0, False

    def seconds_since_renewal(self):
        if self.lost:
            raise LockLost("reaped")
        return self.age

    def ensure_held(self):
        renew_if_half_expired(self)

    def renew(self):
        self.renewed += 1
        if not self.renews:
            raise LockLost("reaped")

    def release(self):
        pass

    def let_expire(self):
        self.left = True


class ScriptedTableLock:
    def __init__(self, error=None):
        self.taken, self.error, self.waits = 0, error, []

    def acquire(self, name, *, wait_seconds, request, use):
        self.waits.append(wait_seconds)
        if self.error:
            raise self.error
        self.taken += 1
        return ScriptedLock(QuickRuntime())


def files_of(chain):
    """location -> the files in its metadata log."""
    files = MemoryFiles()
    for location, log in chain.items():
        entries = [{"timestamp-ms": 1, "metadata-file": each} for each in log]
        files.write(location, TableMetadata(raw(metadata_log=entries)).to_bytes())
    return files


CHAIN = {
    "file:/base": [],
    "file:/ours": ["file:/base"],
    "file:/theirs": ["file:/base"],
    "file:/on-ours": ["file:/base", "file:/ours"],
    "file:/elsewhere": ["file:/nowhere"],
}


def resolve(answer, pointer, **more):
    return check_of(pointer, **more).status(answer)


def check_of(pointer, *, lock=None, table_lock=None, told=None, runtime=None, wait_seconds=0.0):
    runtime, files, told = runtime or QuickRuntime(), files_of(CHAIN), [] if told is None else told
    settings, events = Harness().settings, Harness()
    world = CommitPorts(pointer, table_lock or ScriptedTableLock(), files, lambda: None, runtime, events)
    cache = MetadataCache(files, runtime, max_bytes=1_000_000)
    base = TableVersion(Pointer(NAME, "file:/base", None, {}, None), TableMetadata(raw()))
    attempt = CommitAttempt(base, TableMetadata(raw()), "file:/ours")
    swap = TableSwap(world, cache, attempt)
    until = runtime.now() + wait_seconds
    lock = lock or ScriptedLock(runtime)
    return SwapStatusCheck(world, settings, swap, lock, lambda: told.append(runtime.now()), until=until)


def test_a_swap_that_the_lock_covered_counts_without_a_look():
    pointer = ScriptedPointer("file:/base")
    assert resolve(Swapped(), pointer) is CommitStatus.SUCCESS
    assert pointer.looks == 0


def test_an_old_cover_is_renewed_before_it_counts():
    fresh, old = ScriptedLock(QuickRuntime(), age=149), ScriptedLock(QuickRuntime(), age=151)
    assert resolve(Swapped(), ScriptedPointer("file:/ours"), lock=fresh) is CommitStatus.SUCCESS
    assert resolve(Swapped(), ScriptedPointer("file:/ours"), lock=old) is CommitStatus.SUCCESS
    assert (fresh.renewed, old.renewed) == (0, 1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("file:/ours", CommitStatus.SUCCESS),
        ("file:/on-ours", CommitStatus.SUCCESS),
        ("file:/theirs", CommitStatus.UNKNOWN),
        ("file:/base", CommitStatus.UNKNOWN),
        (GONE, CommitStatus.UNKNOWN),
    ],
)
def test_under_a_lost_lock_only_the_table_itself_counts(found, expected):
    for lock in (ScriptedLock(QuickRuntime(), lost=True), ScriptedLock(QuickRuntime(), age=200, renews=False)):
        table_lock = ScriptedTableLock()
        assert resolve(Swapped(), ScriptedPointer(found), lock=lock, table_lock=table_lock) is expected
        assert table_lock.taken == 1, "the check waits for the lock, and so for its holder"


def test_a_lost_lock_that_cannot_be_taken_again_leaves_it_unknown():
    lock = ScriptedLock(QuickRuntime(), lost=True)
    table_lock = ScriptedTableLock(LockNotAcquired("busy"))
    assert resolve(Swapped(), ScriptedPointer("file:/ours"), lock=lock, table_lock=table_lock) is CommitStatus.UNKNOWN


@pytest.mark.parametrize("conflict", [True, False])
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("file:/ours", CommitStatus.SUCCESS),
        ("file:/on-ours", CommitStatus.SUCCESS),
        ("file:/theirs", CommitStatus.FAILURE),
        ("file:/base", CommitStatus.FAILURE),
        ("file:/elsewhere", CommitStatus.UNKNOWN),
        (GONE, CommitStatus.UNKNOWN),
    ],
)
def test_a_refusal_is_looked_up_once(found, expected, conflict):
    pointer = ScriptedPointer(found)
    assert resolve(Refused(conflict, MetastoreRefused("modified")), pointer) is expected
    assert (pointer.looks, pointer.sent_again) == (1, 0)


@pytest.mark.parametrize("found", ["file:/base", "file:/theirs", "file:/elsewhere", GONE])
def test_an_error_of_the_database_proves_no_absence(found):
    """swap: its COMMIT is not answered in time, says the metastore | look: absent | the database carries it out"""
    pointer = ScriptedPointer(found, again=MetastoreUnavailable("not proven to compare and swap"))
    assert resolve(Refused(False, GONE, in_doubt=True), pointer) is CommitStatus.UNKNOWN
    assert pointer.looks == 4, "commit.status-check.num-retries is 3"


def test_what_a_database_has_in_doubt_counts_once_it_is_seen():
    pointer = ScriptedPointer("file:/base", GONE, "file:/on-ours", again=GONE)
    assert resolve(Refused(False, GONE, in_doubt=True), pointer) is CommitStatus.SUCCESS


def test_an_error_of_the_database_may_be_of_the_moment_so_the_swap_is_sent_again_where_that_is_fenced():
    pointer = ScriptedPointer("file:/base", again=Swapped())
    assert resolve(Refused(False, GONE, in_doubt=True), pointer) is CommitStatus.SUCCESS
    assert (pointer.sent_again, pointer.looks) == (1, 0)


@pytest.mark.parametrize(
    "answer",
    [Refused(True, GONE), Refused(False, GONE, in_doubt=True), Unanswered(GONE), Unanswered(GONE, atomic=True)],
)
def test_what_is_seen_in_the_table_counts_only_under_a_lock_that_covered_it(answer):
    """swap: made under a lock that we had lost; no good answer | look: there | its new holder swaps over it | look"""
    lock, table_lock = ScriptedLock(QuickRuntime(), lost=True), ScriptedTableLock()
    pointer = ScriptedPointer("file:/ours", "file:/theirs", again=GONE)
    assert resolve(answer, pointer, lock=lock, table_lock=table_lock) is CommitStatus.UNKNOWN
    assert table_lock.taken == 1


@pytest.mark.parametrize("found", ["file:/base", "file:/theirs", "file:/elsewhere", GONE])
def test_silence_from_an_unproven_server_is_never_sent_again_and_its_absence_proves_nothing(found):
    pointer, runtime, told = ScriptedPointer(found), QuickRuntime(), []
    before = runtime.now()
    assert resolve(Unanswered(GONE), pointer, runtime=runtime, told=told) is CommitStatus.UNKNOWN
    assert pointer.sent_again == 0
    assert 600 <= runtime.now() - before < 610, "metastore.unanswered-swap-timeout-ms"
    assert len(told) == 1, "its callers leave"
    assert 7 <= told[0] - before < 10, "commit.status-check.num-retries is 3"


def test_a_driver_that_has_waited_is_not_waited_for_again():
    runtime = QuickRuntime()
    before = runtime.now()
    assert (
        resolve(Unanswered(GONE, waited_seconds=590), ScriptedPointer("file:/base"), runtime=runtime)
        is CommitStatus.UNKNOWN
    )
    assert runtime.now() - before < 12


def test_a_swap_that_is_made_minutes_later_has_landed_while_its_lock_is_held():
    pointer = ScriptedPointer(*["file:/base"] * 30, "file:/ours")
    told = []
    assert resolve(Unanswered(GONE), pointer, told=told) is CommitStatus.SUCCESS
    assert len(told) == 1


@pytest.mark.parametrize(
    ("answer", "found", "stays"),
    [
        (Unanswered(GONE), "file:/base", True),
        (Unanswered(GONE), ZeroDivisionError(), True),
        (Unanswered(GONE), "file:/ours", False),
        (Unanswered(GONE, atomic=True), "file:/base", False),
        (Refused(True, GONE), "file:/elsewhere", False),
        (Swapped(), "file:/base", False),
    ],
)
def test_a_lock_is_left_only_while_a_swap_may_be_made_that_nothing_else_fences(answer, found, stays):
    lock = ScriptedLock(QuickRuntime())
    check = check_of(ScriptedPointer(found, again=Refused(True, GONE)), lock=lock)
    check.status(answer)
    assert (check.locks_stay_seconds, lock.left) == ((300.0, True) if stays else (0.0, False))


def test_callers_hear_unknown_when_a_lost_lock_is_not_there_again_soon():
    runtime, told = QuickRuntime(), []
    table_lock = ScriptedTableLock(LockNotAcquired("late"))
    lock = ScriptedLock(runtime, lost=True)
    check = check_of(ScriptedPointer("file:/base"), lock=lock, table_lock=table_lock, told=told, runtime=runtime)
    assert check.status(Swapped()) is CommitStatus.UNKNOWN
    assert table_lock.waits == [10.0, 300.0], "the second wait is the metastore's lease, and no caller waits for it"
    assert len(told) == 1


def test_a_silent_swap_that_shows_up_later_has_landed():
    pointer = ScriptedPointer("file:/base", GONE, "file:/on-ours")
    assert resolve(Unanswered(GONE), pointer) is CommitStatus.SUCCESS


def test_silence_from_an_atomic_server_is_sent_again():
    pointer = ScriptedPointer("file:/ours", again=Swapped())
    assert resolve(Unanswered(GONE, atomic=True), pointer) is CommitStatus.SUCCESS
    assert (pointer.sent_again, pointer.looks) == (1, 0)


def test_a_second_swap_counts_only_if_the_lock_covered_it():
    pointer = ScriptedPointer("file:/theirs", again=Swapped())
    lock = ScriptedLock(QuickRuntime())
    pointer.on_swap = lambda: setattr(lock, "lost", True)
    assert resolve(Unanswered(GONE, atomic=True), pointer, lock=lock) is CommitStatus.UNKNOWN


@pytest.mark.parametrize("again", [Refused(True, MetastoreRefused("modified")), Unanswered(GONE, atomic=True), GONE])
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("file:/ours", CommitStatus.SUCCESS),
        ("file:/on-ours", CommitStatus.SUCCESS),
        ("file:/theirs", CommitStatus.FAILURE),
        ("file:/base", CommitStatus.UNKNOWN),
        ("file:/elsewhere", CommitStatus.UNKNOWN),
    ],
)
def test_a_fenced_swap_is_proved_absent_once_the_pointer_has_left_its_base(again, found, expected):
    pointer = ScriptedPointer(found, again=again)
    assert resolve(Unanswered(GONE, atomic=True), pointer) is expected
    assert pointer.sent_again == 1


def test_a_refusal_of_the_second_swap_does_not_end_the_first_ones_question():
    """first: silent, still under way | second: refused for a reason of its own | the pointer has not moved"""
    pointer = ScriptedPointer("file:/base", "file:/base", "file:/ours", again=Refused(False, MetastoreRefused("busy")))
    assert resolve(Unanswered(GONE, atomic=True), pointer) is CommitStatus.SUCCESS


def test_a_defect_while_looking_is_unknown_and_not_raised():
    assert resolve(Refused(True, GONE), ScriptedPointer(ZeroDivisionError())) is CommitStatus.UNKNOWN
    pointer = ScriptedPointer("file:/base", again=ZeroDivisionError())
    assert resolve(Unanswered(GONE, atomic=True), pointer) is CommitStatus.UNKNOWN


def test_under_a_lost_lock_nothing_is_sent_again_and_the_table_is_asked():
    pointer = ScriptedPointer("file:/theirs", again=Swapped())
    lock = ScriptedLock(QuickRuntime(), lost=True)
    assert resolve(Unanswered(GONE, atomic=True), pointer, lock=lock) is CommitStatus.FAILURE
    assert pointer.sent_again == 0


AWAY = [GONE] * 12


@pytest.mark.parametrize(
    ("found", "again", "expected", "sent"),
    [
        (["file:/ours"], Swapped(), CommitStatus.SUCCESS, 0),
        (["file:/theirs"], Swapped(), CommitStatus.FAILURE, 0),
        (["file:/elsewhere"], Swapped(), CommitStatus.UNKNOWN, 0),
        (["file:/base"], Swapped(), CommitStatus.SUCCESS, 1),
        (["file:/base", "file:/ours"], Refused(True, GONE), CommitStatus.SUCCESS, 1),
        (["file:/base", "file:/theirs"], Refused(True, GONE), CommitStatus.FAILURE, 1),
        (["file:/base"], Refused(False, MetastoreRefused("no")), CommitStatus.UNKNOWN, 1),
    ],
)
@pytest.mark.parametrize("is_lock_lost", [False, True])
def test_a_metastore_that_went_away_with_a_swap_is_asked_once_it_is_back(found, again, expected, sent, is_lock_lost):
    """An outage longer than `commit.status-check.*`, after which the swap is sent again under whichever lock there is;
    under a lost one the table is looked at once more before it counts."""
    pointer = Restarting(*AWAY, *found, *(["file:/ours"] if expected is CommitStatus.SUCCESS else []), again=again)
    lock, table_lock = ScriptedLock(QuickRuntime(), lost=is_lock_lost), ScriptedTableLock()
    status = resolve(Unanswered(GONE, atomic=True), pointer, lock=lock, table_lock=table_lock, wait_seconds=60.0)
    assert status is expected
    assert pointer.sent_again == sent
    assert table_lock.taken == is_lock_lost * (sent + (expected is CommitStatus.SUCCESS))


class Restarting(ScriptedPointer):
    """No swap reaches it while it is away."""

    def swap(self, *arguments, **options):
        if self.locations[0] is GONE:
            raise GONE
        return super().swap(*arguments, **options)


def test_a_metastore_that_is_there_and_answers_no_swap_gets_one_more():
    runtime = QuickRuntime()
    began = runtime.now()
    pointer = ScriptedPointer("file:/base", again=Unanswered(GONE, atomic=True))
    found = resolve(Unanswered(GONE, atomic=True), pointer, runtime=runtime, wait_seconds=300.0)
    assert found is CommitStatus.UNKNOWN
    assert pointer.sent_again == 2
    assert runtime.now() - began < 20.0


def test_nobody_waits_for_a_metastore_longer_than_the_callers_do():
    runtime = QuickRuntime()
    began = runtime.now()
    pointer = Restarting(GONE)
    assert resolve(Unanswered(GONE, atomic=True), pointer, runtime=runtime, wait_seconds=30.0) is CommitStatus.UNKNOWN
    assert 30.0 <= runtime.now() - began < 40.0


@pytest.mark.parametrize("atomic", [True, False])
def test_a_change_that_lands_by_its_first_swap_proves_nothing_of_those_it_shares_a_group_with(atomic):
    """swap of x under way, unknown | x again, with y and z: based on what was there | the first swap lands | ours is
    refused"""
    harness = Harness(status_check_min_wait_ms=1, status_check_max_wait_ms=1, unanswered_swap_timeout_ms=100)
    harness.create()
    harness.pointer.atomic = atomic
    harness.pointer.answers.extend([ScriptedAnswer.DELAYED, *([ScriptedAnswer.REQUEST_LOST] * 100 if atomic else [])])
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/x", snapshot_id=42))
    harness.pointer.answers.clear()
    harness.lock.queues.reap(NAME)
    members = harness.members(append("file:/x", snapshot_id=42), append("file:/y"), set_properties(z="yes"))
    harness.pointer.before_moves.append(harness.pointer.deliver_delayed)
    harness.group(*members, ports=harness.another_process())
    assert [type(member.outcome) for member in members] == [Committed] * 3
    assert harness.data_files() == ["file:/x", "file:/y"]
    assert harness.metadata().properties["z"] == "yes"


def test_what_the_database_has_in_doubt_finds_its_files_and_stops_nobody():
    """swap: an error of the database | again: the same | unknown | the database carries it out | others go on"""
    harness = Harness(status_check_min_wait_ms=1, status_check_max_wait_ms=1)
    harness.create()
    harness.pointer.answers.extend([ScriptedAnswer.IN_DOUBT, ScriptedAnswer.IN_DOUBT])
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/a"))
    assert [type(answer) for answer in harness.pointer.deliver_delayed()] == [Swapped, Refused]
    harness.commit(append("file:/b"))
    assert harness.data_files() == ["file:/a", "file:/b"]


def test_a_refusal_of_a_swap_that_was_made_is_success(harness):
    """swap: made, and refused by the metastore's own retry (apache/iceberg#11814)"""
    harness.pointer.answers.append(ScriptedAnswer.REFUSED_AFTER_APPLY)
    report = harness.commit(append("file:/a"))
    assert report.metadata_location == harness.location()
    assert harness.data_files() == ["file:/a"]
    assert report.attempts == 1


def test_a_lost_reply_of_a_swap_that_was_made_is_success(harness):
    harness.pointer.answers.append(ScriptedAnswer.REPLY_LOST)
    harness.commit(append("file:/a"))
    assert harness.data_files() == ["file:/a"]


def test_a_lost_reply_with_others_on_top_is_success(harness):
    """swap: made, reply lost | another writer builds on it | look: the chain names our file"""
    sleep = harness.runtime.sleep

    def another_on_top(seconds):
        harness.runtime.sleep = sleep
        harness.foreign_commit(theirs="yes")

    harness.pointer.answers.append(ScriptedAnswer.REPLY_LOST)
    harness.runtime.sleep = another_on_top
    harness.commit(append("file:/a"))
    assert harness.data_files() == ["file:/a"]


def test_a_lost_request_is_unknown_and_deletes_nothing(harness):
    """swap: no answer | the pointer never shows it, but it may still be under way"""
    harness.pointer.atomic = False
    before, files = harness.location(), harness.metadata_files()
    harness.pointer.answers.append(ScriptedAnswer.REQUEST_LOST)
    with pytest.raises(CommitStateUnknown, match="delete nothing"):
        harness.commit(append("file:/a"))
    assert harness.location() == before
    assert len(harness.metadata_files() - files) == 1, "a file that may become the table is kept"
    assert len(harness.runtime.slept) >= harness.settings.status_check_num_retries


@pytest.mark.parametrize("answer", [ScriptedAnswer.DELAYED, ScriptedAnswer.IN_DOUBT])
def test_a_swap_that_arrives_late_finds_its_files(harness, answer):
    harness.pointer.atomic = False
    harness.pointer.answers.append(answer)
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/a"))
    harness.pointer.deliver_delayed()
    assert harness.data_files() == ["file:/a"]


def test_a_lost_request_to_an_atomic_server_is_sent_again(harness):
    """swap: lost | the same swap again, lock still held: made"""
    harness.pointer.answers.append(ScriptedAnswer.REQUEST_LOST)
    report = harness.commit(append("file:/a"))
    assert report.attempts == 1
    assert harness.data_files() == ["file:/a"]


def test_a_late_twin_of_a_swap_that_was_sent_again_changes_nothing(harness):
    """swap: delayed | the same swap again: made | the first arrives: refused, its expected value is gone"""
    harness.pointer.answers.append(ScriptedAnswer.DELAYED)
    harness.commit(append("file:/a"))
    assert [type(answer) for answer in harness.pointer.deliver_delayed()] == [Refused]
    assert harness.data_files() == ["file:/a"]


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
