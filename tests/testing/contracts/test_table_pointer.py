"""A suite that cannot fail proves nothing: broken pointers are found."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import OWNED_FOLDER, Pointer, Sending, SwapAnswer, TableFolder, TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.testing.contracts import table_pointer
from iceberg_hms.testing.contracts.table_pointer import Place
from iceberg_hms.testing.memory_pointer import MemoryTablePointer, ScriptedAnswer


def without_compare_and_swap() -> MemoryTablePointer:
    pointer = MemoryTablePointer({"db", "other"})
    pointer.metastore.compare = lambda name, key, expected: None  # type: ignore[method-assign]
    return pointer


class KeepsProperties(MemoryTablePointer):
    def swap(
        self,
        base: Pointer,
        location: str,
        metadata: TableMetadata,
        replaced: TableMetadata,
        sending: Sending,
        **more: Any,
    ) -> SwapAnswer:
        return super().swap(base, location, metadata, metadata, sending, **more)


def place_of(pointer: MemoryTablePointer) -> Place:
    return Place("db", "other", "memory:/t", pointer.add_hive_table)


def check(name: str, pointer: MemoryTablePointer) -> None:
    pointer.metastore.databases.update(db={}, other={})
    getattr(table_pointer, name)(pointer, place_of(pointer))


@pytest.mark.parametrize(
    "name",
    [
        "an_outdated_swap_changes_nothing",
        "a_swap_sent_again_changes_nothing",
        "one_of_many_concurrent_swaps_wins",
        "a_rename_to_a_taken_name_or_of_an_outdated_row_is_refused",
    ],
)
def test_a_pointer_without_compare_and_swap_is_found(name: str) -> None:
    with pytest.raises(AssertionError):
        check(name, without_compare_and_swap())


def test_removed_properties_that_stay_are_found() -> None:
    with pytest.raises(AssertionError, match="old: expected None"):
        check("a_swap_moves_the_pointer", KeepsProperties())


def test_a_pointer_that_never_sends_swaps_that_require_compare_and_swap_is_found() -> None:
    pointer = MemoryTablePointer()
    pointer.atomic = False
    with pytest.raises(MetastoreUnavailable):
        check("a_swap_that_requires_compare_and_swap_moves_the_pointer", pointer)


def test_a_pointer_that_forgets_the_folder_is_found() -> None:
    class Forgets(MemoryTablePointer):
        def load(self, name: TableName) -> Pointer:
            return replace(super().load(name), location=None)

    for name in ("a_new_table_is_loaded", "a_swap_moves_the_folder"):
        with pytest.raises(AssertionError, match="location"):
            check(name, Forgets())


def test_a_lost_create_is_found() -> None:
    pointer = MemoryTablePointer()
    pointer.answers.append(ScriptedAnswer.REQUEST_LOST)
    with pytest.raises(AssertionError, match="create"):
        check("a_new_table_is_loaded", pointer)


def test_a_hive_table_that_is_overwritten_is_found() -> None:
    class Overwrites(MemoryTablePointer):
        def create(
            self,
            name: TableName,
            location: str,
            metadata: TableMetadata,
            owner: str | None,
            *,
            owns_folder: bool = False,
        ) -> SwapAnswer:
            self.rows.pop(name, None)
            return super().create(name, location, metadata, owner, owns_folder=owns_folder)

    with pytest.raises(AssertionError, match="Hive table"):
        check("a_hive_table_is_not_touched", Overwrites())


def test_a_scratch_row_that_is_left_behind_is_found() -> None:
    class Litters(MemoryTablePointer):
        def accepts_writes(self, name: TableName) -> bool | None:
            self.rows[TableName(name.namespace, "scratch")] = self.rows[name]
            return True

    with pytest.raises(AssertionError, match="tables of the database"):
        check("accepts_writes_is_true_and_leaves_no_row", Litters())


class RecordsWhateverItIsTold(MemoryTablePointer):
    def load(self, name: TableName) -> Pointer:
        row = super().load(name)
        return replace(row, parameters={OWNED_FOLDER: row.location or "", **row.parameters})


class ForgetsTheOwner(MemoryTablePointer):
    def rename(self, base: Pointer, to: TableName, sending: Sending) -> SwapAnswer:
        answer = super().rename(base, to, sending)
        row = self.rows[to]
        self.rows[to] = replace(row, parameters={k: v for k, v in row.parameters.items() if k != OWNED_FOLDER})
        return answer


@pytest.mark.parametrize("kind", [RecordsWhateverItIsTold, ForgetsTheOwner])
def test_an_owned_folder_that_is_claimed_or_forgotten_is_found(kind: type[MemoryTablePointer]) -> None:
    with pytest.raises(AssertionError, match="owns_folder"):
        check("a_table_owns_the_folder_that_it_was_made_in", kind())


def test_folders_that_are_not_listed_are_found() -> None:
    class Hides(MemoryTablePointer):
        def folders_in(self, namespace: str, *, timeout_seconds: float) -> list[TableFolder]:
            found = super().folders_in(namespace, timeout_seconds=timeout_seconds)
            return [each for each in found if each.name.name != "hive"]

        def database_folders(self, *, timeout_seconds: float) -> dict[str, list[str]]:
            found = super().database_folders(timeout_seconds=timeout_seconds)
            return {name: folders for name, folders in found.items() if name != "other"}

    for name in ("the_folders_of_all_tables_are_listed", "the_folders_of_all_databases_are_listed"):
        with pytest.raises(AssertionError):
            check(name, Hides())


def test_tables_that_nobody_asked_for_are_found() -> None:
    class ReadsAll(MemoryTablePointer):
        def locations_in(self, namespace: str, names: Collection[str] | None = None, **more: Any) -> dict[str, str]:
            return super().locations_in(namespace, **more)

    with pytest.raises(AssertionError, match="the locations of some tables"):
        check("the_locations_of_many_tables_are_read_at_once", ReadsAll())


def test_locations_that_are_taken_from_what_is_known_are_found() -> None:
    pointer = MemoryTablePointer()
    pointer.unlucky = frozenset({"b"})
    with pytest.raises(AssertionError, match="the locations in turn 1"):
        check("the_locations_of_many_tables_are_read_at_once", pointer)


def test_every_check_has_a_name_of_its_own() -> None:
    names = [check.__name__ for check in table_pointer.CHECKS]
    assert len(set(names)) == len(names) == 24
