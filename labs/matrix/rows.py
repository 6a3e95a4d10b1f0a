"""What each verb means, as a function from the rows that it reads to what it writes, and which rows two verbs
may leave.

A verb that its client validates is serializable: two of them leave the rows of one after the other, in either order. A
verb that its client does not validate is `BLIND`: what it wrote may also be what it planned on the common head, applied
after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    """A row of the matrix's tables, which are partitioned by `day`. name: `old`, or who wrote it."""

    id: int
    name: str
    day: str


#: A multiset of rows: a row that is there twice is a finding.
Rows = Counter[Row]

#: What is in each table at the start: two rows in one file, one row in another partition. Day `d1` is empty.
BASE = (Row(1, "old", "d0"), Row(2, "old", "d0"), Row(3, "old", "d9"))
NEW_ID, NEW_DAY = 10, "d1"

SERIALIZABLE, BLIND = "serializable", "blind"


@dataclass(frozen=True)
class Write:
    """The rows that a verb removes and adds, given the rows that it read."""

    removes: tuple[Row, ...] = ()
    adds: tuple[Row, ...] = ()


#: From the rows that a verb reads, and who runs it, to what it writes.
Effect = Callable[[Rows, str], Write]


def new_row(who: str) -> Row:
    return Row(NEW_ID, who, NEW_DAY)


def add(_rows: Rows, who: str) -> Write:
    return Write(adds=(new_row(who),))


def add_if_absent(rows: Rows, who: str) -> Write:
    """What a caller means who inserts a key and has its client validate that nobody else did."""
    return Write() if any(row.id == NEW_ID for row in rows) else Write(adds=(new_row(who),))


def nothing(_rows: Rows, _who: str) -> Write:
    """A compaction: other files, the same rows. A snapshot that is staged: no branch has it yet."""
    return Write()


def delete(where: Callable[[Row], bool]) -> Effect:
    return lambda rows, _who: Write(removes=tuple(row for row in rows.elements() if where(row)))


def replace(where: Callable[[Row], bool], *, day: str = NEW_DAY) -> Effect:
    """All rows that match make room for one new row."""

    def effect(rows: Rows, who: str) -> Write:
        return Write(tuple(row for row in rows.elements() if where(row)), (Row(NEW_ID, who, day),))

    return effect


def upsert(*ids: int) -> Effect:
    """The rows with these ids get the writer's name; ids that are not there are inserted."""

    def effect(rows: Rows, who: str) -> Write:
        found = [row for row in rows.elements() if row.id in ids]
        missing = [Row(id_, who, NEW_DAY) for id_ in ids if id_ not in {row.id for row in found}]
        return Write(tuple(found), (*(row._replace(name=who) for row in found), *missing))

    return effect


def update(id_: int) -> Effect:
    def effect(rows: Rows, who: str) -> Write:
        found = tuple(row for row in rows.elements() if row.id == id_)
        return Write(found, tuple(row._replace(name=who) for row in found))

    return effect


def apply(rows: Rows, write: Write) -> Rows:
    left = Counter(rows)
    left.subtract(row for row in write.removes if left[row] > 0)
    return Counter({row: count for row, count in (left + Counter(write.adds)).items() if count > 0})


@dataclass(frozen=True)
class Meaning:
    """effect: of the verb. promise: what its client does if another commit landed first. source: where the client's
    code says so."""

    effect: Effect
    promise: str
    source: str


def orders(head: Rows, acknowledged: Mapping[str, Meaning]) -> dict[str, Rows]:
    """The rows that the acknowledged verbs may leave: order -> rows. acknowledged: by writer, two at most."""
    if not acknowledged:
        return {"neither": Counter(head)}
    if len(acknowledged) == 1:
        return {who: _in_turn(head, [(who, meaning)]) for who, meaning in acknowledged.items()}
    found: dict[str, Rows] = {}
    pairs: Sequence[tuple[str, Meaning]] = list(acknowledged.items())
    for first, second in (pairs, pairs[::-1]):
        found[f"{first[0]}, then {second[0]}"] = _in_turn(head, [first, second])
        if second[1].promise == BLIND:
            planned = second[1].effect(head, second[0])
            found[f"{first[0]}, then {second[0]} as planned"] = apply(_in_turn(head, [first]), planned)
    return found


def _in_turn(head: Rows, verbs: Iterable[tuple[str, Meaning]]) -> Rows:
    rows = Counter(head)
    for who, meaning in verbs:
        rows = apply(rows, meaning.effect(rows, who))
    return rows


def anomaly(head: Rows, acknowledged: Mapping[str, Meaning], rows: Rows) -> str | None:
    """What is wrong with the rows, by name; None if they are those of an allowed order."""
    allowed = list(orders(head, acknowledged).values())
    if rows in allowed:
        return None
    if any(row for row, count in rows.items() if count > 1):
        return "a row twice"
    if sum(row.id == NEW_ID for row in rows.elements()) > max(_new_rows(each) for each in allowed):
        return "both insert"
    if any(rows - each for each in allowed) and all(sum(rows.values()) > sum(each.values()) for each in allowed):
        return "lost delete"
    return "lost write"


def _new_rows(rows: Rows) -> int:
    return sum(row.id == NEW_ID for row in rows.elements())
