"""Trino, by its REST catalog and by its own hive_metastore catalog, on the same tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from labs.clients.engines import Check, Client
from labs.clients.lab import Lab
from labs.clients.lost_answers import between
from labs.clients.trino import rows, server, tables, upkeep, views, writers
from labs.clients.trino.catalog import HMS, REST, Catalog


@contextmanager
def start(lab: Lab) -> Iterator[Sequence[Client]]:
    with between(lab) as proxy, server.running(lab, proxy.lab.uri) as coordinator:
        rest, hms = Catalog(coordinator, REST), Catalog(coordinator, HMS)
        yield [
            Client(
                "Trino, REST",
                rest.version,
                {**_checks(rest), "lost answer": partial(writers.lost_answer, rest, proxy)},
            ),
            Client("Trino, hive_metastore", hms.version, _checks(hms)),
        ]


def _checks(catalog: Catalog) -> dict[str, Check]:
    checks = {**tables.CHECKS, **rows.CHECKS, **upkeep.CHECKS, **views.CHECKS, **writers.CHECKS}
    return {name: partial(check, catalog) for name, check in checks.items()}
