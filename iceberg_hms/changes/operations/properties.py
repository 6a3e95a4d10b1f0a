"""Setting and removing table properties, setting the table's location, and upgrading its format version, as changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.metadata_operation import MetadataOperation
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.named_locations import new_paths
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates.create import check_metrics_columns
from iceberg_hms.format.updates.table import FORMAT_VERSION_PROPERTY, RESERVED_PROPERTIES, check_properties


class ChangeProperties(MetadataOperation):
    """Sets and removes properties; others stay. As in Java, the last writer of a property sets its value.

    On a table that moved, a property of a column's metrics is refused if the column is gone.

    changed: name -> value, both text. removed: names; missing ones are ignored.
    Raises InvalidInput for a name that is reserved (Java: TableProperties.RESERVED_PROPERTIES) or both set and removed,
    for a value that is no text or that the property cannot have.
    """

    name: ClassVar[str] = "update-properties"

    def __init__(
        self,
        seen: TableMetadata,
        changed: Mapping[str, str],
        removed: Collection[str] = (),
        *,
        caller: str = "",
    ) -> None:
        super().__init__(seen, caller=caller, paths=tuple(path for _, path in new_paths({}, changed)))
        self._changed = dict(changed)
        self._removed = tuple(dict.fromkeys(removed))
        _check_names(self._changed, self._removed)
        check_properties(self._changed)
        self.validate()

    def updates(self, base: TableMetadata) -> Sequence[Update]:
        check_metrics_columns(self._changed, base.schema)
        gone = [name for name in self._removed if name in base.properties]
        return [
            *([updates.set_properties(self._changed)] if self._changed else []),
            *([updates.remove_properties(gone)] if gone else []),
        ]


class SetLocation(MetadataOperation):
    """Moves the folder for new files; existing files stay where they are, and stay the table's. As in Java, the
    last writer decides.

    location: absolute. Raises InvalidInput for a location that is empty, relative or malformed.
    """

    name: ClassVar[str] = "set-location"

    def __init__(self, seen: TableMetadata, location: str, *, caller: str = "") -> None:
        if not isinstance(location, str) or not (location.startswith("/") or ":/" in location):
            raise InvalidInput(f"A location is an absolute path or URI, found {location!r}")
        update = {"action": "set-location", "location": location}
        super().__init__(seen, caller=caller, location=location, update=update)
        self.validate()


class UpgradeFormatVersion(MetadataOperation):
    """From 1 to 2 to 3, never back (spec: Appendix E). Version 2 writes ids out everywhere, version 3 starts row
    lineage: rows get ids from the next commit on. Readers that do not know the version can no longer read the table.

    version: the new one; the current one changes nothing.
    Raises InvalidInput for a lower version, UnsupportedFormat for version 4 and later.
    """

    name: ClassVar[str] = "upgrade-format-version"

    def __init__(self, seen: TableMetadata, version: int, *, caller: str = "") -> None:
        if isinstance(version, bool) or not isinstance(version, int):
            raise InvalidInput(f"A format version is a number, found {version!r}")
        super().__init__(seen, caller=caller, update={"action": "upgrade-format-version", "format-version": version})
        self.validate()


def _check_names(changed: Mapping[str, str], removed: Sequence[str]) -> None:
    for name in (*changed, *removed):
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"The name of a property is text, found {name!r}")
    for name, value in changed.items():
        if not isinstance(value, str):
            raise InvalidInput(f"The value of a property is text, found {value!r} for {name}")
    both = sorted(changed.keys() & set(removed))
    if both:
        raise InvalidInput(f"Cannot remove and update the same key: {', '.join(both)}")
    reserved = sorted(RESERVED_PROPERTIES & {*changed, *removed})
    if reserved:
        upgrade = FORMAT_VERSION_PROPERTY in reserved
        raise InvalidInput(
            f"Cannot set or remove reserved table properties: {', '.join(reserved)}",
            next_step="call upgrade_table_version() for another format version" if upgrade else None,
        )
