"""The locations that table metadata names: its folders and its files, apart from data files, which manifests name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from iceberg_hms.format.metadata.metadata_file import METADATA_PATH
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: The folder of new data files; without it `data` in the table's own.
DATA_PATH: Final = "write.data.path"
#: Table properties that name a folder (Java: TableProperties).
LOCATION_PROPERTIES: Final = (
    METADATA_PATH,
    DATA_PATH,
    "write.object-storage.path",
    "write.folder-storage.path",
)

#: Fields with lists of files, and how an entry names its file.
_FILES: Final = (
    ("statistics", "statistics-path"),
    ("partition-statistics", "statistics-path"),
    ("metadata-log", "metadata-file"),
)


def new_locations(
    base: TableMetadata | None, new: TableMetadata, added: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """What `new` names and `base` does not, as the name of the field or property and the location.

    base: None for a table that is to be created or registered; then everything that `new` names counts as new.
    added: the JSON of the snapshots that are in `new` and not in `base`.
    """
    if base is None or base.location != new.location:
        yield "location", new.location
    before, after = {} if base is None else base.properties, new.properties
    if after is not before:
        yield from new_paths(before, after)
    for snapshot in added:
        yield from _lists(snapshot)
    for key, name in _FILES:
        known, entries = None if base is None else base.fields.get(key), new.fields.get(key)
        if entries and entries is not known:
            for path in _new_files(known, entries, name):
                yield key, path


def new_paths(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The properties that name a folder which they did not name before, and that folder."""
    for key in LOCATION_PROPERTIES:
        value = after.get(key)
        if value and before.get(key) != value:
            yield key, value


def _lists(snapshot: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if snapshot.get("manifest-list") is not None:
        yield "manifest-list", snapshot["manifest-list"]
    for manifest in snapshot.get("manifests") or ():
        yield "manifests", manifest


def _new_files(known: Sequence[Any] | None, entries: Sequence[Any], name: str) -> Sequence[str]:
    """The files that the entries of a list name, without those that the base's list names, `known`. Entries without a
    location are passed over: nobody can open them."""
    before = {entry.get(name) for entry in known or () if isinstance(entry, Mapping)}
    found = (entry.get(name) for entry in entries if isinstance(entry, Mapping))
    return [path for path in found if isinstance(path, str) and path not in before]
