"""Stock engines as clients of `iceberg-hms serve`: what works, what differs, what is refused.

    make clients                 all engines, one at a time
    make clients ENGINE=trino    one of them

An engine is a module of this package, listed in `engines.MODULES`, with one function:

    @contextmanager
    def start(lab: Lab) -> Iterator[Sequence[Client]]:

It fetches the engine into the caches of the package clients (and unpacks it below `lab.downloads`), starts it on
loopback, connects it to the `lab`, and gives its clients: one for each way in which it reaches the tables, such as
Trino by REST and Trino by its own `hive_metastore` catalog. Each is a column of the table in docs/engines.md.

    Client(engine="Trino, REST", version="476", checks={"insert": check_insert, ...})

`checks.CHECKS` lists what is asked of every engine, by name; an engine has a function for each check that has a
meaning for it. The function gets a `Place` (a new namespace, and the lab), raises if something is wrong, and returns a
`Verdict`, or None, which is `WORKS`:

    def check_replace(place: Place) -> Verdict | None:
        ...
        return differs("keeps the old snapshots, as Java's RESTCatalog does")
        return refused("no CREATE OR REPLACE: src/storage/irc_schema_entry.cpp, CreateTable")

The note of `differs` and `refused` names the cause: the engine's source, or what this project does on purpose. What is
our own defect gets no note: it is mended, and a test in tests/ that needs no engine shows it.

`contention.run` has the writers that work beside each other for a while, and checks that each acknowledged row is in
the table once.

`python -m labs.clients ENGINE... [--check NAME...]` writes `build/clients/<module>.json`, and fails if a check
raised, or if an outcome is another one than in `recorded/<module>.json`. `python -m labs.clients.table` takes
over what is in build/ into `recorded/`, and writes docs/engines.md anew.
"""
