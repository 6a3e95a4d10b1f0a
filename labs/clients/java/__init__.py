"""Iceberg's own Java library in a JVM without an engine: stock RESTCatalog, and stock HiveCatalog on the metastore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks.writers import iceberg_jar
from iceberg_hms.local.gateway import JavaGateway, spark_jars
from labs.clients.engines import Check, Client
from labs.clients.java import rows, tables, upkeep, views, writers
from labs.clients.java.catalog import HIVE, REST, Catalog
from labs.clients.lab import Lab

#: Some checks commit from many threads.
_HEAP_MB = 1024


@contextmanager
def start(lab: Lab) -> Iterator[Sequence[Client]]:
    folder = lab.folder / "java"
    folder.mkdir()
    with JavaGateway(folder, "java", heap_mb=_HEAP_MB, classes=[spark_jars() / "*", iceberg_jar()]) as gateway:
        catalogs = [Catalog(gateway.jvm, lab, kind) for kind in (REST, HIVE)]
        version = str(gateway.jvm.org.apache.iceberg.IcebergBuild.version())
        yield [Client(f"Java, {catalog.kind}", version, _checks(catalog)) for catalog in catalogs]
        for catalog in catalogs:
            catalog.close()


def _checks(catalog: Catalog) -> dict[str, Check]:
    checks = {**tables.CHECKS, **rows.CHECKS, **upkeep.CHECKS, **views.CHECKS, **writers.CHECKS}
    if catalog.kind == REST:
        checks["lost answer"] = writers.lost_answer
    return {name: partial(check, catalog) for name, check in checks.items()}
