"""Rows of the metastore that name files which are to become an Iceberg table's own, to delete."""

from __future__ import annotations

from typing import Final

from iceberg_hms.coordinator.locations.folder_overlaps import HiveRows, overlapping, resolved
from iceberg_hms.coordinator.ports import CommitPorts, Pointer
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import contains

#: How long to read the rows of all databases, and all partitions.
_SEARCH_SECONDS: Final = 3_600.0


def refuse_other_rows(ports: CommitPorts, row: Pointer) -> None:
    """Raises InvalidInput if another table or view, or a partition of another table, has a folder that is, lies in or
    contains that of a migrated table, or of one of its partitions; MetastoreUnavailable if not all rows could be read
    in an hour, MetastoreError."""
    location, real_path = row.location or "", ports.files.real_path
    own = resolved(location, real_path)
    beside: list[str] = []
    for each in ports.pointer.partition_folders(row.name, timeout_seconds=_SEARCH_SECONDS):
        folder = resolved(each, real_path)
        if own is None or folder is None or not contains(own, folder):
            beside.append(each)
    for other in overlapping(ports, row.name, location, hive=HiveRows.ALL, beside=beside, seconds=_SEARCH_SECONDS):
        raise InvalidInput(
            f"{other.name} has the folder {other.location}, where files of {row.name} are: they would become the "
            "Iceberg table's to delete",
            next_step=f"drop {other.name} or its partition there, if its rows are not needed, or copy them elsewhere; "
            "nothing was changed, and nothing deletes these files as long as undo is possible",
        )
