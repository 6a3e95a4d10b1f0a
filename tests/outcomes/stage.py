"""The table on which the cells run, and the state of its rows by a model that knows no files.

Main's snapshots: S0 adds Z (day 9), S1 adds A and B (day 1), S2 adds C and D (day 2). Branch `audit` is one append
after S2, branch `ahead` another one. W is a staged append; so is W2. In a table with position deletes A, B and C have
one row more each, which these delete in S1 and S2; so they have with equality deletes. If the deletes were lost, the
row would come back.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import pyarrow as pa

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryRow, MemoryTablePointer
from tests.outcomes.rows import Contents, live_rows

SCHEMA: Final = pa.schema(
    [("id", pa.int64()), ("day", pa.int32()), ("level", pa.string()), ("count", pa.int32()), ("note", pa.string())]
)
NAME: Final = "logging.events"
_ENDS_WITHIN: Final = 10.0
#: Name -> day and rows.
FILES: Final = {
    "Z": (9, tuple(range(901, 911))),
    "A": (1, tuple(range(1, 11))),
    "B": (1, tuple(range(20, 30))),
    "C": (2, tuple(range(201, 211))),
    "D": (2, tuple(range(220, 230))),
    "E": (3, tuple(range(301, 311))),
    "F": (5, tuple(range(501, 511))),
    "W": (4, tuple(range(401, 411))),
    "W2": (6, tuple(range(601, 611))),
}
#: Kind of deletes that a table may have -> name of a file -> its row that they delete.
DELETED: Final = {"positions": {"A": 18, "B": 38, "C": 215}, "equality": {"A": 19, "B": 39, "C": 216}}
#: The row of A that equality deletes delete which come later.
LATE: Final = 5
#: Name of a snapshot -> the files that it reads.
SNAPSHOTS: Final = {
    "S0": ("Z",),
    "S1": ("Z", "A", "B"),
    "S2": ("Z", "A", "B", "C", "D"),
    "audit": ("Z", "A", "B", "C", "D", "E"),
    "ahead": ("Z", "A", "B", "C", "D", "F"),
}


@dataclass
class Rows:
    """The rows of each ref: a set of (id, day)."""

    refs: dict[str, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def ids(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(sorted(row for row, _ in rows)) for name, rows in self.refs.items()}


def rows_in(*names: str) -> frozenset[tuple[int, int]]:
    """The rows of some of the table's first files."""
    return frozenset((row, FILES[name][0]) for name in names for row in FILES[name][1])


@dataclass(frozen=True)
class _Made:
    """A table as bytes, and what is in its files. ids: name of a snapshot -> its id."""

    files: tuple[tuple[str, bytes], ...]
    rows: tuple[tuple[object, MemoryRow], ...]
    ids: dict[str, int]
    contents: Contents


@dataclass
class Stage:
    """One copy of the table. ids: name of a snapshot -> its id."""

    catalog: Catalog
    files: MemoryFiles
    contents: Contents
    rows: Rows
    ids: dict[str, int]

    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def found(self) -> dict[str, tuple[int, ...]]:
        """Name of a ref -> the ids of its rows, by the table's manifests."""
        return live_rows(self.catalog, self.table(), self.contents)

    def left(self) -> tuple[str, set[str]]:
        """The table's metadata file, and all files."""
        join_commits()
        return self.table().metadata_location, set(self.files.locations())


def join_commits() -> None:
    """Wait until the commits of this process have ended: a coordinator deletes files after its answers."""
    for thread in threading.enumerate():
        # A table's own thread ends when its queue is empty; those that read and write files stay.
        if thread.name.startswith("commit "):
            thread.join(_ENDS_WITHIN)


def deletes_of(contents: Contents, target: str, name: str) -> DataFile:
    """Position deletes of the row of a file that is deleted in a table with them."""
    return contents.position_deletes(name, FILES[target][0], target, DELETED["positions"][target])


def equality_deletes_of(contents: Contents, target: str) -> DataFile:
    """The equality deletes that apply to a file in a table with them."""
    return contents.equality_deletes(f"equality-{target}", FILES[target][0], DELETED["equality"][target], bounded=True)


def late_deletes(contents: Contents) -> DataFile:
    """Equality deletes of a row of A that come later."""
    return contents.equality_deletes("equality-late", FILES["A"][0], LATE, bounded=True)


def first_file(contents: Contents, name: str, kinds: frozenset[str]) -> DataFile:
    """A data file as it is in a table with these kinds of deletes."""
    day, rows = FILES[name]
    return contents.data_file(name, day, *rows, *(DELETED[kind][name] for kind in sorted(kinds & deleted(name))))


def first_deletes(contents: Contents, name: str, kinds: frozenset[str]) -> list[DataFile]:
    """The delete files of these kinds that a data file has from the beginning."""
    make = {
        "positions": lambda: deletes_of(contents, name, f"deletes-{name}"),
        "equality": lambda: equality_deletes_of(contents, name),
    }
    return [make[kind]() for kind in sorted(kinds & deleted(name))]


def deleted(name: str) -> frozenset[str]:
    """The kinds of deletes that a data file may have from the beginning."""
    return frozenset(kind for kind, rows in DELETED.items() if name in rows)


def stage(catalog: Catalog, files: MemoryFiles, ids: dict[str, int], contents: Contents) -> Stage:
    """The table as it is at the start, in a catalog that has it."""
    refs = {"main": rows_in(*SNAPSHOTS["S2"])}
    refs |= {name: rows_in(*SNAPSHOTS[name]) for name in ("audit", "ahead")}
    return Stage(catalog, files, contents, Rows(refs), ids)


def copied(version: int, kinds: frozenset[str]) -> tuple[MemoryFiles, MemoryTablePointer, dict[str, int], Contents]:
    """A fresh copy of the table of this format version, with these kinds of deletes, for a catalog and `stage`."""
    made = _made(version, kinds)
    files, pointer = MemoryFiles(), MemoryTablePointer(namespaces=("logging",))
    files.write_all(made.files)
    pointer.rows.update(made.rows)  # type: ignore[arg-type]
    return files, pointer, dict(made.ids), Contents(dict(made.contents.rows), dict(made.contents.deletes))


@cache
def _made(version: int, kinds: frozenset[str]) -> _Made:
    files, pointer = MemoryFiles(), MemoryTablePointer(namespaces=())
    contents, ids = Contents(), dict[str, int]()
    with memory_catalog(files=files, pointer=pointer) as catalog:
        catalog.create_namespace("logging")
        properties = {"format-version": str(version)}
        table = catalog.create_table(NAME, SCHEMA, partition_spec=["day"], properties=properties)

        def append(snapshot: str, names: str, branch: str = "main", *, staged: bool = False) -> None:
            added = [first_file(contents, name, kinds) for name in names.split()]
            report = table.append(added, branch=branch, stage_only=staged)
            deletes = [each for name in names.split() for each in first_deletes(contents, name, kinds)]
            if deletes:
                report = table.row_delta(deletes=deletes)
            ids[snapshot] = report.snapshot_ids[0]

        append("S0", "Z")
        append("S1", "A B")
        append("S2", "C D")
        append("audit", "E", "audit")
        append("ahead", "F", "ahead")
        append("W", "W", staged=True)
        append("W2", "W2", staged=True)
        stored = tuple((each, files.read(each)) for each in files.locations())
        return _Made(stored, tuple(pointer.rows.items()), ids, contents)
