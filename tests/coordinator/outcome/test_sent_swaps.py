"""What a process remembers of the swaps that it sent."""

from dataclasses import dataclass

import pytest

from iceberg_hms.changes.change import ChangeIdentity, ClientBase
from iceberg_hms.clock import CLOCK_SKEW_MS
from iceberg_hms.coordinator.outcome import sent_swaps
from iceberg_hms.coordinator.outcome.commit_status import CommitStatus
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap, SentSwaps, carried_by
from iceberg_hms.coordinator.ports import Pointer, Refused, SwapAnswer, Swapped, Unanswered
from iceberg_hms.errors import MetastoreRefused
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.runtime import ThreadRuntime
from tests.coordinator import documents
from tests.coordinator.harness import NAME

REFUSED = Refused(True, MetastoreRefused("moved"))
START = 1_700_000_000_000


class HandRuntime(ThreadRuntime):
    wall_ms = START
    seconds = 0.0

    def now_ms(self) -> int:
        return self.wall_ms

    def now(self) -> float:
        return self.seconds

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.seconds += ms / 1000


@pytest.fixture
def runtime() -> HandRuntime:
    return HandRuntime()


@pytest.fixture
def sent(runtime: HandRuntime) -> SentSwaps:
    return SentSwaps(runtime)


def change(*ids: int, timestamp_ms: int | None = START, key: str | None = None) -> ChangeIdentity:
    return ChangeIdentity(snapshot_ids=ids, client_base=ClientBase(timestamp_ms=timestamp_ms), idempotency_key=key)


def own(*ids: int, key: str | None = None) -> ChangeIdentity:
    """A change whose snapshot ids this process chose."""
    return ChangeIdentity(snapshot_ids=ids, idempotency_key=key)


TABLE = TableMetadata(documents.raw())


class Process:
    """One that sends swaps of a table at `location`."""

    def __init__(self, sent: SentSwaps) -> None:
        self.sent = sent
        self.location = "file:/m/0"
        self.previous: str | None = None

    @property
    def row(self) -> Pointer:
        return Pointer(NAME, self.location, self.previous, {}, None)

    def send(self, identity: ChangeIdentity, *, fences: bool = True, files: frozenset[str] = frozenset()) -> SentSwap:
        swap = SentSwap(NAME, self.location, fences, carried_by(identity), files, uuid=TABLE.uuid)
        assert self.sent.send(swap, [])
        return swap

    def land(self, swap: SentSwap) -> None:
        self.sent.settle(swap, CommitStatus.SUCCESS, Swapped())
        self.location = f"{swap.base}+"

    def is_doubtful(self, identity: ChangeIdentity, *, moment: int | None = None) -> bool:
        return self.sent.doubt(identity, self.row, TABLE, moment=moment) is not None


@pytest.fixture
def process(sent: SentSwaps) -> Process:
    return Process(sent)


def test_a_change_is_doubtful_until_the_swap_that_carried_it_is_proved_absent(process: Process) -> None:
    assert not process.is_doubtful(own(7))
    swap = process.send(own(7, 8))
    assert process.is_doubtful(own(6, 7))
    process.sent.settle(swap, CommitStatus.FAILURE, REFUSED)
    assert not process.is_doubtful(own(7, 8))


def test_of_two_swaps_that_carried_a_change_both_must_be_proved_absent(process: Process) -> None:
    swaps = [process.send(own(7)), process.send(own(7))]
    process.sent.settle(swaps[0], CommitStatus.FAILURE, REFUSED)
    assert process.is_doubtful(own(7))
    process.sent.settle(swaps[1], CommitStatus.FAILURE, REFUSED)
    assert not process.is_doubtful(own(7))


@dataclass(eq=False)
class Waiting:
    """A commit of snapshot 7 in a queue."""

    waits: bool = True
    carries: frozenset[int | str] = frozenset([7])

    def take(self, _swap: SentSwap) -> bool:
        return self.waits


@pytest.mark.parametrize("fences", [False, True])
def test_an_unanswered_swap_is_over_when_the_table_has_left_its_base_where_that_is_compared(
    process: Process, fences: bool
) -> None:
    process.sent.settle(process.send(own(7), fences=fences), CommitStatus.UNKNOWN, Unanswered(TimeoutError()))
    assert process.is_doubtful(own(7))
    assert process.sent.can_be_excluded(own(7)) is fences
    before = process.sent.moment()
    process.land(process.send(own(8)))
    assert process.is_doubtful(own(7)) is not fences
    assert process.is_doubtful(own(7), moment=before) is not fences
    assert process.is_doubtful(own(7), moment=0), "the table may have been loaded before the swap was sent"


def test_an_unanswered_swap_was_made_if_the_row_says_that_its_file_was_the_one_before(process: Process) -> None:
    swap = process.send(own(7), files=frozenset(["file:/m/0+"]))
    process.sent.settle(swap, CommitStatus.UNKNOWN, Unanswered(TimeoutError()))
    # A registration over the table: its metadata does not name what it replaced.
    process.location = "file:/m/registered"
    assert not process.is_doubtful(own(7))
    process.previous = "file:/m/0+"
    assert process.is_doubtful(own(7))


def test_an_answer_can_tell_that_a_swap_is_atomic(process: Process) -> None:
    swap = process.send(own(7), fences=False)
    process.sent.settle(swap, CommitStatus.UNKNOWN, Unanswered(TimeoutError(), atomic=True))
    process.land(process.send(own(8)))
    assert not process.is_doubtful(own(7))


def test_a_rerun_of_a_job_is_doubtful_while_the_swap_of_its_first_run_is_under_way(process: Process) -> None:
    swap = process.send(own(7, key="job"))
    assert process.is_doubtful(own(8, key="job"))
    assert not process.is_doubtful(own(8, key="another"))
    process.land(swap)
    assert not process.is_doubtful(own(8, key="job")), "the table tells whether it has the key"
    assert process.is_doubtful(own(7))


def test_a_change_is_doubtful_while_another_commit_of_it_waits(process: Process) -> None:
    first, again = Waiting(), Waiting()
    for commit in (first, again):
        process.sent.add_waiting(commit)
    assert process.is_doubtful(own(7))
    assert process.sent.has(own(7))
    assert not process.sent.can_be_excluded(own(7))
    group = (first, again)
    assert process.sent.doubt(own(7), process.row, TABLE, group=group) is None, "they are refused together"
    assert not process.sent.has(own(7), group)
    assert process.sent.can_be_excluded(own(7), group)
    again.waits = False
    assert process.sent.doubt(own(7), process.row, TABLE, group=[first]) is None
    process.sent.remove_waiting(first)
    process.sent.remove_waiting(first)
    assert not process.is_doubtful(own(7))


def test_a_swap_from_which_a_caller_has_left_is_not_sent(process: Process) -> None:
    swap = SentSwap(NAME, process.location, carries=frozenset([7]))
    assert not process.sent.send(swap, [Waiting(waits=False)])
    assert swap.status is CommitStatus.FAILURE
    assert not process.is_doubtful(own(7))


def test_what_an_earlier_process_may_have_sent_is_excluded_by_a_swap_that_fences_the_table(process: Process) -> None:
    process.land(process.send(own(8), fences=False))
    assert process.is_doubtful(change(7))
    assert process.sent.can_be_excluded(change(7))
    before = process.sent.moment()
    process.land(process.send(own(9)))
    assert not process.is_doubtful(change(7))
    assert process.is_doubtful(change(7), moment=before), "the earlier swap may have been made since"


def test_a_queue_is_blocked_while_a_swap_may_be_made_that_only_its_lock_protects(
    process: Process, runtime: HandRuntime
) -> None:
    assert process.sent.blocked_until(NAME) == 0
    swap = process.send(own(7), fences=False)
    process.sent.settle(swap, CommitStatus.UNKNOWN, Unanswered(TimeoutError()), lock_stays_seconds=300.0)
    assert process.sent.blocked_until(NAME) == swap.may_land_until == 300.0
    runtime.passes(300_000)
    assert process.sent.blocked_until(NAME) == 0
    assert process.is_doubtful(own(7))


def test_a_process_knows_of_what_was_made_since_it_began_by_any_clock(sent: SentSwaps, runtime: HandRuntime) -> None:
    runtime.passes(1)
    assert sent.would_know(change(7, timestamp_ms=START + CLOCK_SKEW_MS + 1))
    for made_ms in (START + CLOCK_SKEW_MS, START - 1, None):
        assert not sent.would_know(change(7, timestamp_ms=made_ms))
    assert sent.would_know(own(7))


@pytest.mark.parametrize(
    ("answer", "status", "number"),
    [
        (Unanswered(TimeoutError()), CommitStatus.UNKNOWN, 5),
        (Unanswered(TimeoutError()), CommitStatus.FAILURE, 5),
        (Swapped(), CommitStatus.UNKNOWN, 5),
        (Swapped(), CommitStatus.FAILURE, 5),
        (Swapped(), CommitStatus.SUCCESS, 0),
        (REFUSED, CommitStatus.UNKNOWN, 5),
        (REFUSED, CommitStatus.FAILURE, 0),
        (None, CommitStatus.FAILURE, 0),
    ],
)
def test_numbers_under_which_a_commit_may_have_been_seen_and_is_not_there_now_are_not_given_again(
    sent: SentSwaps, answer: SwapAnswer | None, status: CommitStatus, number: int
) -> None:
    """Also by a later group: its client sends an unknown commit again."""
    swap = SentSwap(NAME, "file:/m/0", True, carried_by(own(7, 8)), last_sequence_number=5)
    if answer is not None:
        assert sent.send(swap, [])
    sent.settle(swap, status, answer)
    assert sent.highest_number([Waiting(carries=carried_by(own(8))), Waiting(carries=carried_by(own(6)))]) == number
    assert sent.highest_number([Waiting(carries=carried_by(own(6)))]) == 0
    assert sent.highest_number([]) == 0


def test_the_highest_of_several_numbers_counts_and_the_oldest_are_forgotten(
    sent: SentSwaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_swaps, "REMEMBERED_MAX", 3)

    def lose(*ids: int, number: int) -> None:
        swap = SentSwap(NAME, "file:/m/0", True, carried_by(own(*ids)), last_sequence_number=number)
        assert sent.send(swap, [])
        sent.settle(swap, CommitStatus.FAILURE, Unanswered(TimeoutError()))

    lose(1, number=4)
    lose(2, 3, number=9)
    lose(3, number=6)
    assert sent.highest_number([Waiting(carries=carried_by(own(1))), Waiting(carries=carried_by(own(3)))]) == 9
    lose(4, number=5)
    assert sent.highest_number([Waiting(carries=carried_by(own(1)))]) == 0
    assert sent.highest_number([Waiting(carries=carried_by(own(3)))]) == 9


@pytest.mark.parametrize("lands", [True, False])
def test_what_is_forgotten_is_not_taken_for_never_sent(
    process: Process, runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    monkeypatch.setattr(sent_swaps, "REMEMBERED_MAX", 3)
    first = START + CLOCK_SKEW_MS + 1
    runtime.passes(1_000)
    for number in range(4):
        assert process.sent.would_know(change(7, timestamp_ms=first))
        swap = process.send(own(number))
        if lands:
            process.land(swap)
        runtime.passes(1_000)
    assert not process.sent.has(own(0))
    assert process.sent.has(own(1))
    assert not process.sent.would_know(change(0, timestamp_ms=first))
    assert process.sent.would_know(change(7, timestamp_ms=first + 1_000))


def test_a_table_whose_fence_is_forgotten_is_fenced_again(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_swaps, "REMEMBERED_MAX", 1)
    process.land(process.send(own()))
    assert not process.is_doubtful(change(7))
    other = SentSwap(NAME, process.location, fences=True, uuid="another")
    assert process.sent.send(other, [])
    process.land(other)
    assert process.is_doubtful(change(7))


def test_what_this_process_made_itself_no_earlier_one_sent(
    process: Process, runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_here = ChangeIdentity(snapshot_ids=(7,), client_base=ClientBase(timestamp_ms=START, made_here=True))
    assert process.is_doubtful(change(7))
    assert not process.is_doubtful(made_here)
    swap = process.send(made_here)
    assert process.is_doubtful(made_here), "this process sent it"
    monkeypatch.setattr(sent_swaps, "REMEMBERED_MAX", 1)
    process.land(swap)
    runtime.passes(1_000)
    process.land(process.send(own(8)))
    assert not process.sent.would_know(made_here), "it may have been forgotten"


def test_a_clock_that_was_behind_when_the_process_began_hides_no_swap_of_an_earlier_one(
    sent: SentSwaps, runtime: HandRuntime
) -> None:
    """a machine that starts gets the time a moment later"""
    runtime.passes(1_000)
    runtime.wall_ms += 3_600_000
    assert not sent.would_know(change(7, timestamp_ms=runtime.wall_ms - 1_000))
    assert not sent.would_know(change(7, timestamp_ms=START + 1_800_000))
    runtime.passes(120_000)
    assert sent.would_know(change(7, timestamp_ms=runtime.wall_ms - 1_000))


def test_a_snapshot_from_the_future_tells_nothing_of_when_it_was_made(sent: SentSwaps, runtime: HandRuntime) -> None:
    """a table may be ahead of all clocks, and then its snapshots may be"""
    assert not sent.would_know(change(7, timestamp_ms=START + CLOCK_SKEW_MS + 1))


def test_a_process_tells_its_own_snapshots_from_those_of_others(sent: SentSwaps) -> None:
    swap = SentSwap(NAME, "file:/base", carries=frozenset([1, "key"]))
    sent.send(swap, [])
    assert not sent.made(1)
    sent.settle(swap, CommitStatus.SUCCESS, Swapped())
    assert sent.made(1)
    assert not any(map(sent.made, (2, None, "key")))
