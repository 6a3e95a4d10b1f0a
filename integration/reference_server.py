"""The REST server of Iceberg's test fixtures: the reference that servers are compared with.

It is the adapter that Java's own tests use, in Jetty, over a JdbcCatalog on SQLite in memory. Its own main class
listens on all interfaces, so a JVM of ours assembles the same parts on 127.0.0.1.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import httpx

from iceberg_hms.local.gateway import JavaGateway, prepare_directory
from integration.compatibility_kit import fetch

_JETTY = "org.eclipse.jetty"
_PACKAGE = "org.apache.iceberg.rest"
#: What it keeps of heap: a table with 10,000 snapshots takes some 100 MiB for each load under way.
HEAP_MB = 2048
#: It is measured, so it gets the compiler and the collector that servers have.
_FULL_SPEED = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")


class ReferenceServer:
    """A running server; a context manager. uri, pid: its address and its process."""

    def __init__(self, folder: Path) -> None:
        directory = prepare_directory(folder)
        classes = fetch(directory, "reference").split(os.pathsep)
        self._gateway = JavaGateway(directory, "reference", heap_mb=HEAP_MB, options=_FULL_SPEED, classes=classes)
        self.pid = self._gateway.pid
        try:
            self.uri = self._start(directory / "warehouse")
            httpx.get(f"{self.uri}/v1/config").raise_for_status()
        except BaseException:
            self._gateway.stop()
            raise

    def _start(self, warehouse: Path) -> str:
        jvm = self._gateway.jvm
        settings = jvm.java.util.HashMap()
        for key, value in {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": "jdbc:sqlite::memory:",
            "jdbc.schema-version": "V1",
            "clients": "1",
            "warehouse": warehouse.as_uri(),
        }.items():
            settings.put(key, value)
        configuration = jvm.org.apache.hadoop.conf.Configuration()
        catalog = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog("reference", settings, configuration)
        context = self._new(f"{_PACKAGE}.RESTCatalogServer$CatalogContext", catalog, settings)
        adapter = self._new(f"{_PACKAGE}.RESTServerCatalogAdapter", context)
        servlet = self._new(f"{_PACKAGE}.RESTCatalogServlet", adapter)
        handler = self._new(f"{_JETTY}.ee10.servlet.ServletContextHandler")
        handler.addServlet(self._new(f"{_JETTY}.ee10.servlet.ServletHolder", servlet), "/*")
        compression = self._new(f"{_JETTY}.compression.server.CompressionHandler")
        compression.putCompression(self._new(f"{_JETTY}.compression.gzip.GzipCompression"))
        handler.insertHandler(compression)
        server = self._new(f"{_JETTY}.server.Server", jvm.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handler)
        server.start()
        return f"http://127.0.0.1:{server.getURI().getPort()}"

    def _new(self, name: str, *arguments: Any) -> Any:
        """An object of a Java class, which may be private to its package: by the constructor that takes these."""
        java = self._gateway.jvm.java.lang
        constructors = java.Class.forName(name).getDeclaredConstructors()
        constructor = next(each for each in constructors if _takes(each.getParameterTypes(), arguments))
        constructor.setAccessible(True)
        packed = java.reflect.Array.newInstance(java.Class.forName("java.lang.Object"), len(arguments))
        for place, argument in enumerate(arguments):
            packed[place] = argument
        return constructor.newInstance(packed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._gateway.stop()


def _takes(types: Any, arguments: tuple[Any, ...]) -> bool:
    return len(types) == len(arguments) and all(map(lambda kind, value: kind.isInstance(value), types, arguments))
