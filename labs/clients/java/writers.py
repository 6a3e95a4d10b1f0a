"""Java beside other writers of one table, and beside itself."""

from __future__ import annotations

from typing import Any, Final

from labs.clients import contention, others
from labs.clients.contention import Writer
from labs.clients.java.catalog import COUNTED, HIVE, REST, Catalog, check_ids, each, fails, thrown
from labs.clients.lab import Place
from labs.clients.lost_answers import between
from labs.clients.results import Verdict, works

_REBASED: Final = {"iceberg-hms.rebase-appends": "all"}


def _is_unknown(error: Exception) -> bool:
    return hasattr(error, "java_exception") and "CommitStateUnknownException" in thrown(error)


def _appends(catalog: Catalog, place: Place, name: str) -> Writer:
    table = catalog.load(place)
    return Writer(name, lambda id_: catalog.append(place, table, id_), _is_unknown)


def _run(place: Place, *writers: Writer, starving: bool = False) -> Verdict:
    tallies = contention.run(writers)
    note = contention.check(tallies, (row["id"] for row in place.lab.rows(place.table())), starving=starving)
    return works(f"acknowledged in {contention.SECONDS:.0f} s: {note}")


def beside_others(catalog: Catalog, place: Place) -> Verdict:
    catalog.make(place)
    theirs = others.pyiceberg(place.lab, place.table())
    ours = others.python_api(place, place.table())
    # A client has four retries of its own, and the Python API commits between any two of them.
    return _run(place, _appends(catalog, place, "Java"), theirs, ours, starving=True)


def beside_others_rebased(catalog: Catalog, place: Place) -> Verdict:
    catalog.make(place, properties=_REBASED)
    theirs = others.pyiceberg(place.lab, place.table())
    return _run(place, _appends(catalog, place, "Java"), theirs, others.python_api(place, place.table()))


def two_sessions(catalog: Catalog, place: Place) -> Verdict:
    catalog.make(place)
    return _run(place, *(_appends(catalog.again(), place, f"catalog {number}") for number in (1, 2)))


def two_routes(catalog: Catalog, place: Place) -> Verdict:
    catalog.make(place)
    other = catalog.again(HIVE if catalog.kind == REST else REST)
    routes = [_appends(one, place, one.kind) for one in (catalog, other)]
    return _run(place, *routes, others.pyiceberg(place.lab, place.table()))


def row_changes(catalog: Catalog, place: Place) -> Verdict:
    """Two clients count up one row, each by an overwrite that validates, while another appends."""
    table = catalog.builder(place, by="name", fields=COUNTED).create()
    table.newAppend().appendFile(catalog.file(place, table, (0, "counter", 0), partition="name=counter")).commit()

    def counter(name: str) -> Writer:
        own = catalog.again().load(place)
        return Writer(name, lambda _id: _count_up(catalog, place, own), _is_unknown)

    plain = catalog.again().load(place)

    def insert(id_: int) -> None:
        file = catalog.file(place, plain, (id_, "other", None), partition="name=other")
        plain.newAppend().appendFile(file).commit()

    tallies = contention.run([counter("overwrite 1"), counter("overwrite 2"), Writer("append", insert, _is_unknown)])
    rows = place.lab.rows(place.table())
    (count,) = [row["count"] for row in rows if row["id"] == 0]
    acknowledged = sum(len(tally.acknowledged) for tally in tallies[:2])
    unknown = sum(len(tally.unknown) for tally in tallies[:2])
    assert acknowledged <= count <= acknowledged + unknown, f"{count}, acknowledged: {acknowledged}"
    contention.check(tallies[2:], (row["id"] for row in rows if row["id"] != 0))
    assert acknowledged, "no overwrite was acknowledged"
    return works(f"acknowledged in {contention.SECONDS:.0f} s: {'; '.join(map(str, tallies))}")


def _count_up(catalog: Catalog, place: Place, table: Any) -> None:
    table.refresh()
    seen = table.currentSnapshot().snapshotId()
    counter = catalog.iceberg.expressions.Expressions.equal("name", "counter")
    plan = table.newScan().useSnapshot(seen).filter(counter).planFiles()
    (old,) = [task.file() for task in each(plan)]
    plan.close()
    found = catalog.iceberg.data.IcebergGenerics.read(table).useSnapshot(seen).where(counter).build()
    (count,) = [record.getField("count") for record in each(found)]
    found.close()
    new = catalog.file(place, table, (0, "counter", count + 1), partition="name=counter")
    update = table.newOverwrite().deleteFile(old).addFile(new).validateFromSnapshot(seen)
    update.conflictDetectionFilter(counter).validateNoConflictingData().validateNoConflictingDeletes().commit()


def validated(catalog: Catalog, place: Place) -> Verdict | None:
    """Insert my row if the table lacks it: another one came first."""
    table = catalog.append(place, catalog.make(place, properties=_REBASED), 1)
    seen = table.currentSnapshot().snapshotId()
    equal = catalog.iceberg.expressions.Expressions.equal("id", 2)
    file = catalog.file(place, table, (2, "mine"))
    delta = table.newRowDelta().addRows(file).validateFromSnapshot(seen).conflictDetectionFilter(equal)
    overwrite = table.newOverwrite().addFile(file).validateFromSnapshot(seen).conflictDetectionFilter(equal)
    place.lab.new_pyiceberg().load_table(place.table()).append(others.rows(2))
    for update in (delta.validateNoConflictingDataFiles(), overwrite.validateNoConflictingData()):
        words = fails(update.commit)
        assert "ValidationException" in words, words
    check_ids(catalog, place, [1, 2])
    return None


def lost_answer(catalog: Catalog, place: Place) -> Verdict:
    """An append and an overwrite, each of which the server commits while Java gets no answer."""
    catalog.append(place, catalog.make(place), 1, 2)
    with between(place.lab) as proxy:
        losing = Catalog(catalog.jvm, proxy.lab, REST)
        table = losing.load(place)
        (old,) = losing.live_files(table)
        append = table.newAppend().appendFile(losing.file(place, table, (3, "row 3")))
        overwrite = table.newOverwrite().deleteFile(old).addFile(losing.file(place, table, (9, "row 9")))
        words = ""
        for update in (append, overwrite):
            proxy.losing = True
            words = fails(update.commit)
            proxy.losing = False
        losing.close()
    assert set(proxy.statuses) == {200}, proxy.statuses
    check_ids(catalog, place, [3, 9])
    return works(f"both changes are there, and no file was deleted; Java says: {words.splitlines()[0][:160]}")


CHECKS: Final = {
    "inserts beside others": beside_others,
    "inserts, rebased": beside_others_rebased,
    "two sessions": two_sessions,
    "two routes": two_routes,
    "row changes beside others": row_changes,
    "insert, validated": validated,
}
