"""What the random test must find: states that are planted wrong are each found, and so are defects of the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.changes.operations.manifests.conflicts import Conflicts
from iceberg_hms.changes.operations.manifests.new_data_files import NewDataFiles
from tests.random_operations import data_plans, delete_plans, table_plans
from tests.random_operations.comparison import Comparison
from tests.random_operations.independent_reader import (
    CONTENT_OFFSET,
    DATA,
    FILE_PATH,
    FILE_SIZE,
    LOWER_BOUNDS,
    NULL_COUNTS,
    PARTITION,
    RECORD_COUNT,
    REFERENCED,
    Broken,
    Entry,
    Manifest,
    SnapshotState,
    TableState,
)
from tests.random_operations.independent_rows import RowReader
from tests.random_operations.places import LocalFolder, local_path
from tests.random_operations.plans import Plan, Planner
from tests.random_operations.pyiceberg_reader import PyIcebergReader
from tests.random_operations.shapes import ID, by_name
from tests.random_operations.state_checks import StateChecks, check_vectors
from tests.random_operations.tested_table import TestedTable

Plant = Callable[[TableState], TableState]


def local_table(name: str, folder: Path) -> TestedTable:
    """A table of a shape."""
    shape = by_name(name)
    return TestedTable(shape, 1, LocalFolder(folder, shape))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestedTable]:
    """Version 3, with data files, a deletion vector and equality deletes."""
    made = local_table("v3-identity-nulls", tmp_path_factory.mktemp("planted"))
    for make in (data_plans.append, data_plans.append, delete_plans.delete_positions, delete_plans.delete_equal):
        plan = make(Planner(made.bench, made.now.state))
        assert plan is not None
        made.run(plan, made.now)
    yield made
    made.close()


def look(table: TestedTable, state: TableState) -> None:
    """As after a step. Raises Broken."""
    rows = RowReader(table.place.file_of)
    StateChecks(table.place, rows).check(state, None)
    Comparison(rows).compare(state, table.model)


def with_metadata(state: TableState, **changes: Any) -> TableState:
    return replace(state, metadata={**state.metadata, **changes})


def with_head(state: TableState, change: Callable[[SnapshotState], SnapshotState]) -> TableState:
    head = state.head("main")
    assert head is not None
    return replace(state, snapshots={**state.snapshots, head.snapshot_id: change(head)})


def with_summary(state: TableState, **changes: str) -> TableState:
    words = {name.replace("_", "-"): value for name, value in changes.items()}
    return with_head(state, lambda head: replace(head, raw={**head.raw, "summary": {**head.raw["summary"], **words}}))


def with_manifests(state: TableState, change: Callable[[Manifest], Manifest]) -> TableState:
    return with_head(state, lambda head: replace(head, manifests=tuple(map(change, head.manifests))))


def with_listed(state: TableState, **changes: Any) -> TableState:
    return with_manifests(state, lambda each: replace(each, listed=replace(each.listed, **changes)))


def with_entries(state: TableState, change: Callable[[Entry], Entry]) -> TableState:
    return with_manifests(state, lambda each: replace(each, entries=tuple(map(change, each.entries))))


def with_file(state: TableState, field: int, value: Callable[[Any], Any], *, vectors: bool = False) -> TableState:
    def change(entry: Entry) -> Entry:
        if entry.is_vector != vectors or (entry.content != DATA and not vectors):
            return entry
        return replace(entry, file={**entry.file, field: value(entry.file.get(field))})

    return with_entries(state, change)


def first_file_twice(state: TableState) -> TableState:
    return with_manifests(state, lambda each: replace(each, entries=(each.entries[0], *each.entries)))


def without_deletes(state: TableState) -> TableState:
    return with_manifests(state, lambda each: each if each.listed.content == DATA else replace(each, entries=()))


def plus(count: int) -> Callable[[Any], Any]:
    return lambda value: value + count


def of_each(change: Callable[[Any], Any]) -> Callable[[Mapping[int, Any]], dict[int, Any]]:
    return lambda found: {key: change(value) for key, value in found.items()}


#: Name -> the planted state, and what is said of it.
PLANTED: dict[str, tuple[Plant, str]] = {
    "a file twice": (first_file_twice, "status|live twice"),
    "a wrong total of rows": (lambda state: with_summary(state, total_records="1"), "total-records is 1"),
    "a wrong total of files": (lambda state: with_summary(state, total_data_files="9"), "total-data-files is 9"),
    "a wrong total of deletes": (
        lambda state: with_summary(state, total_equality_deletes="0"),
        "equality-deletes is 0",
    ),
    "a wrong number of added rows": (lambda state: with_summary(state, added_records="77"), "added-records is 77"),
    "a wrong count in a list": (lambda state: with_listed(state, files=(7, 7, 7)), "its list says"),
    "a wrong length": (lambda state: with_listed(state, length=1), "its record says 1"),
    "a wrong lowest number": (lambda state: with_listed(state, min_sequence_number=77), "min_sequence_number is 77"),
    "a number of the future": (lambda state: with_listed(state, sequence_number=77), "has sequence number 77"),
    "no first row id": (lambda state: with_listed(state, first_row_id=None), "first_row_id of"),
    "shared row ids": (lambda s: with_entries(s, lambda each: replace(each, first_row_id=0)), "the same row ids"),
    "a file of the future": (
        lambda state: with_entries(state, lambda each: replace(each, file_sequence_number=77)),
        "has the numbers",
    ),
    "deletes that are gone": (without_deletes, "its list says"),
    "a wrong record count": (lambda s: with_file(s, RECORD_COUNT, plus(1)), "its list says|its record says"),
    "a wrong size": (lambda state: with_file(state, FILE_SIZE, plus(1)), "bytes, its record says"),
    "a wrong partition": (lambda state: with_file(state, PARTITION, of_each(lambda _: "x")), "level_part_0"),
    "a wrong count of nulls": (lambda state: with_file(state, NULL_COUNTS, of_each(plus(1))), "field 110 says"),
    "a wrong bound": (lambda s: with_file(s, LOWER_BOUNDS, lambda _: {ID: b"\x7f" * 8}), "bound"),
    "a file that is not there": (lambda s: with_file(s, FILE_PATH, lambda _: "file:/no/file"), "does not exist"),
    "a vector elsewhere": (lambda s: with_file(s, CONTENT_OFFSET, plus(1), vectors=True), "no deletion vector at"),
    "a ref to nowhere": (
        lambda state: with_metadata(state, refs={"lost": {"type": "branch", "snapshot-id": 1}}),
        "lost names snapshot 1",
    ),
    "another current snapshot": (
        lambda state: with_metadata(state, **{"current-snapshot-id": next(iter(state.snapshots))}),
        "the current snapshot is",
    ),
    "a low last sequence number": (
        lambda state: with_metadata(state, **{"last-sequence-number": 1}),
        "the last sequence number is 1",
    ),
    "a low next row id": (lambda state: with_metadata(state, **{"next-row-id": 1}), "next-row-id is 1"),
    "a low last column id": (lambda state: with_metadata(state, **{"last-column-id": 1}), "last-column-id is 1"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_state_is_found(table: TestedTable, name: str) -> None:
    plant, message = PLANTED[name]
    look(table, table.now.state)
    with pytest.raises(Broken, match=message):
        look(table, plant(table.now.state))


def test_rows_that_are_missing_or_come_back_are_found(table: TestedTable) -> None:
    state, rows = table.now.state, RowReader(table.place.file_of)
    with pytest.raises(Broken, match="the rows of snapshot"):
        Comparison(rows).compare(without_deletes(state), table.model)
    missing = with_manifests(
        state, lambda each: replace(each, entries=each.entries[1:]) if each.listed.content == DATA else each
    )
    with pytest.raises(Broken, match="no file"):
        Comparison(rows).compare(missing, table.model)


def test_vectors_that_outlive_their_data_files_are_found(table: TestedTable) -> None:
    state = table.now.state

    def without(path: str) -> Callable[[Manifest], Manifest]:
        return lambda each: replace(each, entries=tuple(entry for entry in each.entries if entry.path != path))

    head = state.head("main")
    assert head is not None
    vector = next(each for each in head.deletes if each.is_vector)
    gone = with_manifests(state, without(str(vector.file[REFERENCED])))
    with pytest.raises(Broken, match="its list says"):
        look(table, gone)
    found = gone.head("main")
    assert found is not None
    with pytest.raises(Broken, match="whose deletion vectors it keeps"):
        check_vectors(found, head)


def test_a_model_with_another_row_is_found_by_pyiceberg_as_well(tmp_path: Path) -> None:
    table = local_table("v2-identity", tmp_path)
    table.run(data_plans.append(Planner(table.bench, table.now.state)), table.now)
    model = table.model.copy()
    head = model.refs["main"]
    model.history[head] = {path: rows - {min(rows)} for path, rows in model.history[head].items()}
    table.close()
    with pytest.raises(Broken, match="PyIceberg reads main as"):
        PyIcebergReader({}).compare(table.now.state, model)
    with pytest.raises(Broken, match="the rows of snapshot"):
        Comparison(RowReader(table.place.file_of)).compare(table.now.state, model)


def test_a_file_that_was_cut_after_it_was_read_is_found(tmp_path: Path) -> None:
    table = local_table("v2-identity", tmp_path)
    table.run(data_plans.append(Planner(table.bench, table.now.state)), table.now)
    path = local_path(next(iter(table.model.files("main"))))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Broken, match="bytes, its record says"):
        table.run(table_plans.set_properties(Planner(table.bench, table.now.state)), table.now)
    table.close()


def rewrite_overtaken_by(make: Callable[[Planner], Plan | None], folder: Path) -> None:
    """A rewrite of the only data file, which another operation overtakes. Raises Broken."""
    table = local_table("v2-unpartitioned", folder)
    table.run(data_plans.append(Planner(table.bench, table.now.state)), table.now)
    seen = table.now
    planned = data_plans.rewrite(Planner(table.bench, seen.state, is_stale=True))
    overtaking = make(Planner(table.bench, seen.state))
    assert planned is not None
    assert overtaking is not None
    try:
        table.run(overtaking, seen)
        table.run(planned, seen)
    finally:
        table.close()


def test_a_rewrite_that_looks_for_no_new_deletes_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Planted in the package: rows that others deleted meanwhile come back."""
    rewrite_overtaken_by(delete_plans.delete_positions, tmp_path / "right")
    monkeypatch.setattr(Conflicts, "no_positions_for", lambda *_, **__: None)
    with pytest.raises(Broken, match="the rows of snapshot"):
        rewrite_overtaken_by(delete_plans.delete_positions, tmp_path / "wrong")


def test_rewritten_files_with_a_new_sequence_number_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Planted in the package: equality deletes that others committed meanwhile no longer apply."""
    rewrite_overtaken_by(delete_plans.delete_equal, tmp_path / "right")
    made = NewDataFiles.__init__

    def without_number(self: NewDataFiles, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **{**options, "sequence_number": None})

    monkeypatch.setattr(NewDataFiles, "__init__", without_number)
    with pytest.raises(Broken, match="the rows of snapshot"):
        rewrite_overtaken_by(delete_plans.delete_equal, tmp_path / "wrong")
