"""What a process remembers of the swaps that it sent."""

import pytest

from iceberg_hms.changes.change import ChangeIdentity, ClientBase
from iceberg_hms.coordinator.protocol import sent_swaps
from iceberg_hms.coordinator.protocol.invariants import CLOCK_SKEW_MS
from iceberg_hms.coordinator.protocol.sent_swaps import SentSwaps
from iceberg_hms.runtime import ThreadRuntime

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


def change(*ids: int, timestamp_ms: int | None = START) -> ChangeIdentity:
    return ChangeIdentity(snapshot_ids=ids, client_base=ClientBase(timestamp_ms=timestamp_ms))


def test_a_swap_that_was_sent_may_have_been_made_until_it_is_proved_absent(sent: SentSwaps) -> None:
    assert not sent.carried(change(7))
    sent.sending([7, 8])
    assert sent.carried(change(6, 7))
    sent.proved_absent([7, 8])
    assert not sent.carried(change(7, 8))
    sent.proved_absent([7])
    assert not sent.carried(change(7))


def test_of_two_swaps_that_carried_a_snapshot_both_must_be_proved_absent(sent: SentSwaps) -> None:
    sent.sending([7])
    sent.sending([7])
    sent.proved_absent([7])
    assert sent.carried(change(7))
    sent.proved_absent([7])
    assert not sent.carried(change(7))


def test_a_process_knows_of_what_was_made_since_it_began_by_any_clock(sent: SentSwaps, runtime: HandRuntime) -> None:
    runtime.passes(1)
    assert sent.would_know(change(7, timestamp_ms=START + CLOCK_SKEW_MS + 1))
    for made_ms in (START + CLOCK_SKEW_MS, START - 1, None):
        assert not sent.would_know(change(7, timestamp_ms=made_ms))
    assert not sent.would_know(ChangeIdentity(snapshot_ids=(7,)))


def test_what_is_forgotten_is_not_taken_for_never_sent(
    sent: SentSwaps, runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_swaps, "REMEMBERED_MAX", 2)
    first = START + CLOCK_SKEW_MS + 1
    for number in range(3):
        sent.sending([number])
        runtime.passes(1_000)
    assert sent.would_know(change(7, timestamp_ms=first))
    sent.sending([3])
    assert not sent.carried(change(0))
    assert not sent.would_know(change(0, timestamp_ms=first))
    assert sent.would_know(change(7, timestamp_ms=first + 1_000))


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
