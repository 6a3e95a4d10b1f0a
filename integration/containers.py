"""The other provider of servers: official images in containers, for `--servers=containers`.

What a test writes must be the same file to the server, so a metastore's folder is mounted at its own path, and the
server runs as the user of the tests. Only loopback can reach the servers; testcontainers' own helper, which removes
them when this process dies, listens as the engine decides.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.namespaces import HmsNamespaces
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.zookeeper.session import ZooKeeperSession
from integration.faults import until
from integration.stores.minio import ObjectStore, answers

METASTORE_IMAGE = "apache/hive:4.0.0"
METASTORE_PORT = 9083
ZOOKEEPER_IMAGE = "zookeeper:3.9"
ZOOKEEPER_PORT = 2181
#: The last image that MinIO published.
MINIO_IMAGE = "minio/minio:RELEASE.2025-09-07T16-13-09Z"
MINIO_PORT = 9000
LOOPBACK = "127.0.0.1"
#: From a container's start until its server answers.
START_SECONDS = 180

#: As the local metastore is set.
_CONF = {"hive.metastore.disallow.incompatible.col.type.changes": "false"}


@dataclass(frozen=True)
class Metastore:
    """As local.metastore.LocalMetastore, for callers that only connect."""

    uri: str
    warehouse: str


@dataclass(frozen=True)
class ZooKeeper:
    """As local.zookeeper.LocalZooKeeper, for callers that only connect."""

    hosts: str


def require_engine() -> None:
    """Raises UsageError that says what is missing."""
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError as error:
        raise pytest.UsageError("--servers=containers needs testcontainers: pip install -e '.[containers]'") from error
    try:
        client = DockerClient().client
        client.ping()
        client.close()
    except Exception as error:
        raise pytest.UsageError(f"--servers=containers: no container engine answers: {error}") from error


@contextmanager
def metastore(directory: Path, *, conf: Mapping[str, str] | None = None) -> Iterator[Metastore]:
    """A Hive Metastore on Derby. conf: Hive configuration."""
    warehouse = f"file:{directory}/warehouse"
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory}/database;create=true",
        "hive.metastore.warehouse.dir": warehouse,
        **_CONF,
        **(conf or {}),
    }
    lines = [f"<property><name>{key}</name><value>{escape(text)}</value></property>" for key, text in settings.items()]
    site = directory / "hive-site.xml"
    site.write_text("\n".join(["<configuration>", *lines, "</configuration>"]), encoding="utf-8")
    container = _container(METASTORE_IMAGE, METASTORE_PORT)
    container.with_env("SERVICE_NAME", "metastore")
    container.with_volume_mapping(directory, str(directory), "rw")
    container.with_volume_mapping(site, "/opt/hive/conf/hive-site.xml", "ro")
    # Hadoop asks for the name of its user.
    container.with_volume_mapping("/etc/passwd", "/etc/passwd", "ro")
    container.with_kwargs(user=f"{os.getuid()}:{os.getgid()}")
    with container:
        uri = f"thrift://{LOOPBACK}:{container.get_exposed_port(METASTORE_PORT)}"
        pool = ClientPool([uri])
        unanswered = retry_if_exception_type(MetastoreUnavailable)
        retrying = Retrying(stop=stop_after_delay(START_SECONDS), wait=wait_fixed(0.5), retry=unanswered, reraise=True)
        retrying(HmsNamespaces(pool).list)
        pool.close()
        yield Metastore(uri, warehouse)


@contextmanager
def zookeeper() -> Iterator[ZooKeeper]:
    """One ZooKeeper."""
    container = _container(ZOOKEEPER_IMAGE, ZOOKEEPER_PORT)
    with container:
        hosts = f"{LOOPBACK}:{container.get_exposed_port(ZOOKEEPER_PORT)}"
        waiting_ms = START_SECONDS * 1000
        session = ZooKeeperSession(hosts, ThreadRuntime(), timeout_ms=10_000, connect_timeout_ms=waiting_ms)
        session.connected()
        session.close()
        yield ZooKeeper(hosts)


@contextmanager
def minio() -> Iterator[ObjectStore]:
    """One MinIO."""
    key, secret = "tests", secrets.token_urlsafe(24)
    container = _container(MINIO_IMAGE, MINIO_PORT)
    container.with_env("MINIO_ROOT_USER", key)
    container.with_env("MINIO_ROOT_PASSWORD", secret)
    container.with_command("server /data --quiet")
    with container:
        store = ObjectStore("MinIO", f"http://{LOOPBACK}:{container.get_exposed_port(MINIO_PORT)}", key, secret)
        until(lambda: answers(store), "MinIO answers")
        yield store


def _container(image: str, port: int) -> Any:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(image)
    # `with_bind_ports` takes no address. This is what docker's own client takes; None is any free port.
    container.ports[f"{port}/tcp"] = (LOOPBACK, None)
    return container
