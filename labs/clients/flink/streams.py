"""Streams of Flink into tables, while the server is killed and started again."""

from __future__ import annotations

from collections import Counter
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from labs.clients import others
from labs.clients.contention import Writer
from labs.clients.lab import serving_again
from labs.clients.results import Verdict, works
from tests.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from labs.clients.flink.session import Flink
    from labs.clients.lab import Place

ROWS, ROWS_A_SECOND = 4_000, 60
KILLS: Final = 3
#: Commits between two kills, and how long a commit may take on a busy machine.
COMMITS_BETWEEN, COMMIT_LIMIT = 4, 180.0
#: Keys of the upserts.
KEYS: Final = 100


def check_exactly_once(flink: Flink, place: Place) -> Verdict | None:
    """A bounded source, three `kill -9` of the server, and PyIceberg that appends to the same table meanwhile."""
    with serving_again(place.lab) as server:
        sql, table = flink.attach(server.lab, streaming=True), place.table()
        server.lab.pyiceberg.create_table(table, others.SCHEMA, properties={"format-version": "2"})
        _source(sql, "source_once")
        stop = Event()
        acknowledged: list[int] = []
        beside = Thread(target=_append, args=(others.pyiceberg(server.lab, table), stop, acknowledged))
        beside.start()
        try:
            job = sql.submit(f"INSERT INTO {table} SELECT id, 'row' FROM default_catalog.default_database.source_once")
            for _ in range(KILLS):
                _wait_for_commits(place, table, COMMITS_BETWEEN)
                server.kill()
                server.start()
            sql.wait(job)
        finally:
            stop.set()
            beside.join(COMMIT_LIMIT)
    found = Counter(row["id"] for row in place.lab.rows(table))
    assert {id_: found[id_] for id_ in range(1, ROWS + 1) if found[id_] != 1} == {}, "not once"
    assert [id_ for id_ in acknowledged if found[id_] != 1] == []
    commits = _commits(place, table)
    assert len(commits) == len(set(commits)), "a checkpoint was committed twice"
    return works(
        f"{ROWS} rows of a bounded source, a checkpoint each 700 ms, {KILLS} `kill -9` of the server: {len(commits)}"
        f" commits, each row once, beside {len(acknowledged)} appends of PyIceberg"
    )


def check_upsert(flink: Flink, place: Place) -> Verdict | None:
    """Upserts by key, as equality deletes: the last row of each key is there, and no other."""
    with serving_again(place.lab) as server:
        sql, table = flink.attach(server.lab, streaming=True), place.table()
        _source(sql, "source_upsert")
        sql(
            f"CREATE TABLE {table} (id BIGINT NOT NULL, latest BIGINT, PRIMARY KEY (id) NOT ENFORCED)"
            " WITH ('format-version'='2', 'write.upsert.enabled'='true')"
        )
        job = sql.submit(
            f"INSERT INTO {table} SELECT MOD(id, {KEYS}), id FROM default_catalog.default_database.source_upsert"
        )
        _wait_for_commits(place, table, COMMITS_BETWEEN)
        server.kill()
        server.start()
        sql.wait(job)
        batch = flink.attach(server.lab)
        found = sorted(batch(f"SELECT id, latest FROM {table}"))
    model = {id_ % KEYS: id_ for id_ in range(1, ROWS + 1)}
    assert found == sorted(model.items()), (len(found), found[:5])
    summary = place.lab.catalog.load_table(table).current_snapshot().summary
    assert int(summary["total-equality-deletes"]) > 0, summary
    return works(f"{ROWS} upserts of {KEYS} keys with a `kill -9` of the server; compared with a model")


def _source(sql: Callable[[str], object], name: str) -> None:
    sql(
        f"CREATE TABLE default_catalog.default_database.{name} (id BIGINT) WITH ('connector'='datagen',"
        f" 'rows-per-second'='{ROWS_A_SECOND}', 'fields.id.kind'='sequence', 'fields.id.start'='1',"
        f" 'fields.id.end'='{ROWS}')"
    )


def _append(writer: Writer, stop: Event, acknowledged: list[int]) -> None:
    for id_ in range(ROWS + 1, 2 * ROWS):
        if stop.wait(0.5):
            return
        try:
            writer.insert(id_)
        except Exception:  # noqa: BLE001 - the server is away, or another commit came first
            continue
        acknowledged.append(id_)


def _commits(place: Place, table: str) -> list[str]:
    """The checkpoints that were committed, in order."""
    snapshots = place.lab.catalog.load_table(table).metadata.snapshots
    return [each.summary["flink.max-committed-checkpoint-id"] for each in snapshots if "flink.job-id" in each.summary]


def _wait_for_commits(place: Place, table: str, more: int) -> None:
    wanted = len(_commits(place, table)) + more
    assert eventually(lambda: len(_commits(place, table)) >= wanted, COMMIT_LIMIT), "Flink does not commit"


CHECKS: Final[dict[str, Callable[[Flink, Place], Verdict | None]]] = {
    "upsert": check_upsert,
    "exactly once": check_exactly_once,
}
