"""Operations that nobody overtakes: what the operation and the table decide alone. outcomes.toml has what is expected.

Each case is a list of commits, the last of which it is about. Data file A has the rows 1 to 3, B has 4 to 6, both of
day 1; where a table is partitioned by `key`, each of three files has a UUID of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import pyarrow as pa

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.format.manifests.lineage_columns import LINEAGE_COLUMNS
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from tests.outcomes.rows import FOLDER, Contents, name_of, planned
from tests.outcomes.stage import NAME
from tests.outcomes.stage import SCHEMA as STAGE_SCHEMA

SCHEMA: Final = STAGE_SCHEMA.append(pa.field("key", pa.uuid()))
CONTENTS: Final = Contents()
#: Another spelling of the same folder.
_RESPELLED: Final = "file:///data/"
#: In the order of their bytes. Java takes the first bit for a sign.
_KEYS: Final = {"low": UUID("0" * 31 + "f"), "middle": UUID("7" * 32), "high": UUID("f" * 32)}
#: The row of each file of a table that is partitioned by `key`.
_KEYED: Final = {"low": 1, "middle": 2, "high": 3}


@dataclass(frozen=True)
class Step:
    """One commit. call: the method of Table. data, deletes: what it adds. removed, replaced: the data files and delete
    files that it removes. referenced: names of data files for which the caller answers."""

    call: str
    data: tuple[DataFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    replaced: tuple[DataFile, ...] = ()
    referenced: tuple[str, ...] = ()

    @property
    def referenced_files(self) -> list[str]:
        return [f"{FOLDER}{name}.parquet" for name in self.referenced]


@dataclass(frozen=True)
class Alone:
    """version: of the table at its start. rows: which it has after the last commit, or its refusal. by_java: those that
    it has by Java, where Java does something else; (): Java can no longer plan a scan. renumbered: the rows that get
    new row ids by Java. partition: the column by which it is partitioned."""

    version: int
    steps: tuple[Step, ...]
    rows: tuple[int, ...]
    by_java: tuple[int, ...] | None = None
    renumbered: tuple[int, ...] = ()
    partition: str = "day"


def submit_step(step: Step, table: Table) -> None:
    """Commit it. Raises what it raises."""
    match step.call:
        case "append":
            table.append(step.data)
        case "replace_partitions":
            table.replace_partitions(step.data)
        case "row_delta":
            table.row_delta(
                step.data, step.deletes, replaced_deletes=step.replaced, referenced_files=step.referenced_files
            )
        case "rewrite":
            table.rewrite(
                step.removed,
                step.data,
                remove_deletes=step.replaced,
                add_deletes=step.deletes,
                referenced_files=step.referenced_files,
            )
        case _:
            table.upgrade_table_version(3)


@dataclass(frozen=True)
class Planned:
    """A live data file: its `first_row_id`, and the names of the delete files that apply to it."""

    first_row_id: int | None
    deletes: tuple[str, ...]


#: By the name of the data file.
Plan = Mapping[str, Planned]


@contextmanager
def made(case: Alone) -> Iterator[tuple[Catalog, Table]]:
    """The table before the last commit, in a catalog in memory."""
    with memory_catalog() as catalog:
        catalog.create_namespace("logging")
        properties = {"format-version": str(case.version)}
        table = catalog.create_table(NAME, SCHEMA, partition_spec=[case.partition], properties=properties)
        for step in case.steps[:-1]:
            submit_step(step, table)
        yield catalog, table


def plan(catalog: Catalog, table: Table) -> Plan:
    """What a scan of the table reads."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return {
        name_of(data): Planned(data.data_file.first_row_id, tuple(sorted(map(name_of, deletes))))
        for data, deletes in planned(catalog, snapshot)
    }


def rows_by(of: Plan) -> tuple[int, ...]:
    """The rows that a scan finds."""
    return tuple(
        sorted(
            row
            for name, file in of.items()
            for row in CONTENTS.rows[name]
            if not any(row in CONTENTS.deletes[each] for each in file.deletes)
        )
    )


def row_ids(of: Plan, before: Mapping[int, int | None]) -> dict[int, int | None]:
    """Row -> its row id. before: the ids, which a file may carry."""
    found: dict[int, int | None] = {}
    for name, file in of.items():
        gone = set[int]().union(*(CONTENTS.deletes[each] for each in file.deletes))
        for at, row in enumerate(CONTENTS.rows[name]):
            if row in gone:
                continue
            inherited = None if file.first_row_id is None else file.first_row_id + at
            found[row] = before.get(row) if name in _CARRYING else inherited
    return found


def renumbered(before: Mapping[int, int | None], after: Mapping[int, int | None]) -> tuple[int, ...]:
    """The rows that had an id and have another one."""
    return tuple(row for row, id_ in sorted(after.items()) if before.get(row) is not None and id_ != before[row])


def _without_ids(file: DataFile) -> DataFile:
    """The record says that all row ids are null; where it says nothing, the file itself is read."""
    nulls = dict.fromkeys(LINEAGE_COLUMNS, file.record_count)
    return replace(file, null_value_counts={**(file.null_value_counts or {}), **nulls})


A: Final = CONTENTS.data_file("A", 1, 1, 2, 3)
B: Final = CONTENTS.data_file("B", 1, 4, 5, 6)
_EQUALITY_BOTH: Final = CONTENTS.equality_deletes("equality-both", 1, 3, 6)
_EQUALITY_A: Final = CONTENTS.equality_deletes("equality-A", 1, 3)
_POSITIONS_A: Final = CONTENTS.position_deletes("positions-A", 1, "A", 3)
_POSITIONS_B: Final = CONTENTS.position_deletes("positions-B", 1, "B", 6)
_POSITIONS_BOTH: Final = replace(CONTENTS.position_deletes("positions-both", 1, "A", 3, 6), referenced_data_file=None)
_POSITIONS_ANY: Final = replace(CONTENTS.position_deletes("positions-any", 1, "A", 3), referenced_data_file=None)
_VECTOR_A: Final = CONTENTS.deletion_vector("vector-A", 1, "A", 3)
_VECTOR_B: Final = CONTENTS.deletion_vector("vector-B", 1, "B", 6)
_OTHER_ROW: Final = CONTENTS.deletion_vector("vector-other-row", 1, "A", 2)
_BOTH_ROWS: Final = CONTENTS.deletion_vector("vector-both-rows", 1, "A", 2, 3)
_MOVED: Final = CONTENTS.moved_file("moved", 1, 1, 2, 3)
_COPIED: Final = _without_ids(CONTENTS.data_file("copied", 1, 1, 2, 3))
_MOVED_ONE: Final = CONTENTS.moved_file("moved-one", 1, 1)
_COPIED_TWO: Final = _without_ids(CONTENTS.data_file("copied-two", 1, 2, 3))
_FOREIGN: Final = CONTENTS.moved_file("foreign", 1, 7, 8, 9)
#: The names of the files that carry row ids.
_CARRYING: Final = frozenset({"moved", "moved-one", "foreign"})

_APPENDED: Final = Step("append", (A, B))
_UPGRADED: Final = Step("upgrade")
_ALL: Final = (1, 2, 3, 4, 5, 6)


def _deleted(*deletes: DataFile) -> tuple[Step, Step]:
    return _APPENDED, Step("row_delta", deletes=deletes)


def _replaced(old: DataFile, *new: DataFile, referenced: str = "") -> Step:
    return Step("rewrite", deletes=new, replaced=(old,), referenced=tuple(referenced))


def _rewritten(*new: DataFile) -> Step:
    return Step("rewrite", data=new, removed=(A,))


def _respelled(deletes: DataFile) -> DataFile:
    path = (deletes.referenced_data_file or "").removeprefix(FOLDER)
    return replace(deletes, referenced_data_file=f"{_RESPELLED}{path}")


def _keyed(name: str, of: str, *rows: int) -> DataFile:
    return replace(CONTENTS.data_file(name, 1, *rows), partition={"key": _KEYS[of]})


def _keyed_vector(of: str, name: str = "") -> DataFile:
    vector = CONTENTS.deletion_vector(name or f"vector-{of}", 1, of, _KEYED[of])
    return replace(vector, partition={"key": _KEYS[of]})


_BY_KEY: Final = Step("append", tuple(_keyed(name, name, row, row + 10) for name, row in _KEYED.items()))
_KEY_VECTORS: Final = Step("row_delta", deletes=tuple(map(_keyed_vector, _KEYS)))


def _second_vector(of: str, *, replaced: bool) -> tuple[Step, ...]:
    second = _keyed_vector(of, f"second-{of}")
    return _BY_KEY, _KEY_VECTORS, Step("row_delta", deletes=(second,), replaced=(_keyed_vector(of),) * replaced)


def _by_key(*steps: Step, rows: tuple[int, ...], by_java: tuple[int, ...] | None = None) -> Alone:
    return Alone(3, steps, rows, by_java, partition="key")


#: By the names that outcomes.toml has.
CASES: Final[Mapping[str, Alone]] = {
    "conversion_of_both_files": Alone(
        2, (*_deleted(_EQUALITY_BOTH), _replaced(_EQUALITY_BOTH, _POSITIONS_A, _POSITIONS_B)), (1, 2, 4, 5)
    ),
    "conversion_of_one_of_two_files": Alone(
        2, (*_deleted(_EQUALITY_BOTH), _replaced(_EQUALITY_BOTH, _POSITIONS_A)), (1, 2, 4, 5), (1, 2, 4, 5, 6)
    ),
    "conversion_of_one_file_that_has_all_rows": Alone(
        2, (*_deleted(_EQUALITY_A), _replaced(_EQUALITY_A, _POSITIONS_A)), (1, 2, 4, 5, 6), (1, 2, 4, 5, 6)
    ),
    "conversion_with_the_other_file_referenced": Alone(
        2, (*_deleted(_EQUALITY_A), _replaced(_EQUALITY_A, _POSITIONS_A, referenced="B")), (1, 2, 4, 5, 6)
    ),
    "vectors_of_both_files": Alone(
        3, (*_deleted(_EQUALITY_BOTH), _replaced(_EQUALITY_BOTH, _VECTOR_A, _VECTOR_B)), (1, 2, 4, 5)
    ),
    "vector_of_one_of_two_files": Alone(
        3, (*_deleted(_EQUALITY_BOTH), _replaced(_EQUALITY_BOTH, _VECTOR_A)), (1, 2, 4, 5), (1, 2, 4, 5, 6)
    ),
    "vector_with_the_other_file_referenced": Alone(
        3, (*_deleted(_EQUALITY_A), _replaced(_EQUALITY_A, _VECTOR_A, referenced="B")), (1, 2, 4, 5, 6)
    ),
    "positions_of_one_of_two_files": Alone(
        2, (*_deleted(_POSITIONS_BOTH), _replaced(_POSITIONS_BOTH, _POSITIONS_A)), (1, 2, 4, 5), (1, 2, 4, 5, 6)
    ),
    "positions_with_the_other_file_referenced": Alone(
        2, (*_deleted(_POSITIONS_ANY), _replaced(_POSITIONS_ANY, _POSITIONS_A, referenced="B")), (1, 2, 4, 5, 6)
    ),
    "vector_without_older_positions": Alone(
        2,
        (*_deleted(_POSITIONS_A), _UPGRADED, Step("row_delta", deletes=(_OTHER_ROW,))),
        (1, 2, 4, 5, 6),
        (1, 3, 4, 5, 6),
    ),
    "vector_that_replaces_older_positions": Alone(
        2,
        (*_deleted(_POSITIONS_A), _UPGRADED, Step("row_delta", deletes=(_BOTH_ROWS,), replaced=(_POSITIONS_A,))),
        (1, 4, 5, 6),
    ),
    "vector_that_replaces_positions_of_two_files": Alone(
        2,
        (*_deleted(_POSITIONS_BOTH), _UPGRADED, Step("row_delta", deletes=(_BOTH_ROWS,), replaced=(_POSITIONS_BOTH,))),
        (1, 2, 4, 5),
        (1, 4, 5, 6),
    ),
    "respelled_positions": Alone(2, _deleted(_respelled(_POSITIONS_A)), _ALL, _ALL),
    "respelled_vector": Alone(3, _deleted(_respelled(_VECTOR_A)), _ALL, _ALL),
    "conversion_into_respelled_positions": Alone(
        2,
        (*_deleted(_EQUALITY_A), _replaced(_EQUALITY_A, _respelled(_POSITIONS_A), referenced="B")),
        (1, 2, 4, 5, 6),
        _ALL,
    ),
    "conversion_into_a_respelled_vector": Alone(
        3,
        (*_deleted(_EQUALITY_A), _replaced(_EQUALITY_A, _respelled(_VECTOR_A), referenced="B")),
        (1, 2, 4, 5, 6),
        _ALL,
    ),
    "partitions_of_both_signs": _by_key(
        _BY_KEY,
        Step("replace_partitions", (_keyed("new-low", "low", 21), _keyed("new-high", "high", 23))),
        rows=(2, 12, 21, 23),
    ),
    "vectors_of_both_signs": _by_key(_BY_KEY, _KEY_VECTORS, rows=(11, 12, 13)),
    "second_vector_of_the_first_sign": _by_key(*_second_vector("low", replaced=False), rows=(11, 12, 13), by_java=()),
    "second_vector_of_the_other_sign": _by_key(*_second_vector("high", replaced=False), rows=(11, 12, 13), by_java=()),
    "replaced_vector_of_the_first_sign": _by_key(*_second_vector("low", replaced=True), rows=(11, 12, 13)),
    "replaced_vector_of_the_other_sign": _by_key(*_second_vector("high", replaced=True), rows=(11, 12, 13)),
    "rewrite_with_row_ids": Alone(3, (_APPENDED, _rewritten(_MOVED)), _ALL),
    "rewrite_without_row_ids": Alone(3, (_APPENDED, _rewritten(_COPIED)), _ALL, _ALL, renumbered=(1, 2, 3)),
    "rewrite_with_row_ids_in_one_file": Alone(
        3, (_APPENDED, _rewritten(_MOVED_ONE, _COPIED_TWO)), _ALL, _ALL, renumbered=(2, 3)
    ),
    "rewrite_after_an_upgrade": Alone(2, (_APPENDED, _UPGRADED, _rewritten(_COPIED)), _ALL),
    "rewrite_after_an_upgrade_and_a_snapshot": Alone(
        2,
        (Step("append", (A,)), _UPGRADED, Step("append", (B,)), _rewritten(_COPIED)),
        _ALL,
        _ALL,
        renumbered=(1, 2, 3),
    ),
    "append_with_row_ids": Alone(3, (_APPENDED, Step("append", (_FOREIGN,))), _ALL, (*_ALL, 7, 8, 9)),
    "update_with_row_ids": Alone(
        3,
        (_APPENDED, Step("row_delta", (_MOVED_ONE,), (CONTENTS.deletion_vector("vector-first", 1, "A", 1),))),
        _ALL,
    ),
}
