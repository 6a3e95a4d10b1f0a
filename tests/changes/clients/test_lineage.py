"""When it is proved that a snapshot which a table lacks was never committed to it, and when not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from iceberg_hms.changes.change import ChangeIdentity, ClientBase
from iceberg_hms.changes.clients.lineage import Lineage, Presence
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from tests.changes.tables import UUID, snapshot, table

ABSENT, LANDED, OPEN = Presence.ABSENT, Presence.COMMITTED, Presence.UNKNOWN
#: A client read a table whose last snapshot was 3, and made snapshot 10 on it.
SENT = ChangeIdentity((10,), "main", client_base=ClientBase(UUID, 3, 4))
SENT_V1 = ChangeIdentity((10,), "main", client_base=ClientBase(UUID, 3, None))


def history(*path: int | None, version: int = 2, last: int | None = None, **summary: str) -> list[dict[str, Any]]:
    """Snapshots that follow each other, oldest first: the first id is the parent of the first snapshot. Each has its id
    as its number, but for 10, which has 4. summary: of the last one."""
    rows = []
    for parent, id_ in pairwise(path):
        assert id_ is not None
        number = {"sequence_number": None if version == 1 else 4 if id_ == 10 else id_}
        rows.append(snapshot(id_, parent_snapshot_id=parent, **number))
    if summary:
        rows[-1]["summary"] = {**rows[-1]["summary"], **summary}
    return rows


def of(*lines: list[dict[str, Any]], version: int = 2, gone: tuple[int, ...] = (), **changes: Any) -> TableMetadata:
    """A table with some histories, of which snapshots have expired."""
    rows = [row for line in lines for row in line if row["snapshot-id"] not in gone]
    head = max((row["snapshot-id"] for row in rows), default=None)
    refs = {} if head is None else {"main": {"snapshot-id": head, "type": "branch"}}
    if version > 1:
        changes["last_sequence_number"] = max((row.get("sequence-number") or 0 for row in rows), default=0)
    return table(version, snapshots=rows, refs=refs, current_snapshot_id=head, **changes)


#: The history that the client read; its continuations by others without 10, and with it.
SEEN = history(None, 1, 2, 3)
WITHOUT, WITH = history(3, 5, 6, 7), history(3, 10, 5, 6, 7)


@pytest.mark.parametrize(
    ("lines", "gone", "found"),
    [
        ([], (), ABSENT),
        ([SEEN], (), ABSENT),
        ([SEEN, WITHOUT], (), ABSENT),
        ([SEEN, WITHOUT], (1, 2), ABSENT),
        ([SEEN, WITHOUT], (1, 2, 3), ABSENT),
        ([SEEN, WITHOUT], (1, 2, 3, 5), OPEN),
        ([SEEN, WITH], (10,), LANDED),
        ([SEEN, WITH], (1, 2, 3, 10), LANDED),
        ([SEEN, WITH], (1, 2, 3, 10, 5), OPEN),
        ([SEEN, WITH], (10, 5, 6), OPEN),
        ([SEEN, WITHOUT, history(None, 8)], (), ABSENT),
        ([SEEN, WITH, history(None, 8)], (3, 10, 5, 6, 7), ABSENT),
        ([SEEN, WITHOUT, history(7, 8, **{"source-snapshot-id": "10"})], (), LANDED),
        ([SEEN, WITHOUT, history(7, 8, **{"source-snapshot-id": "9"})], (), ABSENT),
        ([SEEN, WITHOUT, history(2, 8)], (), ABSENT),
        ([SEEN, WITHOUT, history(10, 8)], (), LANDED),
    ],
    ids=[
        "an empty table",
        "nothing since",
        "others since",
        "older ones expired",
        "all that was seen expired",
        "others expired too",
        "it expired",
        "all before expired",
        "it and the next expired",
        "a gap after it",
        "replaced since",
        "replaced, and all before expired",
        "cherry-picked",
        "another one cherry-picked",
        "a branch of an old snapshot",
        "a branch of it",
    ],
)
def test_later_snapshots_show_whether_a_snapshot_was_committed(
    lines: Any, gone: tuple[int, ...], found: Presence
) -> None:
    assert Lineage(SENT, of(*lines, gone=gone)).presence is found


@pytest.mark.parametrize(
    ("lines", "gone", "found"),
    [
        ([SEEN, WITHOUT], (), ABSENT),
        ([SEEN, WITHOUT], (1, 2), ABSENT),
        ([SEEN, WITHOUT], (1, 2, 3), ABSENT),
        ([SEEN, WITHOUT], (1, 2, 3, 5), OPEN),
        ([SEEN, WITH], (1, 2, 10), LANDED),
        ([SEEN, WITH], (10, 5), OPEN),
        ([SEEN, history(4, 6)], (), OPEN),
    ],
    ids=["others since", "older expired", "all expired", "others expired too", "it expired", "a gap", "a stranger"],
)
def test_without_numbers_the_ancestors_decide(lines: Any, gone: tuple[int, ...], found: Presence) -> None:
    rows = [[{**row, "sequence-number": None} for row in line] for line in lines]
    unnumbered = [[{key: value for key, value in row.items() if value is not None} for row in line] for line in rows]
    assert Lineage(SENT_V1, of(*unnumbered, version=1, gone=gone)).presence is found


def test_older_metadata_shows_what_has_expired() -> None:
    now = of(SEEN, WITHOUT, gone=(1, 2, 3, 5, 6))
    lineage = Lineage(SENT, now)
    lineage.look_into(of(SEEN, history(3, 5, 6), gone=(1, 2, 3, 5)))
    assert lineage.presence is OPEN, "5 is missing"
    lineage.look_into(of(SEEN))
    assert lineage.presence is OPEN
    lineage.look_into(of(SEEN, history(3, 5), gone=(1, 2)))
    assert lineage.presence is ABSENT


def test_older_metadata_with_the_snapshot_proves_that_it_was_committed() -> None:
    lineage = Lineage(SENT, of(SEEN, WITH, gone=(1, 2, 3, 10, 5, 6)))
    lineage.look_into(of(SEEN, WITH, gone=(1, 2, 3, 10, 5, 7)))
    assert lineage.presence is OPEN
    lineage.look_into(of(SEEN, history(3, 10)))
    assert lineage.presence is LANDED


def test_an_expired_cherry_pick_of_the_snapshot_is_found_in_older_metadata() -> None:
    picked = history(7, 8, **{"source-snapshot-id": "10"})
    lineage = Lineage(SENT, of(SEEN, WITHOUT, picked, history(8, 9), gone=(8,)))
    assert lineage.presence is OPEN
    lineage.look_into(of(SEEN, WITHOUT, picked))
    assert lineage.presence is LANDED


def test_older_metadata_without_numbers_shows_which_snapshots_are_older() -> None:
    def plain(line: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in row.items() if key != "sequence-number"} for row in line]

    seen, others = plain(SEEN), plain([*WITHOUT, *history(2, 4)])
    lineage = Lineage(SENT_V1, of(seen, others, version=1, gone=(1, 2, 3)))
    assert lineage.presence is OPEN, "4 may have come after it"
    lineage.look_into(of(seen, version=1))
    assert lineage.presence is ABSENT, "2 came before it"


def test_one_of_several_snapshots_as_a_parent_proves_that_all_were_committed() -> None:
    several = ChangeIdentity((9, 10), "main", client_base=ClientBase(UUID, 3, 4))
    assert Lineage(several, of(SEEN, WITH, gone=(10,))).presence is LANDED
    assert Lineage(several, of(SEEN, WITHOUT)).presence is ABSENT


def test_another_table_proves_nothing_about_the_client_s_table() -> None:
    other = of(SEEN, table_uuid="7c12d441-03fe-4693-9a96-a0705ddf69c1")
    lineage = Lineage(SENT, other)
    assert lineage.is_another_table
    lineage.look_into(other)
    assert lineage.presence is OPEN
    upper = Lineage(ChangeIdentity((10,), client_base=ClientBase(UUID.upper(), 3, 4)), of(SEEN))
    assert upper.presence is ABSENT
    assert Lineage(ChangeIdentity((10,), client_base=ClientBase(None, 3, 4)), other).presence is ABSENT


def test_ids_that_are_new_need_no_proof() -> None:
    assert Lineage(ChangeIdentity((10,), "main"), of(SEEN, WITH, gone=(1, 2, 3, 10, 5))).presence is ABSENT
