"""A list of the metadata whose entries have ids, while updates change it.

One commit may have many thousands of updates. So entries are found by id and by content, added and removed without a
look at the others, and the list itself is written once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class EntryList(Generic[Entry]):
    """Entries in their order. Damaged metadata may have several with one id; `get` returns the first of them.

    id_of: the id of an entry. content_of: what two entries have in common that say the same, as text: Python hashes
    text with a secret, so nobody can make up entries whose contents collide.
    changed: whether an entry was added or removed.
    """

    def __init__(
        self, entries: Iterable[Entry], id_of: Callable[[Entry], int], content_of: Callable[[Entry], str] = repr
    ) -> None:
        self.changed = False
        self._id_of = id_of
        self._content_of = content_of
        # By place, which rises with each entry: dicts keep the order, whatever is removed.
        self._entries: dict[int, Entry] = dict(enumerate(entries))
        self._next_place = len(self._entries)
        self._by_id: dict[int, dict[int, None]] = {}
        for place, entry in self._entries.items():
            self._by_id.setdefault(id_of(entry), {})[place] = None
        self._by_content: dict[str, dict[int, None]] | None = None
        #: The highest id; None: not known.
        self._highest: int | None = None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._by_id

    def get(self, id_: int) -> Entry | None:
        places = self._by_id.get(id_)
        return None if places is None else self._entries[next(iter(places))]

    def same_as(self, entry: Entry) -> Entry | None:
        """The first entry with the content of this one, or None."""
        if self._by_content is None:
            self._by_content = {}
            for place, known in self._entries.items():
                self._by_content.setdefault(self._content_of(known), {})[place] = None
        places = self._by_content.get(self._content_of(entry))
        return self._entries[next(iter(places))] if places else None

    def next_id(self, first: int) -> int:
        """One more than the highest id; `first` for an empty list."""
        if self._highest is None:
            self._highest = max(self._by_id, default=first - 1)
        return self._highest + 1

    def add(self, entry: Entry) -> None:
        place, id_ = self._next_place, self._id_of(entry)
        self._next_place += 1
        self._entries[place] = entry
        self._by_id.setdefault(id_, {})[place] = None
        if self._by_content is not None:
            self._by_content.setdefault(self._content_of(entry), {})[place] = None
        if self._highest is not None:
            self._highest = max(self._highest, id_)
        self.changed = True

    def remove(self, id_: int) -> list[Entry]:
        """Remove the entries with an id, and return them."""
        removed = []
        self._highest = None if id_ == self._highest else self._highest
        for place in self._by_id.pop(id_, ()):
            entry = self._entries.pop(place)
            removed.append(entry)
            if self._by_content is not None:
                del self._by_content[self._content_of(entry)][place]
        self.changed = self.changed or bool(removed)
        return removed
