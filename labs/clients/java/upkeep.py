"""What Java's core API does to keep tables small and tidy."""

from __future__ import annotations

from typing import Any, Final

from labs.clients import others
from labs.clients.java.catalog import Catalog, check_ids, each
from labs.clients.lab import Place, local
from labs.clients.results import Verdict


def _small_files(catalog: Catalog, place: Place) -> Any:
    """A table of three small files in the table's own folder, and one outside."""
    catalog.make(place)
    theirs = place.lab.new_pyiceberg().load_table(place.table())
    for id_ in (1, 2, 3):
        theirs.append(others.rows(id_))
    return catalog.append(place, catalog.load(place), 4)


def rewrite_files(catalog: Catalog, place: Place) -> Verdict | None:
    table = _small_files(catalog, place)
    old = catalog.live_files(table)
    new = catalog.file(place, table, *((id_, f"row {id_}") for id_ in (1, 2, 3, 4)))
    rewrite = table.newRewrite().validateFromSnapshot(table.currentSnapshot().snapshotId())
    # What others append meanwhile stays.
    place.lab.new_pyiceberg().load_table(place.table()).append(others.rows(5))
    rewrite.rewriteFiles(catalog.set_of(*old), catalog.set_of(new)).commit()
    check_ids(catalog, place, [1, 2, 3, 4, 5])
    assert len(catalog.live_files(catalog.load(place))) == 2
    return None


def rewrite_manifests(catalog: Catalog, place: Place) -> Verdict | None:
    table = _small_files(catalog, place)
    before = {manifest.path() for manifest in table.currentSnapshot().allManifests(table.io())}
    table.rewriteManifests().clusterBy(catalog.jvm.java.util.function.Function.identity()).commit()
    after = {manifest.path() for manifest in table.currentSnapshot().allManifests(table.io())}
    assert not before & after
    assert table.currentSnapshot().operation() == "replace"
    check_ids(catalog, place, [1, 2, 3, 4])
    return None


def expire(catalog: Catalog, place: Place) -> Verdict | None:
    table = _small_files(catalog, place)
    table.newDelete().deleteFromRowFilter(catalog.iceberg.expressions.Expressions.alwaysTrue()).commit()
    catalog.append(place, table, 9)
    before = place.files_of(place.table())
    table.expireSnapshots().expireOlderThan(table.currentSnapshot().timestampMillis() + 1).retainLast(1).commit()
    assert len(list(each(table.snapshots()))) == 1
    gone = {file.suffix for file in before - place.files_of(place.table())}
    assert gone >= {".parquet", ".avro"}, gone
    check_ids(catalog, place, [9])
    return None


def register(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    location = table.operations().current().metadataFileLocation()
    catalog.java.dropTable(catalog.name(place.table()), False)
    registered = catalog.java.registerTable(catalog.name(place.table("again")), location)
    catalog.append(place, registered, 2)
    check_ids(catalog, place, [1, 2], "again")
    return None


def statistics(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    snapshot = table.currentSnapshot().snapshotId()
    # The server lets clients name statistics in its warehouse alone.
    path = local(table.location()) / "metadata" / "any.stats"
    path.write_bytes(b"PFA1")
    file = catalog.iceberg.GenericStatisticsFile(
        snapshot, f"file:{path}", path.stat().st_size, 1, catalog.jvm.java.util.ArrayList()
    )
    table.updateStatistics().setStatistics(file).commit()
    (found,) = place.lab.new_pyiceberg().load_table(place.table()).metadata.statistics
    assert found.snapshot_id == snapshot
    table.updateStatistics().removeStatistics(snapshot).commit()
    assert not place.lab.new_pyiceberg().load_table(place.table()).metadata.statistics
    return None


CHECKS: Final = {
    "rewrite data files": rewrite_files,
    "rewrite manifests": rewrite_manifests,
    "expire snapshots": expire,
    "register": register,
    "statistics": statistics,
}
