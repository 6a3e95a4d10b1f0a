"""What each operation of the table of outcomes does on the stage, and what it does to the rows.

An action is made on a table object, which may be stale, and on the model of rows. Each knows whether it is the
operation in flight (it concerns file A and day 1) or the one that landed first (it concerns what the relation says).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from iceberg_hms.catalog.table import Table
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.outcomes.rows import COUNT, FOLDER, ID, Contents
from tests.outcomes.stage import (
    DELETED,
    FILES,
    LATE,
    SNAPSHOTS,
    Rows,
    Stage,
    copied,
    deletes_of,
    equality_deletes_of,
    late_deletes,
    rows_in,
)
from tests.outcomes.table import Cell, read

#: In flight and landed: which file an operation concerns, and its day.
_TARGETS: Final = {"same_file": "A", "same_partition": "B", "disjoint": "C", "overlapping_filter": "C"}
#: The ids of new rows, by role; those of the landed operation may match the other's filter in part.
_NEW: Final = {"in_flight": range(50, 55), "A": range(12, 17), "B": range(30, 35), "C": range(260, 265)}
_STRADDLING: Final = range(90, 111)


@dataclass(frozen=True)
class Case:
    """One operation of a cell. role: "in_flight" or "landed". target: the file of the stage that it concerns. branch:
    where it commits to, or which ref it names. wap_id: under which it is staged; None: it is not."""

    operation: str
    role: str
    cell: Cell
    target: str = "A"
    branch: str = "main"
    wap_id: str | None = None

    @property
    def day(self) -> int:
        return FILES[self.target][0]

    @property
    def new_ids(self) -> range:
        """Of the data file that it adds."""
        if self.role == "in_flight":
            return _NEW["in_flight"]
        return _STRADDLING if self.cell.relation == "overlapping_filter" else _NEW[self.target]

    @property
    def new_name(self) -> str:
        both_append = self.operation == "append" and self.cell.relation == "same_file"
        return "new" if both_append else f"new-{self.role}"

    @property
    def new_rows(self) -> frozenset[tuple[int, int]]:
        ids = _NEW["in_flight"] if self.new_name == "new" else self.new_ids
        return frozenset((row, self.day) for row in ids)

    @property
    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = {"branch": self.branch, "wap_id": self.wap_id}
        if self.role == "in_flight" and self.cell.isolation:
            found["isolation"] = self.cell.isolation
        return found

    @property
    def where(self) -> tuple[str, Callable[[int, int], bool]]:
        """The filter of rows: as text, and of an id and a day."""
        if self.role == "in_flight":
            if self.cell.relation == "overlapping_filter":
                return "id < 100", lambda row, _: row < 100
            if self.cell.relation == "same_column" and self.operation != "row_delta_equality":
                return "count = 1", lambda _, day: day == 1
            return "day = 1", lambda _, day: day == 1
        if self.target == "A":
            return "id < 20", lambda row, _: row < 20
        if self.target == "B":
            return "id >= 20 and id < 40", lambda row, _: 20 <= row < 40
        return "day = 2", lambda _, day: day == 2

    @property
    def deleted_ids(self) -> tuple[int, int]:
        """The rows that a row delta deletes."""
        first, second, third = FILES[self.target][1][:3]
        return (first, second) if self.role == "in_flight" else (second, third)


def cases(cell: Cell) -> tuple[Case, Case]:
    """The operation in flight, and the one that lands before it."""
    kinds = {name: operation["kind"] for name, operation in read().operations.items()}
    is_data, was_data = kinds[cell.in_flight] == "data", kinds[cell.landed] == "data"
    main, other = "main", "audit"
    if is_data and was_data:
        landed = Case(cell.landed, "landed", cell, _TARGETS.get(cell.relation, "A"), _if_another(cell, other, main))
        return Case(cell.in_flight, "in_flight", cell), landed
    if is_data and kinds[cell.landed] == "refs":
        moves_audit = cell.landed in ("create_ref", "replace_ref", "remove_ref")
        branch = other if moves_audit == (cell.relation == "same_ref") else main
        return Case(cell.in_flight, "in_flight", cell, branch=branch), Case(cell.landed, "landed", cell)
    if was_data:
        of_audit = cell.in_flight in ("replace_ref", "remove_ref")
        branch = _if_another(cell, main, other) if of_audit else _if_another(cell, other, main)
        branch = "ahead" if cell.relation == "target_ref" else branch
        return Case(cell.in_flight, "in_flight", cell), Case(cell.landed, "landed", cell, branch=branch)
    return Case(cell.in_flight, "in_flight", cell), Case(cell.landed, "landed", cell)


def _if_another(cell: Cell, another: str, same: str) -> str:
    return another if cell.relation == "another_ref" else same


def table_for(cell: Cell) -> tuple[int, frozenset[str]]:
    """The format version of the table on which a cell runs, 3 if it can for its row ids; and the kinds of deletes that
    it has."""
    both = {cell.in_flight, cell.landed}
    is_old = bool(both & {"row_delta_positions", "rewrite_deletes", "convert_to_positions", "upgrade_format_version"})
    kinds = {"positions": both & {"rewrite_deletes"}, "equality": both & {"convert_to_positions", "convert_to_vectors"}}
    return 2 if is_old else 3, frozenset(kind for kind, of in kinds.items() if of)


def copied_for(cell: Cell) -> tuple[MemoryFiles, MemoryTablePointer, dict[str, int], Contents]:
    """A copy of the table on which a cell runs."""
    return copied(*table_for(cell))


def tables_of(cell: Cell, stage: Stage) -> tuple[Table, Table]:
    """The table objects on which the operation in flight, and the other one, are planned."""
    first = stage.table()
    if cell.relation != "unseen_deletes":
        return first, stage.table()
    stage.table().row_delta(deletes=[late_deletes(stage.contents)])
    stage.rows.refs["main"] -= {(LATE, FILES["A"][0])}
    return (first, stage.table()) if cell.in_flight == "rewrite" else (stage.table(), first)


def submit(case: Case, table: Table, stage: Stage) -> None:
    """Make the operation on this table object. Raises what it raises."""
    _SUBMIT[case.operation](case, table, stage)


def model(case: Case, stage: Stage) -> None:
    """What the operation does to the rows as they are."""
    _MODEL.get(case.operation, _nothing)(case, stage.rows)


# Data


def _new_file(case: Case, stage: Stage) -> Any:
    ids = sorted(row for row, _ in case.new_rows)
    return stage.contents.data_file(case.new_name, case.day, *ids)


def _path(case: Case) -> str:
    return f"{FOLDER}{case.target}.parquet"


def _append(case: Case, table: Table, stage: Stage) -> None:
    table.append([_new_file(case, stage)], **case.options)


def _delete_where(case: Case, table: Table, stage: Stage) -> None:
    table.delete(case.where[0], **case.options)


def _delete_files(case: Case, table: Table, stage: Stage) -> None:
    table.delete_files([_path(case)], **case.options)


def _overwrite(case: Case, table: Table, stage: Stage) -> None:
    table.overwrite([_new_file(case, stage)], overwrite_filter=case.where[0], **case.options)


def _replace_partitions(case: Case, table: Table, stage: Stage) -> None:
    table.replace_partitions([_new_file(case, stage)], **case.options)


def _rewrite(case: Case, table: Table, stage: Stage) -> None:
    file = stage.contents.moved_file(f"rewritten-{case.role}", case.day, *FILES[case.target][1])
    table.rewrite([_path(case)], [file], **case.options)


def _rewrite_deletes(case: Case, table: Table, stage: Stage) -> None:
    old = deletes_of(stage.contents, case.target, f"deletes-{case.target}")
    new = deletes_of(stage.contents, case.target, f"rewritten-deletes-{case.role}")
    table.rewrite(remove_deletes=[old], add_deletes=[new], **case.options)


def converted(case: Case, contents: Contents) -> tuple[DataFile, DataFile]:
    """The equality deletes that a conversion replaces, and its positions."""
    is_late = case.cell.relation == "unseen_deletes"
    old = late_deletes(contents) if is_late else equality_deletes_of(contents, case.target)
    make = contents.position_deletes if case.operation == "convert_to_positions" else contents.deletion_vector
    row = LATE if is_late else DELETED["equality"][case.target]
    return old, make(f"converted-{case.role}", case.day, case.target, row)


def _convert(case: Case, table: Table, stage: Stage) -> None:
    old, new = converted(case, stage.contents)
    table.rewrite(remove_deletes=[old], add_deletes=[new], **case.options)


def _row_delta(case: Case, table: Table, stage: Stage) -> None:
    name, ids = f"deletes-{case.role}", case.deleted_ids
    contents = stage.contents
    match case.operation:
        case "row_delta_positions":
            deletes = contents.position_deletes(name, case.day, case.target, *ids)
        case "row_delta_equality":
            deletes = contents.equality_deletes(name, case.day, *ids)
            if case.cell.relation == "same_column":
                deletes = replace(deletes, equality_ids=(ID, COUNT))
        case _:
            deletes = contents.deletion_vector(name, case.day, case.target, *ids)
    table.row_delta([_new_file(case, stage)], [deletes], where=case.where[0], **case.options)


def _rewrite_manifests(case: Case, table: Table, stage: Stage) -> None:
    table.rewrite_manifests(**case.options)


def _replace_rows(case: Case, rows: Rows, keep: Callable[[int, int], bool], added: frozenset[tuple[int, int]]) -> None:
    # A branch that another operation removed starts at main's snapshot, as in Java.
    before = rows.refs.get(case.branch, rows.refs["main"])
    rows.refs[case.branch] = frozenset(row for row in before if keep(*row)) | added


def _append_rows(case: Case, rows: Rows) -> None:
    _replace_rows(case, rows, lambda *_: True, case.new_rows)


def _delete_rows(case: Case, rows: Rows) -> None:
    _replace_rows(case, rows, lambda *row: not case.where[1](*row), frozenset())


def _delete_file_rows(case: Case, rows: Rows) -> None:
    gone = rows_in(case.target)
    _replace_rows(case, rows, lambda *row: row not in gone, frozenset())


def _overwrite_rows(case: Case, rows: Rows) -> None:
    _replace_rows(case, rows, lambda *row: not case.where[1](*row), case.new_rows)


def _replace_partition_rows(case: Case, rows: Rows) -> None:
    _replace_rows(case, rows, lambda _, day: day != case.day, case.new_rows)


def _update_rows(case: Case, rows: Rows) -> None:
    _replace_rows(case, rows, lambda row, _: row not in case.deleted_ids, case.new_rows)


def _nothing(case: Case, rows: Rows) -> None:
    """The rows stay."""
    if case.operation in ("rewrite_manifests", "rewrite_deletes", "convert_to_positions", "convert_to_vectors"):
        rows.refs.setdefault(case.branch, rows.refs["main"])


# Evolution


def _in_other_way(case: Case) -> bool:
    """Whether the landed operation names another column or field than the one in flight."""
    return case.role == "landed" and case.cell.relation in ("other_column", "other_field")


def _add_column(case: Case, table: Table, stage: Stage) -> None:
    name = "amount" if case.cell.in_flight == "rename_column" else "extra"
    table.update_schema().add_column("other" if _in_other_way(case) else name, "string").commit()


def _drop_column(case: Case, table: Table, stage: Stage) -> None:
    table.update_schema().delete_column("note" if _in_other_way(case) else "count").commit()


def _rename_column(case: Case, table: Table, stage: Stage) -> None:
    if _in_other_way(case):
        names = ("note", "remark")
    elif case.cell.in_flight == "add_column":
        names = ("note", "extra")
    elif case.cell.in_flight == "rename_column" and case.role == "landed":
        names = ("count", "total")
    else:
        names = ("count", "amount")
    table.update_schema().rename_column(*names).commit()


def _widen_column(case: Case, table: Table, stage: Stage) -> None:
    column = "day" if _in_other_way(case) else "count"
    table.update_schema().update_column(column, "long").commit()


def _update_spec(case: Case, table: Table, stage: Stage) -> None:
    column = "level" if _in_other_way(case) else "count"
    table.update_spec().add_field(column, "bucket[4]", f"{column}_bucket").commit()


def _replace_sort_order(case: Case, table: Table, stage: Stage) -> None:
    both = case.cell.in_flight == case.cell.landed and case.role == "landed"
    table.update_sort_order().asc("level" if both or _in_other_way(case) else "count").commit()


def _set_properties(case: Case, table: Table, stage: Stage) -> None:
    table.set_properties({"owner": case.role})


def _upgrade(case: Case, table: Table, stage: Stage) -> None:
    table.upgrade_table_version(3)


# Refs


def _snapshot(case: Case, same: str, other: str) -> str:
    """`same` if the cell is about one snapshot that both name, else `other`."""
    return same if case.cell.relation == "same_snapshot" else other


def _create_ref(case: Case, table: Table, stage: Stage) -> None:
    name = "other" if case.role == "landed" and case.cell.relation != "same_ref" else "fresh"
    table.create_branch(name, stage.ids[_snapshot(case, "S0", "S2")])


def _created(case: Case, rows: Rows) -> None:
    name = "other" if case.role == "landed" and case.cell.relation != "same_ref" else "fresh"
    rows.refs[name] = rows_in(*SNAPSHOTS[_snapshot(case, "S0", "S2")])


def _replaced_ref(case: Case) -> str:
    """The operation in flight concerns audit; so does the landed one, unless the cell says otherwise."""
    if case.role == "in_flight":
        return "audit"
    if case.cell.relation == "target_ref":
        return "ahead"
    in_pair = case.cell.in_flight in ("replace_ref", "remove_ref")
    return "ahead" if in_pair and case.cell.relation == "another_ref" else "audit"


def _replace_ref(case: Case, table: Table, stage: Stage) -> None:
    table.replace_branch(_replaced_ref(case), stage.ids[_snapshot(case, "S0", "S1")])


def _ref_replaced(case: Case, rows: Rows) -> None:
    rows.refs[_replaced_ref(case)] = rows_in(*SNAPSHOTS[_snapshot(case, "S0", "S1")])


def _remove_ref(case: Case, table: Table, stage: Stage) -> None:
    table.remove_branch(_replaced_ref(case))


def _ref_removed(case: Case, rows: Rows) -> None:
    del rows.refs[_replaced_ref(case)]


def _fast_forward(case: Case, table: Table, stage: Stage) -> None:
    table.fast_forward("main", "ahead")


def _forwarded(case: Case, rows: Rows) -> None:
    rows.refs["main"] = rows.refs["ahead"]


def _picked(case: Case) -> str:
    return "W2" if case.role == "landed" and case.cell.relation == "another_snapshot" else "W"


def _cherry_pick(case: Case, table: Table, stage: Stage) -> None:
    table.cherry_pick(stage.ids[_picked(case)])


def _cherry_picked(case: Case, rows: Rows) -> None:
    rows.refs["main"] |= rows_in(_picked(case))


def _rollback(case: Case, table: Table, stage: Stage) -> None:
    table.rollback_to_snapshot(stage.ids[_snapshot(case, "S0", "S1")])


def _set_current(case: Case, table: Table, stage: Stage) -> None:
    table.set_current_snapshot(stage.ids[_snapshot(case, "S0", "S1")])


def _moved_back(case: Case, rows: Rows) -> None:
    rows.refs["main"] = rows_in(*SNAPSHOTS[_snapshot(case, "S0", "S1")])


def _expire(case: Case, table: Table, stage: Stage) -> None:
    name = "S0"
    if case.role == "landed" and case.cell.in_flight == "cherry_pick":
        name = _snapshot(case, "W", "W2")
    elif case.role == "landed" and case.cell.in_flight == "expire_snapshots":
        name = _snapshot(case, "S0", "W2")
    table.expire_snapshots(snapshot_ids=[stage.ids[name]])


_SUBMIT: Final[dict[str, Callable[[Case, Table, Stage], None]]] = {
    "append": _append,
    "delete_where": _delete_where,
    "delete_files": _delete_files,
    "overwrite": _overwrite,
    "replace_partitions": _replace_partitions,
    "rewrite": _rewrite,
    "rewrite_deletes": _rewrite_deletes,
    "convert_to_positions": _convert,
    "convert_to_vectors": _convert,
    "row_delta_positions": _row_delta,
    "row_delta_equality": _row_delta,
    "row_delta_vectors": _row_delta,
    "rewrite_manifests": _rewrite_manifests,
    "add_column": _add_column,
    "drop_column": _drop_column,
    "rename_column": _rename_column,
    "widen_column": _widen_column,
    "update_spec": _update_spec,
    "replace_sort_order": _replace_sort_order,
    "set_properties": _set_properties,
    "upgrade_format_version": _upgrade,
    "create_ref": _create_ref,
    "replace_ref": _replace_ref,
    "remove_ref": _remove_ref,
    "fast_forward": _fast_forward,
    "cherry_pick": _cherry_pick,
    "rollback": _rollback,
    "set_current_snapshot": _set_current,
    "expire_snapshots": _expire,
}
_MODEL: Final[dict[str, Callable[[Case, Rows], None]]] = {
    "append": _append_rows,
    "delete_where": _delete_rows,
    "delete_files": _delete_file_rows,
    "overwrite": _overwrite_rows,
    "replace_partitions": _replace_partition_rows,
    "row_delta_positions": _update_rows,
    "row_delta_equality": _update_rows,
    "row_delta_vectors": _update_rows,
    "create_ref": _created,
    "replace_ref": _ref_replaced,
    "remove_ref": _ref_removed,
    "fast_forward": _forwarded,
    "cherry_pick": _cherry_picked,
    "rollback": _moved_back,
    "set_current_snapshot": _moved_back,
}
