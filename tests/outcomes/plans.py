"""Operations that a writer plans on the state of the table that it sees, and what each does to the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from iceberg_hms.catalog.table import Table
from iceberg_hms.changes.operations.manifests.conflicts import Isolation
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.format.manifests.manifest import DataFile, FileContent
from tests.outcomes.rows import live_entries, name_of, rows_of
from tests.outcomes.site import Planned, Refs, Site, Staged

DAYS: Final = 3
ROWS: Final = 4
Apply = Callable[[Refs, tuple[int, ...]], None]


class Plans:
    """The operations of one writer. table: what it sees. choose: any number, which decides between files, days and
    branches."""

    def __init__(self, site: Site, table: Table, choose: int) -> None:
        self._site, self._table, self._choose = site, table, choose
        self._day = choose % DAYS
        self._isolation: Isolation = "serializable" if choose // 3 % 2 else "snapshot"
        self._branch = "other" if choose // 7 % 4 == 0 and "main" in site.refs else "main"
        self._options: dict[str, Any] = {"branch": self._branch}
        self._replay: Callable[[frozenset[int]], frozenset[int]] | None = None
        metadata, catalog = table.metadata, site.catalogs[0]
        ref = metadata.ref(self._branch)
        head = metadata.current_snapshot if ref is None else metadata.snapshot_by_id(ref.snapshot_id)
        entries = [] if head is None else live_entries(catalog, head)
        self._rows = frozenset[int]() if head is None else frozenset(rows_of(catalog, head, site.contents))
        data = [each for each in entries if each.data_file.content == FileContent.DATA]
        self._data = [each.data_file for each in sorted(data, key=name_of)]
        self._deletes = [each for each in entries if each.data_file.content == FileContent.POSITION_DELETES]
        self._vectors = {
            each.data_file.referenced_data_file: each.data_file
            for each in entries
            if each.data_file.content_offset is not None
        }

    def make(self, operation: str) -> Planned:
        """One of `OPERATIONS`; an append if there is nothing that it could be about."""
        planned = OPERATIONS[operation](self)
        return self.append() if planned is None else planned

    def append(self) -> Planned:
        file = self._new_file(self._day)
        new = self._ids(file)
        self._replay = lambda rows: rows | new
        return Planned(
            f"append {file.file_path} to {self._branch}",
            lambda table: table.append([file], **self._options),
            self._replaced(frozenset(), new),
        )

    def stage(self) -> Planned:
        """One of the operations, without a ref that moves."""
        self._options["stage_only"] = True
        planned = self.make(STAGED[self._choose // 5 % len(STAGED)])

        def apply(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
            before = self._before(refs)
            planned.apply(dict(refs), snapshot_ids)
            self._site.staged.update((each, Staged(before, self._replay)) for each in snapshot_ids)

        return Planned(f"stage: {planned.what}", planned.submit, apply)

    def cherry_pick(self) -> Planned | None:
        known = [each for each in self._site.staged if self._table.metadata.snapshot_by_id(each) is not None]
        if not known:
            return None
        picked = known[self._choose % len(known)]
        staged = self._site.staged[picked]

        def apply(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
            before = refs.get("main", frozenset())
            if snapshot_ids:
                assert staged.replay is not None, f"{picked} can be published on its parent alone"
                self._set(refs, "main", staged.replay(before), snapshot_ids)
            else:
                assert before == staged.before, f"main is not where {picked} was staged"
                refs["main"] = self._site.history[picked]

        return Planned(f"cherry-pick {picked}", lambda table: table.cherry_pick(picked), apply)

    def rewrite_manifests(self) -> Planned:
        def apply(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
            if snapshot_ids:
                self._set(refs, self._branch, self._before(refs), snapshot_ids)

        what = f"rewrite manifests of {self._branch}"
        return Planned(what, lambda table: table.rewrite_manifests(**self._options), apply)

    def delete_files(self) -> Planned | None:
        file = self._picked()
        if file is None:
            return None
        return Planned(
            f"delete {file.file_path} of {self._branch}",
            lambda table: table.delete_files([file.file_path], **self._options),
            self._replaced(self._ids(file), frozenset()),
        )

    def replace_partitions(self) -> Planned:
        file, day = self._new_file(self._day), self._day
        new = self._ids(file)

        def replay(rows: frozenset[int]) -> frozenset[int]:
            return frozenset(row for row in rows if self._site.days[row] != day) | new

        def apply(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
            self._set(refs, self._branch, replay(self._before(refs)), snapshot_ids)

        self._replay = replay

        return Planned(
            f"replace day {day} of {self._branch} by {file.file_path}, {self._isolation}",
            lambda table: table.replace_partitions([file], isolation=self._isolation, **self._options),
            apply,
        )

    def rewrite(self) -> Planned | None:
        first = self._picked()
        if first is None:
            return None
        old = [each for each in self._data if each.partition == first.partition][: 1 + self._choose // 11 % 3]
        rows = sorted(row for each in old for row in self._ids(each) if row in self._rows)
        if not rows:
            return None
        file = self._new_file(int(first.partition["day"]), *rows)
        paths = [each.file_path for each in old]
        return Planned(
            f"rewrite {paths} of {self._branch} as {file.file_path}",
            lambda table: table.rewrite(paths, [file], **self._options),
            self._replaced(frozenset(), frozenset()),
        )

    def rewrite_deletes(self) -> Planned | None:
        """Replace all position deletes of a data file by one file."""
        named = sorted({str(each.data_file.referenced_data_file) for each in self._deletes})
        if not named:
            return None
        path, contents = named[self._choose % len(named)], self._site.contents
        old = [each for each in self._deletes if each.data_file.referenced_data_file == path]
        rows = sorted(frozenset[int]().union(*(contents.deletes[name_of(each)] for each in old)))
        files = [each.data_file for each in old]
        is_old = self._table.metadata.format_version < 3
        make = contents.position_deletes if is_old else contents.deletion_vector
        of = path.rpartition("/")[2].removesuffix(".parquet")
        new = make(f"p{self._site.count()}", int(files[0].partition["day"]), of, *rows)
        return Planned(
            f"rewrite {[each.file_path for each in files]} of {self._branch} as {new.file_path}",
            lambda table: table.rewrite(remove_deletes=files, add_deletes=[new], **self._options),
            self._replaced(frozenset(), frozenset()),
        )

    def update_rows(self) -> Planned | None:
        """Delete rows of one file by position and add others."""
        return self._row_delta(with_data=True)

    def delete_rows(self) -> Planned | None:
        """Delete rows of one file by position."""
        return self._row_delta(with_data=False)

    def upsert(self) -> Planned | None:
        """Delete rows of a day by their ids and add others."""
        of_day = sorted(row for row in self._rows if self._site.days[row] == self._day)
        if not of_day:
            return None
        gone = of_day[: 1 + self._choose % 3]
        deletes = self._site.contents.equality_deletes(f"e{self._site.count()}", self._day, *gone)
        file = self._new_file(self._day)
        return Planned(
            f"upsert {gone} of {self._branch} by {deletes.file_path}, {self._isolation}",
            lambda table: table.row_delta([file], [deletes], isolation=self._isolation, **self._options),
            self._replaced(frozenset(gone), self._ids(file)),
        )

    def add_column(self) -> Planned | None:
        name = f"c{self._choose % 20}"
        if self._table.schema().find(name) is not None:
            return None
        return Planned(
            f"add column {name}", lambda table: table.update_schema().add_column(name, "int").commit(), _nothing
        )

    def roll_back(self) -> Planned | None:
        known = [each.snapshot_id for each in self._table.ancestors()]
        if not known:
            return None
        target = known[self._choose % min(len(known), 3)]

        def apply(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
            refs["main"] = self._site.history[target]

        return Planned(f"roll back to {target}", lambda table: table.rollback_to_snapshot(target), apply)

    def fast_forward(self) -> Planned | None:
        if self._table.metadata.ref("other") is None:
            return None

        def apply(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
            refs["main"] = refs["other"]

        return Planned("fast-forward main to other", lambda table: table.fast_forward("main", "other"), apply)

    def _row_delta(self, *, with_data: bool) -> Planned | None:
        file = self._picked()
        live = [] if file is None else sorted(self._ids(file) & self._rows)
        if file is None or not live:
            return None
        gone, day = live[: 1 + self._choose % 2], int(file.partition["day"])
        name, of = f"p{self._site.count()}", file.file_path.rpartition("/")[2].removesuffix(".parquet")
        replaced: list[DataFile] = []
        if self._table.metadata.format_version < 3:
            deletes = self._site.contents.position_deletes(name, day, of, *gone)
        else:
            old = self._vectors.get(file.file_path)
            before = self._ids(file) - self._rows if old is not None else frozenset()
            replaced = [] if old is None else [old]
            deletes = self._site.contents.deletion_vector(name, day, of, *gone, *before)
        added = [self._new_file(day)] if with_data else []

        def submit(table: Table) -> CommitReport:
            return table.row_delta(
                added, [deletes], replaced_deletes=replaced, isolation=self._isolation, **self._options
            )

        new = frozenset(row for each in added for row in self._ids(each))
        what = f"delete {gone} of {of} in {self._branch} by {name}, {self._isolation}, new {sorted(new)}"
        return Planned(what, submit, self._replaced(frozenset(gone), new))

    def _picked(self) -> DataFile | None:
        return self._data[self._choose % len(self._data)] if self._data else None

    def _new_file(self, day: int, *ids: int) -> DataFile:
        number = self._site.count()
        rows = ids or tuple(range(number * 10, number * 10 + ROWS))
        self._site.days.update(dict.fromkeys(rows, day))
        make = self._site.contents.moved_file if ids else self._site.contents.data_file
        return make(f"f{number}", day, *rows)

    def _ids(self, file: DataFile) -> frozenset[int]:
        return frozenset(self._site.contents.rows[file.file_path.rpartition("/")[2].removesuffix(".parquet")])

    def _before(self, refs: Refs) -> frozenset[int]:
        """The branch's rows; those of main for one that starts there."""
        return refs.get(self._branch, refs.get("main", frozenset()))

    def _replaced(self, gone: frozenset[int], new: frozenset[int]) -> Apply:
        def apply(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
            self._set(refs, self._branch, self._before(refs) - gone | new, snapshot_ids)

        return apply

    def _set(self, refs: Refs, branch: str, rows: frozenset[int], snapshot_ids: tuple[int, ...]) -> None:
        refs[branch] = rows
        for snapshot_id in snapshot_ids:
            self._site.history[snapshot_id] = rows


def _nothing(refs: Refs, snapshot_ids: tuple[int, ...]) -> None:
    """The rows stay."""


OPERATIONS: Final[dict[str, Callable[[Plans], Planned | None]]] = {
    "append": Plans.append,
    "stage": Plans.stage,
    "cherry_pick": Plans.cherry_pick,
    "rewrite_manifests": Plans.rewrite_manifests,
    "delete_files": Plans.delete_files,
    "replace_partitions": Plans.replace_partitions,
    "rewrite": Plans.rewrite,
    "rewrite_deletes": Plans.rewrite_deletes,
    "update_rows": Plans.update_rows,
    "delete_rows": Plans.delete_rows,
    "upsert": Plans.upsert,
    "add_column": Plans.add_column,
    "roll_back": Plans.roll_back,
    "fast_forward": Plans.fast_forward,
}
#: Those that can be staged.
STAGED: Final = (
    "append",
    "replace_partitions",
    "delete_files",
    "rewrite",
    "rewrite_deletes",
    "update_rows",
    "delete_rows",
    "upsert",
    "rewrite_manifests",
)
