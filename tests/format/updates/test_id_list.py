"""Choosing and removing entries of the metadata's lists."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.updates.draft import MetadataDraft
from iceberg_hms.format.updates.id_list import IdList
from tests.format import documents
from tests.format.documents import NOW_MS

SCHEMAS = IdList(
    key="schemas",
    chosen_key="current-schema-id",
    entry="schema",
    chosen="current schema",
)


def draft() -> MetadataDraft:
    """Of a table with the schemas 0 and 1, and 1 current."""
    return MetadataDraft(documents.metadata(), 2, NOW_MS)


def test_an_entry_is_chosen() -> None:
    changed = draft()
    SCHEMAS.choose(changed, 0)
    assert (changed.raw["current-schema-id"], changed.changed) == (0, True)


def test_choosing_what_is_chosen_changes_nothing() -> None:
    same = draft()
    SCHEMAS.choose(same, 1)
    assert not same.changed


def test_an_unknown_entry_is_not_chosen() -> None:
    refused = draft()
    with pytest.raises(InvalidInput, match="Cannot set current schema to unknown schema: 7"):
        SCHEMAS.choose(refused, 7)
    assert not refused.changed


def test_entries_are_removed_and_unknown_ids_ignored() -> None:
    changed = draft()
    SCHEMAS.remove(changed, [0, 9])
    assert [schema.schema_id for schema in changed.schemas] == [1]
    assert changed.changed
    same = draft()
    SCHEMAS.remove(same, [9])
    assert not same.changed


def test_the_chosen_entry_is_not_removed() -> None:
    refused = draft()
    with pytest.raises(InvalidInput, match="Cannot remove the current schema"):
        SCHEMAS.remove(refused, [0, 1])
    assert not refused.changed
