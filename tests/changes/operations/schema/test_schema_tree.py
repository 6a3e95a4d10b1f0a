"""Deletions, updates, additions and moves, at every depth."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.schema.schema_tree import Edits, Move
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import NestedField
from tests.changes.operations.columns import COLUMNS, names, struct

SCHEMA = Schema.parse(struct(*COLUMNS))


def applied(edits: Edits) -> Schema:
    return Schema.of(edits.apply(SCHEMA.fields))


def test_without_edits_the_columns_are_equal() -> None:
    assert Edits().apply(SCHEMA.fields) == SCHEMA.fields


def test_edits_reach_elements_and_values() -> None:
    new = {
        30: NestedField(30, "z", types.INT),
        31: NestedField(31, "w", types.INT),
        32: NestedField(32, "n", types.INT),
    }
    edits = Edits(
        deleted={10, 1},
        changed={16: NestedField(16, "renamed", types.LONG), **new},
        added={9: [30], 15: [31], None: [32]},
        moves={9: [Move(30)], None: [Move(32, before=2)]},
    )
    assert list(names(applied(edits))) == [
        *["n", "level", "day", "price", "place", "place.lat", "place.long"],
        *["points", "points.element", "points.element.z", "points.element.y"],
        *["scores", "scores.key", "scores.key.k", "scores.value", "scores.value.renamed", "scores.value.w"],
        *["tags", "tags.element", "a.b"],
    ]
    assert edits.added_fields()[9] == [new[30]]


def test_an_update_of_a_struct_keeps_what_is_inside_of_it() -> None:
    edits = Edits(deleted={6}, changed={5: NestedField(5, "spot", SCHEMA.fields[4].type, required=True)})
    place = edits.apply(SCHEMA.fields)[4]
    assert (place.name, place.required, str(place.type)) == ("spot", True, "struct<7: long: optional float>")


@pytest.mark.parametrize("move", [Move(99), Move(1, before=99), Move(1, after=99), Move(1, before=6)])
def test_a_move_without_its_column_is_refused(move: Move) -> None:
    with pytest.raises(InvalidInput, match="Cannot move a column that was deleted"):
        Edits(moves={None: [move]}).apply(SCHEMA.fields)
