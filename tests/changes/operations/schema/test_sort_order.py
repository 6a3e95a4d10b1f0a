"""Replacing the sort order, also of a table that moves."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.changes.operations.schema.sort_order import ReplaceSortOrder, SortOrderDraft, SortTerm
from iceberg_hms.changes.operations.schema.update_schema import UpdateSchema
from iceberg_hms.changes.operations.schema.update_spec import to_transform
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.schema import types
from tests.changes.operations.columns import committed, evolve, wide_table


def term(source: Any, direction: Any = "asc", transform: str = "identity", null_order: Any = "nulls-first") -> SortTerm:
    return SortTerm(source, to_transform(transform), direction, null_order)


def test_the_order_is_the_default_and_the_old_one_stays() -> None:
    base = wide_table()
    new = committed(base, ReplaceSortOrder(base, [term("level"), term("place.lat", "desc", null_order="nulls-last")]))
    assert repr(new.sort_order) == "SortOrder(1: [identity(2) asc nulls-first, identity(6) desc nulls-last])"
    again = committed(new, ReplaceSortOrder(new, [term("id", transform="bucket[4]")]))
    assert (again.default_sort_order_id, len(again.sort_orders)) == (2, 3)
    unsorted = committed(again, ReplaceSortOrder(again, []))
    assert (unsorted.default_sort_order_id, len(unsorted.sort_orders)) == (0, 3)
    assert ReplaceSortOrder(unsorted, []).updates(unsorted) == []


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (term("none"), "Cannot sort by missing column: none"),
        (term("place"), "Cannot sort by identity of place: Invalid source type"),
        (term("level", transform="day"), "Cannot sort by day of level: Invalid source type string"),
        (term("level", null_order="middle"), 'null_order must be "nulls-first"'),
    ],
)
def test_what_is_refused_names_the_column(bad: SortTerm, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        SortOrderDraft(wide_table()).add(bad)
    with pytest.raises(InvalidInput, match=why):
        ReplaceSortOrder(wide_table(), [bad])


def test_a_term_is_added_once_it_is_valid() -> None:
    draft = SortOrderDraft(wide_table(), case_sensitive=False)
    draft.add(term("LEVEL"))
    assert len(draft.terms) == 1


def test_another_order_meanwhile_is_not_replaced_unseen() -> None:
    base = wide_table()
    theirs = committed(base, ReplaceSortOrder(base, [term("id")]))
    with pytest.raises(RequirementFailed, match="another writer replaced the sort order"):
        committed(theirs, ReplaceSortOrder(base, [term("level")]))
    assert committed(theirs, ReplaceSortOrder(base, [term("id")])) is theirs


def test_a_column_that_changed_meanwhile_is_named() -> None:
    base = wide_table()
    change = ReplaceSortOrder(base, [term("level")])
    with pytest.raises(RequirementFailed, match="column level was renamed to lvl"):
        committed(evolve(base, lambda draft: draft.rename_column("level", "lvl")), change)


def test_a_step_of_a_transaction_finds_its_own_column() -> None:
    start = wide_table()
    added = UpdateSchema(start, [lambda draft: draft.add_column("mine", types.INT)])
    ordered = ReplaceSortOrder(committed(start, added), [term("mine")], start=start)
    moved = committed(evolve(start, lambda draft: draft.add_column("theirs", types.INT)), added)
    assert committed(moved, ordered).sort_order.fields[0].source_id == 21
