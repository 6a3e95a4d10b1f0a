"""What operations on metadata alone have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from iceberg_hms.changes.change import Update
from iceberg_hms.changes.operations.metadata_operation import MetadataOperation
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.memory_manifests import MemoryManifestStore
from tests.changes.tables import table


class Picky(MetadataOperation):
    """Not valid on a table with a property that it names."""

    name: ClassVar[str] = "picky"

    def __init__(self, seen: TableMetadata, refused: str = "x", **options: Any) -> None:
        super().__init__(seen, **options)
        self._refused = refused

    def updates(self, base: TableMetadata) -> Sequence[Update]:
        if self._refused in base.properties:
            raise InvalidInput(f"the table has {self._refused}", next_step="remove it")
        return [{"action": "set-properties", "updates": {"done": "yes"}}]


def test_what_fails_on_the_callers_own_state_is_bad_input() -> None:
    base = table(properties={"x": "1"})
    with pytest.raises(InvalidInput, match="the table has x"):
        Picky(base).validate()
    with pytest.raises(InvalidInput, match="the table has x"):
        Picky(base).check(base)
    with pytest.raises(InvalidInput, match="the table has x"):
        Picky(base).check(table(properties={"x": "2"}))


def test_what_fails_on_a_later_state_alone_is_another_writers_doing() -> None:
    with pytest.raises(RequirementFailed, match=r"another writer changed the table.*the table has x") as refused:
        Picky(table()).check(table(properties={"x": "1"}))
    assert (refused.value.name, refused.value.next_step) == ("picky", "remove it")


def test_another_table_and_a_missing_one_are_refused() -> None:
    operation = Picky(table())
    with pytest.raises(RequirementFailed, match="table does not exist"):
        operation.check(None)
    with pytest.raises(RequirementFailed, match="table does not exist"):
        operation.stage(None, MemoryManifestStore().open())
    with pytest.raises(RequirementFailed, match="UUID does not match"):
        operation.check(table(table_uuid="00000000-0000-0000-0000-000000000000"))


def test_a_table_of_version_one_needs_no_uuid() -> None:
    operation = Picky(table(1, table_uuid=None))
    operation.check(table(1, table_uuid=None))
    assert operation.stage(table(1), MemoryManifestStore().open()).updates


def test_the_identity_names_caller_and_location() -> None:
    identity = Picky(table(), caller="ann", location="file:/new").identity
    assert (identity.caller, identity.location, identity.snapshot_ids) == ("ann", "file:/new", ())
