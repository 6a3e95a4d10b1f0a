"""What PyIceberg does with rows, history and upkeep, and beside other writers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labs.clients import contention, others
from labs.clients.lost_answers import between
from labs.clients.results import Verdict, differs, works

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from labs.clients.lab import Place

INSPECTED: Final = (
    "snapshots", "history", "refs", "files", "manifests", "entries", "partitions", "metadata_log_entries", "all_files",
    "all_manifests", "data_files",
)  # fmt: skip


def _table(place: Place, *ids: int, **properties: str) -> Any:
    table = place.lab.pyiceberg.create_table(place.table(), others.SCHEMA, properties=properties)
    if ids:
        table.append(others.rows(*ids))
    return table


def _ids(place: Place) -> list[int]:
    return sorted(row["id"] for row in place.lab.rows(place.table()))


def check_insert(place: Place) -> Verdict | None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import (
        BucketTransform,
        DayTransform,
        HourTransform,
        IdentityTransform,
        MonthTransform,
        Transform,
        TruncateTransform,
        YearTransform,
    )

    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
    values = pa.table({"id": [1, 2], "at": [datetime(1969, 12, 31, 23, 59, 59), None]}, schema=schema)  # noqa: DTZ001
    by_time: list[Transform[Any, Any]] = [
        IdentityTransform(),
        YearTransform(),
        MonthTransform(),
        DayTransform(),
        HourTransform(),
    ]
    for number, (source, transform) in enumerate(
        [*((2, each) for each in by_time), (1, BucketTransform(4)), (1, TruncateTransform(10))]
    ):
        name = place.table(f"t{number}")
        spec = PartitionSpec(PartitionField(source, 1000, transform, "part"))
        table = place.lab.pyiceberg.create_table(name, schema=_schema(schema), partition_spec=spec)
        table.append(values)
        assert sorted(row["id"] for row in place.lab.rows(name)) == [1, 2], transform
        assert table.scan(row_filter="at = '1969-12-31T23:59:59'").to_arrow()["id"].to_pylist() == [1], transform
    return None


def _schema(schema: pa.Schema) -> Any:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, TimestampType

    types = [LongType(), TimestampType()]
    return Schema(*(NestedField(1 + at, name, types[at], required=False) for at, name in enumerate(schema.names)))


def check_overwrite(place: Place) -> Verdict | None:
    from pyiceberg.transforms import IdentityTransform

    table = _table(place, 1, 2)
    table.overwrite(others.rows(3), overwrite_filter="id = 1")
    assert _ids(place) == [2, 3]
    table.overwrite(others.rows(4))
    assert _ids(place) == [4]
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "by_name")
    table.append(others.rows(5, 6))
    table.dynamic_partition_overwrite(pa.table({"id": [7], "name": ["row 5"]}, schema=others.SCHEMA))
    assert _ids(place) == [4, 6, 7]
    return None


def check_delete(place: Place) -> Verdict | None:
    table = _table(place, *range(10))
    table.delete("id >= 5")
    assert _ids(place) == [0, 1, 2, 3, 4]
    return differs("rewrites files, also with `write.delete.mode=merge-on-read`: pyiceberg/table/__init__.py, delete")


def check_delete_partition(place: Place) -> Verdict | None:
    from pyiceberg.transforms import IdentityTransform

    table = _table(place)
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "by_name")
    table.append(others.rows(1, 2))
    table.delete("name = 'row 1'")
    assert _ids(place) == [2]
    assert table.current_snapshot().summary["deleted-data-files"] == "1"
    assert table.current_snapshot().summary["added-data-files"] is None
    return None


def check_upsert(place: Place) -> Verdict | None:
    table = _table(place, 1, 2)
    changed = pa.table({"id": [2, 3], "name": ["new", "added"]}, schema=others.SCHEMA)
    result = table.upsert(changed, join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert {row["id"]: row["name"] for row in place.lab.rows(place.table())} == {1: "row 1", 2: "new", 3: "added"}
    return differs("two snapshots in one commit")


def check_transaction(place: Place) -> Verdict | None:
    table = _table(place, 1)
    with table.transaction() as transaction:
        transaction.append(others.rows(2))
        transaction.delete("id = 1")
        transaction.set_properties(a="b")
        assert _ids(place) == [1]
    assert _ids(place) == [2]
    abandoned = table.transaction()
    abandoned.append(others.rows(3))
    assert _ids(place) == [2]
    return differs("of one table")


def check_reads_others(place: Place) -> Verdict | None:
    _table(place)
    others.python_api(place, place.table()).insert(1)
    assert _ids(place) == [1]
    return None


def check_time_travel(place: Place) -> Verdict | None:
    table = _table(place, 1)
    first = table.current_snapshot()
    with table.update_schema() as update:
        update.delete_column("name")
    table.append(pa.table({"id": [2]}))
    assert table.scan(snapshot_id=first.snapshot_id).to_arrow().to_pylist() == [{"id": 1, "name": "row 1"}]
    assert table.snapshot_as_of_timestamp(first.timestamp_ms).snapshot_id == first.snapshot_id
    return None


def check_branches(place: Place) -> Verdict | None:
    table = _table(place, 1)
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "first").create_branch(
        first, "audit", max_snapshot_age_ms=10**9
    ).commit()
    table.append(others.rows(2), branch="audit")
    assert _ids(place) == [1]
    assert len(table.scan().use_ref("audit").to_arrow()) == 2
    table.manage_snapshots().remove_tag("first").remove_branch("audit").commit()
    assert list(place.lab.catalog.load_table(place.table()).metadata.refs) == ["main"]
    return None


def check_metadata_tables(place: Place) -> Verdict | None:
    table = _table(place, 1)
    table.append(others.rows(2))
    for name in INSPECTED:
        assert getattr(table.inspect, name)().num_rows > 0, name
    return None


def check_rollback(place: Place) -> Verdict | None:
    table = _table(place, 1)
    first = table.current_snapshot().snapshot_id
    table.append(others.rows(2))
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert _ids(place) == [1]
    table.append(others.rows(3))
    assert _ids(place) == [1, 3]
    return None


def check_expire(place: Place) -> Verdict | None:
    table = _table(place, 1)
    first = table.current_snapshot().snapshot_id
    table.append(others.rows(2))
    files = place.files_of(place.table())
    table.maintenance.expire_snapshots().by_id(first).commit()
    kept = [each.snapshot_id for each in place.lab.catalog.load_table(place.table()).metadata.snapshots]
    assert kept == [table.current_snapshot().snapshot_id]
    assert _ids(place) == [1, 2]
    left = [path for path in files if path.suffix == ".avro" and path.exists()]
    assert left
    return differs("removes snapshots, and no file: pyiceberg/table/update/snapshot.py, ExpireSnapshots")


def check_add_files(place: Place) -> Verdict | None:
    table = _table(place, 1)
    path = place.folder / "added.parquet"
    pq.write_table(others.rows(2), path)
    table.add_files([f"file:{path}"])
    assert _ids(place) == [1, 2]
    with pytest.raises(ValueError, match="already referenced"):
        table.add_files([f"file:{path}"])
    return None


def check_beside_others(place: Place) -> Verdict | None:
    notes = []
    for policy in ("plain", "all"):
        name = place.table(policy)
        place.lab.pyiceberg.create_table(name, others.SCHEMA, properties={"iceberg-hms.rebase-appends": policy})
        writers = [others.pyiceberg(place.lab, name), others.pyiceberg(place.lab, name), others.python_api(place, name)]
        tallies = contention.run(writers)
        notes.append(f"{policy}: {_figures(place, tallies, name)}")
    return works(f"in {contention.SECONDS:.0f} s each, by `iceberg-hms.rebase-appends`. {'. '.join(notes)}")


def _figures(place: Place, tallies: Sequence[contention.Tally], name: str) -> str:
    # By `plain` the Python API may come first each time.
    return contention.check(tallies, (row["id"] for row in place.lab.rows(name)), starving=True)


def check_lost_answer(place: Place) -> Verdict | None:
    from pyiceberg.exceptions import CommitStateUnknownException

    _table(place, 1)
    with between(place.lab) as way:
        table = way.lab.new_pyiceberg().load_table(place.table())
        way.losing = True
        with pytest.raises(Exception) as raised:
            table.append(others.rows(2))
    assert way.statuses[0] == 200
    assert _ids(place) == [1, 2]
    if isinstance(raised.value, CommitStateUnknownException):
        return None
    return differs(
        f"raises {type(raised.value).__name__}, which does not say that the commit may be made; no file is deleted"
    )


CHECKS: Final[dict[str, Callable[[Place], Verdict | None]]] = {
    "insert": check_insert,
    "overwrite": check_overwrite,
    "delete rows": check_delete,
    "delete partition": check_delete_partition,
    "upsert": check_upsert,
    "transaction": check_transaction,
    "reads others": check_reads_others,
    "time travel": check_time_travel,
    "branches and tags": check_branches,
    "metadata tables": check_metadata_tables,
    "rollback": check_rollback,
    "expire snapshots": check_expire,
    "add files": check_add_files,
    "inserts beside others": check_beside_others,
    "lost answer": check_lost_answer,
}
