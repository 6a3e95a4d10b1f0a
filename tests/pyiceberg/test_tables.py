"""Which transactions of PyIceberg's are blind appends: every verb of the pinned release, from its source."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import update_table_metadata
from pyiceberg.table.update.snapshot import UpdateSnapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from iceberg_hms.pyiceberg.tables import BLIND_VERBS, HmsTable, HmsTransaction, commits_blind_append, notes_verbs

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "part": ["a", "a", "b"]})


class Recorder(NoopCatalog):
    """Commits to the table in memory, and notes which commits the transactions called blind appends."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.blind: list[bool] = []

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        for requirement in requirements:
            requirement.validate(table.metadata)
        self.blind.append(commits_blind_append())
        metadata = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": "memory"})


@pytest.fixture
def table(tmp_path: Path) -> HmsTable:
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "part", StringType(), required=False),
        identifier_field_ids=[],
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, f"file:{tmp_path}", {"owner": "me"})
    table = HmsTable(("db", "t"), metadata, "memory", PyArrowFileIO(), Recorder())
    table.append(ROWS)
    table.catalog.blind.clear()
    return table


def outside_file(table: Table) -> str:
    """A file that no table has."""
    path = Path(table.location().removeprefix("file:")) / "outside.parquet"
    pq.write_table(pa.table({"id": pa.array([7], pa.int64()), "part": ["z"]}), path)
    return f"file:{path}"


def statistics(table: Table) -> StatisticsFile:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot.snapshot_id,
            "statistics-path": "file:/stats.puffin",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
    )


def fast_append(transaction: Transaction, _table: Table) -> None:
    with transaction.update_snapshot().fast_append():
        pass


def update_schema(transaction: Transaction, _table: Table) -> None:
    with transaction.update_schema() as update:
        update.add_column("x", IntegerType())


def update_spec(transaction: Transaction, _table: Table) -> None:
    with transaction.update_spec() as update:
        update.remove_field("part")


def update_sort_order(transaction: Transaction, _table: Table) -> None:
    with transaction.update_sort_order() as update:
        update.asc("id", IdentityTransform())


def update_statistics(transaction: Transaction, table: Table) -> None:
    with transaction.update_statistics() as update:
        update.set_statistics(statistics(table))


#: Every verb of a transaction, as one that leads to a commit.
VERBS: dict[str, Callable[[Transaction, Table], object]] = {
    "append": lambda tx, _: tx.append(ROWS),
    "add_files": lambda tx, table: tx.add_files([outside_file(table)]),
    "delete": lambda tx, _: tx.delete("id = 1"),
    "dynamic_partition_overwrite": lambda tx, _: tx.dynamic_partition_overwrite(ROWS),
    "overwrite": lambda tx, _: tx.overwrite(ROWS, EqualTo("id", 99)),
    "upsert": lambda tx, _: tx.upsert(ROWS.slice(0, 1).set_column(0, "id", pa.array([50], pa.int64())), ["id"]),
    "set_properties": lambda tx, _: tx.set_properties(a="b"),
    "remove_properties": lambda tx, _: tx.remove_properties("owner"),
    "upgrade_table_version": lambda tx, _: tx.set_properties(a="b") and tx.upgrade_table_version(2),
    "update_snapshot": fast_append,
    "update_schema": update_schema,
    "update_spec": update_spec,
    "update_sort_order": update_sort_order,
    "update_statistics": update_statistics,
}
#: Not built in this release: it raises.
MISSING = {"update_location"}


def test_every_verb_of_the_release_is_here() -> None:
    verbs = {name for name, _ in inspect.getmembers(Transaction, inspect.isfunction) if not name.startswith("_")}
    assert verbs - {"commit_transaction"} == VERBS.keys() | MISSING


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_alone(table: HmsTable, verb: str) -> None:
    with table.transaction() as transaction:
        VERBS[verb](transaction, table)
    assert table.catalog.blind == [verb in BLIND_VERBS]


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("verb", sorted(VERBS.keys() - BLIND_VERBS))
@pytest.mark.parametrize("append_first", [True, False])
def test_an_append_beside_another_verb_is_not_blind(table: HmsTable, verb: str, append_first: bool) -> None:
    with table.transaction() as transaction:
        for each in ("append", verb) if append_first else (verb, "append"):
            VERBS[each](transaction, table)
    assert table.catalog.blind == [False]


def test_the_tables_own_verbs(table: HmsTable) -> None:
    table.append(ROWS)
    table.add_files([outside_file(table)])
    table.overwrite(ROWS)
    with table.update_schema() as update:
        update.add_column("y", IntegerType())
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "first").commit()
    table.maintenance.expire_snapshots().by_id(table.snapshots()[1].snapshot_id).commit()
    assert table.catalog.blind == [True, True, False, False, False, False]


@notes_verbs
class LaterTransaction(HmsTransaction):
    """With a verb of a later release, which appends by calling `append`, as `upsert` does."""

    def merge(self) -> None:
        self.append(ROWS)


def test_a_verb_of_a_later_release_is_not_blind(table: HmsTable) -> None:
    with LaterTransaction(table) as transaction:
        transaction.merge()
    with LaterTransaction(table) as transaction:
        transaction.append(ROWS)
    assert table.catalog.blind == [False, True]


def test_an_operation_that_no_verb_made_is_not_blind(table: HmsTable) -> None:
    """A program that reaches below the verbs."""
    with table.transaction() as transaction, UpdateSnapshot(transaction, table.io).fast_append():
        pass
    assert table.catalog.blind == [False]


def test_the_mark_ends_with_the_commit(table: HmsTable) -> None:
    table.append(ROWS)
    assert not commits_blind_append()


def test_a_file_that_other_readers_cannot_read_is_not_added(table: HmsTable) -> None:
    """Though PyIceberg itself reads it: Spark fails at bytes in a column of longs."""
    path = Path(table.location().removeprefix("file:")) / "bytes.parquet"
    pq.write_table(pa.table({"id": pa.array([7], pa.int8()), "part": ["z"]}), path)
    before = table.current_snapshot()
    with pytest.raises(ValueError, match=r"column id is Int 8 .* and long in the table .cast it to pyarrow.int64"):
        table.add_files([f"file:{path}"])
    assert (table.current_snapshot(), table.catalog.blind) == (before, [])
