from __future__ import annotations

from simulation.batches import Batch, run_batch, tallies


def test_a_batch_counts_and_keeps_traces_if_they_are_asked_for() -> None:
    tally = run_batch(Batch("calm", seed=1, first=0, end=3, trace=False))
    assert (tally.schedules, tally.failures, tally.text) == (3, [], "")
    assert tally.told["committed"] > 10
    traced = run_batch(Batch("calm", seed=1, first=2, end=3, trace=True))
    assert traced.schedules == 1
    assert traced.text.startswith("calm, seed 3\n")


def test_parts_are_told_in_order_and_are_the_whole_run_however_many_processes_share_it() -> None:
    run = Batch("no-lock-refused", seed=1, first=0, end=70, trace=True)
    alone, shared = list(tallies(run, 1)), list(tallies(run, 2))
    assert alone == shared
    assert [tally.schedules for tally in alone] == [50, 20]
    assert "".join(tally.text for tally in alone) == run_batch(run).text
