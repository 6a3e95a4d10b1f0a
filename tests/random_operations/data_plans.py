"""Operations on whole data files: append, deletes, overwrites, rewrites, cherry-picks and what is staged for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from tests.random_operations.independent_reader import Entry, require
from tests.random_operations.model import (
    MAIN,
    Model,
    added,
    deleted_where,
    one_after_the_other,
    removed,
    replaced_partitions,
    rewritten,
    unchanged,
)
from tests.random_operations.plans import Plan, Planner, short, shown
from tests.random_operations.shapes import DAY, ID, LEVEL, PRICE, Values

#: What a filter that matches some rows of a file is refused by, whatever others did.
_PARTIAL: Final = frozenset({"whole-files"})
_EPOCH_DAYS: Final = date(1970, 1, 1).toordinal()
Filter = tuple[str, Callable[[Values], bool]]


def append(planner: Planner) -> Plan:
    files = planner.new_files(mixed=planner.choose.random() < 0.25)
    return planner.changes(
        f"append {shown(files)}",
        lambda table: table.append([each.given for each in files], **planner.options),
        added(files),
        replays=True,
    )


def append_again(planner: Planner) -> Plan | None:
    """A file that the branch has already: always refused, under any spelling."""
    entry = planner.picked()
    # If others removed the file meanwhile, its rows come back beside those that a rewrite made of them.
    if entry is None or planner.is_stale:
        return None
    file = planner.bench.written.files[entry.path]
    given = planner.bench.writer.respelled(entry.path) if isinstance(file.given, str) else file.given
    if entry.spec_id != planner.state.metadata["default-spec-id"]:
        return None
    return Plan(
        f"append {short(entry.path)} again ({planner.branch})",
        lambda table: table.append([given], **planner.options),
        lambda model, _: require(entry.path not in model.files(planner.branch), f"{entry.path} was added twice"),
        frozenset({"new-files"}),
    )


def delete_files(planner: Planner) -> Plan | None:
    if not planner.data:
        return None
    entries = planner.choose.sample(planner.data, min(len(planner.data), planner.choose.randint(1, 2)))
    names = [planner.bench.writer.respelled(each.path) for each in entries]
    return planner.changes(
        f"delete files {short(*names)}",
        lambda table: table.delete_files(names, **planner.options),
        removed([each.path for each in entries]),
    )


def delete_where(planner: Planner) -> Plan | None:
    if not planner.data:
        return None
    text, matches = _filter(planner)

    def apply(model: Model, snapshot_ids: Sequence[int]) -> None:
        effect = deleted_where(planner.bench.written, matches)
        if snapshot_ids:
            model.commit(planner.moves, effect, snapshot_ids[0])
        else:
            before = model.files(planner.branch)
            require(effect(before) == before, f"rows match {text}, and nothing was deleted")

    return Plan(f"delete where {text} ({planner.where})", lambda t: t.delete(text, **planner.options), apply, _PARTIAL)


def overwrite(planner: Planner) -> Plan:
    """A day, or all rows."""
    cell = planner.bench.shape.cell(planner.choose)
    files, isolation = planner.new_files(cell), planner.isolation
    where: Filter | None = None
    if planner.choose.random() < 0.8:
        day = cell[DAY]
        where = f"{planner.column(DAY)} = date '{_date(day)}'", lambda row: row[DAY] == day
    text, matches = where or (None, lambda _: True)
    return planner.changes(
        f"overwrite {text} by {shown(files)}, {isolation}",
        lambda table: table.overwrite([each.given for each in files], text, **isolation, **planner.options),
        one_after_the_other(deleted_where(planner.bench.written, matches), added(files)),
        may_be_refused=_PARTIAL,
    )


def replace_partitions(planner: Planner) -> Plan:
    like, isolation = planner.picked(), planner.isolation
    cell = planner.bench.shape.cell(planner.choose)
    if like is not None:
        # Most partitions that are chosen at random are empty.
        row = planner.bench.written.rows[planner.bench.written.files[like.path].ids[0]]
        cell = {id_: row[id_] for id_ in cell}
    files = planner.new_files(cell)
    whole_table = planner.state.is_unpartitioned(planner.state.metadata["default-spec-id"])
    return planner.changes(
        f"replace partitions by {shown(files)}, {isolation}",
        lambda table: table.replace_partitions([each.given for each in files], **isolation, **planner.options),
        replaced_partitions(planner.bench.written, files, whole_table=whole_table),
        replays=True,
    )


def rewrite(planner: Planner) -> Plan | None:
    """Compaction of one partition's files, which applies all deletes."""
    first = planner.picked()
    if first is None:
        return None
    old = planner.of_partition(first)[: planner.choose.randint(1, 3)]
    rows = [row for each in old for row in planner.live[each.path]]
    lineage = {row.values[ID]: (row.row_id, row.last_updated) for row in rows if row.row_id is not None}
    has_lineage = bool(rows) and all(row.row_id is not None for row in rows)
    if rows and not has_lineage and planner.is_stale and planner.bench.shape.upgrades:
        # Rows get their ids in the first commit after an upgrade to version 3. A rewrite that was planned before it
        # carries none, which is bad input by then.
        return None
    values = [planner.bench.written.rows[row.values[ID]] for row in rows]
    files = planner.write(values, lineage if has_lineage else None)
    return planner.changes(
        f"rewrite {short(*(each.path for each in old))} as {shown(files)}",
        lambda table: table.rewrite(_respelled(planner, old), [each.given for each in files], **planner.options),
        rewritten([each.path for each in old], files),
    )


def _respelled(planner: Planner, entries: Sequence[Entry]) -> list[str]:
    return [planner.bench.writer.respelled(each.path) for each in entries]


def rewrite_manifests(planner: Planner) -> Plan:
    def apply(model: Model, snapshot_ids: Sequence[int]) -> None:
        if snapshot_ids:
            model.commit(planner.moves, unchanged, snapshot_ids[0])

    return Plan(f"rewrite manifests ({planner.branch})", lambda t: t.rewrite_manifests(**planner.options), apply)


def cherry_pick(planner: Planner) -> Plan | None:
    """A snapshot that is not in main's history, as far as that is there. Where a rewrite put the rows of a pick into
    other files and the history of it expired, nobody can know of them: they would be there twice."""
    state = planner.state
    in_main: set[int] = set()
    at = state.refs.get(MAIN)
    while at is not None and at in state.snapshots:
        in_main.add(at)
        at = state.snapshots[at].raw.get("parent-snapshot-id")
    known = [each for each in state.snapshots if each not in in_main]
    if not known:
        return None
    picked = planner.choose.choice(known[-4:])
    if planner.bench.has_rows_of(state.snapshots[picked]):
        return None
    number = list(state.snapshots).index(picked)
    wap_id = state.snapshots[picked].raw["summary"].get("wap.id")
    return Plan(
        f"cherry-pick snapshot {number}, staged as {wap_id}",
        lambda table: table.cherry_pick(picked) if wap_id is None else table.publish_changes(wap_id),
        lambda model, snapshot_ids: model.pick(picked, snapshot_ids),
        frozenset({"cherry-pick-once", "cherry-pick-snapshot", "cherry-pick-partitions", "cherry-pick-files"}),
    )


def _filter(planner: Planner) -> Filter:
    """A filter of rows."""
    column, choose = planner.column, planner.choose
    file = planner.bench.written.files[choose.choice(planner.data).path]
    row = planner.bench.written.rows[file.ids[0]]
    day, level, low, high = row[DAY], row[LEVEL], min(file.ids), max(file.ids)

    def in_range(each: Values) -> bool:
        return bool(low <= each[ID] <= high)

    if level is None:
        of_level: Filter = f"{column(LEVEL)} is null", lambda each: each[LEVEL] is None
    else:
        of_level = f"{column(LEVEL)} = '{level}'", lambda each: each[LEVEL] == level
    filters: list[Filter] = [
        (f"{column(ID)} >= {low} and {column(ID)} <= {high}", in_range),
        (f"{column(ID)} between {low} and {high}", in_range),
        (f"{column(DAY)} = date '{_date(day)}'", lambda each: each[DAY] == day),
        (f"{column(DAY)} < date '{_date(day)}'", lambda each: each[DAY] < day),
        of_level,
        (f"{column(PRICE)} is nan", lambda each: each[PRICE] is not None and each[PRICE] != each[PRICE]),
        (f"{column(PRICE)} is null", lambda each: each[PRICE] is None),
        (f"{column(PRICE)} > 1", lambda each: each[PRICE] is not None and each[PRICE] > 1),
    ]
    return choose.choice(filters)


def _date(days: int) -> date:
    return date.fromordinal(days + _EPOCH_DAYS)
