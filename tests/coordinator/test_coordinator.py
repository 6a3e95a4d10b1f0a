"""Many writers on one table: every acknowledged change is in it once, and no commit fails without need."""

import threading

import pytest

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import ChangeIdentity
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.coordinator.coordinator import RefusedChange
from iceberg_hms.errors import CommitStateUnknown, InvalidInput, LockNotAcquired, QueueFull, RequirementFailed
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from iceberg_hms.work import owned_by, owner
from simulation.actors import requests
from tests.coordinator.harness import NAME, Harness, append, set_properties


def together(functions):
    """Run functions on threads of their own; what each returned or raised, in order."""
    results = [None] * len(functions)

    def run(index):
        try:
            results[index] = functions[index]()
        except Exception as error:  # noqa: BLE001 - the error is the result
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


class Gate:
    """Delays the first lock request, so that changes that arrive meanwhile wait in the queue as one group."""

    def __init__(self, harness):
        self.reached, self.open = threading.Event(), threading.Event()
        self._acquire = harness.lock.acquire
        harness.lock.acquire = self._wait

    def _wait(self, name, **options):
        self.reached.set()
        assert self.open.wait(30)
        return self._acquire(name, **options)


def settled(commit):
    """What a caller hears: the report, or the error."""
    try:
        return commit.wait()
    except Exception as error:  # noqa: BLE001 - the error is the result
        return error


def queued_behind_a_gate(harness, first, changes):
    """Commit `first`; while it waits for its lock, queue `changes` one after another; then open the gate."""
    gate = Gate(harness)
    commits = [harness.coordinator.submit(NAME, first, wait_seconds=30)]
    assert gate.reached.wait(30)
    commits += [harness.coordinator.submit(NAME, change, wait_seconds=30) for change in changes]
    gate.open.set()
    return [settled(commit) for commit in commits]


def test_threads_of_one_coordinator_lose_nothing(harness):
    jobs = [lambda k=k: [harness.commit(append(f"file:/{k}-{n}")) for n in range(5)] for k in range(8)]
    results = together(jobs)
    assert not [each for each in results if isinstance(each, Exception)]
    assert harness.data_files() == sorted(f"file:/{k}-{n}" for k in range(8) for n in range(5))


class StagedChange:
    """A change that runs something when it is staged."""

    def __init__(self, inner, then):
        self.inner, self.then, self.identity = inner, then, inner.identity

    def check(self, base):
        self.inner.check(base)

    def stage(self, base, manifests):
        self.then()
        return self.inner.stage(base, manifests)


def test_the_lock_is_asked_for_while_the_rest_of_the_group_is_staged(harness):
    asked = threading.Event()
    seen = []

    def locks_now(acquire=harness.lock.acquire):
        def acquired(name, **kwargs):
            asked.set()
            return acquire(name, **kwargs)

        return acquired

    def begin_to_look():
        harness.lock.acquire = locks_now()

    first = StagedChange(append("file:/1"), begin_to_look)
    second = StagedChange(append("file:/2"), lambda: seen.append(asked.wait(30)))
    results = queued_behind_a_gate(harness, append("file:/0"), [first, second])
    assert [result.group_size for result in results] == [1, 2, 2]
    assert seen == [True]
    assert harness.data_files() == ["file:/0", "file:/1", "file:/2"]


def before_release(harness, before):
    """Call `before` before each lock is released."""
    acquire = harness.lock.acquire

    def watched(name, **kwargs):
        held = acquire(name, **kwargs)
        release = held.release

        def released():
            before()
            release()

        held.release = released
        return held

    harness.lock.acquire = watched


def test_a_group_is_answered_before_its_lock_is_released_and_a_lone_caller_after(harness):
    gate, members, answered = Gate(harness), [], []
    before_release(harness, lambda: answered.append([member.outcome is not None for member in members]))
    for number in range(3):
        members.append(harness.coordinator.submit(NAME, append(f"file:/{number}"), wait_seconds=30))
        assert gate.reached.wait(30)
    gate.open.set()
    assert [member.wait().group_size for member in members] == [1, 2, 2]
    harness.runtime.join()
    assert answered == [[False, False, False], [True, True, True]]


def test_a_group_does_not_wait_for_callers_that_are_back_before_the_lock_is_released():
    harness = Harness(batching_window_ms=77)
    harness.create()
    gate, members, waits = Gate(harness), [], []

    class NotedEvent(threading.Event):
        """Notes for each wait for returning callers whether they were back when it began."""

        def wait(self, timeout=None):
            if timeout == 0.077:
                waits.append(self.is_set())
            return super().wait(timeout)

    harness.runtime.event = NotedEvent

    def come(names):
        for name in names:
            members.append(harness.coordinator.submit(NAME, append(f"file:/{name}"), wait_seconds=30))
            assert gate.reached.wait(30)

    def come_back():
        if len(members) == 3 and members[1].outcome is not None:
            come("de")

    before_release(harness, come_back)
    come("0bc")
    gate.open.set()
    harness.runtime.join()
    assert [member.wait().group_size for member in members] == [1, 2, 2, 2, 2]
    assert waits[0] is True


def test_a_group_without_a_change_that_holds_asks_for_no_lock(harness):
    def broken():
        raise ValueError("broken")

    def never(name, **kwargs):
        raise AssertionError("a lock was asked for")

    harness.lock.acquire = never
    with pytest.raises(ValueError, match="broken"):
        harness.commit(StagedChange(append("file:/a"), broken))


def test_several_coordinators_on_one_table_lose_no_commit_and_refuse_none(harness):
    others = [harness.another() for _ in range(4)]
    jobs = [
        lambda k=k: [harness.commit(append(f"file:/{k}-{n}"), coordinator=others[k]) for n in range(10)]
        for k in range(4)
    ]
    results = together(jobs)
    assert not [each for each in results if isinstance(each, Exception)]
    assert harness.data_files() == sorted(f"file:/{k}-{n}" for k in range(4) for n in range(10))
    metadata = harness.metadata()
    head = metadata.current_snapshot
    assert len(list(metadata.ancestors(head.snapshot_id))) == 40, "one chain"
    assert head.summary["total-data-files"] == "40"


def test_changes_that_wait_together_share_one_swap(harness):
    results = queued_behind_a_gate(harness, append("file:/0"), [append(f"file:/{n}") for n in range(1, 6)])
    assert [report.group_size for report in results] == [1, 5, 5, 5, 5, 5]
    assert len({report.metadata_location for report in results[1:]}) == 1
    assert harness.data_files() == [f"file:/{n}" for n in range(6)]
    assert harness.metadata().last_sequence_number == 6


def test_a_group_is_work_of_its_table_and_of_none_of_its_callers(harness):
    owners = []
    with owned_by("caller etl"):
        queued_behind_a_gate(
            harness, append("file:/0"), [StagedChange(append("file:/1"), lambda: owners.append(owner()))]
        )
    assert set(owners) == {"table db.t"}


def test_a_group_is_committed_in_arrival_order(harness):
    changes = [set_properties(last=str(number)) for number in range(1, 6)]
    queued_behind_a_gate(harness, set_properties(last="0"), changes)
    assert harness.metadata().properties["last"] == "5"


def test_a_bad_change_of_a_group_fails_alone(harness):
    bad = set_properties({"type": "assert-current-schema-id", "current-schema-id": 9}, broken="yes")
    results = queued_behind_a_gate(harness, append("file:/0"), [append("file:/1"), bad, append("file:/2")])
    assert isinstance(results[2], RequirementFailed)
    assert results[1].group_size == results[3].group_size == 2
    assert harness.data_files() == ["file:/0", "file:/1", "file:/2"]
    assert "broken" not in harness.metadata().properties


def test_a_change_sees_those_before_it_in_its_group(harness):
    schema = harness.metadata().schema.raw
    sets = set_properties({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 77}, seen="yes")
    results = queued_behind_a_gate(harness, append("file:/0"), [append("file:/1", snapshot_id=77), sets])
    assert results[2].group_size == 2
    assert harness.metadata().properties["seen"] == "yes"
    assert harness.metadata().schema.raw == schema


def test_twins_in_one_group_land_once_and_share_its_outcome(harness):
    results = queued_behind_a_gate(
        harness, append("file:/0"), [append("file:/1", key="job"), append("file:/1", key="job")]
    )
    assert results[1].metadata_location == results[2].metadata_location == harness.location()
    assert harness.data_files() == ["file:/0", "file:/1"]


def test_twins_in_a_group_that_fails_both_fail(harness):
    gate_error = []

    def refuse_second():
        gate_error.append(True)
        harness.pointer.answers.extend([ScriptedAnswer.REFUSED, ScriptedAnswer.REFUSED])
        harness.pointer.writes = False

    harness.pointer.before_moves.append(refuse_second)
    harness.pointer.answers.append(ScriptedAnswer.TRUE)
    results = queued_behind_a_gate(
        harness, append("file:/0"), [append("file:/1", key="job"), append("file:/1", key="job")]
    )
    assert gate_error
    assert isinstance(results[1], Exception)
    assert isinstance(results[2], Exception)
    assert harness.data_files() == ["file:/0"]


def test_a_full_queue_refuses_before_any_work():
    harness = Harness(queue_max_changes=2)
    harness.create()
    gate = Gate(harness)
    commits = [harness.coordinator.submit(NAME, append("file:/0"), wait_seconds=30)]
    assert gate.reached.wait(30)
    commits += [harness.coordinator.submit(NAME, append(f"file:/{n}"), wait_seconds=30) for n in (1, 2)]
    with pytest.raises(QueueFull) as refused:
        harness.coordinator.commit(NAME, append("file:/3"), wait_seconds=1)
    assert refused.value.proved_failed
    gate.open.set()
    assert [commit.wait().group_size for commit in commits] == [1, 2, 2]
    harness.runtime.join()
    assert harness.data_files() == ["file:/0", "file:/1", "file:/2"]


def test_the_queue_is_bounded_in_bytes():
    harness = Harness(queue_max_bytes=100)
    harness.create()
    gate = Gate(harness)
    commits = [harness.coordinator.submit(NAME, append("file:/0"), wait_seconds=30)]
    assert gate.reached.wait(30)
    commits.append(harness.coordinator.submit(NAME, append("file:/1"), wait_seconds=30, size=60))
    with pytest.raises(QueueFull, match="60 bytes"):
        harness.coordinator.commit(NAME, append("file:/2"), wait_seconds=30, size=60)
    gate.open.set()
    assert [commit.wait().group_size for commit in commits] == [1, 1]
    harness.runtime.join()
    assert harness.data_files() == ["file:/0", "file:/1"]


@pytest.mark.parametrize("bound", [{"queue_max_changes": 2}, {"queue_max_bytes": 100}], ids=["changes", "bytes"])
def test_a_withdrawn_commit_takes_no_place_in_a_full_queue(bound):
    harness = Harness(**bound)
    harness.create()
    gate = Gate(harness)
    first = harness.coordinator.submit(NAME, append("file:/0"), wait_seconds=30)
    assert gate.reached.wait(30)
    left = [harness.coordinator.submit(NAME, append(f"file:/left{n}"), wait_seconds=30, size=50) for n in range(2)]
    with pytest.raises(QueueFull):
        harness.coordinator.submit(NAME, append("file:/1"), wait_seconds=30, size=50)
    assert all(member.withdraw() for member in left)
    later = harness.coordinator.submit(NAME, append("file:/1"), wait_seconds=30, size=50)
    gate.open.set()
    assert [member.wait().group_size for member in (first, later)] == [1, 1]
    harness.runtime.join()
    assert harness.data_files() == ["file:/0", "file:/1"]


@pytest.mark.parametrize("waits", ["for the lock", "in the queue"])
def test_a_repeated_change_that_times_out_is_unknown_if_it_is_in_the_table(harness, waits):
    """Its answer was lost, so it is sent again. "Failed" would be an order to delete what the table names."""
    harness.commit(append("file:/a", snapshot_id=42))
    gate = Gate(harness)
    if waits == "in the queue":
        harness.coordinator.submit(NAME, append("file:/b"), wait_seconds=30)
        assert gate.reached.wait(30)
    with pytest.raises(CommitStateUnknown, match="its snapshot is in"):
        harness.coordinator.commit(NAME, append("file:/a", snapshot_id=42), wait_seconds=0.01)
    with pytest.raises(LockNotAcquired, match="nothing was sent"):
        harness.coordinator.commit(NAME, append("file:/c", snapshot_id=43), wait_seconds=0.01)
    gate.open.set()
    harness.runtime.join()
    assert harness.data_files() == ["file:/a", *(["file:/b"] if waits == "in the queue" else [])]


def test_a_caller_that_times_out_learns_who_holds_the_lock_and_what_to_do(harness):
    harness.replace_ports(lock_held_by=lambda name: f"held by lock 7 of ann on {name}")
    gate = Gate(harness)
    with pytest.raises(LockNotAcquired, match=r"the lock of db\.t is held by lock 7 of ann on db\.t") as late:
        harness.coordinator.commit(NAME, append("file:/late"), wait_seconds=0.05)
    assert "`iceberg-hms locks list`" in late.value.next_step
    gate.open.set()
    harness.runtime.join()


def test_a_caller_that_times_out_in_the_queue_is_refused_and_nothing_of_it_is_sent(harness):
    gate = Gate(harness)
    first = threading.Thread(target=lambda: harness.commit(append("file:/0")))
    first.start()
    assert gate.reached.wait(30)
    with pytest.raises(LockNotAcquired, match="nothing was sent"):
        harness.coordinator.commit(NAME, append("file:/late"), wait_seconds=0.01)
    gate.open.set()
    first.join(30)
    harness.runtime.join()
    assert harness.data_files() == ["file:/0"]


def test_a_change_withdrawn_while_its_group_waits_for_the_lock_is_not_sent(harness):
    gate = Gate(harness)
    with pytest.raises(LockNotAcquired):
        harness.coordinator.commit(NAME, append("file:/late"), wait_seconds=0.05)
    gate.open.set()
    harness.runtime.join()
    assert harness.data_files() == []
    assert harness.commit(append("file:/next")).group_size == 1


def test_a_job_that_runs_again_with_its_key_adds_nothing(harness):
    first = harness.commit(append("file:/a", key="job-1"))
    again = harness.commit(append("file:/a", key="job-1"))
    assert again.already_committed
    assert not first.already_committed
    assert harness.commit(append("file:/c", key="job-2")).already_committed is False
    assert harness.data_files() == ["file:/a", "file:/c"]


def test_a_job_that_runs_again_after_its_table_was_replaced_adds_its_rows_once_more(harness):
    """a job lands, and is killed before it hears of it | CREATE OR REPLACE: main begins anew | the job runs again"""
    harness.pointer.answers.append(ScriptedAnswer.REPLY_LOST)
    harness.commit(append("file:/a", key="job-1"))
    replace_table = [{"action": "remove-snapshot-ref", "ref-name": "main"}]
    harness.commit(from_request([], replace_table))
    assert harness.data_files() == []
    again = harness.commit(append("file:/a", key="job-1"), coordinator=harness.another())
    assert not again.already_committed
    assert harness.data_files() == ["file:/a"]


def test_a_worker_ends_when_its_queue_is_empty_and_the_next_commit_starts_another(harness):
    harness.commit(append("file:/a"))
    assert not [thread for thread in harness.runtime.threads if thread.is_alive()]
    workers = len(harness.runtime.threads)
    harness.commit(append("file:/b"))
    assert len(harness.runtime.threads) == workers + 1


class BatchingEvent(threading.Event):
    """Waits for callers that were answered as long as the test needs, and then no longer."""

    SECONDS = 0.077

    def __init__(self, over):
        super().__init__()
        self._over = over

    def wait(self, timeout=None):
        if timeout != self.SECONDS:
            return super().wait(timeout)
        while not self._over.is_set() and not super().wait(0.001):
            pass
        return self.is_set()


@pytest.mark.parametrize(("batching_window_ms", "sizes"), [(77, [3, 3, 3]), (0, [1, 1, 1])])
def test_a_group_waits_for_callers_that_were_answered_together(batching_window_ms, sizes):
    harness = Harness(batching_window_ms=batching_window_ms)
    harness.create()
    over = threading.Event()
    harness.runtime.event = lambda: BatchingEvent(over)
    harness.commit(append("file:/alone"))
    queued_behind_a_gate(harness, append("file:/0"), [append(f"file:/{number}") for number in range(1, 4)])
    commits = []
    for number in range(3):
        commits.append(harness.coordinator.submit(NAME, append(f"file:/again-{number}"), wait_seconds=30))
        if not batching_window_ms:
            commits[-1].wait()
    assert [commit.wait().group_size for commit in commits] == sizes
    over.set()
    harness.runtime.join()
    assert not [thread for thread in harness.runtime.threads if thread.is_alive()]


def test_a_defect_between_groups_does_not_stop_the_next_one(harness):
    def broken(name):
        raise ValueError("a defect")

    harness.replace_ports(foreign_writer_waits=broken)
    queued_behind_a_gate(harness, append("file:/0"), [append("file:/1"), append("file:/2")])
    harness.commit(append("file:/3"))
    assert len(harness.data_files()) == 4


def test_a_table_that_could_not_be_loaded_is_committed_to_once_it_can(harness):
    """what the metastore answers makes the driver raise what no port names, for the commit and for the look after it"""
    load, harness.pointer.load = harness.pointer.load, lambda _: "".removesuffix(7)
    another = harness.another()
    with pytest.raises(CommitStateUnknown, match="could not be looked at"):
        harness.commit(append("file:/0"), coordinator=another)
    harness.pointer.load = load
    harness.commit(append("file:/1"), wait_seconds=5.0, coordinator=another)
    assert harness.data_files() == ["file:/1"]


def test_a_group_that_breaks_off_is_unknown_and_the_next_one_commits(harness, monkeypatch):
    def broken(*_):
        raise ValueError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr("iceberg_hms.coordinator.group.group_outcomes.GroupOutcomes.answer", broken)
        with pytest.raises(CommitStateUnknown, match="broke off: ValueError: a defect"):
            harness.commit(append("file:/0"))
    harness.commit(append("file:/1"), wait_seconds=5.0)
    assert harness.data_files() == ["file:/0", "file:/1"]


def rest_delete(snapshot_id, parent):
    """A commit that cannot be rebased, made on what main was when `parent` was its head."""
    snapshot = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": parent.snapshot_id,
        "sequence-number": parent.sequence_number + 1,
        "timestamp-ms": parent.timestamp_ms,
        "manifest-list": parent.manifest_list,
        "summary": {"operation": "delete"},
        "schema-id": 0,
    }
    requirement = requests.assert_ref_snapshot_id("main", parent.snapshot_id)
    return from_request([requirement], [updates.add_snapshot(snapshot), updates.set_snapshot_ref("main", snapshot_id)])


@pytest.mark.parametrize("has_priority", [True, False])
def test_a_refused_commit_lands_with_retry_priority_and_never_without(has_priority):
    """appends all the time | a delete is refused, looks at the table, and comes back: five times at most"""
    harness = Harness(batching_window_ms=0, retry_priority_max_wait_ms=60_000 if has_priority else 0)
    harness.create()
    harness.commit(append("file:/0"))
    ended, refused = threading.Event(), []

    def keep_appending(writer):
        number = 0
        while not ended.is_set():
            number += 1
            harness.coordinator.commit(NAME, append(f"file:/{writer}-{number}"), wait_seconds=30)

    threads = [threading.Thread(target=keep_appending, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    try:
        while len(refused) < 5:
            head = harness.metadata().current_snapshot
            number = len(harness.metadata().snapshots)
            while not (has_priority and refused) and len(harness.metadata().snapshots) == number:
                # As long as a real client takes to make its files.
                threads[0].join(0.001)
            try:
                harness.coordinator.commit(NAME, rest_delete(7, head), wait_seconds=30)
                break
            except RequirementFailed as error:
                refused.append(error)
    finally:
        ended.set()
        for thread in threads:
            thread.join(30)
        harness.runtime.join()
    assert has_priority or not [event for event in harness.events if event["event"] == "retry-priority-wait"]
    landed = harness.metadata().snapshot_by_id(7) is not None
    assert landed is has_priority
    assert len(refused) == (1 if has_priority else 5)


def test_a_commit_with_retry_priority_enters_a_full_queue():
    harness = Harness(queue_max_changes=1, retry_priority_max_wait_ms=30_000)
    harness.create()
    harness.commit(append("file:/0"))
    seen = harness.metadata().current_snapshot
    harness.commit(append("file:/1"))
    with pytest.raises(RequirementFailed):
        harness.commit(rest_delete(7, seen))
    waiting = harness.coordinator.submit(NAME, append("file:/2"), wait_seconds=30)
    with pytest.raises(QueueFull):
        harness.coordinator.submit(NAME, append("file:/3"), wait_seconds=30)
    harness.commit(rest_delete(7, harness.metadata().current_snapshot))
    waiting.wait()
    harness.runtime.join()
    assert harness.metadata().snapshot_by_id(7) is not None


def test_of_two_refused_clients_the_second_gets_its_answer_when_the_first_is_back():
    harness = Harness(retry_priority_max_wait_ms=60_000)
    harness.create()
    harness.commit(append("file:/0"))
    seen, gate = harness.metadata().current_snapshot, Gate(harness)
    first = harness.coordinator.submit(NAME, append("file:/1"), wait_seconds=30)
    assert gate.reached.wait(30)
    heard = {id_: threading.Event() for id_ in (7, 8)}
    for id_, event in heard.items():
        harness.coordinator.submit(NAME, rest_delete(id_, seen), wait_seconds=60).when_settled(event.set)
    gate.open.set()
    first.wait()
    assert heard[7].wait(30)
    waiting = harness.coordinator.submit(NAME, append("file:/2"), wait_seconds=60)
    assert not heard[8].is_set()
    harness.commit(rest_delete(7, harness.metadata().current_snapshot))
    assert heard[8].wait(30)
    harness.commit(rest_delete(8, harness.metadata().current_snapshot))
    waiting.wait()
    harness.runtime.join()
    assert {7, 8} < {each.snapshot_id for each in harness.metadata().snapshots}


def test_a_refused_change_raises_its_reason_on_every_base():
    harness = Harness()
    change = RefusedChange(ChangeIdentity((7,)), InvalidInput("too large"))
    for base in (None, harness.create()):
        with pytest.raises(InvalidInput, match="too large"):
            change.check(base)
        with pytest.raises(InvalidInput, match="too large"):
            change.stage(base, harness.manifests.open())
