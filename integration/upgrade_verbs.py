"""What stock clients do to a table while somebody upgrades it: by Java's own API, by Spark's SQL, and by PyIceberg.

A table has the rows 1 and 2 in one file and 3 in another. Each verb says which ids there are afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from integration import interop

#: The row that each verb adds, unless it says otherwise.
NEW: Final = 10

Ids = frozenset[int]


class Hands:
    """What verbs use. spark: with a catalog `place`, of which `java` and `pyiceberg` are others."""

    def __init__(self, spark: Any, place: str, java: Any, pyiceberg: Any, folder: Path) -> None:
        self.spark, self.place, self.java, self.pyiceberg, self._folder = spark, place, java, pyiceberg, folder
        self._numbers = itertools.count(1)

    def file(self, *ids: int) -> str:
        """A new Parquet file; its location."""
        return f"file:{interop.small_parquet(self._folder / f'{next(self._numbers)}.parquet', ids)}"

    def load(self, table: str) -> Any:
        return self.java.loadTable(interop.java_identifier(self.spark, table))

    def new(self, table: Any, *ids: int) -> Any:
        """A new file, as Java's DataFile."""
        return interop.java_data_file(self.spark, table, Path(self.file(*ids).removeprefix("file:")))

    def live(self, table: Any, rows: int) -> Any:
        """The live file with so many rows."""
        tasks = table.newScan().planFiles().iterator()
        while tasks.hasNext():
            file = tasks.next().file()
            if file.recordCount() == rows:
                return file.copy()
        raise LookupError(f"no file has {rows} rows")

    def set_of(self, *items: Any) -> Any:
        made = self.spark._jvm.java.util.HashSet()
        for item in items:
            made.add(item)
        return made

    def sql(self, table: str, statement: str) -> None:
        self.spark.sql(statement.format(t=f"{self.place}.{table}", p=self.place, n=table)).collect()


@dataclass(frozen=True)
class Verb:
    """run: with the hands and the table's name. leaves: the ids after it, of those before it. prepare: what has to be
    there first. properties: the table's. from_version: the lowest of the table."""

    run: Callable[[Hands, str], object]
    leaves: Callable[[Ids], Ids]
    prepare: Callable[[Hands, str], object] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    from_version: int = 1


def _add(ids: Ids) -> Ids:
    return ids | {NEW}


def _add_two(ids: Ids) -> Ids:
    return ids | {NEW, NEW + 1}


def _drop_3(ids: Ids) -> Ids:
    return ids - {3}


def _swap_3(ids: Ids) -> Ids:
    return ids - {3} | {NEW}


def _only_new(_ids: Ids) -> Ids:
    return frozenset({NEW})


def _same(ids: Ids) -> Ids:
    return ids


def _java(make: Callable[[Hands, Any], Any]) -> Callable[[Hands, str], object]:
    return lambda hands, table: make(hands, hands.load(table)).commit()


def _transaction(*steps: Callable[[Hands, Any, Any], Any]) -> Callable[[Hands, str], object]:
    """steps: with the hands, the loaded table and the transaction; each gives an update."""

    def run(hands: Hands, table: str) -> None:
        loaded = hands.load(table)
        transaction = loaded.newTransaction()
        for step in steps:
            step(hands, loaded, transaction).commit()
        transaction.commitTransaction()

    return run


def _replace(hands: Hands, table: str) -> None:
    loaded = hands.load(table)
    builder = hands.java.buildTable(interop.java_identifier(hands.spark, table), loaded.schema())
    transaction = builder.replaceTransaction()
    transaction.newAppend().appendFile(hands.new(loaded, NEW)).commit()
    transaction.commitTransaction()


def _stage_and_move(hands: Hands, table: str) -> None:
    loaded = hands.load(table)
    append = loaded.newAppend().appendFile(hands.new(loaded, NEW)).set("wap.id", "w").stageOnly()
    append.commit()
    loaded = hands.load(table)
    loaded.newFastAppend().appendFile(hands.new(loaded, 20)).commit()


def _pick(hands: Hands, table: str) -> None:
    loaded = hands.load(table)
    [staged] = [each for each in loaded.snapshots() if "wap.id" in dict(each.summary())]
    loaded.manageSnapshots().cherrypick(staged.snapshotId()).commit()


def _rewrite(hands: Hands, table: Any) -> Any:
    old = hands.live(table, 1)
    update = table.newRewrite().validateFromSnapshot(table.currentSnapshot().snapshotId())
    return update.rewriteFiles(hands.set_of(old), hands.set_of(hands.new(table, 3)))


def _rewrite_manifests(hands: Hands, table: Any) -> Any:
    """One for each file."""
    return table.rewriteManifests().clusterBy(hands.spark._jvm.java.util.function.Function.identity())


def _pyiceberg(call: Callable[[Any, Hands], object]) -> Callable[[Hands, str], object]:
    return lambda hands, table: call(hands.pyiceberg.load_table(table), hands)


def _arrow(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"row {each}" for each in ids]})


def _delete_and_append(table: Any, _hands: Hands) -> None:
    with table.transaction() as change:
        change.delete("id = 3")
        change.append(_arrow(NEW))


def _append_twice(table: Any, _hands: Hands) -> None:
    with table.transaction() as change:
        change.append(_arrow(NEW))
        change.append(_arrow(NEW + 1))


def _append(name: str, added: int = NEW) -> Callable[[Hands, Any, Any], Any]:
    return lambda hands, table, at: getattr(at, name)().appendFile(hands.new(table, added))


def _delete_3(hands: Hands, table: Any, at: Any) -> Any:
    return at.newDelete().deleteFile(hands.live(table, 1))


def _sql(statement: str) -> Callable[[Hands, str], object]:
    return lambda hands, table: hands.sql(table, statement)


MERGING: Final = {"commit.manifest.min-count-to-merge": "2"}
ON_READ: Final = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}

VERBS: Final[dict[str, Verb]] = {
    "java append": Verb(_java(lambda h, t: _append("newAppend")(h, t, t)), _add),
    "java append that merges": Verb(_java(lambda h, t: _append("newAppend")(h, t, t)), _add, properties=MERGING),
    "java fast append": Verb(_java(lambda h, t: _append("newFastAppend")(h, t, t)), _add),
    "java delete": Verb(_java(lambda h, t: _delete_3(h, t, t)), _drop_3),
    "java delete that merges": Verb(_java(lambda h, t: _delete_3(h, t, t)), _drop_3, properties=MERGING),
    "java overwrite": Verb(
        _java(lambda h, t: t.newOverwrite().deleteFile(h.live(t, 1)).addFile(h.new(t, NEW))), _swap_3
    ),
    "java row delta": Verb(_java(lambda h, t: t.newRowDelta().addRows(h.new(t, NEW))), _add),
    "java rewrite": Verb(_java(_rewrite), _same),
    "java rewrite of manifests": Verb(_java(_rewrite_manifests), _same),
    "java replace of partitions": Verb(_java(lambda h, t: t.newReplacePartitions().addFile(h.new(t, NEW))), _only_new),
    "java two appends": Verb(_transaction(_append("newAppend"), _append("newAppend", NEW + 1)), _add_two),
    "java two appends that merge": Verb(
        _transaction(_append("newAppend"), _append("newAppend", NEW + 1)), _add_two, properties=MERGING
    ),
    "java two fast appends": Verb(_transaction(_append("newFastAppend"), _append("newFastAppend", NEW + 1)), _add_two),
    "java delete and append": Verb(_transaction(_delete_3, _append("newAppend")), _swap_3),
    "java append and delete": Verb(_transaction(_append("newAppend"), _delete_3), _swap_3),
    "java replace of the table": Verb(_replace, _only_new),
    "java cherry-pick": Verb(_pick, _add, prepare=_stage_and_move),
    "spark INSERT": Verb(_sql(f"INSERT INTO {{t}} VALUES ({NEW}, 'x')"), _add),
    "spark INSERT OVERWRITE": Verb(_sql(f"INSERT OVERWRITE {{t}} VALUES ({NEW}, 'x')"), _only_new),
    "spark DELETE of a file": Verb(_sql("DELETE FROM {t} WHERE id = 3"), _drop_3),
    "spark DELETE of a row": Verb(_sql("DELETE FROM {t} WHERE id = 2"), lambda ids: ids - {2}),
    "spark DELETE of a row, merge-on-read": Verb(
        _sql("DELETE FROM {t} WHERE id = 2"), lambda ids: ids - {2}, properties=ON_READ, from_version=2
    ),
    "spark UPDATE": Verb(_sql("UPDATE {t} SET name = 'x' WHERE id = 2"), _same),
    "spark UPDATE, merge-on-read": Verb(
        _sql("UPDATE {t} SET name = 'x' WHERE id = 2"), _same, properties=ON_READ, from_version=2
    ),
    "spark MERGE": Verb(
        _sql(
            f"MERGE INTO {{t}} t USING (SELECT explode(array(2L, {NEW}L)) AS id) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET name = 'x' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'x')"
        ),
        _add,
    ),
    "spark RTAS": Verb(
        _sql(f"CREATE OR REPLACE TABLE {{t}} USING iceberg AS SELECT {NEW}L AS id, 'x' AS name"), _only_new
    ),
    "spark rewrite_data_files": Verb(
        _sql("CALL {p}.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))"), _same
    ),
    "spark rewrite_manifests": Verb(_sql("CALL {p}.system.rewrite_manifests('{n}', false)"), _same),
    "pyiceberg append": Verb(_pyiceberg(lambda t, _h: t.append(_arrow(NEW))), _add),
    "pyiceberg two appends": Verb(_pyiceberg(_append_twice), _add_two),
    "pyiceberg overwrite": Verb(_pyiceberg(lambda t, _h: t.overwrite(_arrow(NEW), "id = 3")), _swap_3),
    "pyiceberg delete of a row": Verb(_pyiceberg(lambda t, _h: t.delete("id = 2")), lambda ids: ids - {2}),
    "pyiceberg delete and append": Verb(_pyiceberg(_delete_and_append), _swap_3),
    "pyiceberg upsert": Verb(_pyiceberg(lambda t, _h: t.upsert(_arrow(2, NEW), join_cols=["id"])), _add),
}
