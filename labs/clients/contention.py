"""Writers that insert into one table at the same time, and what must be true afterwards."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Barrier, Thread
from time import monotonic
from typing import Final

SECONDS: Final = 30.0
#: The threads meet at the start, and end after the time and their last statement; seconds.
MEET, LAST_STATEMENT = 60.0, 300.0


@dataclass
class Writer:
    """name: for the note. insert: adds one row with this id in one commit, and raises if it was refused for good.
    is_unknown: whether an error leaves open what happened; then the row may be there, once, or not."""

    name: str
    insert: Callable[[int], object]
    is_unknown: Callable[[Exception], bool] = lambda error: False


@dataclass
class Tally:
    """What the inserts of one writer came to: ids, and the errors of those that failed."""

    writer: str
    acknowledged: list[int] = field(default_factory=list)
    refused: dict[int, Exception] = field(default_factory=dict)
    unknown: dict[int, Exception] = field(default_factory=dict)

    def __str__(self) -> str:
        words = f"{self.writer}: {len(self.acknowledged)}"
        words += f", {len(self.refused)} refused for good" if self.refused else ""
        return words + (f", {len(self.unknown)} unknown" if self.unknown else "")


@dataclass
class Creator:
    """create: makes the table, or raises. is_taken: whether an error says that the table exists already."""

    name: str
    create: Callable[[], object]
    is_taken: Callable[[Exception], bool]


def create(creators: Sequence[Creator]) -> None:
    """Let all create one table at the same time, and check that one wins and that the others learn that it exists."""
    told = created(creators)
    assert sorted(told) == ["taken"] * (len(creators) - 1) + ["won"], told


def created(creators: Sequence[Creator]) -> list[str]:
    """What comes of it for each who creates one table at the same time: "won", "taken", or what else went wrong."""
    gate, told = Barrier(len(creators)), [""] * len(creators)

    def work(number: int, creator: Creator) -> None:
        gate.wait(MEET)
        try:
            creator.create()
        except Exception as error:  # noqa: BLE001 - what it says is what is asked
            told[number] = "taken" if creator.is_taken(error) else f"{creator.name}: {type(error).__name__}: {error}"
        else:
            told[number] = "won"

    _at_once([Thread(target=work, args=each, daemon=True) for each in enumerate(creators)], LAST_STATEMENT)
    return told


def run(writers: Sequence[Writer], seconds: float = SECONDS) -> list[Tally]:
    """Let all writers insert, one row after the other each, until the time is over; ids are unique and start at 1."""
    ids, gate = itertools.count(1), Barrier(len(writers))
    tallies = [Tally(writer.name) for writer in writers]

    def work(writer: Writer, tally: Tally) -> None:
        gate.wait(MEET)
        end = monotonic() + seconds
        while monotonic() < end:
            id_ = next(ids)
            try:
                writer.insert(id_)
            except Exception as error:  # noqa: BLE001 - counted, and told in the note
                (tally.unknown if writer.is_unknown(error) else tally.refused)[id_] = error
            else:
                tally.acknowledged.append(id_)

    threads = [Thread(target=work, args=pair, daemon=True) for pair in zip(writers, tallies, strict=True)]
    _at_once(threads, seconds + LAST_STATEMENT)
    return tallies


def _at_once(threads: Sequence[Thread], seconds: float) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MEET + seconds)
    assert not any(thread.is_alive() for thread in threads), "a writer hangs"


def check(tallies: Sequence[Tally], present: Iterable[int], *, starving: bool = False) -> str:
    """Check that each acknowledged id is present once, each refused one is not, and nothing else is there.

    present: the ids that the table has, as often as it has them. starving: a writer may have had no success, since it
    sends a refused commit again too seldom. Returns the figures, for the note of a verdict.
    """
    counted = Counter(present)
    twice = {id_: count for id_, count in counted.items() if count > 1}
    assert not twice, f"more than once: {twice}"
    for tally in tallies:
        lost = [id_ for id_ in tally.acknowledged if id_ not in counted]
        assert not lost, f"{tally.writer}: acknowledged and lost: {lost}"
        landed = {id_: str(error) for id_, error in tally.refused.items() if id_ in counted}
        assert not landed, f"{tally.writer}: reported as failed, and present: {landed}"
        assert tally.acknowledged or starving, (
            f"{tally.writer}: nothing was acknowledged: {tally.refused or tally.unknown}"
        )
    known = {id_ for tally in tallies for id_ in (*tally.acknowledged, *tally.unknown)}
    assert set(counted) <= known, f"nobody wrote {set(counted) - known}"
    return "; ".join(map(str, tallies))
