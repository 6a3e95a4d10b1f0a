"""Two verbs, planned on one head of one table and delivered one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from iceberg_hms.changes.clients.blind_append import REBASE_APPENDS
from labs.matrix.commit_gate import Sent
from labs.matrix.replayed import Refused
from labs.matrix.rows import Rows, anomaly
from labs.matrix.verb import Verb
from labs.matrix.writers import World, Writer

#: Seconds that each step may take: to plan a verb, and to end it.
STEP_SECONDS = 90
MODES = ("plain", "none", "all")


@dataclass(frozen=True)
class Outcome:
    """The result of two verbs.

    errors: by writer, what its client raised; a writer that is missing was acknowledged. answers: by writer, what the
    server said to its first commit that was held back. rows: what is in the table. anomaly: see `rows.anomaly`.
    """

    errors: dict[str, str]
    answers: dict[str, str]
    rows: Rows
    anomaly: str | None

    @property
    def second(self) -> str:
        """The result of the verb that was overtaken, in short."""
        answer = self.answers.get("b", "")
        if answer in ("committed", "rebased"):
            return answer
        error = self.errors.get("b")
        if error is None:
            return "409, came back"
        return "409, did not come back" if error.startswith(Refused.__name__) else "409, refused by its client"


def deliver(world: World, first: Verb, second: Verb, mode: str) -> Outcome:
    """Writer a runs the first verb, writer b the second. Raises TimeoutError if a step takes too long; AssertionError
    if the first verb, which nobody overtook, failed."""
    properties = {REBASE_APPENDS: mode}
    table = world.new_name() if first.creates else world.new_table({**properties, **first.properties})
    writers = list(world.writers.values())
    for writer, verb in zip(writers, (first, second), strict=True):
        verb.make_client(writer)
        if verb.prepare is not None:
            world.set_properties(table, verb.properties)
            verb.prepare(writer, table)
    head = Counter() if first.creates else world.rows(table)
    for writer in writers:
        writer.gate.close()
    with ThreadPoolExecutor(2 * len(writers)) as pool:
        try:
            runs = [_planned(pool, writer, verb, table) for writer, verb in zip(writers, (first, second), strict=True)]
            errors = {writer.who: _ended(run, writer) for writer, run in zip(writers, runs, strict=True)}
        finally:
            for writer in writers:
                writer.gate.open()
    refused = {who: error for who, error in errors.items() if error is not None}
    assert "a" not in refused, f"{first.name}, which nobody overtook: {refused['a']}"
    meanings = {
        writer.who: verb.meaning
        for writer, verb in zip(writers, (first, second), strict=True)
        if writer.who not in refused
    }
    found = world.rows(table)
    answers = {writer.who: _first_answer(writer.gate.sent) for writer in writers}
    assert all(answers.values()), f"a verb sent nothing: {answers}"
    return Outcome(refused, answers, found, anomaly(head, meanings, found))


def _planned(pool: ThreadPoolExecutor, writer: Writer, verb: Verb, table: str) -> Future[object]:
    """Start a verb and wait until its commit is at the gate, or it has ended without one."""
    if not verb.creates:
        writer.world.set_properties(table, verb.properties)
    run = pool.submit(verb.run, writer, table)
    arrived = pool.submit(writer.gate.arrived.wait, STEP_SECONDS)
    try:
        started: list[Future[Any]] = [run, arrived]
        done, _ = wait(started, STEP_SECONDS, FIRST_COMPLETED)
        if not done:
            raise TimeoutError(f"{verb.name} was not planned within {STEP_SECONDS} seconds")
    finally:
        writer.gate.arrived.set()
    return run


def _ended(run: Future[object], writer: Writer) -> str | None:
    """Let a verb through and wait for its end. What its client raised, in one line; None if it was acknowledged."""
    writer.gate.open()
    error = run.exception(STEP_SECONDS)
    return None if error is None else f"{type(error).__name__}: {error}".splitlines()[0]


def _first_answer(sent: Sequence[Sent]) -> str:
    return next((each.answer for each in sent if each.moves_table), "")
