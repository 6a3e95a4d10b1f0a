from __future__ import annotations

from simulation.batches import Batch, run_batch, run_in_batches


def test_a_batch_counts_and_keeps_traces_if_they_are_asked_for() -> None:
    totals = run_batch(Batch("calm", seed=1, first=0, end=3, trace=False))
    assert (totals.schedules, totals.failures, totals.text) == (3, [], "")
    assert totals.answers["committed"] > 10
    traced = run_batch(Batch("calm", seed=1, first=2, end=3, trace=True))
    assert traced.schedules == 1
    assert traced.text.startswith("calm, seed 3\n")


def test_parts_are_told_in_order_and_are_the_whole_run_however_many_processes_share_it() -> None:
    run = Batch("no-lock-refused", seed=1, first=0, end=70, trace=True)
    alone, shared = list(run_in_batches(run, 1)), list(run_in_batches(run, 2))
    assert alone == shared
    assert [totals.schedules for totals in alone] == [50, 20]
    assert "".join(totals.text for totals in alone) == run_batch(run).text
