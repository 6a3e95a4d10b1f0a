"""The lists of the metadata whose entries have ids and of which the table uses one: schemas, partition specs, sort
orders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.updates.draft import MetadataDraft


@dataclass(frozen=True, slots=True)
class IdList:
    """One such list, and what messages call it.

    key: its name in the JSON. chosen_key: the JSON field with the id of the entry that the table uses.
    entry: what one entry is called; chosen: what the entry is called that the table uses.
    """

    key: str
    chosen_key: str
    entry: str
    chosen: str

    def choose(self, draft: MetadataDraft, wanted: int) -> None:
        """Let the table use an entry; -1 is the one that this request added last. Raises InvalidInput for an id that
        is not in the list."""
        id_ = draft.resolve_id(self.key, wanted, self.entry)
        if id_ not in draft.entries(self.key):
            raise InvalidInput(f"Cannot set {self.chosen} to unknown {self.entry}: {id_}")
        draft.put(self.chosen_key, id_)

    def remove(self, draft: MetadataDraft, ids: Iterable[int]) -> list[Any]:
        """Remove entries, and return them; unknown ids are ignored. Raises InvalidInput for the entry that the table
        uses."""
        removed = set(ids)
        if draft.raw[self.chosen_key] in removed:
            raise InvalidInput(f"Cannot remove the {self.chosen}")
        entries = draft.entries(self.key)
        gone = [entry for id_ in removed for entry in entries.remove(id_)]
        draft.changed = draft.changed or bool(gone)
        return gone
