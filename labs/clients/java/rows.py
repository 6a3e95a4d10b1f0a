"""Java's changes of rows, by its core API, and how it reads the history."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.parquet as pq

from labs.clients import others
from labs.clients.java.catalog import REST, Catalog, check_ids, each, fails, position_delete
from labs.clients.lab import Place
from labs.clients.results import Verdict, refused, works

_METADATA: Final = (
    *("ENTRIES", "FILES", "DATA_FILES", "DELETE_FILES", "HISTORY", "METADATA_LOG_ENTRIES", "SNAPSHOTS", "REFS"),
    *("MANIFESTS", "PARTITIONS", "ALL_DATA_FILES", "ALL_DELETE_FILES", "ALL_FILES", "ALL_MANIFESTS", "ALL_ENTRIES"),
)


def _partitioned(catalog: Catalog, place: Place, *ids: int) -> Any:
    """A table partitioned by name, with one file for each id."""
    table = catalog.make(place, by="name")
    update = table.newAppend()
    for id_ in ids:
        update = update.appendFile(_file(catalog, place, table, id_))
    update.commit()
    return table


def _file(catalog: Catalog, place: Place, table: Any, id_: int, day: int | None = None) -> Any:
    name = f"row {day or id_}"
    return catalog.file(place, table, (id_, name), partition=f"name={name}")


def insert(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1, 2)
    table.newFastAppend().appendFile(catalog.file(place, table, (3, "row 3"))).commit()
    check_ids(catalog, place, [1, 2, 3])
    return None


def overwrite(catalog: Catalog, place: Place) -> Verdict | None:
    table = _partitioned(catalog, place, 1, 2, 3)
    # By filter, by partition, and file by file.
    equal = catalog.iceberg.expressions.Expressions.equal
    table.newOverwrite().overwriteByRowFilter(equal("name", "row 1")).addFile(
        _file(catalog, place, table, 11, 1)
    ).validateAddedFilesMatchOverwriteFilter().commit()
    table.newReplacePartitions().addFile(_file(catalog, place, table, 12, 2)).commit()
    old = next(file for file in catalog.live_files(table) if "row 3" in str(file.partition()))
    table.newOverwrite().deleteFile(old).addFile(_file(catalog, place, table, 13, 3)).commit()
    check_ids(catalog, place, [11, 12, 13])
    return None


def delete_rows(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1, 2, 3)
    (file,) = catalog.live_files(table)
    delta = table.newRowDelta().addDeletes(position_delete(catalog, place, table, file, 1))
    delta.validateFromSnapshot(table.currentSnapshot().snapshotId()).validateDataFilesExist([file.location()]).commit()
    check_ids(catalog, place, [1, 3])
    return None


def delete_partition(catalog: Catalog, place: Place) -> Verdict | None:
    table = _partitioned(catalog, place, 1, 2, 3)
    table.newDelete().deleteFromRowFilter(catalog.iceberg.expressions.Expressions.equal("name", "row 2")).commit()
    assert table.currentSnapshot().operation() == "delete"
    check_ids(catalog, place, [1, 3])
    return None


def merge(catalog: Catalog, place: Place) -> Verdict | None:
    """A row delta with new rows and deleted ones."""
    table = catalog.append(place, catalog.make(place), 1, 2, 3)
    (file,) = catalog.live_files(table)
    delta = table.newRowDelta().addDeletes(position_delete(catalog, place, table, file, 0))
    delta = delta.addRows(catalog.file(place, table, (1, "changed"), (9, "new")))
    delta.validateFromSnapshot(table.currentSnapshot().snapshotId()).validateNoConflictingDataFiles().commit()
    check_ids(catalog, place, [1, 2, 3, 9])
    assert {row["name"] for row in place.lab.rows(place.table())} == {"changed", "row 2", "row 3", "new"}
    return None


def truncate(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    table.newDelete().deleteFromRowFilter(catalog.iceberg.expressions.Expressions.alwaysTrue()).commit()
    check_ids(catalog, place, [])
    return None


def transaction(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    transaction = table.newTransaction()
    transaction.updateProperties().set("mine", "1").commit()
    transaction.updateSchema().addColumn("more", catalog.iceberg.types.Types.IntegerType.get()).commit()
    transaction.newAppend().appendFile(catalog.file(place, table, (2, "row 2"))).commit()
    transaction.newDelete().deleteFile(catalog.live_files(table)[0]).commit()
    check_ids(catalog, place, [1])
    transaction.commitTransaction()
    check_ids(catalog, place, [2])
    if catalog.kind != REST:
        return works("of one table; HiveCatalog has no transactions of several tables")
    base = catalog.load(place).operations().current()
    changed = catalog.jvm.java.util.Collections.singletonMap("other", "2")
    updated = catalog.iceberg.TableMetadata.buildFrom(base).setProperties(changed).build()
    commit = catalog.iceberg.catalog.TableCommit.create(catalog.name(place.table()), base, updated)
    words = fails(lambda: catalog.java.commitTransaction(catalog.jvm.java.util.Collections.singletonList(commit)))
    assert "UnsupportedOperationException" in words, words
    return refused(
        "of one table it works; of several tables the server has no endpoint, since a metastore cannot swap two"
        " pointers at once"
    )


def reads_others(catalog: Catalog, place: Place) -> Verdict | None:
    path = place.folder / "one.parquet"
    pq.write_table(others.rows(1, 2), path)
    place.lab.catalog.create_table(place.table(), others.SCHEMA).append([f"file:{path}"])
    theirs = place.lab.new_pyiceberg().load_table(place.table())
    theirs.append(others.rows(3, 4))
    theirs.delete("id = 3")
    check_ids(catalog, place, [1, 2, 4])
    catalog.append(place, catalog.load(place), 5)
    check_ids(catalog, place, [1, 2, 4, 5])
    return None


def time_travel(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    first = table.currentSnapshot()
    catalog.append(place, table, 2)
    assert catalog.ids(table, first.snapshotId()) == [1]
    at = catalog.iceberg.util.SnapshotUtil.snapshotIdAsOfTime(table, first.timestampMillis())
    assert at == first.snapshotId()
    return None


def branches(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    first = table.currentSnapshot().snapshotId()
    manage = table.manageSnapshots().createBranch("side", first).createTag("old", first)
    manage.setMaxRefAgeMs("old", 10**9).setMinSnapshotsToKeep("side", 2).commit()
    table.newAppend().appendFile(catalog.file(place, table, (2, "row 2"))).toBranch("side").commit()
    check_ids(catalog, place, [1])
    assert catalog.ids(table, table.refs()["side"].snapshotId()) == [1, 2]
    table.manageSnapshots().fastForwardBranch("main", "side").commit()
    check_ids(catalog, place, [1, 2])
    table.manageSnapshots().removeTag("old").removeBranch("side").commit()
    assert set(place.lab.new_pyiceberg().load_table(place.table()).refs()) == {"main"}
    # Staged only, then published (write-audit-publish).
    table.newAppend().appendFile(catalog.file(place, table, (3, "row 3"))).stageOnly().commit()
    check_ids(catalog, place, [1, 2])
    staged = max(each(table.snapshots()), key=lambda snapshot: snapshot.sequenceNumber()).snapshotId()
    table.manageSnapshots().cherrypick(staged).commit()
    check_ids(catalog, place, [1, 2, 3])
    return None


def metadata_tables(catalog: Catalog, place: Place) -> Verdict | None:
    path = place.folder / "one.parquet"
    pq.write_table(others.rows(1, 2), path)
    place.lab.catalog.create_table(place.table(), others.SCHEMA).append([f"file:{path}"])
    table = catalog.load(place)
    (file,) = catalog.live_files(table)
    table.newRowDelta().addDeletes(position_delete(catalog, place, table, file, 1)).commit()
    util, kinds = catalog.iceberg.MetadataTableUtils, catalog.iceberg.MetadataTableType
    for kind in _METADATA:
        metadata = util.createMetadataTableInstance(table, kinds.valueOf(kind))
        tasks = metadata.newScan().planFiles()
        found = sum(1 for task in each(tasks) for _ in each(task.asDataTask().rows()))
        tasks.close()
        assert found, f"{kind} is empty"
    return None


def rollback(catalog: Catalog, place: Place) -> Verdict | None:
    table = catalog.append(place, catalog.make(place), 1)
    first = table.currentSnapshot().snapshotId()
    catalog.append(place, table, 2)
    table.manageSnapshots().rollbackTo(first).commit()
    check_ids(catalog, place, [1])
    catalog.append(place, table, 3)
    check_ids(catalog, place, [1, 3])
    return None


CHECKS: Final = {
    "insert": insert,
    "overwrite": overwrite,
    "delete rows": delete_rows,
    "delete partition": delete_partition,
    "merge": merge,
    "truncate": truncate,
    "transaction": transaction,
    "reads others": reads_others,
    "time travel": time_travel,
    "branches and tags": branches,
    "metadata tables": metadata_tables,
    "rollback": rollback,
}
