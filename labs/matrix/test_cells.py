"""The committed cells: each verb has one, and what was recorded is in its own."""

from __future__ import annotations

from collections import Counter

import pytest

from labs.matrix import cells, replayed, shapes
from labs.matrix.cells import Cell
from labs.matrix.commit_gate import Sent
from labs.matrix.verbs import all_verbs

VERBS = all_verbs()


def test_each_verb_has_one_cell() -> None:
    named = Counter(verb for cell in cells.read() for verb in cell.verbs)
    assert set(named.values()) == {1}
    assert set(named) == {*VERBS, *map(replayed.name, replayed.recordings())}


@pytest.mark.parametrize("recording", replayed.recordings(), ids=replayed.name)
def test_what_was_recorded_is_in_its_cell(recording: dict[str, object]) -> None:
    cell = cells.cell_of(cells.read(), replayed.name(recording))
    assert cell is not None
    assert cell.sends == [shapes.shape(replayed.sent(recording))]


def test_one_key_or_nothing_distinguishes_what_spark_validates_from_an_insert() -> None:
    """Why no commit of Spark is known to be a blind append: an overwrite that is validated looks like an INSERT, and
    all that tells a MERGE from it are keys that another executor of Spark's plans need not set."""
    known = cells.read()
    insert = cells.cell_of(known, "Spark INSERT")
    assert insert is not None
    assert "Spark writeTo overwrite where false, validated" in insert.verbs
    assert _keys(insert) - _keys(_cell("Java newRowDelta, rows added, validated, in Spark's driver")) == {
        "spark.app.id"
    }
    more = _keys(_cell("Spark MERGE update + insert of a new key, copy-on-write")) - _keys(insert)
    assert more
    assert all(key.startswith("spark.merge-into.") for key in more)


def test_what_pyiceberg_validates_is_not_told_from_an_append() -> None:
    assert _cell("PyIceberg append") == _cell("PyIceberg overwrite, no row matches")


def test_ids_and_values_do_not_matter_and_keys_do() -> None:
    def sent(summary: dict[str, str]) -> Sent:
        update = {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "summary": summary}}
        return Sent([{"type": "assert-table-uuid", "uuid": "1"}], [update], {"User-Agent": "PyIceberg/0.12.0"}, [])

    one = shapes.shape(sent({"operation": "append", "added-records": "1"}))
    assert one == shapes.shape(sent({"operation": "append", "added-records": "2"}))
    assert one != shapes.shape(sent({"operation": "append", "added-records": "2", "flink.job-id": "1"}))
    assert one != shapes.shape(sent({"operation": "overwrite", "added-records": "1"}))
    assert one["client"] == "PyIceberg/0.12"


def _cell(verb: str) -> Cell:
    cell = cells.cell_of(cells.read(), verb)
    assert cell is not None
    return cell


def _keys(cell: Cell) -> set[str]:
    return {key for each in cell.sends for snapshot in each["snapshots"] for key in snapshot["summary"]}
