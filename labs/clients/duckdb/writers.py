"""DuckDB beside other writers. It does not send a commit again that was refused with 409: its caller must run the
statement again."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

import pytest

from labs.clients import contention, others
from labs.clients.contention import Tally, Writer
from labs.clients.duckdb.session import Session, opened
from labs.clients.lost_answers import between
from labs.clients.results import Verdict, differs, works

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from labs.clients.lab import Place

#: What the server does with an append whose branch moved: `all` rebases it.
REBASE: Final = "iceberg-hms.rebase-appends"
#: An option of ATTACH.
KEEP: Final = "REMOVE_FILES_ON_DELETE false"


def check_beside_others(place: Place) -> Verdict | None:
    notes = []
    for policy in ("plain", "all"):
        table = _table(place, policy)
        with opened(place) as duck:
            tallies = contention.run(
                [_writer("DuckDB", duck, table), others.pyiceberg(place.lab, table), others.python_api(place, table)]
            )
        notes.append(f"{policy}: {_figures(place, tallies, table)}")
    return works(f"in {contention.SECONDS:.0f} s each, by `{REBASE}`. {'. '.join(notes)}")


def check_two_sessions(place: Place) -> Verdict | None:
    notes = []
    for policy in ("plain", "all"):
        table = _table(place, policy)
        with ExitStack() as stack:
            sessions = [stack.enter_context(opened(place)) for _ in range(2)]
            tallies = contention.run(
                [_writer(name, session, table) for name, session in zip(("one", "two"), sessions, strict=True)]
            )
        notes.append(f"{policy}: {_figures(place, tallies, table)}")
    return works(f"in {contention.SECONDS:.0f} s each, by `{REBASE}`. {'. '.join(notes)}")


def _figures(place: Place, tallies: Sequence[Tally], table: str) -> str:
    assert any(tally.acknowledged for tally in tallies)
    return contention.check(tallies, (row["id"] for row in place.lab.rows(table)), starving=True)


def check_row_changes(place: Place) -> Verdict | None:
    """An UPDATE of a row that nobody else changes, beside appends: what was acknowledged holds, and nothing else."""
    table = _table(place, "plain")
    counted = {"acknowledged": 0, "refused": 0}
    with opened(place) as duck:
        duck(f"INSERT INTO ice.{table} VALUES (-1, '0')")

        def update(id_: int) -> None:
            try:
                duck(f"UPDATE ice.{table} SET name = (name::INTEGER + 1)::VARCHAR WHERE id = -1")
            except Exception:
                counted["refused"] += 1
                raise
            counted["acknowledged"] += 1
            duck(f"SELECT {id_}")

        tallies = contention.run([Writer("DuckDB's UPDATE", update), others.pyiceberg(place.lab, table)])
    rows = place.lab.rows(table)
    [total] = [int(row["name"]) for row in rows if row["id"] == -1]
    assert total == counted["acknowledged"], (total, counted)
    note = contention.check(tallies[1:], (row["id"] for row in rows if row["id"] != -1))
    return works(f"UPDATE {total}, {counted['refused']} refused for good; {note}")


def check_lost_answer(place: Place) -> Verdict | None:
    """By default DuckDB deletes the data of a commit whose outcome it does not know."""
    import duckdb

    gone = {}
    for options in ((), (KEEP,)):
        table = place.table("kept" if options else "deleted")
        with between(place.lab) as way, closing(Session(way.lab, *options)) as duck:
            duck(f"CREATE TABLE ice.{table} AS SELECT 1::BIGINT AS id")
            way.losing = True
            with pytest.raises(duckdb.Error):
                duck(f"INSERT INTO ice.{table} VALUES (2)")
        assert set(way.statuses) == {200}, way.statuses
        snapshot = place.lab.catalog.load_table(table).current_snapshot()
        assert snapshot.summary["total-records"] == "2", snapshot.summary
        data = [path for path in place.files_of(table) if path.suffix == ".parquet"]
        gone[options] = 2 - len(data)
    assert gone[(KEEP,)] == 0
    assert sorted(row["id"] for row in place.lab.rows(place.table("kept"))) == [1, 2]
    if not gone[()]:
        return None
    return differs(
        "**attach with `REMOVE_FILES_ON_DELETE false`.** Without it DuckDB deletes the data files of every commit that"
        " it sees fail, also when the connection broke or the status was 5xx, and the server had made the commit: the"
        " table then names files that are gone. src/catalog/rest/transaction/iceberg_transaction.cpp, Commit and"
        " CleanupFiles; the extension's main branch keeps the files of an unknown outcome (CommitStateUnknown)"
    )


def _table(place: Place, policy: str) -> str:
    table = place.table(policy)
    place.lab.pyiceberg.create_table(table, others.SCHEMA, properties={REBASE: policy})
    return table


def _writer(name: str, duck: Session, table: str) -> Writer:
    # DuckDB says `_409` and the like where the server answered; without an answer the outcome is unknown.
    return Writer(
        name,
        lambda id_: duck(f"INSERT INTO ice.{table} VALUES ({id_}, 'row {id_}')"),
        lambda error: "_409" not in str(error) and "_429" not in str(error),
    )


CHECKS: Final[dict[str, Callable[[Place], Verdict | None]]] = {
    "inserts beside others": check_beside_others,
    "two sessions": check_two_sessions,
    "row changes beside others": check_row_changes,
    "lost answer": check_lost_answer,
}
