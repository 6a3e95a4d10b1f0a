"""A group with one change that a real metastore refuses: it alone fails, and the table's lock is free in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.table_lock import HmsTableLock
from iceberg_hms.rest.errors import rule_for
from iceberg_hms.runtime import ThreadRuntime

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "int"}],
}
WAIT_SECONDS = 30.0


@pytest.fixture
def catalog(metastore: Any) -> Iterator[Any]:
    with iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) as catalog:
        yield catalog


def as_one_group(catalog: Any, pool: ClientPool, name: Any, updates: list[list[dict[str, Any]]]) -> list[PendingCommit]:
    """Submit commits while another writer has the lock, so that all of them wait for it together."""
    runtime = ThreadRuntime()
    lock = HmsTableLock(pool, runtime, Settings.load({}, environ={}))
    held = lock.acquire(name, wait_seconds=10, request="another-writer")
    try:
        submitted = [catalog.submit(name, [], each, wait_seconds=WAIT_SECONDS) for each in updates]
    finally:
        held.release()
        lock.close()
    return submitted


def status_of(commit: PendingCommit) -> int:
    try:
        commit.wait()
    except iceberg_hms.IcebergHmsError as error:
        return rule_for(error, commit=True).status
    return 200


def test_only_the_change_that_the_metastore_refuses_fails(catalog: Any, namespace: str, pool: ClientPool) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    catalog.commit(
        table.name(), [], [{"action": "set-properties", "updates": {"write.metadata.path": table.metadata.location}}]
    )
    # No metastore has a file system for it, and it says so at once.
    guilty = [{"action": "set-location", "location": "nope://nowhere/t"}]
    updates = [[{"action": "set-properties", "updates": {f"key-{number}": "v"}}] for number in range(8)]
    updates[3] = guilty
    started = SYSTEM_CLOCK.monotonic()
    statuses = [status_of(commit) for commit in as_one_group(catalog, pool, table.name(), updates)]
    assert statuses == [200] * 3 + [400] + [200] * 4
    assert SYSTEM_CLOCK.monotonic() - started < WAIT_SECONDS
    properties = catalog.load_table(table.name()).metadata.properties
    assert [key for key in properties if key.startswith("key-")] == [
        f"key-{number}" for number in range(8) if number != 3
    ]
