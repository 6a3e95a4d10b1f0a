"""Real Hive Metastores of other releases than the pyspark wheel's, on Derby or PostgreSQL, on loopback.

The jars come through Maven, by the list in `engines/<release>/pom.xml`, and stay below `build/engines/`. The servers
are started as LocalMetastore starts its own: the release's handler behind a socket that Python opens on 127.0.0.1,
since 3.1.3 listens on all interfaces whatever `metastore.thrift.bind.host` says.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iceberg_hms.local.gateway import JavaGateway, class_path, find_java
from iceberg_hms.testing.contracts import hive_tables, table_pointer, view_pointer
from integration.engines.downloads import downloaded
from integration.engines.site_files import write_site
from integration.faults import ReapingMetastore

SCHEMA_LIMIT = 120.0

#: Hive's own setting for changed columns; without it these servers are set as the embedded one.
STOCK_COLUMNS = {"metastore.disallow.incompatible.col.type.changes": "true"}

_SITE = {
    # Below the folder that both JVMs run in: the schema tool cannot connect to a path with a space.
    "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=database;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
    "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    "metastore.disallow.incompatible.col.type.changes": "false",
    "datanucleus.connectionPoolingType": "HikariCP",
}


@dataclass(frozen=True)
class Release:
    """How one release of the metastore is started.

    folder: below engines/ and build/engines/. schema_tool: its class, and its arguments.
    classes: of the class path, below the unpacked folder. conf, options (of its JVM): what it needs besides the rest.
    """

    version: str
    folder: str
    schema_tool: tuple[str, ...]
    classes: tuple[str, ...] = ("home/lib/*", "jars/*")
    conf: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()

    def handler(self, jvm: Any, conf: Any) -> Any:
        """As the release's own HiveMetaStore.startMetaStore makes it."""
        hive = jvm.org.apache.hadoop.hive.metastore
        name = "new db based metaserver"
        if self.version.startswith("3."):
            return hive.RetryingHMSHandler.getProxy(conf, hive.HiveMetaStore.HMSHandler(name, conf, False), False)
        return hive.HMSHandlerProxyFactory.getProxy(conf, hive.HMSHandler(name, conf), False)

    def unpacked(self) -> Path:
        """The folder with `jars/` and `home/` (a release as it is downloaded). Raises EngineError if it must be
        downloaded and Maven is not installed."""
        return downloaded(self.folder, _unpack_release)


# Hive 4's lock calls stand in each other's way on Derby: check_lock locks a row and waits for a mutex of the server,
# and the mutex's owner waits for that row. Derby ends it after 60 s, in which nobody gets a lock.
_QUICK_DEADLOCKS = ("-Dderby.locks.deadlockTimeout=1", "-Dderby.locks.waitTimeout=2")

HMS_3_1_3 = Release("3.1.3", "hms_3_1_3", ("org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool", "-initSchema"))
HMS_4_0_1 = Release(
    "4.0.1",
    "hms_4_0_1",
    ("org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool", "-initSchema"),
    options=_QUICK_DEADLOCKS,
)
HMS_4_1_0 = Release(
    "4.1.0",
    "hms_4_1_0",
    ("org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool", "-initSchemaTo", "4.0.0"),
    classes=("jars/*",),
    # Its own scripts are not published: the schema of 4.0, and what is missing is made as it is used.
    conf=(("metastore.schema.verification", "false"), ("datanucleus.schema.autoCreateAll", "true")),
    options=_QUICK_DEADLOCKS,
)

#: The checks of the TablePointer contract that hold only where compare-and-swap is atomic.
OF_THE_FENCE = frozenset(
    {
        table_pointer.an_outdated_swap_changes_nothing,
        table_pointer.a_swap_that_requires_compare_and_swap_moves_the_pointer,
        table_pointer.a_swap_sent_again_changes_nothing,
        table_pointer.one_of_many_concurrent_swaps_wins,
        table_pointer.a_rename_to_a_taken_name_or_of_an_outdated_row_is_refused,
        table_pointer.a_rename_that_requires_compare_and_swap_renames_the_table,
    }
)


#: The same of Hive tables.
OF_THE_HIVE_TABLES_FENCE = frozenset({hive_tables.an_outdated_change_of_kind_changes_nothing})


#: The same of views.
OF_THE_VIEWS_FENCE = frozenset(
    {
        view_pointer.an_outdated_swap_changes_nothing,
        view_pointer.one_of_many_concurrent_swaps_wins,
        view_pointer.a_view_is_renamed_and_dropped,
    }
)


class OldMetastore(ReapingMetastore):
    """One of these releases, with LocalMetastore's life and address.

    database: its kind, as the schema tool calls it. conf: Hive configuration, which wins over ours.
    makes_schema: False for a further metastore on one database.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        release: Release,
        *,
        database: str = "derby",
        conf: Mapping[str, str] | None = None,
        makes_schema: bool = True,
    ) -> None:
        super().__init__(directory)
        self.release = release
        self._makes_schema = makes_schema
        self._database = database
        self._site = {
            **_SITE,
            "metastore.warehouse.dir": self.warehouse,
            **dict(release.conf),
            **(conf or {}),
        }

    def _launch(self) -> JavaGateway:
        unpacked = self.release.unpacked()
        # First on the class path: the schema tool and the server read their metastore-site.xml there.
        site = self._directory / "conf"
        site.mkdir(exist_ok=True)
        write_site(site / "metastore-site.xml", self._site)
        classes = [site, *(unpacked / entry for entry in self.release.classes)]
        if self._makes_schema:
            self._make_schema(class_path(classes), unpacked / "home")
        return JavaGateway(
            self._directory,
            self.log_name,
            options=[f"-Dderby.stream.error.file={self._directory}/derby.log", *self.release.options],
            classes=classes,
        )

    def _make_schema(self, classes: str, home: Path) -> None:
        # Its script runner cannot read a script at a path with a space.
        here = self._directory / "home"
        here.unlink(missing_ok=True)
        here.symlink_to(home)
        command = [find_java(), "-Xmx256m", "-classpath", classes, *self.release.schema_tool]
        command += ["-dbType", self._database]
        made = subprocess.run(
            command,
            cwd=self._directory,
            env={**os.environ, "METASTORE_HOME": here.name},
            capture_output=True,
            text=True,
            timeout=SCHEMA_LIMIT,
        )
        assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]

    def _handler(self, jvm: Any) -> Any:
        return self.release.handler(jvm, self._hive_conf(jvm))

    def _hive_conf(self, jvm: Any) -> Any:
        return jvm.org.apache.hadoop.hive.metastore.conf.MetastoreConf.newMetastoreConf()


def _unpack_release(folder: Path) -> None:
    (tarball,) = (folder / "jars").glob("*-bin.tar.gz")
    _unpack(tarball, folder / "home")
    tarball.unlink()


def _unpack(tarball: Path, folder: Path) -> None:
    """Without the tarball's own outermost folder."""
    beside = folder.with_suffix(".unpacked")
    with tarfile.open(tarball) as archive:
        archive.extractall(beside, filter="data")
    (only,) = beside.iterdir()
    only.rename(folder)
    beside.rmdir()
