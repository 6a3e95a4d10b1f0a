"""Peers that commit side by side to one new table: clients of our server, and Java's and PyIceberg's HiveCatalog,
at their defaults and at the best settings that we found for them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Barrier
from time import monotonic, perf_counter
from typing import Any

import iceberg_hms
from benchmarks.instruments import CpuMeter, Serving
from benchmarks.writers import SCHEMA, JavaWriters, Process
from iceberg_hms.changes.clients.blind_append import ISOLATION_LEVELS
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.testing.history import check_table
from integration.appender import COMMIT_FAILED


class Kind(StrEnum):
    """The client that a peer's writers use."""

    REST = "Java RESTCatalog"
    HIVE = "Java HiveCatalog"
    PYICEBERG = "PyIceberg HiveCatalog"


@dataclass(frozen=True)
class Peer:
    """One way to commit.

    table: properties of the table. settings: of the writers' Hadoop configuration, or of PyIceberg's catalog.
    once: whether it runs in the first round alone, because its blocks use up all their time.
    """

    name: str
    title: str
    kind: Kind
    table: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    once: bool = False


#: Writers practically never give up, and retry soon.
_RETRIES = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "10",
    "commit.retry.max-wait-ms": "200",
}
#: Check the lock often: by default Java waits up to 5 s between two checks.
_JAVA_LOCK = {
    "iceberg.hive.lock-check-min-wait-ms": "10",
    "iceberg.hive.lock-check-max-wait-ms": "50",
    "iceberg.hive.lock-creation-min-wait-ms": "10",
    "iceberg.hive.lock-creation-max-wait-ms": "50",
}
#: By default PyIceberg waits 2, 4 and 8 s for a lock, and then gives up.
_PYICEBERG_LOCK = {
    "lock-check-min-wait-time": "0.02",
    "lock-check-max-wait-time": "0.1",
    "lock-check-retries": "10000",
}
#: No client validates an append to such a table, so the server rebases blind appends.
_SNAPSHOT_ISOLATION = dict.fromkeys(ISOLATION_LEVELS, "snapshot")

SERVER_ALL = "server-all"
SERVER_PLAIN = "server-plain"
JAVA_HIVE = "java-hive"
#: Candidates for Java's best settings; the figures decide.
JAVA_HIVE_BEST = ("java-hive-tuned", "java-hive-cas")

PEERS = (
    Peer(
        SERVER_ALL,
        "iceberg-hms, Java REST, rebase all",
        Kind.REST,
        table={"iceberg-hms.rebase-appends": "all"},
    ),
    Peer(SERVER_PLAIN, "iceberg-hms, Java REST, snapshot isolation", Kind.REST, table=_SNAPSHOT_ISOLATION),
    Peer(JAVA_HIVE, "Java HiveCatalog, defaults", Kind.HIVE),
    Peer(JAVA_HIVE_BEST[0], "Java HiveCatalog, lock and retries tuned", Kind.HIVE, table=_RETRIES, settings=_JAVA_LOCK),
    Peer(
        JAVA_HIVE_BEST[1],
        "Java HiveCatalog, no lock, retries tuned",
        Kind.HIVE,
        table={**_RETRIES, "engine.hive.lock-enabled": "false"},
    ),
    Peer("pyiceberg-hive", "PyIceberg HiveCatalog, defaults", Kind.PYICEBERG, once=True),
    Peer(
        "pyiceberg-hive-tuned",
        "PyIceberg HiveCatalog, lock and retries tuned",
        Kind.PYICEBERG,
        table=_RETRIES,
        settings=_PYICEBERG_LOCK,
        once=True,
    ),
)


NAMESPACE = "bench"


@dataclass
class Share:
    """The answers that one writer got. seconds: of each acknowledged commit. items: paths or snapshot ids of these.
    unfinished: commits without an answer when the block's time was over. started, ended: on the machine's clock."""

    started: float = 0.0
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    items: list[int | str] = field(default_factory=list)
    refused: list[int | str] = field(default_factory=list)
    unfinished: int = 0
    ended: float = 0.0

    def so_far(self) -> Share:
        """A copy of a share that its writer still fills; the commit in flight counts as unfinished."""
        return Share(
            self.started,
            list(self.seconds),
            list(self.errors),
            list(self.items),
            list(self.refused),
            unfinished=1,
            ended=monotonic(),
        )


@dataclass(frozen=True)
class PeerBlock:
    """One block. wall_seconds: from the first writer's start to the last one's end. seconds: of acknowledged commits.
    failed: how often each error. cpu_seconds: by part; `instrument` is this program. load_average: before the block.
    findings: what is wrong with the table's history afterwards."""

    peer: str
    writers: int
    round: int
    acknowledged: int
    failed: Mapping[str, int]
    unfinished: int
    wall_seconds: float
    seconds: Sequence[float]
    cpu_seconds: Mapping[str, float]
    load_average: float
    server: Mapping[str, float]
    findings: Sequence[str]

    @property
    def rate(self) -> float:
        return self.acknowledged / self.wall_seconds


class Contest:
    """All peers on one metastore.

    limit: seconds after which a block is over. Commits in flight then count as unfinished: at its defaults Java
    can wait three minutes for a lock.
    settings: of the checks' own way to the tables' files. store: properties of Java's HiveCatalog for its way.
    """

    def __init__(
        self,
        metastore: LocalMetastore,
        server: Serving,
        java: JavaWriters,
        *,
        limit: float,
        settings: Mapping[str, Any] | None = None,
        store: Mapping[str, str] | None = None,
    ) -> None:
        self._metastore = metastore
        self._server = server
        self._java = java
        self._limit = limit
        self._store = store
        self._catalogs: dict[tuple[str, int], Any] = {}
        self._catalog = iceberg_hms.connect(
            metastore_uri=metastore.uri, warehouse=metastore.warehouse, **(settings or {})
        )
        if NAMESPACE not in self._catalog.list_namespaces():
            self._catalog.create_namespace(NAMESPACE)

    def close(self) -> None:
        for each in self._catalogs.values():
            each.close()
        self._catalog.close()

    def run(self, peer: Peer, writers: int, commits: int, round_: int | str) -> PeerBlock:
        """Run one block on a table of its own: `commits` of each writer."""
        load = os.getloadavg()[0]
        table = f"{NAMESPACE}.{peer.name}-{writers}-{round_}".replace("-", "_")
        self._catalog.create_table(table, SCHEMA, properties=peer.table)
        before = self._server.counts()
        if peer.kind is Kind.PYICEBERG:
            shares, cpu = self._python(peer, table, writers, commits)
        else:
            shares, cpu = self._in_java(peer, table, writers, commits)
        after = self._server.counts()
        checked = check_table(
            self._catalog,
            table,
            acknowledged=[item for share in shares for item in share.items],
            refused=[item for share in shares for item in share.refused],
            data_files=False,
        )
        seconds = [second for share in shares for second in share.seconds]
        return PeerBlock(
            peer=peer.name,
            writers=writers,
            round=round_ if isinstance(round_, int) else -1,
            acknowledged=len(seconds),
            failed=dict(Counter(_kind(error) for share in shares for error in share.errors)),
            unfinished=sum(share.unfinished for share in shares),
            wall_seconds=max(share.ended for share in shares) - min(share.started for share in shares),
            seconds=seconds,
            cpu_seconds=cpu,
            load_average=load,
            server={name: after[name] - before[name] for name in after},
            findings=[str(finding) for finding in checked.findings],
        )

    def _groups(self, writers: Sequence[int]) -> dict[str, Sequence[int]]:
        assert self._metastore.pid is not None
        return {
            "server": [self._server.pid],
            "metastore": [self._metastore.pid],
            "writers": writers,
            "instrument": [os.getpid()],
        }

    def _in_java(self, peer: Peer, table: str, writers: int, commits: int) -> tuple[list[Share], dict[str, float]]:
        loaded = [self._java.load(self._writer(peer, number), table) for number in range(writers)]
        paths = [
            [f"file:/data/{table}-{number}-{each}.parquet" for each in range(commits)] for number in range(writers)
        ]
        files = [self._java.files(each) for each in paths]
        shares = [Share() for _ in range(writers)]
        start = Barrier(writers + 1)

        def write(number: int) -> None:
            share = shares[number]
            start.wait(60)
            share.started = monotonic()
            for path, file in zip(paths[number], files[number], strict=True):
                if monotonic() - share.started > self._limit:
                    break
                before = perf_counter()
                error = self._java.append(loaded[number], file)
                if error is None:
                    share.seconds.append(perf_counter() - before)
                    share.items.append(path)
                else:
                    share.errors.append(error)
                    if error.startswith(COMMIT_FAILED):
                        share.refused.append(path)
            share.ended = monotonic()

        pool = ThreadPoolExecutor(writers)
        running = [pool.submit(write, number) for number in range(writers)]
        meter = CpuMeter(self._groups([self._java.pid]))
        start.wait(60)
        ended, _ = wait(running, self._limit)
        cpu = meter.used()
        # Writers that still run end by themselves, or with the JVM.
        pool.shutdown(wait=False)
        for each in ended:
            each.result()
        return [share if each in ended else share.so_far() for each, share in zip(running, shares, strict=True)], cpu

    def _writer(self, peer: Peer, number: int) -> Any:
        """A Java catalog, which the peer's later blocks use again."""
        key = peer.name, number
        if key not in self._catalogs:
            name, metastore = f"{peer.name}-{number}", self._metastore
            self._catalogs[key] = (
                self._java.rest(name, self._server.uri)
                if peer.kind is Kind.REST
                else self._java.hive(name, metastore.uri, metastore.warehouse, peer.settings, self._store)
            )
        return self._catalogs[key]

    def _python(self, peer: Peer, table: str, writers: int, commits: int) -> tuple[list[Share], dict[str, float]]:
        """Processes of their own, which end with the block."""
        settings = {"metastore_uri": self._metastore.uri, "warehouse": self._metastore.warehouse, **peer.settings}
        warm = [f"{table}_warm_{number}" for number in range(writers)]
        for each in warm:
            self._catalog.create_table(each, SCHEMA)
        with ExitStack() as stack:
            processes = []
            for each in warm:
                processes.append(Process(kind="pyiceberg", settings=settings, warm_up=each))
                stack.callback(processes[-1].close)
            for process in processes:
                process.answer()
            for process in processes:
                process.send(table=table)
            for process in processes:
                process.answer()
            meter = CpuMeter(self._groups([process.pid for process in processes]))
            for process in processes:
                process.send(commits=commits, seconds=self._limit)
            answers = [process.answer() for process in processes]
            return [
                Share(
                    each["started"],
                    each["seconds"],
                    each["errors"],
                    each["snapshot_ids"],
                    unfinished=each["unfinished"],
                    ended=each["ended"],
                )
                for each in answers
            ], meter.used()


def _kind(error: str) -> str:
    """The class of an error."""
    return error.partition(":")[0].rpartition(".")[2]
