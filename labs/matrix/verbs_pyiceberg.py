"""PyIceberg 0.12. It validates what a delete or overwrite read (`_SnapshotProducer._validate_concurrency` in
pyiceberg/table/update/snapshot.py, serializable by default), also one that matched nothing; an append and the insert
of an upsert it does not (`_FastAppendFiles._validate_concurrency`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labs.matrix import rows
from labs.matrix.rows import BLIND, NEW_DAY, NEW_ID, SERIALIZABLE, Effect, Meaning, Row, new_row
from labs.matrix.verb import Verb
from labs.matrix.writers import Writer, as_table

_VALIDATES = "pyiceberg/table/update/snapshot.py: _SnapshotProducer._validate_concurrency"
_APPENDS = "pyiceberg/table/update/snapshot.py: _FastAppendFiles._validate_concurrency is empty"


def _verb(name: str, effect: Effect, call: Callable[[Any, Writer], object], *, promise: str = SERIALIZABLE) -> Verb:
    """call: with the loaded table."""

    def run(writer: Writer, table: str) -> None:
        call(writer.pyiceberg.load_table(table), writer)

    return Verb(f"PyIceberg {name}", run, Meaning(effect, promise, _VALIDATES if promise == SERIALIZABLE else _APPENDS))


def _new(writer: Writer) -> Any:
    return as_table(new_row(writer.who))


def _delete_and_append(table: Any, writer: Writer, where: str) -> None:
    with table.transaction() as change:
        change.delete(where)
        change.append(_new(writer))


def _append_twice(table: Any, writer: Writer) -> None:
    with table.transaction() as change:
        change.append(_new(writer))
        change.append(as_table(Row(NEW_ID + 1, writer.who, NEW_DAY)))


def _two(_rows: rows.Rows, who: str) -> rows.Write:
    return rows.Write(adds=(new_row(who), Row(NEW_ID + 1, who, NEW_DAY)))


def _property_and_append(table: Any, writer: Writer) -> None:
    with table.transaction() as change:
        change.set_properties({"written-by": writer.who})
        change.append(_new(writer))


def _upsert(table: Any, *new: Row) -> None:
    table.upsert(as_table(*new), join_cols=["id"])


_EMPTY_DAY = rows.replace(lambda row: row.day == NEW_DAY)
_FULL_DAY = rows.replace(lambda row: row.day == "d0")
_ALL = rows.replace(lambda _row: True)

VERBS = (
    _verb("append", rows.add, lambda t, w: t.append(_new(w)), promise=BLIND),
    _verb("overwrite, no row matches", _EMPTY_DAY, lambda t, w: t.overwrite(_new(w), f"day = '{NEW_DAY}'")),
    _verb("overwrite, a partition matches", _FULL_DAY, lambda t, w: t.overwrite(_new(w), "day = 'd0'")),
    _verb(
        "overwrite, one row of a file matches",
        rows.replace(lambda row: row.id == 1),
        lambda t, w: t.overwrite(_new(w), "id = 1"),
    ),
    _verb("overwrite without a filter", _ALL, lambda t, w: t.overwrite(_new(w))),
    _verb(
        "dynamic_partition_overwrite of an empty partition",
        _EMPTY_DAY,
        lambda t, w: t.dynamic_partition_overwrite(_new(w)),
    ),
    _verb(
        "dynamic_partition_overwrite of a partition with rows",
        rows.replace(lambda row: row.day == "d0", day="d0"),
        lambda t, w: t.dynamic_partition_overwrite(as_table(Row(NEW_ID, w.who, "d0"))),
    ),
    _verb(
        "delete + append in one transaction, no row matches",
        _EMPTY_DAY,
        lambda t, w: _delete_and_append(t, w, f"day = '{NEW_DAY}'"),
    ),
    _verb(
        "delete + append in one transaction, a partition matches",
        _FULL_DAY,
        lambda t, w: _delete_and_append(t, w, "day = 'd0'"),
    ),
    _verb("delete of a partition", rows.delete(lambda row: row.day == "d0"), lambda t, _w: t.delete("day = 'd0'")),
    _verb("delete of one row of a file", rows.delete(lambda row: row.id == 1), lambda t, _w: t.delete("id = 1")),
    _verb("upsert of a new key", rows.upsert(NEW_ID), lambda t, w: _upsert(t, new_row(w.who)), promise=BLIND),
    _verb("upsert of a key that is there", rows.upsert(1), lambda t, w: _upsert(t, Row(1, w.who, "d0"))),
    _verb(
        "upsert of both",
        rows.upsert(1, NEW_ID),
        lambda t, w: _upsert(t, Row(1, w.who, "d0"), new_row(w.who)),
        promise=BLIND,
    ),
    _verb("add_files", rows.add, lambda t, w: t.add_files([f"file:{w.world.file(new_row(w.who))}"]), promise=BLIND),
    _verb("transaction of two appends", _two, _append_twice, promise=BLIND),
    _verb("transaction of a property and an append", rows.add, _property_and_append, promise=BLIND),
)
