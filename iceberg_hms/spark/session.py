"""A PySpark session whose session catalog is iceberg-hms: what a PySpark user calls.

Imported on use: it needs pyspark (4.1.x, the extra `spark`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, EngineError
from iceberg_hms.spark.configuration import (
    CATALOG_TOKEN,
    CATALOG_URI,
    ICEBERG_RUNTIME,
    PACKAGES,
    SESSION_CATALOG,
    WAREHOUSE,
    merge,
    metastore_of,
    session_configuration,
    warehouse_location,
)
from iceberg_hms.spark.embedded import EMBEDDING, Embedded, Embedding

#: Never on the JVM's command line, which every user of the machine can read.
_SECRETS: Final = frozenset({CATALOG_TOKEN})
_ON_THE_SERVER: Final = "put what `iceberg-hms spark-conf` prints into spark-defaults.conf of the Spark Connect server"


def configure(
    builder: SparkSession.Builder,
    *,
    metastore_uri: str | None = None,
    warehouse: str | None = None,
    server_uri: str | None = None,
    token: str | None = None,
    extensions: bool = True,
    **settings: object,
) -> SessionBuilder:
    """A builder like `builder` whose session has iceberg-hms as `spark_catalog`. Nothing starts before `getOrCreate()`.

        spark = iceberg_hms.spark.configure(
            SparkSession.builder, metastore_uri="thrift://127.0.0.1:9083", warehouse="file:/data/warehouse"
        ).getOrCreate()

    metastore_uri: thrift://host:port, a comma between several. Default: what the builder's own Spark settings say, then
        ICEBERG_HMS_URI, then the TOML file that ICEBERG_HMS_CONFIG names.
    warehouse: a location or a path, for databases without a location of their own; the same defaults.
    server_uri: http://host:port of a running `iceberg-hms serve`. Without it a server is embedded in this process: on
        loopback, with a random token; it ends with `spark.stop()`, or with the process.
    token: of the server at server_uri.
    extensions: False for a session that creates and drops Hive views; see `session_configuration`.
    settings: further settings of the embedded server (`zookeeper="h:2181"`), as for `iceberg_hms.connect`.

    Raises ConfigError: Spark Connect, whose driver is elsewhere; a session that runs already with another catalog;
    settings that contradict each other. `getOrCreate()` raises MetastoreUnavailable if no metastore answers, and
    EngineError if Java or the Iceberg runtime is missing.
    """
    if not isinstance(builder, SparkSession.Builder):
        raise ConfigError(
            f"{type(builder).__qualname__} builds no classic Spark session; with Spark Connect the driver is elsewhere",
            next_step=_ON_THE_SERVER,
        )
    if server_uri is not None and settings:
        raise ConfigError(
            f"{', '.join(sorted(settings))}: these are settings of the server, and server_uri names a running one",
            next_step="give them to `iceberg-hms serve`",
        )
    if server_uri is None and token is not None:
        raise ConfigError("token without server_uri: the embedded server makes its own", next_step="leave token out")
    options = dict(builder._options)
    refuse_connect(options, os.environ)
    return SessionBuilder(options, Target(metastore_uri, warehouse, server_uri, token, extensions, settings))


def refuse_connect(options: Mapping[str, object], environ: Mapping[str, str]) -> None:
    """Raises ConfigError if these options and this environment lead to Spark Connect.

    There the driver is another process, often on another machine: a server embedded here is out of its reach, and the
    session catalog and the extensions are fixed when the Connect server starts.
    """
    remote = options.get("spark.remote") or environ.get("SPARK_REMOTE")
    mode = str(options.get("spark.api.mode") or environ.get("SPARK_API_MODE") or "").lower()
    if remote or mode == "connect" or "SPARK_CONNECT_MODE_ENABLED" in environ:
        raise ConfigError(
            "Spark Connect: the driver is another process, which cannot use a server embedded in this one, and whose "
            "session catalog is fixed when it starts",
            next_step=_ON_THE_SERVER,
        )


@dataclass(frozen=True, slots=True)
class Target:
    """What a session is configured for; the arguments of `configure`."""

    metastore_uri: str | None = None
    warehouse: str | None = None
    server_uri: str | None = None
    token: str | None = field(default=None, repr=False)
    extensions: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)


class SessionBuilder(SparkSession.Builder):
    """SparkSession.Builder that starts (or finds) the server first. Made by `configure`; used like its base class.

    target: what its session is configured for.
    """

    def __init__(self, options: Mapping[str, Any], target: Target, embedding: Embedding = EMBEDDING) -> None:
        super().__init__()
        self._options = dict(options)
        self.target = target
        self._embedding = embedding

    def getOrCreate(self) -> SparkSession:  # noqa: N802 - the name is Spark's
        """The session; errors as `configure` says. A session of the same metastore that runs already is returned."""
        refuse_connect(self._options, os.environ)
        target = self.target
        if target.server_uri is not None:
            return self._session(target.server_uri, target.token, target.metastore_uri, target.warehouse)
        metastore_uri, warehouse = self._choose()
        names = {"metastore_uri": metastore_uri, "warehouse": warehouse}
        others = {name: value for name, value in target.settings.items() if name != "uri"}
        server = self._embedding.acquire({**others, **names})
        try:
            session = self._session(server.uri, server.token, metastore_uri, warehouse)
        except BaseException:
            self._embedding.release(server)
            raise
        _end_with(session, server, self._embedding)
        return session

    def _choose(self) -> tuple[str, str]:
        """Metastore and warehouse of the embedded server: arguments over Spark's settings over environment and file.

        Raises ConfigError if one of them is named nowhere, or a setting is wrong.
        """
        given = {
            **self.target.settings,
            "metastore_uri": self.target.metastore_uri or metastore_of(self._options),
            "warehouse": self.target.warehouse or self._options.get(WAREHOUSE),
        }
        known = Settings.load(given)
        if not known.metastore_uri:
            raise ConfigError(
                "No metastore is named", next_step="pass metastore_uri='thrift://host:9083', or set ICEBERG_HMS_URI"
            )
        if not known.warehouse:
            raise ConfigError(
                "No warehouse is named", next_step="pass warehouse='file:/data/warehouse', or set ICEBERG_HMS_WAREHOUSE"
            )
        return known.metastore_uri, warehouse_location(known.warehouse)

    def _session(
        self, server_uri: str, token: str | None, metastore_uri: str | None, warehouse: str | None
    ) -> SparkSession:
        wanted = session_configuration(
            server_uri=server_uri,
            token=token,
            metastore_uri=metastore_uri,
            warehouse=warehouse,
            extensions=self.target.extensions,
        )
        merged = merge(self._options, wanted)
        if SparkContext._active_spark_context is None:
            _start_java(merged)
        else:
            refuse_other_catalog(SparkContext._active_spark_context.getConf(), wanted)
        given, self._options = self._options, merged
        try:
            session = super().getOrCreate()
        finally:
            self._options = given
        try:
            _check_runtime()
        except EngineError:
            session.stop()
            raise
        return session


def _start_java(options: Mapping[str, object]) -> None:
    """Start the JVM before Spark would, because Spark passes every setting on the command line, secrets too.

    The settings that are left out here reach the JVM through py4j, when PySpark makes the context.
    """
    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for key, value in options.items():
        if key not in _SECRETS:
            conf.set(key, str(value))
    try:
        gateway = _Launch(conf).wait()
    except (PySparkRuntimeError, OSError) as error:
        raise EngineError(
            "Spark's Java process could not be started",
            next_step="standard error says why; usual causes: no Java 17 (JAVA_HOME), or Maven packages "
            "that cannot be fetched",
        ) from error
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


class _Launch:
    """PySpark's `launch_gateway` on a thread of its own, where Ctrl-C does not break into it.

    An interrupt would make it remove the folder in which the JVM announces itself, and the JVM would hang for ever as
    an orphan. On its own thread the launch completes; then the JVM finds that its input is closed, and ends.
    """

    def __init__(self, conf: SparkConf) -> None:
        self._conf = conf
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._wanted = True
        self._gateway: Any = None
        self._error: BaseException | None = None

    def wait(self) -> Any:
        """The gateway. Raises what launching raised; after an interrupt the JVM ends as soon as it is up."""
        threading.Thread(target=self._run, name="spark-launch", daemon=True).start()
        try:
            self._done.wait()
        except BaseException:
            with self._lock:
                self._wanted = False
            self._discard()
            raise
        if self._error is not None:
            raise self._error
        return self._gateway

    def _run(self) -> None:
        try:
            gateway = launch_gateway(self._conf)  # type: ignore[no-untyped-call]
        except BaseException as error:  # noqa: BLE001 - it is raised again where the caller waits
            self._error = error
        else:
            with self._lock:
                self._gateway = gateway
                wanted = self._wanted
            if not wanted:
                self._discard()
        self._done.set()

    def _discard(self) -> None:
        with self._lock:
            gateway, self._gateway = self._gateway, None
        if gateway is not None:
            # The JVM ends when its input does.
            gateway.proc.stdin.close()


def refuse_other_catalog(conf: SparkConf, wanted: Mapping[str, str]) -> None:
    """Raises ConfigError if the session that runs with `conf` has another catalog than the wanted one: nobody can
    change the static settings of a running session."""
    if conf.get(CATALOG_URI) != wanted[CATALOG_URI]:
        raise ConfigError(
            "A Spark session runs already, without this session catalog",
            next_step="stop it first (spark.stop()), or configure it when it is created",
        )


def _check_runtime() -> None:
    jvm: Any = SparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(SESSION_CATALOG):
        raise EngineError(
            f"The Iceberg runtime is not on Spark's class path: the JVM was started before {PACKAGES} was set",
            next_step=f"start it with --packages {ICEBERG_RUNTIME}, or in a fresh Python process",
        )


def _end_with(session: SparkSession, server: Embedded, embedding: Embedding) -> None:
    """Make `session.stop()` release the server. A session that uses it already releases it once, however often it was
    returned."""
    if session in _servers:
        embedding.release(server)
        return
    _servers[session] = server
    stop_session = session.stop

    def stop() -> None:
        try:
            stop_session()
        finally:
            if _servers.pop(session, None) is not None:
                embedding.release(server)

    session.stop = stop  # type: ignore[method-assign]


#: The server that each live session was made with.
_servers: Final[weakref.WeakKeyDictionary[SparkSession, Embedded]] = weakref.WeakKeyDictionary()
