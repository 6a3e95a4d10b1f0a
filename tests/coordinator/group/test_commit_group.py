"""What a commit does on the good day and when the metastore's answers mislead, one test a story."""

import threading

import pytest

from iceberg_hms import work
from iceberg_hms.coordinator.group.commit_group import REMEMBERED_SECONDS, GroupResult
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import Swapped, Unanswered
from iceberg_hms.errors import (
    CommitConflict,
    CommitStateUnknown,
    LockLost,
    LockNotAcquired,
    LockUnavailable,
    MetastoreUnavailable,
    NoSuchTable,
    NotAnIcebergTable,
    RequirementFailed,
    StorageError,
)
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.coordinator.harness import NAME, Harness, append, set_properties


def when_locking(harness, before=lambda: None, after=lambda held: None, *, once=False):
    """Let something happen before each lock is asked for, or to each that was got. Returns what ends it."""
    acquire = harness.lock.acquire

    def end():
        harness.lock.acquire = acquire

    def around(*arguments, **options):
        if once:
            end()
        before()
        held = acquire(*arguments, **options)
        after(held)
        return held

    harness.lock.acquire = around
    return end


def test_a_commit_moves_the_pointer_once_and_says_what_it_did(harness):
    before = harness.location()
    report = harness.commit(append("file:/a"))
    assert report.metadata_location == harness.location() != before
    assert report.previous_metadata_location == before
    assert report.metadata == harness.metadata()
    assert (report.attempts, report.replays, report.group_size, report.already_committed) == (1, 0, 1, False)
    assert harness.data_files() == ["file:/a"]
    assert harness.metadata().metadata_log[-1]["metadata-file"] == before
    assert [event["event"] for event in harness.events] == ["committed", "committed"]
    assert not harness.lock.queues.entries(NAME), "the lock was given back"


def test_the_pointer_is_read_again_under_the_lock_before_the_swap(harness):
    harness.pointer.calls.clear()
    harness.commit(append("file:/a"))
    assert [method for method, _ in harness.pointer.calls] == ["load", "load", "swap"]


def test_a_change_that_changes_nothing_swaps_nothing(harness):
    before = harness.location()
    report = harness.commit(set_properties())
    assert report.already_committed
    assert harness.location() == before


def test_a_table_that_moved_before_the_lock_is_replayed_and_nothing_is_lost(harness):
    """load, build | another writer commits | lock, reload: moved, build again, swap"""
    when_locking(harness, before=lambda: harness.foreign_commit(theirs="yes"), once=True)
    report = harness.commit(append("file:/a"))
    assert (report.attempts, report.replays) == (2, 1)
    assert harness.metadata().properties["theirs"] == "yes"
    assert harness.data_files() == ["file:/a"]
    assert harness.metadata_files() == {entry["metadata-file"] for entry in harness.metadata().metadata_log} | {
        harness.location()
    }, "the abandoned attempt's metadata file is gone"


def test_a_writer_without_the_lock_is_met_by_the_expected_value(harness):
    """lock, reload | a writer that takes no lock commits | swap: refused, looked up, absent, build again, swap"""
    harness.pointer.before_moves.append(lambda: harness.foreign_commit(theirs="yes"))
    report = harness.commit(append("file:/a"))
    assert (report.attempts, report.replays) == (2, 1)
    assert harness.metadata().properties["theirs"] == "yes"
    assert harness.data_files() == ["file:/a"]


def test_an_assumption_that_broke_meanwhile_is_named_and_nothing_is_changed(harness):
    requirement = {"type": "assert-current-schema-id", "current-schema-id": 7}
    before = harness.location()
    with pytest.raises(RequirementFailed, match="current schema") as caught:
        harness.commit(set_properties(requirement, a="b"))
    assert caught.value.proved_failed
    assert harness.location() == before
    assert harness.lock.acquired == 0, "no lock was taken for it"


def test_a_lock_that_is_lost_before_the_swap_is_taken_again(harness):
    """lock, reload, build | the metastore reaps our lock | lock again, reload: as it was, swap"""
    load = harness.pointer.load
    loads = []

    def reaped_while_reading(name):
        loads.append(name)
        if len(loads) == 2:
            harness.lock.queues.reap(NAME)
        return load(name)

    harness.pointer.load = reaped_while_reading
    report = harness.commit(append("file:/a"))
    assert harness.lock.acquired == 2
    assert report.attempts == 1, "what was built before is used"
    assert harness.data_files() == ["file:/a"]


def test_a_lock_that_is_lost_again_and_again_is_given_up_with_proof(harness):
    load = harness.pointer.load

    def always_reaped(name):
        harness.lock.queues.reap(NAME)
        return load(name)

    harness.pointer.load = always_reaped
    files = harness.metadata_files()
    with pytest.raises(LockNotAcquired, match="again and again") as caught:
        harness.commit(append("file:/a"))
    harness.pointer.load = load
    assert caught.value.proved_failed
    assert harness.data_files() == []
    assert harness.metadata_files() == files


def test_a_retry_after_unknown_finds_its_snapshot_and_adds_nothing(harness):
    change = append("file:/a", snapshot_id=42)
    harness.pointer.atomic = False
    harness.pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknown):
        harness.commit(change)
    harness.pointer.deliver_delayed()
    harness.lock.queues.reap(NAME)
    report = harness.commit(append("file:/a", snapshot_id=42), coordinator=harness.another())
    assert report.already_committed
    assert harness.data_files() == ["file:/a"]


def test_a_change_that_is_in_the_table_already_is_acknowledged_only_under_the_lock(harness):
    """our swap came late and is in the table | a writer that read before it holds the lock | we ask again: wait | it
    swaps blindly over ours | under the lock: we are not there, so it is committed anew"""
    harness.commit(append("file:/before"))
    base = harness.location()
    harness.commit(append("file:/a", snapshot_id=42))

    def blind_swap():
        harness.pointer.point(NAME, base)
        harness.foreign_commit(theirs="yes")

    when_locking(harness, before=blind_swap, once=True)
    report = harness.commit(append("file:/a", snapshot_id=42))
    assert not report.already_committed
    assert harness.data_files() == ["file:/a", "file:/before"]


def test_a_table_that_moves_under_every_attempt_is_given_up_with_proof(harness):
    harness.pointer.before_moves.extend([lambda: harness.foreign_commit(a="b")] * 50)
    with pytest.raises(CommitConflict, match="although it was locked") as caught:
        harness.commit(append("file:/a"))
    assert caught.value.proved_failed
    assert harness.data_files() == []
    assert not harness.lock.queues.entries(NAME)


def test_a_look_up_that_fails_after_a_refusal_is_unknown(harness):
    """swap: refused | look: the metastore is gone, for longer than the caller waits"""
    gone = [MetastoreUnavailable("gone")] * 100
    harness.pointer.before_moves.append(lambda: harness.pointer.load_errors.extend(gone))
    harness.pointer.answers.append(ScriptedAnswer.REFUSED)
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/a"))


def test_a_look_up_that_fails_after_a_refusal_is_repeated_while_the_caller_waits(harness):
    """swap: refused | look: the metastore is gone | look: it is back, and the swap is not made | swap"""
    gone = [MetastoreUnavailable("gone")] * 10
    harness.pointer.before_moves.append(lambda: harness.pointer.load_errors.extend(gone))
    harness.pointer.answers.append(ScriptedAnswer.REFUSED)
    harness.commit(append("file:/a"))
    assert harness.data_files() == ["file:/a"]


def test_a_defect_of_the_driver_in_the_middle_of_a_swap_is_unknown(harness):
    def defect(*arguments):
        raise ZeroDivisionError

    harness.pointer.swap = defect
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/a"))


@pytest.mark.parametrize("error", [LockUnavailable("broken"), LockNotAcquired("late")])
def test_without_the_lock_no_swap_is_sent(harness, error):
    files, calls = harness.metadata_files(), len(harness.pointer.calls)
    harness.lock.errors.append(error)
    with pytest.raises(type(error)):
        harness.commit(append("file:/a"))
    assert "swap" not in [method for method, _ in harness.pointer.calls[calls:]]
    assert harness.metadata_files() == files


def test_a_lock_that_was_lost_during_the_swap_is_looked_behind(harness):
    """swap | the metastore reaps our lock | renew: lost, take it again, look: it landed"""
    harness.pointer.before_moves.append(lambda: harness.lock.queues.reap(NAME))
    harness.commit(append("file:/a"))
    assert harness.data_files() == ["file:/a"]
    assert harness.lock.acquired == 2
    assert not harness.lock.queues.entries(NAME)


def test_a_commit_under_a_lost_lock_that_a_thief_overwrote_is_not_acknowledged(harness):
    """swap: made | our lock was reaped, and its new holder swaps blindly over ours | look: the chain has a gap"""
    swap = harness.pointer.swap
    before = harness.location()

    def swap_then_thief(*arguments, **options):
        answer = swap(*arguments, **options)
        harness.lock.queues.reap(NAME)
        harness.pointer.point(NAME, before)
        harness.foreign_commit(thief="yes")
        return answer

    harness.pointer.swap = swap_then_thief
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/a"))


def test_what_cannot_be_written_is_not_pointed_at(harness):
    before, write = harness.location(), harness.files.write

    def full(location, data):
        raise StorageError("no space left")

    harness.files.write = full
    with pytest.raises(StorageError, match="no space left"):
        harness.commit(append("file:/a"))
    harness.files.write = write
    assert harness.location() == before
    harness.lock.acquire(NAME, wait_seconds=0, request="it-is-free").release()


def test_what_landed_and_was_taken_away_unseen_comes_again_with_a_higher_number(harness):
    before, at = harness.metadata(), harness.location()
    swap = harness.pointer.swap

    def made_unanswered_and_overwritten(*args, **kwargs):
        harness.pointer.swap = swap
        swap(*args, **kwargs)
        theirs = before.replace(properties={"theirs": "yes"}).with_metadata_log_entry(at, before.last_updated_ms)
        location = "file:/wh/db/t/metadata/99999-theirs.metadata.json"
        harness.files.write(location, theirs.to_bytes())
        harness.pointer.point(NAME, location)
        return Unanswered(MetastoreUnavailable("gone"), atomic=True)

    harness.pointer.swap = made_unanswered_and_overwritten
    report = harness.commit(append("file:/a"))
    after = harness.metadata()
    assert report.replays == 1
    assert after.properties["theirs"] == "yes"
    assert harness.data_files() == ["file:/a"]
    assert after.current_snapshot.sequence_number == 2, "the first was 1, and may have been seen"


def test_files_are_written_while_the_lock_is_asked_for(harness):
    both = threading.Barrier(2, timeout=30)
    write = harness.files.write
    harness.files.write = lambda location, data: ("metadata.json" in location and both.wait(), write(location, data))
    when_locking(harness, before=both.wait)
    harness.commit(append("file:/a"))
    assert harness.data_files() == ["file:/a"]


def test_what_was_written_for_a_lock_that_is_not_had_is_deleted(harness):
    before = harness.metadata_files()

    def refused(name, **options):
        raise LockNotAcquired("taken")

    harness.lock.acquire = refused
    with pytest.raises(LockNotAcquired, match="taken"):
        harness.commit(append("file:/a"))
    assert harness.metadata_files() == before


def test_a_missing_table_and_a_hive_table_raise_different_errors():
    empty = Harness()
    with pytest.raises(NoSuchTable):
        empty.commit(set_properties(a="b"))
    empty.pointer.add_hive_table(NAME)
    with pytest.raises(NotAnIcebergTable):
        empty.commit(set_properties(a="b"))


class StagedThen:
    """A change, and a function that is called once it is staged."""

    def __init__(self, change, then):
        self.identity, self.check = change.identity, change.check
        self._change, self._then = change, then

    def stage(self, base, manifests):
        staged = self._change.stage(base, manifests)
        self._then()
        return staged


def test_after_a_contested_group_the_next_one_locks_before_it_builds(harness):
    calm = when_locking(harness, before=lambda: harness.foreign_commit(theirs="yes"))
    assert harness.commit(append("file:/a")).attempts == 2, "built before the lock, and again under it"
    assert harness.commit(append("file:/b")).attempts == 1, "built once, under the lock"
    calm()
    assert harness.commit(append("file:/c")).attempts == 1
    locks, seen = harness.lock.acquired, []
    harness.commit(StagedThen(append("file:/d"), lambda: seen.append(harness.lock.acquired - locks)))
    assert seen == [0], "quiet again: built before the lock"
    assert harness.data_files() == ["file:/a", "file:/b", "file:/c", "file:/d"]


def test_what_the_last_group_left_is_built_on_without_a_look(harness):
    begun = harness.runtime.now()
    harness.runtime.now = lambda: begun
    harness.commit(append("file:/a"))
    harness.pointer.calls.clear()
    assert harness.commit(append("file:/b")).attempts == 1
    assert [method for method, _ in harness.pointer.calls] == ["load", "swap"], "the look under the lock is enough"


def test_what_was_left_a_while_ago_is_not_built_on(harness):
    harness.commit(append("file:/a"))
    now = harness.runtime.now
    harness.runtime.now = lambda: now() + REMEMBERED_SECONDS + 1
    harness.pointer.calls.clear()
    harness.commit(append("file:/b"))
    assert [method for method, _ in harness.pointer.calls] == ["load", "load", "swap"]


def test_what_was_left_and_is_gone_by_now_harms_nobody():
    harness = Harness(metadata_cache_max_bytes=0)
    harness.create()
    harness.commit(append("file:/a"))
    left = harness.location()
    harness.foreign_commit(theirs="yes")
    harness.files.delete(left)
    harness.commit(append("file:/b"))
    assert harness.data_files() == ["file:/a", "file:/b"]


def test_what_is_remembered_refuses_nobody(harness):
    """commit | another sets a property | a change that needs it: not in what is remembered, there under the lock"""
    harness.commit(append("file:/a"))
    harness.foreign_commit(theirs="yes")

    class Needs:
        identity = set_properties(a="b").identity

        def check(self, base):
            if base.properties.get("theirs") != "yes":
                raise RequirementFailed("theirs", "it is not there")

        def stage(self, base, manifests):
            return set_properties(ours="yes").stage(base, manifests)

    report = harness.commit(Needs())
    assert report.replays == 0
    assert harness.metadata().properties["ours"] == "yes"


def test_the_row_that_was_read_under_the_lock_is_not_read_again(harness):
    def with_row(held):
        held.row = harness.pointer.load(NAME)
        harness.pointer.calls.clear()

    when_locking(harness, after=with_row)
    harness.commit(append("file:/a"))
    assert [call for call, _ in harness.pointer.calls] == ["swap"]


def test_a_row_is_good_for_one_look_only(harness):
    """lock, with the row | another swaps without the lock | swap: refused | reload, not the old row again"""

    def with_row(held):
        held.row = harness.pointer.load(NAME)
        harness.foreign_commit(theirs="yes")

    when_locking(harness, after=with_row)
    assert harness.commit(append("file:/a")).replays == 1
    assert harness.metadata().properties["theirs"] == "yes"


def test_a_swap_starts_only_if_the_lock_lets_it_and_else_the_lock_is_taken_again(harness):
    suspended = [True]

    def ensure_held():
        assert "swap" not in [call for call, _ in harness.pointer.calls]
        if suspended:
            suspended.pop()
            raise LockLost("the session is SUSPENDED")

    harness.pointer.calls.clear()
    when_locking(harness, after=lambda held: setattr(held, "ensure_held", ensure_held))
    assert harness.commit(append("file:/a")).attempts == 1
    assert harness.lock.acquired == 2


def locks_nothing(held):
    held.require_cas, held.exclusive = True, False


def test_where_nothing_is_locked_the_swap_goes_only_to_a_proven_server(harness):
    when_locking(harness, after=locks_nothing)
    harness.pointer.atomic = False
    with pytest.raises(MetastoreUnavailable, match="not proven"):
        harness.commit(append("file:/a"))
    assert harness.data_files() == []
    harness.pointer.atomic = True
    harness.commit(append("file:/a"))
    assert harness.data_files() == ["file:/a"]


@pytest.fixture
def unlocked(harness):
    """A harness whose locks lock nothing, and whose table moves under every swap."""
    when_locking(harness, after=locks_nothing)
    harness.pointer.before_moves.extend([lambda: harness.foreign_commit(theirs="yes")] * 100)
    return harness


def test_where_nothing_is_locked_a_replay_waits_and_lets_the_others_pass(unlocked):
    with pytest.raises(CommitConflict, match="moved under every one of 6 attempts"):
        unlocked.commit(append("file:/a"))
    waits = unlocked.runtime.slept
    assert len(waits) == 5
    for wait, longest in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.6), strict=True):
        assert longest / 2 <= wait <= longest


def test_no_replay_begins_after_the_total_time(unlocked):
    unlocked.restart(commit_retry_total_timeout_ms=300)
    begun = unlocked.runtime.now()
    unlocked.runtime.now = lambda: begun + sum(unlocked.runtime.slept)
    with pytest.raises(CommitConflict, match="attempts"):
        unlocked.commit(append("file:/a"))
    assert len(unlocked.runtime.slept) == 2


def test_a_change_that_comes_again_and_gets_no_lock_is_unknown_if_its_first_swap_landed(harness):
    """swap under way, unknown | it lands | sent again: no lock. After "failed" its client would delete its files."""
    harness.pointer.atomic = False
    harness.pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknown):
        harness.commit(append("file:/a", snapshot_id=42))
    harness.pointer.deliver_delayed()
    harness.lock.errors.append(LockNotAcquired("late"))
    with pytest.raises(CommitStateUnknown, match="its snapshot is in"):
        harness.commit(append("file:/a", snapshot_id=42), wait_seconds=0.1)
    assert harness.data_files() == ["file:/a"]


@pytest.mark.parametrize("moves", [False, True], ids=["it lost", "it landed"])
def test_a_group_says_whether_a_foreign_writer_had_the_lock_before_and_whether_the_table_was_moved(harness, moves):
    when_locking(
        harness,
        before=lambda: moves and harness.foreign_commit(theirs="yes"),
        after=lambda held: setattr(held, "behind_foreign_writer", True),
    )
    [commit] = harness.members(append("file:/a"))
    result = harness.group(commit)
    assert (result.behind_foreign_writer, result.contested) == (True, moves)
    assert result.location == harness.location()
    assert commit.wait().group_size == 1


def test_a_report_tells_what_the_group_used(harness):
    swap, write = harness.pointer.swap, harness.files.write

    def swapped(*arguments, **options):
        work.called("alter_table_with_environment_context")
        return swap(*arguments, **options)

    def written(location, data):
        work.wrote(len(data))
        write(location, data)

    harness.pointer.swap, harness.files.write = swapped, written
    report = harness.commit(append("file:/a"))
    assert report.metastore_calls == 1
    assert report.bytes_written == len(harness.files.read(report.metadata_location))


@pytest.mark.parametrize("base", ["loaded", "remembered", "locked"])
def test_a_change_is_refused_before_the_lock_only_for_what_was_read_just_now(harness, base):
    wrong = {"type": "assert-table-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}
    remembered = harness.location() if base == "remembered" else None
    [commit] = harness.members(set_properties(wrong, a="b"))
    harness.group(commit, last=GroupResult(remembered, base == "locked", answered_at=harness.runtime.now()))
    assert isinstance(commit.outcome, Failed)
    assert harness.lock.acquired == (0 if base == "loaded" else 1)


@pytest.mark.parametrize("lock_first", [True, False])
@pytest.mark.parametrize("sent_again", [True, False], ids=["sent again", "changes nothing"])
def test_a_change_that_adds_nothing_is_acknowledged_only_under_the_lock(harness, sent_again, lock_first):
    harness.commit(append("file:/a", snapshot_id=42))
    [commit] = harness.members(append("file:/a", snapshot_id=42) if sent_again else set_properties())
    locks = harness.lock.acquired
    harness.group(commit, last=GroupResult(contested=lock_first))
    report = commit.wait()
    assert report.already_committed
    assert report.attempts == (1 if lock_first else 2), "what was found before the lock is looked at again"
    assert harness.lock.acquired == locks + 1


def test_what_is_swapped_in_is_on_disk_and_carries_all_that_wait(harness):
    swap, swapped = harness.pointer.swap, []

    def watched(base, location, metadata, *arguments, **options):
        assert harness.read_metadata(location) == metadata
        swapped.append([snapshot.snapshot_id for snapshot in metadata.snapshots])
        return swap(base, location, metadata, *arguments, **options)

    harness.pointer.swap = watched
    leaves, *stay = commits = harness.members(*(append(f"file:/{id_}", snapshot_id=id_) for id_ in (1, 2, 3)))
    assert leaves.withdraw()
    harness.group(*commits)
    assert swapped == [[2, 3]]
    assert [type(commit.outcome) for commit in stay] == [Committed] * 2


def test_what_a_commit_wrote_is_deleted_if_its_caller_left_while_it_was_staged(harness):
    [commit] = harness.members(append("file:/a"))
    commit.change = StagedThen(commit.change, commit.withdraw)
    deleted, harness.files.delete = [], lambda location: bool(deleted.append(location))
    harness.group(commit)
    assert [location.endswith(".avro") for location in deleted] == [True]
    assert commit.outcome is None
    assert harness.lock.acquired == 0


@pytest.mark.parametrize(("first", "numbers"), [(0, [8, 9]), (1, [1])], ids=["sent again", "another"])
def test_what_may_have_been_seen_in_a_swap_of_an_earlier_group_gets_a_higher_number(harness, first, numbers):
    """A client that read it there builds on its snapshot id; the number shows what it read (`sequence_numbers`)."""
    commits = harness.members(*(append(f"file:/{id_}", snapshot_id=id_) for id_ in (1, 2)))
    sources = harness.sources(harness.cache())
    swap = SentSwap(NAME, "file:/base", carries=commits[0].carries, last_sequence_number=7)
    sources.sent.send(swap, [])
    sources.sent.settle(swap, CommitStatus.UNKNOWN, Swapped())
    harness.begin_group(*commits[first:], sources=sources).commit()
    assert [snapshot.sequence_number for snapshot in harness.metadata().snapshots] == numbers


def test_all_that_wait_fail_when_nothing_was_sent(harness):
    error = LockNotAcquired("taken")
    harness.lock.errors.append(error)
    commits = harness.members(append("file:/a"), append("file:/b"))
    harness.group(*commits)
    assert [commit.outcome for commit in commits] == [Failed(error)] * 2
