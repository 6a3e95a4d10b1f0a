"""Real servers for tests, on loopback, started once a session, when first asked for. conftest.py of integration/ and of
labs/ load this as a plugin of pytest, so that the tests of both share the servers.

They are local processes, or containers with `--servers=containers`. Servers that a test stops, restarts or breaks are
local processes in any case.
"""

from __future__ import annotations

import re
import secrets
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.local.zookeeper import LocalZooKeeper
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.namespaces import LOCATION, HmsNamespaces
from integration import containers, maven_packages
from integration.faults import quick_lease as quick_lease
from integration.faults import timing as timing
from integration.spark_fixtures import spark as spark
from integration.stores.hdfs_fixtures import hdfs as hdfs
from integration.stores.hdfs_fixtures import hdfs_pair as hdfs_pair
from integration.stores.minio import ObjectStore, is_built, local_object_store

STOCK = {"hive.metastore.disallow.incompatible.col.type.changes": "true"}


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Who starts the tests in the background has it ignored, and what they start would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if in_containers(config):
        containers.require_engine()


def pytest_sessionstart(session: pytest.Session) -> None:
    # Once for all processes of the run: pytest-xdist's workers have a `workerinput`.
    if not hasattr(session.config, "workerinput"):
        with tempfile.TemporaryDirectory() as folder:
            maven_packages.fetch(Path(folder))


def pytest_report_header(config: pytest.Config) -> str:
    if has_minio(config):
        return "object store: MinIO"
    return "object store: moto, which proves less; tests marked `minio` are left out. `make minio` builds MinIO"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not has_minio(config):
        left_out = [item for item in items if item.get_closest_marker("minio")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def has_minio(config: pytest.Config) -> bool:
    """Whether `object_store` is MinIO, not moto."""
    return in_containers(config) or is_built()


def in_containers(config: pytest.Config) -> bool:
    """Whether the shared servers are containers."""
    return bool(config.getoption("--servers", "local") == "containers")


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Any]:
    """Hive Metastore 2.3.10, as the embedded one is set. Its folder has a space in its name."""
    with _metastore(tmp_path_factory.mktemp("hive metastore"), pytestconfig) as server:
        yield server


@pytest.fixture(scope="session")
def stock_metastore(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Any]:
    """The same with Hive's own setting for changed columns."""
    with _metastore(tmp_path_factory.mktemp("stock metastore"), pytestconfig, STOCK) as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("zoo keeper")
    with containers.zookeeper() if in_containers(pytestconfig) else LocalZooKeeper(folder) as server:
        yield server


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[ObjectStore]:
    """An empty S3 endpoint: see `integration.stores.minio`."""
    folder = tmp_path_factory.mktemp("object store")
    with containers.minio() if in_containers(pytestconfig) else local_object_store(folder) as store:
        yield store


@pytest.fixture
def bucket(object_store: ObjectStore) -> Iterator[str]:
    """The name of a new, empty bucket for this test alone, which goes with it."""
    name = f"test-{secrets.token_hex(6)}"
    object_store.make_bucket(name)
    yield name
    object_store.delete_bucket(name)


def _metastore(folder: Path, config: pytest.Config, conf: Mapping[str, str] | None = None) -> Any:
    return containers.metastore(folder, conf=conf) if in_containers(config) else LocalMetastore(folder, conf=conf)


@pytest.fixture(scope="session")
def warehouse(metastore: LocalMetastore) -> str:
    """The metastore's warehouse, as a location."""
    return metastore.warehouse


@pytest.fixture
def pool(metastore: LocalMetastore) -> Iterator[ClientPool]:
    """Connections to the metastore."""
    pool = ClientPool([metastore.uri])
    yield pool
    pool.close()


@pytest.fixture
def namespace(metastore: LocalMetastore, request: pytest.FixtureRequest) -> str:
    """A new, empty database for this test alone."""
    return make_namespace(metastore, request)


def make_namespace(server: Any, request: pytest.FixtureRequest) -> str:
    """A database named after the test and its parameters, which may be long and odd."""
    plain = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).strip("_")[:60]
    name = f"{plain}_{_number(plain)}"
    pool = ClientPool([server.uri])
    try:
        HmsNamespaces(pool).create(name, {LOCATION: f"{server.warehouse}/{name}.db"})
    finally:
        pool.close()
    return name


_seen: dict[str, int] = {}


def _number(name: str) -> int:
    _seen[name] = _seen.get(name, 0) + 1
    return _seen[name]
