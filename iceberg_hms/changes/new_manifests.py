"""What must hold of the manifests that new snapshots add, a client's or our own. It is checked before the swap that
would publish them, on what staging has read anyway:

    partition specs     the table has the spec of each (`referenced_specs`)
    sequence numbers    each older file that a manifest lists again has one. Readers cannot plan a table where one lacks
                        it: Java 1.11 reuses manifests of format version 1 in a list of version 2, when it retries
    row ids             v3: those that the snapshot gives to its manifests are its own, and no two rows get one id
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.errors import InvalidInput, MissingFile, RequirementFailed
from iceberg_hms.format.manifests.manifest import EntryStatus
from iceberg_hms.format.manifests.manifest_list import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.work import stop_if_caller_left

#: `RequirementFailed.name` of the three.
SPECS_EXIST: Final = "snapshot-partition-specs"
FILES_ARE_NUMBERED: Final = "snapshot-sequence-numbers"
ROW_IDS_ARE_OWN: Final = "snapshot-row-ids"


def check(table: TableMetadata, added: Iterable[Mapping[str, Any]], manifests: Manifests) -> None:
    """Check the manifests that new snapshots add; earlier commits checked those that they keep.

    table: with the snapshots. added: their JSON. If an append's list begins with its own manifests, only these are
    read. Raises RequirementFailed for what does not hold; InvalidInput for a manifest list that does not exist."""
    for raw in added:
        stop_if_caller_left()
        snapshot = Snapshot(raw)
        try:
            own = manifests_of(snapshot, manifests)
        except MissingFile as error:
            raise InvalidInput(
                f"snapshot {snapshot.snapshot_id} cannot be read: {error}",
                next_step="write the snapshot's manifest list before it is committed",
            ) from error
        _check_specs(table, snapshot, own)
        if table.format_version > 1:
            _check_numbers(snapshot, own, manifests)
        if table.format_version > 2:
            _check_row_ids(snapshot, own)


def manifests_of(snapshot: Snapshot, manifests: Manifests) -> Sequence[ManifestFile]:
    """The manifests that a snapshot added. Raises MissingFile for a list that does not exist."""
    added = manifests.added(snapshot)
    if added is None:
        added = [each for each in manifests.list(snapshot) if each.added_snapshot_id == snapshot.snapshot_id]
    return added


def _check_specs(table: TableMetadata, snapshot: Snapshot, own: Sequence[ManifestFile]) -> None:
    missing = {each.partition_spec_id for each in own} - table.specs_by_id.keys()
    if missing:
        raise RequirementFailed(
            SPECS_EXIST,
            f"snapshot {snapshot.snapshot_id} was written with partition spec {min(missing)}, "
            "which is not in the table",
            expected=sorted(missing),
            found=sorted(table.specs_by_id),
        )


def _check_numbers(snapshot: Snapshot, own: Sequence[ManifestFile], manifests: Manifests) -> None:
    # Files of version 1 have number 0. So Java says that this is the lowest of such a manifest, and PyIceberg says that
    # of the snapshot, which no older file has. Where the list says 0 for the manifest, all its entries inherit it.
    doubtful = [
        replace(each, sequence_number=UNASSIGNED)
        for each in own
        if each.existing_files_count != 0
        and each.sequence_number > 0
        and each.min_sequence_number in (0, each.sequence_number)
    ]
    for file, entries in manifests.read(doubtful):
        # One tells: a manifest has the fields of its version for all of them.
        entry = next((each for each in entries if each.status == EntryStatus.EXISTING), None)
        if entry is not None and entry.sequence_number is None:
            raise RequirementFailed(
                FILES_ARE_NUMBERED,
                f"snapshot {snapshot.snapshot_id} lists older files without sequence numbers, in {_name(file)}, a "
                "manifest of format version 1: the table was upgraded since, and nobody could read it with them",
                expected="a sequence number for each file that is not new",
                next_step="start the operation anew: when it is only tried again, it uses the same manifest",
            )


def _check_row_ids(snapshot: Snapshot, own: Sequence[ManifestFile]) -> None:
    first = snapshot.first_row_id or 0
    end = first + (snapshot.added_rows or 0)
    given = [each for each in own if each.content == ManifestContent.DATA]
    for each in sorted(given, key=lambda file: -1 if file.first_row_id is None else file.first_row_id):
        rows = (each.added_rows_count or 0) + (each.existing_rows_count or 0)
        if each.first_row_id is None or each.first_row_id < first or each.first_row_id + rows > end:
            raise RequirementFailed(
                ROW_IDS_ARE_OWN,
                f"snapshot {snapshot.snapshot_id} gives the {rows} rows of {_name(each)} ids that it has not reserved, "
                "or that it gives to other rows",
                expected=f"ids from {first} to {end - 1}",
                found=each.first_row_id,
            )
        first = each.first_row_id + rows


def _name(file: ManifestFile) -> str:
    """Without its folder: REST clients get these errors, and nothing of the server's folders."""
    return file.manifest_path.rpartition("/")[2]
