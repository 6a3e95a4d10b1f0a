"""What is asked of a SparkContext that runs: that it is the wanted one, and that its end ends its server."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Final

from pyspark import SparkContext

from iceberg_hms.errors import ConfigError, EngineError
from iceberg_hms.spark.configuration import (
    CATALOG,
    CATALOG_TOKEN,
    CATALOG_URI,
    EXTENSIONS,
    ICEBERG_RUNTIME,
    METASTORE_URIS,
    PACKAGES,
    SESSION_CATALOG,
    SQL_EXTENSIONS,
    WAREHOUSE,
    is_same,
    metastore_of,
)
from iceberg_hms.spark.embedded import Embedded, Embedding
from iceberg_hms.spark.s3 import AWS_BUNDLE

#: A class of each package that a session may need.
_CLASSES: Final = {ICEBERG_RUNTIME: SESSION_CATALOG, AWS_BUNDLE: "software.amazon.awssdk.services.s3.S3Client"}
_RETRIES: Final = "org.apache.iceberg.util.Tasks"


def refuse_other(running: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises ConfigError if the context that runs with these settings is not what is wanted: nobody can change the
    static settings of a running session."""
    if (difference := _difference(running, wanted)) is not None:
        raise ConfigError(
            f"A Spark session runs already, {difference}",
            next_step="stop it first (spark.stop()), or ask for what it has",
        )


def _difference(running: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    if running.get(CATALOG) != SESSION_CATALOG or CATALOG_URI not in running:
        return "without this session catalog"
    metastore, warehouse = metastore_of(running), running.get(WAREHOUSE)
    if metastore is not None and metastore != wanted.get(METASTORE_URIS, metastore):
        return f"on the metastore {metastore!r}; this one would be on {wanted[METASTORE_URIS]!r}"
    if warehouse is not None and not is_same(WAREHOUSE, warehouse, wanted.get(WAREHOUSE, warehouse)):
        return f"with the warehouse {warehouse!r}; this one would have {wanted[WAREHOUSE]!r}"
    extended = EXTENSIONS in running.get(SQL_EXTENSIONS, "")
    if extended != (SQL_EXTENSIONS in wanted):
        return f"{'with' if extended else 'without'} Iceberg's SQL extensions (extensions={extended})"
    if running[CATALOG_URI] != wanted[CATALOG_URI]:
        return "with another server, or with other settings of the embedded server"
    if running.get(CATALOG_TOKEN) != wanted.get(CATALOG_TOKEN):
        return "with another token"
    others = [key for key in wanted if key.startswith(f"{CATALOG}.") and running.get(key) != wanted[key]]
    if others:
        return f"with other values of {', '.join(others)}"
    return None


def check_packages(packages: str) -> None:
    """Raises EngineError if the JVM has not the classes of these Maven packages, separated by commas."""
    jvm: Any = SparkContext._jvm
    for package in packages.split(","):
        if not jvm.org.apache.spark.util.Utils.classIsLoadable(_CLASSES[package]):
            raise EngineError(
                f"{package} is not on Spark's class path: the JVM was started before {PACKAGES} was set",
                next_step=f"start it with --packages {packages}, or in a fresh Python process",
            )


def silence_retries() -> None:
    """Leave out the warning that Iceberg's client logs, with a stack, for each conflict after which it tries again: the
    statement goes on, and what fails in the end reaches its caller. What the user's own log4j2 file says of this logger
    stays."""
    jvm: Any = SparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    configuration = log4j.core.LoggerContext.getContext(False).getConfiguration()
    # The root logger's, which has no name, is for all that nobody configured.
    if not configuration.getLoggerConfig(_RETRIES).getName():
        log4j.core.config.Configurator.setLevel(_RETRIES, log4j.Level.ERROR)


def end_with(context: SparkContext, server: Embedded, embedding: Embedding) -> None:
    """Make the end of a SparkContext release the server: every `stop` of a session, too, calls that of its context. A
    context that uses the server already releases it once, however often its session was asked for."""
    if context in _servers:
        embedding.release(server)
        return
    _servers[context] = server
    stop_context = context.stop

    def stop() -> None:
        try:
            stop_context()
        finally:
            if _servers.pop(context, None) is not None:
                embedding.release(server)

    context.stop = stop  # type: ignore[method-assign]


#: The server that each live context was made with.
_servers: Final[weakref.WeakKeyDictionary[SparkContext, Embedded]] = weakref.WeakKeyDictionary()
