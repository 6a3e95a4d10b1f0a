"""`apply(base, updates)`: the table metadata that a list of REST updates makes, by the rules of Java's
TableMetadata.Builder. Pure: the base is never changed, and its objects are shared with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from iceberg_hms.errors import InvalidInput, RequirementFailed, UnsupportedFormat
from iceberg_hms.format.metadata.check import SUPPORTED_FORMAT_VERSION
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.updates import layout, snapshots, table
from iceberg_hms.format.updates.draft import ENTRY_NAMES, MetadataDraft
from iceberg_hms.work import stop_if_caller_left

#: The format version of a new table unless its creator sets one, as in Java.
DEFAULT_FORMAT_VERSION: Final = 2

#: How each action changes the draft.
APPLIERS: Final[Mapping[str, Callable[[MetadataDraft, Mapping[str, Any]], object]]] = {
    "assign-uuid": table.assign_uuid,
    "upgrade-format-version": table.upgrade_format_version,
    "add-schema": layout.add_schema,
    "set-current-schema": layout.SCHEMAS.choose,
    "remove-schemas": layout.SCHEMAS.remove,
    "add-spec": layout.add_spec,
    "set-default-spec": layout.SPECS.choose,
    "remove-partition-specs": layout.remove_partition_specs,
    "add-sort-order": layout.add_sort_order,
    "set-default-sort-order": layout.SORT_ORDERS.choose,
    "add-snapshot": snapshots.add_snapshot,
    "set-snapshot-ref": snapshots.set_snapshot_ref,
    "remove-snapshot-ref": snapshots.remove_snapshot_ref,
    "remove-snapshots": snapshots.remove_snapshots,
    "set-location": table.set_location,
    "set-properties": table.set_properties,
    "remove-properties": table.remove_properties,
    "set-statistics": table.set_statistics,
    "remove-statistics": table.remove_statistics,
    "set-partition-statistics": table.set_partition_statistics,
    "remove-partition-statistics": table.remove_statistics,
    "remove-encryption-key": table.remove_encryption_key,
}

_LAYOUT_FIELDS: Final = (
    "current-schema-id",
    "schemas",
    "default-spec-id",
    "partition-specs",
    "default-sort-order-id",
    "sort-orders",
)

#: Whether files of new snapshots, given by their JSON, claim the sort order with an id.
ClaimsOrder = Callable[[int, Sequence[Mapping[str, Any]]], bool]


def apply(
    base: TableMetadata | None,
    updates: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    claims_order: ClaimsOrder = lambda _id, _added: True,
) -> TableMetadata:
    """The metadata after all updates, in their order; `base` itself if they change nothing.

    base: None makes a new table: the updates must set uuid, location, schema, spec and sort order.
    updates: of the shapes that `changes.updates.parse` checks. `apply` checks only what it copies into the metadata.
    now_ms: wall clock; becomes last-updated-ms, which never falls.
    claims_order: called only if a sort order gets another id than the client sent, and snapshots come with it.

    Raises InvalidInput for an update that is unknown or can never be applied, DoesNotFit for one that cannot be applied
    to this base, UnsupportedFormat for format version 4 and encryption, and CommitFailed for a snapshot that was made
    for an older state of the table: the client makes it again on the new one. RequirementFailed, a CommitFailed, says
    that a schema, spec or sort order would get another id than the client sent, while a snapshot of the same commit has
    files with the sent id. Spec: Table Metadata, Snapshots; REST protocol: TableUpdate.
    """
    draft = MetadataDraft(base, _first_format_version(base, updates), now_ms)
    for update in updates:
        stop_if_caller_left()
        applier = APPLIERS.get(update["action"])
        if applier is None:
            raise InvalidInput(f"Unknown update action: {update['action']!r}")
        applier(draft, update)
    if base is not None and not draft.changed:
        return base
    _check_identity(draft)
    _check_ids(draft, updates, claims_order)
    _finish_layout(draft)
    snapshots.update_snapshot_log(draft)
    draft.raw["last-updated-ms"] = draft.updated_ms
    return draft.finish()


def _first_format_version(base: TableMetadata | None, updates: Sequence[Mapping[str, Any]]) -> int:
    """A new table starts with the version of its first `upgrade-format-version`: no upgrade leads to v1 (Java:
    CatalogHandlers.create)."""
    if base is not None:
        return base.format_version
    for update in updates:
        if update["action"] == "upgrade-format-version":
            version: int = update["format-version"]
            if version > SUPPORTED_FORMAT_VERSION:
                raise UnsupportedFormat(f"Unsupported format version: v{version} (supported: v3)")
            if version < 1:
                raise InvalidInput(f"upgrade-format-version: format-version must be 1, 2 or 3, but is {version}")
            return version
    return DEFAULT_FORMAT_VERSION


def _check_identity(draft: MetadataDraft) -> None:
    if draft.raw.get("table-uuid") is None and (draft.base is None or draft.format_version > 1):
        raise InvalidInput(f"UUID is required in format v{draft.format_version}: assign-uuid is missing")
    if "location" not in draft.raw:
        raise InvalidInput("a table needs a location: set-location is missing")


def _check_ids(draft: MetadataDraft, updates: Sequence[Mapping[str, Any]], claims_order: ClaimsOrder) -> None:
    # A client chooses ids by the table that it read, and its manifests state the spec's id. CREATE OR REPLACE asserts
    # neither the spec nor the schema, so only this check finds that another writer took the id. Nobody else adds any to
    # a table that these updates create.
    if draft.base is None or not draft.added_snapshots or not draft.reassigned_ids:
        return
    added = [update["snapshot"] for update in updates if update["action"] == "add-snapshot"]
    for key, sent, found in draft.reassigned_ids:
        # Each file may say how it is sorted, and most say nothing.
        if key != "sort-orders" or claims_order(sent, added):
            what = ENTRY_NAMES[key]
            raise RequirementFailed(
                f"added-{what.replace(' ', '-')}-id",
                f"the {what} that was sent as {sent} would become {found}, and a snapshot of the same commit was "
                f"written with {sent}: another writer has added one since",
                expected=sent,
                found=found,
            )


def _finish_layout(draft: MetadataDraft) -> None:
    raw = draft.raw
    if draft.are_untouched(_LAYOUT_FIELDS):
        return
    layout.check_layout(draft)
    if draft.format_version == 1:
        # Old readers of v1 read only these (spec: Table Metadata Fields).
        raw["schema"] = draft.current_schema.raw
        raw["partition-spec"] = draft.default_spec.raw["fields"]
