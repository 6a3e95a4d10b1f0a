"""A suite that cannot fail proves nothing: broken pointers are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from iceberg_hms.coordinator.ports import Pointer, Sending, SwapAnswer, TableName
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.testing.contracts import view_pointer
from iceberg_hms.testing.contracts.table_pointer import Place
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from iceberg_hms.testing.memory_views import MemoryViewPointer
from tests.testing.contracts.test_table_pointer import without_compare_and_swap


class KeepsProperties(MemoryViewPointer):
    def swap(
        self, base: Pointer, location: str, metadata: ViewMetadata, replaced: ViewMetadata, sending: Sending
    ) -> SwapAnswer:
        return super().swap(base, location, metadata, metadata, sending)


class ForgetsThePrevious(MemoryViewPointer):
    def load(self, name: TableName) -> Pointer:
        return replace(super().load(name), previous_metadata_location=None)


class ListsAll(MemoryViewPointer):
    def list_views(self, namespace: str) -> Sequence[str]:  # type: ignore[override]
        super().list_views(namespace)
        return sorted(name.name for name in self.tables.rows if name.namespace == namespace)


def check(name: str, views: MemoryViewPointer) -> None:
    tables = views.tables
    getattr(view_pointer, name)(views, tables, Place("db", "other", "memory:/v", tables.add_hive_table))


def tables() -> MemoryTablePointer:
    return MemoryTablePointer({"db", "other"})


@pytest.mark.parametrize(
    ("name", "views"),
    [
        ("an_outdated_swap_changes_nothing", MemoryViewPointer(without_compare_and_swap())),
        ("one_of_many_concurrent_swaps_wins", MemoryViewPointer(without_compare_and_swap())),
        ("a_swap_moves_the_pointer", KeepsProperties(tables())),
        ("a_swap_moves_the_pointer", ForgetsThePrevious(tables())),
        ("tables_are_no_views_and_views_are_no_tables", ListsAll(tables())),
    ],
)
def test_a_broken_pointer_is_found(name: str, views: MemoryViewPointer) -> None:
    with pytest.raises(AssertionError):
        check(name, views)
