"""Each field that a client may send to a table: what is stored, other readers load."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadataUtil

from iceberg_hms.changes import updates as rest
from iceberg_hms.errors import CommitFailed, InvalidInput, UnsupportedFormat
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.apply import apply
from iceberg_hms.format.updates.create import create_updates
from tests.format import sent_fields
from tests.format.sent_fields import Changed

#: What a 4xx says of an update.
REFUSALS = (InvalidInput, UnsupportedFormat, CommitFailed)


def stored(base: TableMetadata | None, updates: list[dict[str, Any]]) -> str:
    """The JSON that a table has after these updates."""
    return apply(base, rest.parse(updates), now_ms=3000).verify().to_bytes().decode()


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:Encountered invalid snapshot summary")
def test_an_update_with_any_field_changed_is_refused_or_pyiceberg_loads_the_table(version: int) -> None:
    base, taken, unreadable = sent_fields.table(version), 0, []
    for update in sent_fields.of_tables(version):
        TableMetadataUtil.parse_raw(stored(base, [update]))
        for each in sent_fields.changed(update):
            with contextlib.suppress(*REFUSALS):
                found = stored(base, [each.update])
                taken += 1
                unreadable += _unreadable(found, each)
    assert unreadable == []
    # Most of what is taken is a name, a text or a number like the one before.
    assert 250 < taken < 600


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table_with_any_field_changed_is_refused_or_pyiceberg_loads_it(version: int) -> None:
    updates, unreadable = create_updates(sent_fields.table(version)), []
    for place, update in enumerate(updates):
        for each in sent_fields.changed(update):
            with contextlib.suppress(*REFUSALS):
                found = stored(None, [*updates[:place], each.update, *updates[place + 1 :]])
                unreadable += _unreadable(found, each)
    assert unreadable == []


def _unreadable(text: str, sent: Changed) -> list[str]:
    try:
        TableMetadataUtil.parse_raw(text)
    except (ValidationError, ValueError, TypeError) as error:
        return [f"{sent.update.get('action')} {sent.path} {sent.value!r}: {error}"]
    return []
