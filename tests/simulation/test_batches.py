from __future__ import annotations

from simulation.batches import Batch, run_batch, run_in_batches


def test_a_batch_counts_answers_and_keeps_the_traces_that_its_caller_wants() -> None:
    totals = run_batch(Batch("calm", seed=1, first=0, end=3, trace=False))
    assert (totals.schedules, totals.failures, totals.text) == (3, [], "")
    assert totals.answers["committed"] > 10
    traced = run_batch(Batch("calm", seed=1, first=2, end=3, trace=True))
    assert traced.schedules == 1
    assert traced.text.startswith("calm, seed 3\n")


def test_batches_come_in_order_and_make_the_whole_run_for_any_number_of_processes() -> None:
    run = Batch("no-lock-refused", seed=1, first=0, end=7, trace=True)
    alone, shared = list(run_in_batches(run, 1, size=5)), list(run_in_batches(run, 2, size=5))
    assert alone == shared
    assert [totals.schedules for totals in alone] == [5, 2]
    assert "".join(totals.text for totals in alone) == run_batch(run).text
