"""A PySpark session whose session catalog is iceberg-hms: what a PySpark user calls.

Imported on use: it needs pyspark (4.1.x, the extra `spark`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, EngineError
from iceberg_hms.setting import is_of_server
from iceberg_hms.spark.configuration import (
    EXTENSIONS,
    PACKAGES,
    SECRETS,
    SQL_EXTENSIONS,
    WAREHOUSE,
    merge,
    metastore_of,
    session_configuration,
    warehouse_location,
)
from iceberg_hms.spark.embedded import EMBEDDING, Embedding
from iceberg_hms.spark.running_session import check_packages, end_with, refuse_other, silence_retries
from iceberg_hms.spark.s3 import is_of_s3
from iceberg_hms.spark.user_settings import SUBMIT_ARGS, SparkFiles, UserSettings

#: Set by spark-submit for the program that it runs beside its JVM.
_GATEWAY_PORT: Final = "PYSPARK_GATEWAY_PORT"
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

    metastore_uri: thrift://host:port, a comma between several. Default: what Spark's settings say (the builder's,
        PYSPARK_SUBMIT_ARGS, spark-defaults.conf), then ICEBERG_HMS_URI, then the TOML file that ICEBERG_HMS_CONFIG
        names, then the hive-site.xml on Spark's class path.
    warehouse: a location or a path, for databases without a location of their own; the same defaults but the last.
    server_uri: http://host:port of a running `iceberg-hms serve`. Without it a server is embedded in this process: on
        loopback, with a random token; it ends with the SparkContext, or with the process.
    token: of the server at server_uri.
    extensions: False for a session that creates and drops Hive views; see `session_configuration`.
    settings: further settings of the embedded server (`zookeeper="h:2181"`), as for `iceberg_hms.connect`. Those for S3
        hold for Spark too, also with server_uri; Spark gets AWS's library if there are any, or the warehouse is on S3.

    Raises ConfigError: Spark Connect, whose driver is elsewhere; settings that contradict each other. `getOrCreate()`
    raises it too: for a metastore that is named nowhere, for Spark's settings that contradict these, and if a session
    runs already with others. It raises MetastoreUnavailable if no metastore answers, and EngineError if Java, the
    Iceberg runtime or AWS's library is missing.
    """
    if not isinstance(builder, SparkSession.Builder):
        raise ConfigError(
            f"{type(builder).__qualname__} builds no classic Spark session; with Spark Connect the driver is elsewhere",
            next_step=_ON_THE_SERVER,
        )
    of_server = sorted(name for name in settings if not is_of_s3(name))
    if server_uri is not None and of_server:
        raise ConfigError(
            f"{', '.join(of_server)}: these are settings of the server, and server_uri names a running one",
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
    settings: Mapping[str, object] = field(default_factory=dict, repr=False)


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
        # PySpark's own lock of all builders: several threads that ask at once share one JVM.
        with self._lock:
            files = SparkFiles(os.environ)
            user = _user_settings(files, self._options)
            chosen = self._choose(files, user)
            if target.server_uri is not None:
                return self._session(files, user, target.server_uri, target.token, chosen)
            names = {"metastore_uri": chosen.metastore_uri, "warehouse": chosen.warehouse}
            others = {name: value for name, value in target.settings.items() if name != "uri"}
            server = self._embedding.acquire({**others, **names})
            try:
                session = self._session(files, user, server.uri, server.token, chosen)
            except BaseException:
                self._embedding.release(server)
                raise
            end_with(session.sparkContext, server, self._embedding)
            return session

    def _choose(self, files: SparkFiles, user: UserSettings) -> Settings:
        """The library's settings. Metastore and warehouse: arguments over Spark's settings over environment and file
        over hive-site.xml.

        Raises ConfigError if the metastore is named nowhere, or the warehouse of an embedded server, or a setting is
        wrong.
        """
        given = {
            **{name: value for name, value in self.target.settings.items() if not is_of_server(name)},
            "metastore_uri": self.target.metastore_uri or metastore_of(user.settings),
            "warehouse": self.target.warehouse or user.settings.get(WAREHOUSE),
        }
        known = Settings.load(given)
        metastore_uri = known.metastore_uri or files.metastore(user.settings)
        if not metastore_uri:
            raise ConfigError(
                "No metastore is named; Spark would silently make one of its own in a folder",
                next_step="pass metastore_uri='thrift://host:9083', or set ICEBERG_HMS_URI",
            )
        if not known.warehouse and self.target.server_uri is None:
            raise ConfigError(
                "No warehouse is named", next_step="pass warehouse='file:/data/warehouse', or set ICEBERG_HMS_WAREHOUSE"
            )
        warehouse = known.warehouse and warehouse_location(known.warehouse)
        return replace(known, metastore_uri=metastore_uri, warehouse=warehouse)

    def _session(
        self, files: SparkFiles, user: UserSettings, server_uri: str, token: str | None, chosen: Settings
    ) -> SparkSession:
        wanted = session_configuration(
            server_uri=server_uri,
            token=token,
            metastore_uri=chosen.metastore_uri,
            warehouse=chosen.warehouse or None,
            extensions=self.target.extensions,
            library=chosen,
        )
        if not self.target.extensions and EXTENSIONS in str(user.settings.get(SQL_EXTENSIONS)):
            raise ConfigError(
                f"extensions=False, and {user.origin(SQL_EXTENSIONS)} sets {SQL_EXTENSIONS} to Iceberg's",
                next_step="leave one of them out",
            )
        packages = wanted.pop(PACKAGES)
        if lacking := files.lacking(user.settings, packages.split(",")):
            wanted[PACKAGES] = ",".join(lacking)
        merged = merge(user.settings, wanted, user.origin)
        ours = {key: merged[key] for key in wanted}
        running = SparkContext._active_spark_context
        if running is None:
            _start_java(self._options, user, ours.get(PACKAGES))
        else:
            refuse_other(dict(running.getConf().getAll()), wanted)
        given, self._options = self._options, {**self._options, **ours}
        try:
            session = super().getOrCreate()
        finally:
            self._options = given
        try:
            check_packages(packages)
        except EngineError:
            session.stop()
            raise
        silence_retries()
        return session


def _user_settings(files: SparkFiles, options: Mapping[str, object]) -> UserSettings:
    if _GATEWAY_PORT not in os.environ:
        return files.user_settings(options)
    # The program runs under spark-submit, whose JVM knows.
    SparkContext._ensure_initialized()
    submitted = dict(SparkConf().getAll())
    return UserSettings({**submitted, **options}, dict.fromkeys(submitted.keys() - options.keys(), "spark-submit"))


def _start_java(options: Mapping[str, object], user: UserSettings, packages: object) -> None:
    """Start the JVM before Spark would, because Spark passes every setting on the command line, which every user of the
    machine can read, secrets too.

    Settings that are left out here reach the JVM through py4j, when PySpark makes the context.
    packages: those of the user and ours; None if ours are not needed.
    """
    with SparkContext._lock:
        if SparkContext._gateway is not None:
            return
        conf = SparkConf()
        for key, value in options.items():
            if key not in SECRETS:
                conf.set(key, str(value))
        arguments = None
        if packages is not None:
            conf.set(PACKAGES, str(packages))
            if PACKAGES in user.arguments.settings:
                arguments = user.arguments.with_packages(str(packages))
        try:
            gateway = _launched(conf, arguments)
        except (PySparkRuntimeError, OSError) as error:
            raise EngineError(
                "Spark's Java process could not be started",
                next_step="standard error says why; usual causes: no Java 17 (JAVA_HOME), or Maven packages that "
                "cannot be fetched (without a network, give the jar of Iceberg's runtime as spark.jars)",
            ) from error
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _launched(conf: SparkConf, arguments: str | None) -> Any:
    """The gateway of PySpark's `launch_gateway`, called on a thread of its own, where Ctrl-C does not break into it.
    Raises what launching raised.

    arguments: of spark-submit, in place of those in the environment; None for those.

    An interrupt would make it remove the folder in which the JVM announces itself, and the JVM would hang for ever as
    an orphan. On its own thread the launch completes; then the JVM finds that its input is closed, and ends.
    """
    launched: Future[Any] = Future()

    def launch() -> None:
        try:
            with _submit_arguments(arguments):
                gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
            launched.set_result(gateway)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the caller waits
            launched.set_exception(error)

    try:
        threading.Thread(target=launch, name="spark-launch", daemon=True).start()
        return launched.result()
    except BaseException:
        launched.add_done_callback(_discard)
        raise


def _discard(launched: Future[Any]) -> None:
    if launched.exception() is None:
        # The JVM ends when its input does.
        launched.result().proc.stdin.close()


@contextmanager
def _submit_arguments(arguments: str | None) -> Iterator[None]:
    """PySpark takes spark-submit's arguments from the environment, and gives them precedence."""
    if arguments is None:
        yield
        return
    given = os.environ[SUBMIT_ARGS]
    os.environ[SUBMIT_ARGS] = arguments
    try:
        yield
    finally:
        os.environ[SUBMIT_ARGS] = given
