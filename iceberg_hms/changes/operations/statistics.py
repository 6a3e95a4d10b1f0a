"""Setting and removing a snapshot's statistics files, as changes (spec: Table Statistics, Partition Statistics)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from iceberg_hms.changes import updates as rest
from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.metadata_operation import MetadataOperation
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format import json_fields as read
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: Of the table's columns (Puffin files), or of its partitions.
Kind = Literal["statistics", "partition-statistics"]


class SetStatistics(MetadataOperation):
    """Names the statistics file of a snapshot; it replaces an older one of that snapshot.

    It assumes that the table has the snapshot: Java would keep the entry of one that was expired, which nobody removes.

    kind: of the file. file: the specification's JSON object, with `snapshot-id`, `statistics-path`,
    `file-size-in-bytes`; the file exists.
    Raises InvalidInput for an incomplete object, and for a snapshot that the table does not have.
    """

    name: ClassVar[str] = "set-statistics"

    def __init__(self, seen: TableMetadata, kind: Kind, file: Mapping[str, Any], *, caller: str = "") -> None:
        [update] = rest.parse([{"action": f"set-{kind}", kind: dict(read.require_object(file, kind))}])
        super().__init__(seen, caller=caller, update=update)
        self._snapshot_id = read.require_long(file, "snapshot-id", kind)
        self.validate()

    def updates(self, base: TableMetadata) -> Sequence[Update]:
        if base.snapshot_by_id(self._snapshot_id) is None:
            raise InvalidInput(f"the table has no snapshot {self._snapshot_id}, which the statistics are of")
        return super().updates(base)


class RemoveStatistics(MetadataOperation):
    """Removes the entry of a snapshot's statistics file; the file itself stays. No entry is no error, as in Java.

    kind: of the file. Raises InvalidInput for a snapshot id that is no number.
    """

    name: ClassVar[str] = "remove-statistics"

    def __init__(self, seen: TableMetadata, kind: Kind, snapshot_id: int, *, caller: str = "") -> None:
        [update] = rest.parse([{"action": f"remove-{kind}", "snapshot-id": snapshot_id}])
        super().__init__(seen, caller=caller, update=update)
        self.validate()
