"""Operations on rows: position deletes, equality deletes and deletion vectors, and rewrites of delete files."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_hms.format.manifests.manifest import DataFile
from tests.random_operations.independent_reader import EQUALITY_DELETES, PARTITION, Entry
from tests.random_operations.independent_rows import equality_applies, position_applies
from tests.random_operations.model import added, one_after_the_other, unchanged, without_equal, without_rows
from tests.random_operations.plans import Plan, Planner, short, shown
from tests.random_operations.shapes import COUNT, ID, LEVEL
from tests.random_operations.specification_values import comparable

#: Of a data file: the positions that new deletes of it name.
Positions = dict[str, set[int]]


def delete_positions(planner: Planner) -> Plan | None:
    """Rows of one or two data files of a partition; at times an update, with new rows."""
    entry, choose = planner.picked(), planner.choose
    if entry is None or planner.state.version == 1:
        return None
    entries = [each for each in planner.of_partition(entry) if planner.live[each.path]][: choose.randint(1, 2)]
    if not entries:
        return None
    gone = {each.path: choose.sample(planner.live[each.path], 1) for each in entries}
    positions = {path: {row.position for row in rows} for path, rows in gone.items()}
    ids = {path: frozenset(row.values[ID] for row in rows) for path, rows in gone.items()}
    files = planner.new_files() if choose.random() < 0.4 else []
    merged, older = _with_older(planner, positions)
    deletes, replaced = _written(planner, merged), [planner.record(each) for each in older]
    isolation = planner.isolation
    referenced = [each.path for each in entries] if choose.random() < 0.5 or len(entries) > 1 else []
    referenced += _without_positions(merged)
    return planner.changes(
        f"delete positions {_shown(positions)}, new {shown(files)}, {isolation}",
        lambda table: table.row_delta(
            [each.given for each in files],
            deletes,
            replaced_deletes=replaced,
            referenced_files=referenced,
            **isolation,
            **planner.options,
        ),
        one_after_the_other(without_rows(ids), added(files)),
    )


def delete_equal(planner: Planner) -> Plan | None:
    """Rows that equal others by their id, or by several columns; with new rows at times."""
    entry, choose = planner.picked(), planner.choose
    if entry is None or planner.state.version == 1:
        return None
    columns = choose.choice(((ID,), (ID,), (ID, LEVEL), (LEVEL, COUNT)))
    known = planner.bench.written
    ids = choose.sample(known.files[entry.path].ids, 1)
    rows = [known.rows[id_] for id_ in ids]
    gone = {tuple(comparable(row[column]) for column in columns) for row in rows}
    deletes = planner.bench.writer.equality_deletes(planner.state, rows, columns, entry.spec_id, entry.file[PARTITION])
    files = planner.new_files() if choose.random() < 0.5 else []
    isolation, everywhere = planner.isolation, planner.state.is_unpartitioned(entry.spec_id)

    def is_gone(id_: int) -> bool:
        return tuple(comparable(known.rows[id_][column]) for column in columns) in gone

    reaches = without_equal(known, lambda file: everywhere or file.partition == entry.partition, is_gone)
    return planner.changes(
        f"delete rows that equal {ids} by {columns}, of {entry.partition}, new {shown(files)}, {isolation}",
        lambda table: table.row_delta([each.given for each in files], [deletes], **isolation, **planner.options),
        one_after_the_other(reaches, added(files)),
    )


def rewrite_deletes(planner: Planner) -> Plan | None:
    """Compact the position deletes of a partition."""
    by_position = _by_position(planner)
    if not by_position:
        return None
    like = planner.choose.choice(by_position)
    old = [each for each in by_position if each.partition == like.partition]
    positions = {each.path: planner.bench.rows.positions_by_position(each, old) for each in planner.of_partition(like)}
    return _rewrite(planner, old, positions, positions)


def convert_equality_deletes(planner: Planner) -> Plan | None:
    """Replace an equality delete file by the positions that it deletes."""
    equality = [
        each for each in planner.deletes if each.content == EQUALITY_DELETES and _is_in_its_partition(planner, each)
    ]
    if not equality:
        return None
    old = planner.choose.choice(equality)
    reached = [each for each in planner.data if equality_applies(planner.state, old, each)]
    found = {each.path: planner.bench.rows.equal_positions(planner.state, each, old) for each in reached}
    positions, replaced = _with_older(planner, {path: at for path, at in found.items() if at})
    return _rewrite(planner, [old, *replaced], positions, found)


def _is_in_its_partition(planner: Planner, equality: Entry) -> bool:
    """Whether all data files to which equality deletes apply are of their own partition, so that positions can replace
    them."""
    reached = (each for each in planner.data if equality_applies(planner.state, equality, each))
    return all(each.partition == equality.partition for each in reached)


def _rewrite(planner: Planner, old: Sequence[Entry], positions: Positions, reached: Positions) -> Plan:
    """reached: the data files to which the old deletes may apply; those without a position are named as such."""
    records, deletes = [planner.record(each) for each in old], _written(planner, positions)
    referenced = _without_positions({**reached, **positions})
    return planner.changes(
        f"rewrite deletes {short(*(each.path for each in old))} as {short(*(each.file_path for each in deletes))}",
        lambda table: table.rewrite(
            remove_deletes=records, add_deletes=deletes, referenced_files=referenced, **planner.options
        ),
        unchanged,
    )


def _by_position(planner: Planner) -> list[Entry]:
    """The live position delete files and deletion vectors."""
    return [each for each in planner.deletes if each.content != EQUALITY_DELETES]


def _with_older(planner: Planner, new: Positions) -> tuple[Positions, list[Entry]]:
    """What to write for new positions of data files of one partition, and the delete files that it replaces.

    In version 3 a data file has one deletion vector, with all positions before it (spec: Deletion Vectors). A position
    delete file may have those of other data files of the partition, which then get vectors, too.
    """
    if planner.state.version == 2 or not new:
        return new, []
    rows, older = planner.bench.rows, _by_position(planner)
    partition = planner.of_partition(next(each for each in planner.data if each.path in new))
    files = [each for each in older if not each.is_vector and each.partition == partition[0].partition]
    covered = [each for each in partition if each.path in new or any(position_applies(old, each) for old in files)]
    merged = {each.path: rows.positions_by_position(each, older) | new.get(each.path, set()) for each in covered}
    vectors = [old for old in older if old.is_vector and any(position_applies(old, each) for each in covered)]
    return merged, [*files, *vectors]


def _written(planner: Planner, positions: Positions) -> list[DataFile]:
    """Delete files with positions of data files of one partition, as the format version wants them."""
    entries = [(each, sorted(positions[each.path])) for each in planner.data if positions.get(each.path)]
    if not entries:
        return []
    if planner.state.version == 2:
        by_path = {each.path: found for each, found in entries}
        return [planner.bench.writer.position_deletes(planner.state, entries[0][0], by_path)]
    return planner.bench.writer.vectors(planner.state, entries)


def _without_positions(reached: Positions) -> list[str]:
    """The data files that replaced deletes may reach, and of which they delete no row: a caller names them."""
    return [path for path, at in reached.items() if not at]


def _shown(positions: Positions) -> str:
    return ", ".join(f"{short(path)}{sorted(found)}" for path, found in positions.items())
