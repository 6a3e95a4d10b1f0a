"""Creations as clients send them, and what others do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_hms.changes import updates
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from simulation.actors.requests import assert_create
from tests.coordinator.harness import NAME, SCHEMA, Harness

OTHER = TableName("db", "other")
#: The list of a snapshot that a creation brings.
LIST = "file:/wh/db/t/metadata/snap-{}.avro"


def creation(*snapshot_ids: int, uuid: str | None = None) -> Change:
    """What a client sends that staged a table and wrote to it: its snapshots, the last of which main is moved to.
    uuid: another than the staged table's; "" for none at all."""
    clock = SYSTEM_CLOCK
    staged = new_table_metadata(
        SCHEMA, None, None, "file:/wh/db/t", {}, uuid=uuid or clock.uuid(), now_ms=clock.now_ms()
    )
    made: list[Any] = create_updates(staged)[1:] if uuid == "" else create_updates(staged)
    for number, id_ in enumerate(snapshot_ids, 1):
        snapshot = {
            "snapshot-id": id_,
            "sequence-number": number,
            "timestamp-ms": staged.last_updated_ms,
            "manifest-list": LIST.format(id_),
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        made.append(updates.add_snapshot(snapshot))
    if snapshot_ids:
        made.append(updates.set_snapshot_ref("main", snapshot_ids[-1]))
    return from_request([assert_create()], made)


def rival_table(harness: Harness) -> Any:
    """Another table's row, whose file is there."""
    rival = Harness()
    rival.create()
    harness.files.write(rival.location(), rival.files.read(rival.location()))
    return rival.pointer.rows[NAME]


def before_look(harness: Harness, number: int, move: Callable[[], object]) -> None:
    """Let something happen before the table is looked at for the nth time."""
    load, looks = harness.pointer.load, list[TableName]()

    def around(name: TableName) -> Any:
        looks.append(name)
        if len(looks) == number:
            move()
        return load(name)

    harness.pointer.load = around  # type: ignore[method-assign]


def rename(harness: Harness, name: TableName = NAME, to: TableName = OTHER) -> None:
    harness.pointer.rows[to] = harness.pointer.rows.pop(name)
