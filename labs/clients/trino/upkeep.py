"""What Trino does to keep tables small and tidy."""

from __future__ import annotations

from typing import Final

import pyarrow.parquet as pq

from labs.clients import others
from labs.clients.lab import Place, files_below
from labs.clients.results import Verdict
from labs.clients.trino.catalog import Catalog, check_ids


def _small_files(catalog: Catalog, place: Place) -> str:
    """A table of many small files: Trino's, PyIceberg's and ours, some rows deleted."""
    table = catalog.make(place)
    for id_ in range(1, 4):
        catalog.insert(table, id_)
    theirs = place.lab.new_pyiceberg().load_table(place.table())
    theirs.append(others.rows(4))
    place.lab.catalog.load_table(place.table()).append([_outside(place, "one", 5, 6)])
    catalog.sql(f"DELETE FROM {table} WHERE id IN (2, 5)")
    return table


def _outside(place: Place, name: str, *ids: int) -> str:
    """A Parquet file outside of all tables; its location."""
    path = place.folder / f"{name}.parquet"
    pq.write_table(others.rows(*ids), path)
    return f"file:{path}"


def rewrite_files(catalog: Catalog, place: Place) -> Verdict | None:
    table = _small_files(catalog, place)
    catalog.sql(f"ALTER TABLE {table} EXECUTE optimize")
    check_ids(catalog, place, [1, 3, 4, 6])
    files = catalog.sql(f"SELECT content, record_count FROM {catalog.metadata(place, 'files')}")
    assert files == [[0, 4]], files
    return None


def rewrite_manifests(catalog: Catalog, place: Place) -> Verdict | None:
    table = _small_files(catalog, place)
    before = catalog.sql(f"SELECT count(*) FROM {catalog.metadata(place, 'manifests')}")[0][0]
    catalog.sql(f"ALTER TABLE {table} EXECUTE optimize_manifests")
    after = catalog.sql(f"SELECT count(*) FROM {catalog.metadata(place, 'manifests')}")[0][0]
    assert after < before, f"{before} -> {after}"
    check_ids(catalog, place, [1, 3, 4, 6])
    return None


def expire(catalog: Catalog, place: Place) -> Verdict | None:
    table = _small_files(catalog, place)
    catalog.sql(f"ALTER TABLE {table} EXECUTE optimize")
    # Java deletes a file when the snapshot expires that removed it (IncrementalFileCleanup): the head must be another.
    catalog.insert(table, 7)
    before = place.files_of(place.table())
    catalog.sql(f"ALTER TABLE {table} EXECUTE expire_snapshots(retention_threshold => '0s')")
    snapshots = catalog.sql(f"SELECT count(*) FROM {catalog.metadata(place, 'snapshots')}")
    assert snapshots == [[1]], snapshots
    data = {file for file in before - place.files_of(place.table()) if file.suffix == ".parquet"}
    assert len(data) >= 4, f"deleted: {data}"
    check_ids(catalog, place, [1, 3, 4, 6, 7])
    assert (place.folder / "one.parquet").exists() is False, "a file of an expired snapshot"
    return None


def remove_orphans(catalog: Catalog, place: Place) -> Verdict | None:
    table = _small_files(catalog, place)
    location = place.lab.catalog.load_table(place.table()).metadata.location
    needed = files_below(location)
    folder = next(iter(file for file in needed if file.suffix == ".parquet")).parent
    orphans = {folder / "orphan.parquet", folder.parent / "metadata" / "orphan.avro"}
    for orphan in orphans:
        orphan.write_bytes(b"nobody names it")
    catalog.sql(f"ALTER TABLE {table} EXECUTE remove_orphan_files(retention_threshold => '0s')")
    check_ids(catalog, place, [1, 3, 4, 6])
    left = files_below(location)
    assert not orphans & left, f"left: {orphans & left}"
    loaded = place.lab.pyiceberg.load_table(place.table())
    for snapshot in loaded.snapshots():
        loaded.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    return None


def add_files(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    location = _outside(place, "one", 1, 2).rpartition("/")[0]
    catalog.sql(f"ALTER TABLE {table} EXECUTE add_files(location => '{location}', format => 'PARQUET')")
    check_ids(catalog, place, [1, 2])
    return None


def register(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1)
    location = place.lab.catalog.load_table(place.table()).metadata.location
    call = f"CALL {catalog.name}.system"
    catalog.sql(f"{call}.unregister_table('{place.namespace}', 't')")
    assert not place.lab.catalog.table_exists(place.table())
    catalog.sql(f"{call}.register_table('{place.namespace}', 'again', '{location}')")
    check_ids(catalog, place, [1], "again")
    catalog.insert(catalog.table(place, "again"), 2)
    check_ids(catalog, place, [1, 2], "again")
    return None


def statistics(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.make(place)
    catalog.insert(table, 1, 2, 3)
    catalog.sql(f"ANALYZE {table}")
    stats = {row[0]: row for row in catalog.sql(f"SHOW STATS FOR {table}")}
    assert stats["id"][2] == 3.0, stats
    (file,) = place.lab.new_pyiceberg().load_table(place.table()).metadata.statistics
    assert file.statistics_path.endswith(".stats"), file
    catalog.sql(f"ALTER TABLE {table} EXECUTE drop_extended_stats")
    assert not place.lab.new_pyiceberg().load_table(place.table()).metadata.statistics
    return None


CHECKS: Final = {
    "rewrite data files": rewrite_files,
    "rewrite manifests": rewrite_manifests,
    "expire snapshots": expire,
    "remove orphan files": remove_orphans,
    "add files": add_files,
    "register": register,
    "statistics": statistics,
}
