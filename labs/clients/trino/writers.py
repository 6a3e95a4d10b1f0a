"""Trino beside other writers of one table, and beside itself."""

from __future__ import annotations

from threading import Lock
from typing import Final

from labs.clients import contention, others
from labs.clients.contention import Writer
from labs.clients.lab import Place
from labs.clients.lost_answers import Between
from labs.clients.results import Verdict, works
from labs.clients.trino.catalog import HMS, LOSING, REST, Catalog, check_ids


def _inserts(catalog: Catalog, place: Place, name: str) -> Writer:
    session, table = catalog.again(), catalog.table(place)
    return Writer(name, lambda id_: session.insert(table, id_))


def _run(catalog: Catalog, place: Place, *writers: Writer, starving: bool = False) -> Verdict:
    tallies = contention.run(writers)
    note = contention.check(tallies, (row["id"] for row in place.lab.rows(place.table())), starving=starving)
    assert sorted(row["id"] for row in place.lab.rows(place.table())) == catalog.ids(catalog.table(place))
    return works(f"acknowledged in {contention.SECONDS:.0f} s: {note}")


def beside_others(catalog: Catalog, place: Place) -> Verdict:
    catalog.make(place)
    theirs = others.pyiceberg(place.lab, place.table())
    ours = others.python_api(place, place.table())
    # A client has four retries of its own, and the Python API commits between any two of them.
    return _run(catalog, place, _inserts(catalog, place, "Trino"), theirs, ours, starving=True)


def beside_others_rebased(catalog: Catalog, place: Place) -> Verdict:
    catalog.make(place, properties="extra_properties = MAP(ARRAY['iceberg-hms.rebase-appends'], ARRAY['all'])")
    theirs = others.pyiceberg(place.lab, place.table())
    return _run(catalog, place, _inserts(catalog, place, "Trino"), theirs, others.python_api(place, place.table()))


def two_sessions(catalog: Catalog, place: Place) -> Verdict:
    catalog.make(place)
    return _run(catalog, place, *(_inserts(catalog, place, f"session {number}") for number in (1, 2)))


def two_routes(catalog: Catalog, place: Place) -> Verdict:
    table = catalog.make(place)
    routes = [_inserts(catalog, place, f"Trino, {catalog.name}")]
    other = catalog.again(HMS if catalog.name == REST else REST)
    routes.append(_inserts(other, place, f"Trino, {other.name}"))
    verdict = _run(catalog, place, *routes, others.pyiceberg(place.lab, place.table()))
    assert catalog.ids(table) == other.ids(other.table(place))
    return verdict


def row_changes(catalog: Catalog, place: Place) -> Verdict:
    """Two sessions count up one row while others append: the row must have counted each acknowledged UPDATE once."""
    table = catalog.table(place)
    catalog.sql(f"CREATE TABLE {table} (id bigint, name varchar, count bigint)")
    catalog.sql(f"INSERT INTO {table} VALUES (0, 'counter', 0)")
    counted, guard = [0], Lock()

    def counter(name: str) -> Writer:
        session = catalog.again()

        def count(_id: int) -> None:
            session.sql(f"UPDATE {table} SET count = count + 1 WHERE id = 0")
            with guard:
                counted[0] += 1

        return Writer(name, count)

    updates = [counter(f"UPDATE {number}") for number in (1, 2)]
    appends = [others.pyiceberg(place.lab, place.table()), _inserts_partly(catalog, place)]
    tallies = contention.run([*updates, *appends])
    rows = catalog.sql(f"SELECT id, count FROM {table}")
    assert [row for row in rows if row[0] == 0] == [[0, counted[0]]], f"{rows}, acknowledged: {counted[0]}"
    contention.check(tallies[2:], (row[0] for row in rows if row[0] != 0))
    assert counted[0], "no UPDATE was acknowledged"
    return works(f"acknowledged in {contention.SECONDS:.0f} s: {'; '.join(map(str, tallies))}")


def lost_answer(catalog: Catalog, proxy: Between, place: Place) -> Verdict:
    """An INSERT, an UPDATE and a DELETE, each of which the server commits while Trino gets no answer."""
    table = catalog.make(place)
    catalog.insert(table, 1, 2, 3)
    losing = catalog.again(LOSING)
    target = losing.table(place)
    words = ""
    for statement in (
        f"INSERT INTO {target} VALUES (4, 'row 4')",
        f"UPDATE {target} SET id = 5 WHERE id = 2",
        f"DELETE FROM {target} WHERE id = 3",
    ):
        proxy.losing = True
        try:
            words = losing.fails(statement)
        finally:
            proxy.losing = False
    assert set(proxy.statuses) == {200}, proxy.statuses
    check_ids(catalog, place, [1, 4, 5])
    place.lab.new_pyiceberg().load_table(place.table()).scan().to_arrow()
    return works(f"all changes are there, and no file was deleted; the statement says: {words.splitlines()[0][:160]}")


def _inserts_partly(catalog: Catalog, place: Place) -> Writer:
    session, table = catalog.again(), catalog.table(place)
    return Writer("INSERT", lambda id_: session.sql(f"INSERT INTO {table} (id, name) VALUES ({id_}, 'row {id_}')"))


CHECKS: Final = {
    "inserts beside others": beside_others,
    "inserts, rebased": beside_others_rebased,
    "two sessions": two_sessions,
    "two routes": two_routes,
    "row changes beside others": row_changes,
}
