"""What the tests with faults share: a server with a short lease and a reaper, writers, timings that a seed varies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from iceberg_hms.assembly import assemble
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.coordinator import Coordinator
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.metastore.compare_and_swap.row_write import PROBE_KEY
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.locks.lock_entries import LockEntries, LockEntry
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import Action, ProxiedCall, ScriptedFault
from iceberg_hms.testing.history import HistoryReport, check_table
from tests.polling import eventually

#: How often each test runs, each time with another timing: `make faults SEEDS=50`.
SEEDS = int(os.environ.get("FAULT_SEEDS") or "1")
#: Seconds that any wait of a test may take before it counts as failed.
LIMIT = 60.0
LEASE_SECONDS = 3
ROOT = Path(__file__).parent.parent
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])

ALTER = "alter_table_with_environment_context"
GET = "get_table_req"


class Timing:
    """The choices of one run. Seed 0 adds no waits; any other makes each call wait up to 30 ms before it is sent."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._random = random.Random(seed)
        self._mutex = threading.Lock()

    def pace(self, _call: ProxiedCall) -> float:
        with self._mutex:
            return 0.0 if self.seed == 0 else self._random.uniform(0, 0.03)


@pytest.fixture(params=range(SEEDS), ids=lambda seed: f"seed{seed}")
def timing(request: pytest.FixtureRequest) -> Timing:
    return Timing(request.param)


class ReapingMetastore(LocalMetastore):
    """A metastore whose reaper of expired locks runs when a test asks for it (Hive's AcidHouseKeeperService does the
    same call every minute, where it is switched on)."""

    @contextmanager
    def reaper(self) -> Iterator[None]:
        """Reap again and again, until the block ends."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(0.1):
                self._store().performTimeOuts()

        thread = threading.Thread(target=run, name="reaper")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(LIMIT)

    def _store(self) -> Any:
        assert self._gateway is not None
        jvm = self._gateway.jvm
        return jvm.org.apache.hadoop.hive.metastore.txn.TxnUtils.getTxnStore(self._hive_conf(jvm))


@pytest.fixture(scope="session")
def quick_lease(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReapingMetastore]:
    """A metastore whose locks end three seconds after their last heartbeat."""
    conf = {"hive.txn.timeout": f"{LEASE_SECONDS}s"}
    with ReapingMetastore(tmp_path_factory.mktemp("quick lease"), conf=conf) as server:
        yield server


class Scene:
    """One table of one server, its writers, and the results of their commits. It closes what it opens.

    Writers speak to the server through `proxy`, unless they get another uri; the checks speak to it directly.
    """

    def __init__(self, server: LocalMetastore, folder: Path, timing: Timing, **properties: str) -> None:
        self.server = server
        self.folder = folder
        self.timing = timing
        self.acknowledged: list[int | str] = []
        self.refused: list[int | str] = []
        self._closing: list[Callable[[], object]] = []
        self.direct = self.catalog(server.uri)
        self._pool = ClientPool([server.uri])
        self._closing.append(self._pool.close)
        self.locks = LockEntries(self._pool, "judge")
        namespace = f"n{next(_numbers)}"
        self.direct.create_namespace(namespace, {"location": f"{server.warehouse}/{namespace}.db"})
        self.name = TableName(namespace, "t")
        self.table = self.direct.create_table(self.name, SCHEMA, properties=properties)
        self.proxy = self.another_proxy()

    def another_proxy(self) -> FaultProxy:
        proxy = FaultProxy(self.server.uri, pace=self.timing.pace)
        self._closing.append(proxy.close)
        return proxy

    def on_swap(self, action: Action, *, proxy: FaultProxy | None = None, **arguments: Any) -> ScriptedFault:
        """A fault of true swaps, not of the first alter on a connection, which asks whether they are atomic."""
        through = proxy or self.proxy
        return through.on(ALTER, action, only=lambda request: PROBE_KEY.encode() not in request, **arguments)

    def on_probe(self, action: Action, **arguments: Any) -> ScriptedFault:
        """A fault of that first alter."""
        return self.proxy.on(ALTER, action, only=lambda request: PROBE_KEY.encode() in request, **arguments)

    def catalog(self, uri: str = "", *, clock: Clock = SYSTEM_CLOCK, ports: Any = None, **settings: Any) -> Catalog:
        """A writer of this process. ports: what replaces ports of its coordinator; see `rewired`."""
        keywords = {
            "metastore_uri": uri or self.proxy.uri,
            "warehouse": self.server.warehouse,
            "status_check_min_wait_ms": 50,
            "lock_check_max_wait_ms": 200,
            **settings,
        }
        catalog = assemble(Settings.load(keywords, environ={}), clock=clock)
        self._closing.append(catalog.close)
        return rewired(catalog, **ports) if ports else catalog

    def data_file(self, name: str) -> DataFile:
        path = self.folder / f"{name}.parquet"
        path.write_bytes(b"two rows")
        return DataFile(f"file:{path}", "PARQUET", record_count=2, file_size_in_bytes=8)

    def append(self, name: str, catalog: Catalog | None = None, **arguments: Any) -> Any:
        """Append one file, and remember it if the append was acknowledged."""
        writer = catalog or self.direct
        data_file = self.data_file(name)
        report = writer.load_table(self.name).append([data_file], **arguments)
        self.acknowledged += [data_file.file_path, *report.snapshot_ids]
        return report

    def pyiceberg_append(self, uri: str) -> int:
        """PyIceberg appends a row: it takes the metastore's lock and then swaps blindly. Returns its snapshot id."""
        table = load_catalog("other", type="hive", uri=uri, warehouse=self.server.warehouse).load_table(str(self.name))
        table.append(pa.table({"id": [1], "name": ["of another"]}, schema=SCHEMA))
        snapshot = table.refresh().current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def location(self) -> str:
        return self.direct.pointer(self.name).metadata_location

    def lock_entries(self) -> list[LockEntry]:
        return self.locks.of(self.name)

    def drop_without_lock(self) -> None:
        """Drop the table as a client does that does not know Iceberg. Its files stay."""
        name = self.name
        self._pool.call_once("drop_table", dbname=name.namespace, name=name.name, deleteData=False)

    def metadata_files(self) -> set[str]:
        """All that is in the table's metadata folder."""
        folder = Path(self.table.metadata.location.removeprefix("file:")) / "metadata"
        return {path.name for path in folder.iterdir()}

    def check_history(self, *, others: bool = False) -> HistoryReport:
        """Check the whole history against the writers' results. others: the table may have files of other writers."""
        report = check_table(self.direct, self.name, acknowledged=self.acknowledged, refused=self.refused)
        report.raise_if_broken()
        files = sorted(item for item in self.acknowledged if isinstance(item, str))
        assert others or list(report.data_files) == files
        return report

    def writer(self, name: str, stop_at: str = "", **settings: Any) -> Writer:
        """A writer in a process of its own that has loaded the table and waits for `go`."""
        data_file = self.data_file(name)
        job = {
            "uri": self.proxy.uri,
            "warehouse": self.server.warehouse,
            "table": str(self.name),
            "path": data_file.file_path,
            "stop_at": stop_at,
            "settings": {"status_check_min_wait_ms": 50, "lock_check_max_wait_ms": 200, **settings},
        }
        writer = Writer(job)
        self._closing.append(writer.close)
        writer.read("ready")
        return writer

    def wake_and_check_parent(self, sleeper: Writer, between: Any) -> None:
        """Wake a writer, which must commit on top of what another committed meanwhile; nothing is lost."""
        sleeper.wake()
        result = sleeper.result()
        assert result["error"] is None
        self.acknowledged += [sleeper.path, *result["snapshot_ids"]]
        slept = self.direct.load(self.name).metadata.snapshot_by_id(result["snapshot_ids"][0])
        assert slept is not None
        assert slept.parent_snapshot_id == between.snapshot_ids[0]
        self.check_history()

    def close(self) -> None:
        for close in reversed(self._closing):
            close()


_numbers = iter(range(1, 1_000_000))


def rewired(catalog: Catalog, **other: Any) -> Catalog:
    """The same catalog with other ports; a value that can be called gets the port that it replaces."""
    services = catalog.services
    ports = services.ports
    for name, port in other.items():
        ports = replace(ports, **{name: port(getattr(ports, name)) if callable(port) else port})
    made = replace(services, ports=ports, coordinator=Coordinator(ports, services.settings))
    return Catalog(lambda: made)


class Writer:
    """A process that appends one file on `go`; see fault_writer.py."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.path: str = job["path"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.fault_writer", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def read(self, expected: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == expected + "\n"

    def result(self) -> dict[str, Any]:
        """The result of the append: {"snapshot_ids": [...], "error": null or the name of its type}."""
        output, _ = self._process.communicate(timeout=LIMIT)
        result: dict[str, Any] = json.loads(output)
        return result

    def kill(self) -> None:
        """kill -9, and wait until the process has ended."""
        self._process.kill()
        self._process.wait(LIMIT)

    def pause(self) -> None:
        """SIGSTOP, and wait until the process has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        self.stopped()

    def stopped(self) -> None:
        """Wait until the process has stopped, by its own signal or the test's."""
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def in_background(function: Callable[[], Any]) -> Future[Any]:
    """Run a function on a thread of its own; `result(LIMIT)` gives what it returned or raised."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the test asks for it
            future.set_exception(error)

    threading.Thread(target=run).start()
    return future


def until(condition: Callable[[], Any], what: str) -> Any:
    """As `eventually`, for what the test needs to go on."""
    found = eventually(condition)
    assert found, f"not in time: {what}"
    return found


def methods(calls: Sequence[ProxiedCall]) -> list[str]:
    return [call.method for call in calls]
