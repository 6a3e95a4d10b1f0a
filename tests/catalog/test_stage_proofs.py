"""A table that a client stages in an empty folder and fills owns that folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_hms.catalog.stage_proofs import STAGE_PROOF, StageProofs
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.updates.create import create_updates
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
CREATE = [{"type": "assert-create"}]


def created(
    change: Callable[[list[dict[str, Any]]], Any] = lambda _: None,
    name: str = "db.t",
    location: str | None = None,
    by_another: bool = False,
    key: bytes | None = None,
) -> tuple[bool, dict[str, str]]:
    """Stage db.t, write a data file, and create it. Returns whether it owns its folder, and its properties.

    change: of the updates that its client sends. name: of the table that it makes. by_another: another catalog creates
    it. key: of both catalogs.
    """
    pointer, files = MemoryTablePointer(namespaces=()), MemoryFiles()
    with memory_catalog(pointer=pointer, files=files) as catalog:
        catalog.create_namespace("db")
        with memory_catalog(pointer=pointer, files=files) as second:
            for each in (catalog, second):
                if key is not None:
                    each.use_signing_key(key)
            staged = catalog.stage_table("db.t", SCHEMA, location=location, properties={"a": "b"}).metadata
            files.write(f"{staged.location}/data/1.parquet", b"")
            updates = [dict(each) for each in create_updates(staged)]
            change(updates)
            (second if by_another else catalog).commit(name, CREATE, updates)
        return catalog.pointer(name).owns_folder, dict(catalog.load_table(name).metadata.properties)


def of(updates: list[dict[str, Any]], action: str) -> dict[str, Any]:
    return next(each for each in updates if each["action"] == action)


def test_a_table_that_was_staged_owns_its_folder_and_has_no_proof_in_its_properties() -> None:
    owns_folder, properties = created()
    assert owns_folder
    assert properties["a"] == "b"
    assert STAGE_PROOF not in properties


def _without(updates: list[dict[str, Any]]) -> None:
    del of(updates, "set-properties")["updates"][STAGE_PROOF]


def _elsewhere(updates: list[dict[str, Any]]) -> None:
    of(updates, "set-location")["location"] += "2"


def _moved_at_the_end(updates: list[dict[str, Any]]) -> None:
    updates.append({"action": "set-location", "location": "file:/warehouse/db.db/other"})


def _of_another_table(updates: list[dict[str, Any]]) -> None:
    of(updates, "assign-uuid")["uuid"] = "7b2c7b6a-6f0e-4a7b-8a51-5f8ad0a44a11"


def _forged(updates: list[dict[str, Any]]) -> None:
    of(updates, "set-properties")["updates"][STAGE_PROOF] = "0" * 64


def _odd(updates: list[dict[str, Any]]) -> None:
    of(updates, "set-properties")["updates"][STAGE_PROOF] = "\u00e9"


@pytest.mark.parametrize("change", [_without, _elsewhere, _moved_at_the_end, _of_another_table, _forged, _odd])
def test_without_a_proof_that_holds_it_does_not(change: Callable[[list[dict[str, Any]]], None]) -> None:
    owns_folder, properties = created(change=change)
    assert not owns_folder
    assert STAGE_PROOF not in properties


def test_a_proof_is_of_one_name() -> None:
    assert not created(name="db.u")[0]


def test_a_folder_that_its_client_names_is_not_proved() -> None:
    assert not created(location="file:/warehouse/db.db/t")[0]


def test_catalogs_with_one_key_accept_each_others_proofs() -> None:
    assert created(by_another=True, key=b"k" * 32)[0]
    assert not created(by_another=True)[0]


def test_updates_that_are_none_are_left_to_the_one_who_judges_them() -> None:
    proofs = StageProofs(b"k" * 32)
    name = TableName("db", "t")
    for odd in ({"action": "set-properties"}, {"action": "set-properties", "updates": 7}, {"action": "set-location"}):
        assert proofs.take(name, [odd]) == ([odd], False)
    old = {"action": "set-properties", "updated": {STAGE_PROOF: "x", "a": "b"}}
    assert proofs.take(name, [old]) == ([{"action": "set-properties", "updated": {"a": "b"}}], False)
