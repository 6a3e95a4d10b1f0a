"""The requirements that follow from updates: what must not have changed for them to mean what their maker meant.

As Java's UpdateRequirements, so that a commit made here conflicts exactly where one made there does. Properties, the
location, snapshots that no ref points to yet and statistics ask for no more than the table's identity: those replay.
"""

from __future__ import annotations

from collections.abc import Iterable

from iceberg_hms.changes import requirements
from iceberg_hms.changes.change import Requirement, Update
from iceberg_hms.format.metadata import TableMetadata
from iceberg_hms.format.snapshot import MAIN_BRANCH


def for_create_table() -> tuple[Requirement, ...]:
    """For updates that make a new table."""
    return (requirements.assert_create(),)


def for_update_table(base: TableMetadata, updates: Iterable[Update]) -> tuple[Requirement, ...]:
    """For updates that were made looking at `base`."""
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
            self._require(requirements.assert_table_uuid(self._base.uuid))
        for update in updates:
            match update["action"]:
                case "set-snapshot-ref":
                    self._ref_unchanged(update["ref-name"])
                case "add-schema":
                    self._require(requirements.assert_last_assigned_field_id(self._base.last_column_id))
                case "set-current-schema":
                    self._schema_unchanged()
                case "add-spec":
                    self._require(requirements.assert_last_assigned_partition_id(self._base.last_partition_id))
                case "set-default-spec":
                    self._spec_unchanged()
                case "set-default-sort-order":
                    if not self._replace:
                        self._require(requirements.assert_default_sort_order_id(self._base.default_sort_order_id))
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
            self._require(requirements.assert_current_schema_id(self._base.current_schema_id))

    def _spec_unchanged(self) -> None:
        if not self._replace:
            self._require(requirements.assert_default_spec_id(self._base.default_spec_id))

    def _ref_unchanged(self, name: str) -> None:
        if self._replace:
            return
        ref = self._base.ref(name)
        self._require(requirements.assert_ref_snapshot_id(name, None if ref is None else ref.snapshot_id))

    def _branches_unchanged(self) -> None:
        # A moved branch may have been written with the very schema or spec that is to be removed. Moves of main are
        # seen by the current schema and the default spec.
        for name, ref in self._base.refs.items():
            if ref.is_branch and name != MAIN_BRANCH:
                self._ref_unchanged(name)
