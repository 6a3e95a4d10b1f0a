"""PyIceberg programs that write one table at the same time, in processes of their own: some append rows, others count.

    results = run(properties, "db.t", appenders=8, appends=20, counters=2, counts=10)

A counter reads its number from the table and overwrites it by the next one, so that a lost update, or one made twice,
shows in the number. All of them use the table as PyIceberg's documentation does, at its defaults.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema([("kind", pa.string()), ("number", pa.int64())])
ROW, COUNT = "row", "count"
#: For all that a process does.
SECONDS = 600


@dataclass(frozen=True)
class WriteResult:
    """The result of one write. kind: ROW or COUNT. number: of the row. error: None of one that was acknowledged.
    refused: the error proves that nothing changed. seconds: that it took. ended: on the machine's clock."""

    kind: str
    number: int
    error: str | None
    refused: bool
    seconds: float
    ended: float

    @property
    def acknowledged(self) -> bool:
        return self.error is None


def make_table(catalog: Any, name: str) -> Any:
    """An empty table for the writers, whose count is 0."""
    table = catalog.create_table(name, SCHEMA)
    table.append(rows(COUNT, 0))
    return table


def run(
    properties: Mapping[str, str], name: str, *, appenders: int, appends: int, counters: int = 0, counts: int = 0
) -> list[WriteResult]:
    """Let all write; returns what each write came to. properties: of their catalog, for `load_catalog`."""
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Barrier(appenders + counters), spawn.Queue()
    work = [(ROW, each, appends) for each in range(appenders)] + [(COUNT, each, counts) for each in range(counters)]
    started = [
        spawn.Process(target=_write, args=(dict(properties), name, *each, start, answers), daemon=True) for each in work
    ]
    for each in started:
        each.start()
    try:
        return [WriteResult(**fields) for _ in started for fields in json.loads(answers.get(timeout=SECONDS))]
    finally:
        for each in started:
            each.join(SECONDS)


def check(table: Any, results: Iterable[WriteResult]) -> None:
    """Assert that the table's rows are those of the acknowledged writes in some order, one after the other; a write
    whose outcome is unknown may be there or not. table: as it is now."""
    found = [(each["kind"], each["number"]) for each in table.scan().to_arrow().to_pylist()]
    written = Counter(number for kind, number in found if kind == ROW)
    results = list(results)
    acknowledged = {each.number for each in results if each.kind == ROW and each.acknowledged}
    possible = {each.number for each in results if each.kind == ROW and not each.refused}
    assert set(written.values()) <= {1}, "a row is there twice"
    assert acknowledged <= written.keys(), "an acknowledged row is lost"
    assert written.keys() <= possible, "a refused row is there"
    (count,) = [number for kind, number in found if kind == COUNT]
    counted = [each for each in results if each.kind == COUNT]
    surely = sum(each.acknowledged for each in counted)
    assert surely <= count <= surely + sum(not each.acknowledged and not each.refused for each in counted)


def rows(kind: str, number: int) -> pa.Table:
    """One row."""
    return pa.table({"kind": [kind], "number": [number]}, SCHEMA)


def _write(
    properties: dict[str, str], name: str, kind: str, writer: int, writes: int, start: Any, answers: Any
) -> None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    # PyIceberg logs each of its retries, and warns that the locks of its HiveCatalog may fail.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    results = []
    with load_catalog("writers", **properties) as catalog:
        table = catalog.load_table(name)
        start.wait(SECONDS)
        for each in range(writes):
            number = writer * 1_000_000 + each
            began, error, refused = monotonic(), None, False
            try:
                if kind == ROW:
                    table.append(rows(ROW, number))
                else:
                    number = _count(table.refresh())
            except Exception as raised:  # noqa: BLE001 - any error of any catalog is a result
                error = f"{type(raised).__name__}: {raised}"
                refused = isinstance(raised, CommitFailedException | ValidationException)
                # As a program does that goes on.
                table = catalog.load_table(name)
            ended = monotonic()
            results.append(asdict(WriteResult(kind, number, error, refused, ended - began, ended)))
    answers.put(json.dumps(results))


def _count(table: Any) -> int:
    """Add one to the table's count. Returns the new one."""
    (number,) = table.scan(f"kind = '{COUNT}'").to_arrow()["number"].to_pylist()
    table.overwrite(rows(COUNT, number + 1), f"kind = '{COUNT}'")
    return int(number) + 1
