"""Upgrading a table's format version, as a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.metadata_operation import MetadataOperation
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata


class UpgradeFormatVersion(MetadataOperation):
    """From 1 to 2 to 3, never back (spec: Appendix E). Version 2 writes ids out everywhere, version 3 starts row
    lineage: rows get ids from the next commit on. Readers that do not know the version can no longer read the table.

    seen: the state of the table that the caller saw. version: the new one; the current one changes nothing. caller: the
    authenticated caller.
    Raises InvalidInput for a lower version, UnsupportedFormat for version 4 and later.
    """

    name: ClassVar[str] = "upgrade-format-version"

    def __init__(self, seen: TableMetadata, version: int, *, caller: str = "") -> None:
        if isinstance(version, bool) or not isinstance(version, int):
            raise InvalidInput(f"A format version is a number, found {version!r}")
        super().__init__(seen, caller=caller)
        self._version = version
        self.validate()

    def updates(self, base: TableMetadata) -> Sequence[Update]:  # noqa: ARG002 - the same on every base
        return [{"action": "upgrade-format-version", "format-version": self._version}]
