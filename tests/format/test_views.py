"""Each field that a client may send to a view: what is stored, other readers load."""

from __future__ import annotations

import contextlib
from typing import Any

from pyiceberg.view.metadata import ViewMetadata

from iceberg_hms.changes.clients.view_commit import ViewCommit
from iceberg_hms.errors import InvalidInput, UnsupportedFormat
from iceberg_hms.format.views.apply import apply
from tests.format import sent_fields

VIEW = sent_fields.view()


def stored(updates: list[dict[str, Any]]) -> str:
    """The JSON that the view has after these updates."""
    return apply(VIEW, ViewCommit.parse([], updates).updates, now_ms=3000).to_bytes().decode()


def test_an_update_with_any_field_changed_is_refused_or_pyiceberg_loads_the_view() -> None:
    taken, unreadable = 0, []
    for updates in sent_fields.of_views():
        ViewMetadata.model_validate_json(stored(updates))
        for place, update in enumerate(updates):
            for each in sent_fields.changed(update):
                with contextlib.suppress(InvalidInput, UnsupportedFormat):
                    found = stored([*updates[:place], each.update, *updates[place + 1 :]])
                    taken += 1
                    try:
                        ViewMetadata.model_validate_json(found)
                    except (ValueError, TypeError) as error:
                        unreadable.append(f"{update['action']} {each.path} {each.value!r}: {error}")
    assert unreadable == []
    assert taken > 50
