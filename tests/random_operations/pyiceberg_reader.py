"""Reads the branches of a table by PyIceberg, from its metadata file alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyiceberg.table import StaticTable

from tests.random_operations.independent_reader import EQUALITY_DELETES, PARTITION, SnapshotState, TableState, require
from tests.random_operations.model import Model
from tests.random_operations.shapes import ID
from tests.random_operations.specification_values import comparable, stored


class PyIcebergReader:
    """settings: of PyIceberg, for the files. read: how many branches of states it read. skipped: why it did not read
    others, and how often."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self.read = 0
        self.skipped: Counter[str] = Counter()

    def compare(self, state: TableState, model: Model) -> None:
        """Raises Broken if PyIceberg reads other rows than the model has."""
        table: Any = None
        for name, id_ in state.refs.items():
            snapshot = state.snapshots[id_]
            why = _cannot_read(snapshot)
            if why is not None:
                self.skipped[why] += 1
                continue
            table = table or StaticTable.from_metadata(state.location, self._settings)
            # Without an id it reads main by the table's schema, else by that of the snapshot.
            scan = table.scan() if name == "main" else table.scan(snapshot_id=id_)
            fields = [each.field_id for each in scan.projection().fields]
            types = [str(each.field_type) for each in scan.projection().fields]
            columns = [column.to_pylist() for column in scan.to_arrow().columns]
            found = [
                tuple(comparable(stored(value, type_)) for value, type_ in zip(row, types, strict=True))
                for row in zip(*columns, strict=True)
            ]
            ids = sorted(each for rows in model.files(name).values() for each in rows)
            expected = [model.expected(each, fields) for each in ids]
            found.sort(key=lambda row: row[fields.index(ID)])
            self.read += 1
            require(found == expected, f"PyIceberg reads {name} as {found}, not {expected}")


def _cannot_read(snapshot: SnapshotState) -> str | None:
    """Why PyIceberg 0.12 cannot read a snapshot."""
    if any(each.content == EQUALITY_DELETES for each in snapshot.deletes):
        return "equality deletes"
    if any(value != value for each in snapshot.deletes for value in each.file[PARTITION].values()):
        # It looks deletes up by their partition, and NaN differs from itself.
        return "position deletes in a partition of NaN"
    return None
