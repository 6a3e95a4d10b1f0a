"""Whether a table is what the model says: its snapshots and refs, the live rows of each data file of each snapshot, and
what the columns of these rows have."""

from __future__ import annotations

from collections.abc import Mapping

from tests.random_operations.independent_reader import SnapshotState, TableState, require
from tests.random_operations.independent_rows import Row, RowReader
from tests.random_operations.model import Files, Model
from tests.random_operations.shapes import ID
from tests.random_operations.specification_values import comparable


class Comparison:
    """Compares states with models. What it read of a snapshot is kept."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows
        self._read: dict[tuple[int, int], list[Row]] = {}

    def compare(self, state: TableState, model: Model) -> None:
        """Raises Broken that says what differs first."""
        _compare_metadata(state, model)
        for id_, snapshot in state.snapshots.items():
            files: dict[str, list[int]] = {each.path: [] for each in snapshot.data}
            rows = self._of(state, snapshot)
            for row in rows:
                files[row.path].append(row.values[ID])
            require_equal(files, model.history[id_], f"the rows of snapshot {id_}")
            parent = state.snapshots.get(snapshot.raw.get("parent-snapshot-id", 0))
            if parent is not None and parent.raw.get("first-row-id") is not None:
                _compare_lineage(self._of(state, parent), rows, id_)
        for name, id_ in state.refs.items():
            columns = [each["id"] for each in state.schema()]
            for row in self._of(state, state.snapshots[id_]):
                found = tuple(comparable(row.values[each]) for each in columns)
                expected = model.expected(row.values[ID], columns)
                require(found == expected, f"row {row.values[ID]} of {name} is {found}, not {expected}")

    def _of(self, state: TableState, snapshot: SnapshotState) -> list[Row]:
        """The rows of a snapshot by the current schema."""
        key = (snapshot.snapshot_id, state.metadata["current-schema-id"])
        if key not in self._read:
            self._read[key] = self._rows.rows(state, snapshot, state.schema())
        return self._read[key]


def require_equal(found: Mapping[str, list[int]], expected: Files, what: str) -> None:
    """Raises Broken that names the data files whose live rows differ; a row that is there twice counts twice."""
    wanted = {location: sorted(rows) for location, rows in expected.items()}
    there = {location: sorted(rows) for location, rows in found.items()}
    differ = {
        location.rpartition("/")[2]: (there.get(location, "no file"), wanted.get(location, "no file"))
        for location in sorted(there.keys() | wanted.keys())
        if there.get(location) != wanted.get(location)
    }
    require(not differ, f"{what} (found, expected): {differ}")


def _compare_metadata(state: TableState, model: Model) -> None:
    require(state.version == model.version, f"format version {state.version}, not {model.version}")
    require(state.refs == model.refs, f"refs {state.refs}, not {model.refs}")
    tags = {name for name, ref in state.metadata.get("refs", {}).items() if ref["type"] == "tag"}
    require(tags == model.tags, f"tags {tags}, not {model.tags}")
    require(
        state.snapshots.keys() == model.history.keys(),
        f"snapshots {sorted(state.snapshots)}, not {sorted(model.history)}",
    )
    for id_, snapshot in state.snapshots.items():
        parent = snapshot.raw.get("parent-snapshot-id")
        require(parent == model.parents[id_], f"the parent of {id_} is {parent}, not {model.parents[id_]}")
    columns = [(each["id"], each["name"], each["type"]) for each in state.schema()]
    expected = [(each.id, each.name, each.type) for each in model.columns]
    require(columns == expected, f"columns {columns}, not {expected}")
    spec = {(each["transform"], each["source-id"]) for each in state.spec() if each["transform"] != "void"}
    require(spec == model.spec, f"partition spec {spec}, not {set(model.spec)}")


def _compare_lineage(parents: list[Row], rows: list[Row], snapshot_id: int) -> None:
    """Rows that stay keep their row ids (spec: Row Lineage)."""
    before = {row.values[ID]: (row.row_id, row.last_updated) for row in parents}
    ids = [row.row_id for row in rows]
    require(len(ids) == len(set(ids)), f"rows of snapshot {snapshot_id} share row ids: {sorted(map(str, ids))}")
    for row in rows:
        found = (row.row_id, row.last_updated)
        expected = before.get(row.values[ID], found)
        require(found == expected, f"row {row.values[ID]} of snapshot {snapshot_id}: lineage {found}, not {expected}")
