"""What clients send in commits: updates, requirements, and the requirements that updates imply.

The last follow Java's UpdateRequirements, so that a commit made here conflicts exactly where Java's does. Properties,
the location, snapshots without a ref and statistics require only the table's identity: those can be replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from iceberg_hms.changes.change import Requirement, Update
from iceberg_hms.changes.requirements import (
    ASSERT_CREATE,
    ASSERT_CURRENT_SCHEMA_ID,
    ASSERT_DEFAULT_SORT_ORDER_ID,
    ASSERT_DEFAULT_SPEC_ID,
    ASSERT_LAST_ASSIGNED_FIELD_ID,
    ASSERT_LAST_ASSIGNED_PARTITION_ID,
    ASSERT_REF_SNAPSHOT_ID,
    assert_table_uuid,
)
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.metadata.table_metadata import TableMetadata


def assign_uuid(uuid: str) -> Update:
    return {"action": "assign-uuid", "uuid": uuid}


def upgrade_format_version(version: int) -> Update:
    return {"action": "upgrade-format-version", "format-version": version}


def add_schema(schema: Mapping[str, Any]) -> Update:
    """schema: the spec's JSON. Its id counts only within this commit."""
    return {"action": "add-schema", "schema": schema}


def set_current_schema(schema_id: int = -1) -> Update:
    """-1 = the schema that this commit added last."""
    return {"action": "set-current-schema", "schema-id": schema_id}


def add_spec(spec: Mapping[str, Any]) -> Update:
    return {"action": "add-spec", "spec": spec}


def set_default_spec(spec_id: int = -1) -> Update:
    """-1 = the partition spec that this commit added last."""
    return {"action": "set-default-spec", "spec-id": spec_id}


def add_sort_order(order: Mapping[str, Any]) -> Update:
    return {"action": "add-sort-order", "sort-order": order}


def set_default_sort_order(order_id: int = -1) -> Update:
    """-1 = the sort order that this commit added last."""
    return {"action": "set-default-sort-order", "sort-order-id": order_id}


def remove_snapshot_ref(name: str) -> Update:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def remove_snapshots(snapshot_ids: Iterable[int]) -> Update:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def set_location(location: str) -> Update:
    return {"action": "set-location", "location": location}


def remove_properties(names: Iterable[str]) -> Update:
    return {"action": "remove-properties", "removals": list(names)}


def assert_create() -> Requirement:
    """The table must not exist."""
    return {"type": ASSERT_CREATE}


def assert_ref_snapshot_id(ref: str, snapshot_id: int | None) -> Requirement:
    """The branch or tag must point to this snapshot; None = it must not exist."""
    return {"type": ASSERT_REF_SNAPSHOT_ID, "ref": ref, "snapshot-id": snapshot_id}


def assert_last_assigned_field_id(field_id: int) -> Requirement:
    """No column was added: the table's `last-column-id` is unchanged."""
    return {"type": ASSERT_LAST_ASSIGNED_FIELD_ID, "last-assigned-field-id": field_id}


def assert_current_schema_id(schema_id: int) -> Requirement:
    """The current schema is unchanged."""
    return {"type": ASSERT_CURRENT_SCHEMA_ID, "current-schema-id": schema_id}


def assert_last_assigned_partition_id(field_id: int) -> Requirement:
    """No partition field was added: the table's `last-partition-id` is unchanged."""
    return {"type": ASSERT_LAST_ASSIGNED_PARTITION_ID, "last-assigned-partition-id": field_id}


def assert_default_spec_id(spec_id: int) -> Requirement:
    """The default partition spec is unchanged."""
    return {"type": ASSERT_DEFAULT_SPEC_ID, "default-spec-id": spec_id}


def assert_default_sort_order_id(order_id: int) -> Requirement:
    """The default sort order is unchanged."""
    return {"type": ASSERT_DEFAULT_SORT_ORDER_ID, "default-sort-order-id": order_id}


def for_create_table() -> tuple[Requirement, ...]:
    """For updates that make a new table."""
    return (assert_create(),)


def for_update_table(base: TableMetadata, updates: Iterable[Update]) -> tuple[Requirement, ...]:
    """For updates that were made on `base`."""
    return _Derivation(base, replace=False).of(updates)


def for_replace_table(base: TableMetadata, updates: Iterable[Update]) -> tuple[Requirement, ...]:
    """For updates that replace a table's schema, spec and content (CREATE OR REPLACE): what others changed meanwhile is
    replaced too, but ids must not be given twice."""
    return _Derivation(base, replace=True).of(updates)


class _Derivation:
    def __init__(self, base: TableMetadata, *, replace: bool) -> None:
        self._base = base
        self._replace = replace
        self._found: list[Requirement] = []

    def of(self, updates: Iterable[Update]) -> tuple[Requirement, ...]:
        if self._base.uuid is not None:
            self._require(assert_table_uuid(self._base.uuid))
        for update in updates:
            match update["action"]:
                case "set-snapshot-ref":
                    self._ref_unchanged(update["ref-name"])
                case "add-schema":
                    self._require(assert_last_assigned_field_id(self._base.last_column_id))
                case "set-current-schema":
                    self._schema_unchanged()
                case "add-spec":
                    self._require(assert_last_assigned_partition_id(self._base.last_partition_id))
                case "set-default-spec":
                    self._spec_unchanged()
                case "set-default-sort-order":
                    if not self._replace:
                        self._require(assert_default_sort_order_id(self._base.default_sort_order_id))
                case "remove-partition-specs":
                    self._spec_unchanged()
                    self._branches_unchanged()
                case "remove-schemas":
                    self._schema_unchanged()
                    self._branches_unchanged()
        return tuple(self._found)

    def _require(self, requirement: Requirement) -> None:
        if requirement not in self._found:
            self._found.append(requirement)

    def _schema_unchanged(self) -> None:
        if not self._replace:
            self._require(assert_current_schema_id(self._base.current_schema_id))

    def _spec_unchanged(self) -> None:
        if not self._replace:
            self._require(assert_default_spec_id(self._base.default_spec_id))

    def _ref_unchanged(self, name: str) -> None:
        if self._replace:
            return
        ref = self._base.ref(name)
        self._require(assert_ref_snapshot_id(name, None if ref is None else ref.snapshot_id))

    def _branches_unchanged(self) -> None:
        # A moved branch may have been written with the very schema or spec that is to be removed. Moves of main are
        # seen by the current schema and the default spec.
        for name, ref in self._base.refs.items():
            if ref.is_branch and name != MAIN_BRANCH:
                self._ref_unchanged(name)
