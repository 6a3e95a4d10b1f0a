"""Commits as stock clients send them through a coordinator, and send again when their snapshots have expired."""

from __future__ import annotations

from typing import Any

from iceberg_hms.changes.change import Change
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.format.manifests.manifest import EntryStatus
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from simulation.actors import requests
from simulation.actors.requests import for_replace_table, for_update_table
from tests.changes.tables import SNAPSHOT_ISOLATION
from tests.changes.writers import Writer, data_file, request
from tests.coordinator.harness import Harness, set_properties

#: The snapshot that is sent again.
MINE = 10


def with_files(harness: Harness, *names: str) -> TableMetadata:
    """The table after appends of one file each, snapshots 1, 2 and so on. It rebases appends that are plain."""
    harness.commit(set_properties(**SNAPSHOT_ISOLATION))
    for number, name in enumerate(names, 1):
        add(harness, number, name)
    return harness.metadata()


def add(harness: Harness, snapshot_id: int, name: str) -> TableMetadata:
    """Append a file."""
    base = harness.metadata()
    harness.commit(request(base, Writer(harness.manifests).fast_append(base, snapshot_id, name)))
    return harness.metadata()


def merge(harness: Harness, snapshot_id: int) -> None:
    """Rewrite all manifests of the table into one, as Java's rewriteManifests does."""
    base, writer = harness.metadata(), Writer(harness.manifests)
    old = writer.manifests.list(base.current_snapshot)  # type: ignore[arg-type]
    entries = [(EntryStatus.EXISTING, each.data_file) for each in writer.manifests.entries(old)]
    harness.commit(request(base, writer.rewrite_list(base, snapshot_id, "replace", entries, old)))


def expire(harness: Harness, *snapshot_ids: int) -> None:
    """Remove snapshots, and their lists from the storage, as Java's expireSnapshots does."""
    base = harness.metadata()
    gone = [each for each in base.snapshots if each.snapshot_id in snapshot_ids]
    sent = [requests.remove_snapshots(snapshot_ids)]
    harness.commit(from_request(list(for_update_table(base, sent)), sent))
    for snapshot in gone:
        harness.manifests.lists.pop(snapshot.manifest_list or "", None)


def sent(harness: Harness, base: TableMetadata, kind: str) -> Change:
    """A commit of snapshot MINE that was made on `base`: of one of KINDS."""
    writer = Writer(harness.manifests)
    if kind == "plain":
        return request(base, writer.fast_append(base, MINE, "mine"))
    if kind == "flink":
        return request(base, writer.fast_append(base, MINE, "mine", **{"flink.max-committed-checkpoint-id": "7"}))
    if kind == "schema":
        made = writer.fast_append(base, MINE, "mine")
        return from_request([*for_update_table(base, made), *_SCHEMA], made)
    if kind == "staged":
        made = [each for each in writer.fast_append(base, MINE, "mine") if each["action"] == "add-snapshot"]
        return request(base, made)
    if kind == "create or replace":
        [add, move] = writer.fast_append(base.replace(refs={}, current_snapshot_id=None), MINE, "mine")
        return from_request(list(for_replace_table(base, [add, move])), [add, move])
    old = writer.manifests.list(base.current_snapshot)  # type: ignore[arg-type]
    first = next(iter(writer.manifests.entries(old[-1:]))).data_file
    entries: list[Any] = [(EntryStatus.DELETED, first)]
    if kind != "delete":
        entries.append((EntryStatus.ADDED, data_file("mine")))
    return request(base, writer.rewrite_list(base, MINE, kind, entries, old[-1:]))


_SCHEMA = [{"type": "assert-current-schema-id", "current-schema-id": 0}]
KINDS = ("plain", "flink", "schema", "delete", "overwrite", "replace", "create or replace")
