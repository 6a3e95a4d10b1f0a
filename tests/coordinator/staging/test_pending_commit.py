"""The one rule: a caller that timed out gets "failed" only while no swap carries its change."""

import threading

import pytest

from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.outcome.already_committed import AlreadyCommitted, LookupSources
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed, Unknown
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap, SentSwaps
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import CommitFailed, CommitStateUnknown, LockNotAcquired, LockUnavailable
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.runtime import ThreadRuntime
from tests.coordinator.harness import NAME, Harness, append

CHANGE = from_request([], [{"action": "set-properties", "updates": {"a": "b"}}])
REPORT = object()
SWAP = SentSwap(NAME, "file:/base")


def member(wait_seconds: float = 30.0) -> PendingCommit:
    return PendingCommit(
        ThreadRuntime(),
        CHANGE,
        wait_seconds,
        AlreadyCommitted(NAME, LookupSources(nobody_looks, nobody_finds, nobody_reads, SentSwaps(ThreadRuntime()))),
    )


def nobody_looks(name: object) -> TableMetadata:
    raise AssertionError(f"there is nothing to look for in {name}")


def nobody_finds(uuid: str, name: object) -> list[TableVersion]:
    raise AssertionError(f"{name} is not to be looked for by {uuid}")


def nobody_reads(location: str) -> TableMetadata:
    raise AssertionError(f"there is nothing to read in {location}")


def test_a_caller_gets_the_outcome():
    done, failed, unknown = member(), member(), member()
    done.settle(Committed(REPORT))
    assert done.wait() is REPORT
    failed.settle(Failed(CommitFailed("no")))
    with pytest.raises(CommitFailed, match="no"):
        failed.wait()
    unknown.settle(Unknown(CommitStateUnknown("perhaps")))
    with pytest.raises(CommitStateUnknown, match="perhaps"):
        unknown.wait()


def test_a_waiting_member_is_withdrawn_when_its_time_is_over():
    late = member(0.0)
    with pytest.raises(LockNotAcquired, match="nothing was sent"):
        late.wait()
    assert late.withdrawn
    assert not late.take(SWAP), "no swap may carry it any more"
    late.settle(Committed(REPORT))
    with pytest.raises(LockNotAcquired):
        late.wait()


def test_a_member_that_was_sent_waits_for_its_outcome_however_long():
    sent = member(0.0)
    assert sent.take(SWAP)
    answers = []
    caller = threading.Thread(target=lambda: answers.append(sent.wait()))
    caller.start()
    caller.join(0.05)
    assert caller.is_alive()
    sent.settle(Committed(REPORT))
    caller.join(10)
    assert answers == [REPORT]


def test_a_refusal_is_kept_from_its_caller_no_longer_than_that_waits():
    """the queue that keeps it stands in line for a thread"""
    kept = member(0.0)
    kept.decide(Failed(CommitFailed("no")))
    told = []
    kept.when_settled(lambda: told.append(kept.outcome))
    errors = []

    def wait():
        try:
            kept.wait()
        except CommitFailed as error:
            errors.append(error)

    caller = threading.Thread(target=wait, daemon=True)
    caller.start()
    caller.join(10)
    assert [error.message for error in errors] == ["no"]
    assert told == [kept.outcome]
    assert not kept.withdraw()
    kept.decide(Committed(REPORT))
    with pytest.raises(CommitFailed):
        kept.wait()


def test_a_member_that_is_proved_absent_may_leave_again():
    back, swap = member(0.0), SentSwap(NAME, "file:/base")
    assert back.take(swap)
    assert back.sent
    swap.status = CommitStatus.FAILURE
    assert not back.sent
    with pytest.raises(LockNotAcquired):
        back.wait()


def test_only_the_first_outcome_counts():
    once = member()
    once.settle(Committed(REPORT))
    once.settle(Failed(CommitFailed("late")))
    assert once.wait() is REPORT


def test_what_failed_is_known_to_be_proved_whatever_its_type():
    failed = member()
    failed.settle(Failed(LockUnavailable("broken")))
    with pytest.raises(LockUnavailable) as caught:
        failed.wait()
    assert caught.value.proved_failed
    assert not LockUnavailable("elsewhere").proved_failed


@pytest.mark.parametrize(
    "outcome",
    [Failed(LockUnavailable("broken")), Failed(CommitFailed("no")), Unknown(CommitStateUnknown("perhaps"))],
    ids=["proved by the coordinator", "proved by its type", "unknown"],
)
def test_each_caller_of_a_group_raises_an_error_of_its_own(outcome):
    errors = []
    for waiting in (member(), member()):
        waiting.settle(outcome)
        with pytest.raises(type(outcome.error)) as caught:
            waiting.wait()
        errors.append(caught.value)
    assert len({id(error) for error in [*errors, outcome.error]}) == 3
    assert {error.proved_failed for error in errors} == {isinstance(outcome, Failed)}
    assert {str(error) for error in errors} == {str(outcome.error)}


@pytest.mark.parametrize("leave", [1, 2])
def test_who_has_left_before_its_group_began_is_not_worked_on(leave):
    harness = Harness()
    harness.create()
    members = harness.members(append("file:/a"), append("file:/b"))
    assert all(member.withdraw() for member in members[:leave])
    before, acquire, locks = harness.files.locations(), harness.lock.acquire, []
    harness.lock.acquire = lambda *name, **wait: locks.append(name) or acquire(*name, **wait)
    harness.group(*members)
    if leave == 2:
        assert harness.files.locations() == before
        assert locks == []
    else:
        assert harness.data_files() == ["file:/b"]


def test_what_a_member_wrote_that_leaves_before_the_swap_is_deleted():
    harness = Harness()
    harness.create()
    members = harness.members(append("file:/a"), append("file:/b"))
    acquire = harness.lock.acquire

    def leave_with_the_lock_held(*name, **wait):
        held = acquire(*name, **wait)
        assert members[0].withdraw()
        return held

    harness.lock.acquire = leave_with_the_lock_held
    deleted, delete = [], harness.files.delete
    harness.files.delete = lambda location: deleted.append(location) or delete(location)
    harness.group(*members)
    assert harness.data_files() == ["file:/b"]
    reader = harness.manifests.open()
    named = {each.manifest_path for each in reader.list(harness.metadata().current_snapshot)}
    manifests = set(harness.manifests.manifests)
    assert named < manifests
    assert manifests - named <= set(deleted)
    assert not named & set(deleted)


def test_a_caller_hears_of_its_outcome_when_it_is_answered_and_not_before():
    heard, kept = [], member()
    kept.when_settled(lambda: heard.append("told"))
    kept.decide(Failed(CommitFailed("refused")))
    assert isinstance(kept.outcome, Failed)
    assert heard == []
    kept.decide(Committed(REPORT))
    kept.answer()
    assert heard == ["told"]
    assert kept.wait() is REPORT, "the outcome changed before the caller heard it"
    kept.decide(Failed(CommitFailed("late")))
    assert kept.result() is REPORT
