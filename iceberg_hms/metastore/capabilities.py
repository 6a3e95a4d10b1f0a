"""What one metastore can do, asked and probed: its version does not tell.

A server may know the compare-and-swap keys and carry them out (2.3.10), check them without being atomic (HIVE-26882
without HIVE-28121), ignore them in silence (3.1.3), or fail on its database (4.0.1 on Derby). All four answer an
ordinary commit with success. Only a swap with a wrong expected value tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.compare_and_swap.proofs import prove_server
from iceberg_hms.metastore.compare_and_swap.scratch_row import scratch_name
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap as CompareAndSwap
from iceberg_hms.metastore.connection.faults import reason_of
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import AbortTxnRequest, OpenTxnRequest
from iceberg_hms.metastore.connection.versions import server_version
from iceberg_hms.metastore.locks.lease import config_value, lease_seconds
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from iceberg_hms.metastore.locks.lock_table import LockTable

# Hive 3 and later know both names, Hive 2 the second.
_STORES: Final = ("metastore.rawstore.impl", "hive.metastore.rawstore.impl")
_DISALLOW: Final = "hive.metastore.disallow.incompatible.col.type.changes"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One server.

    version: "4.0.1"; "2.x" or "3.x" for servers before Hive 4, which tell no more; or "unknown".
    lock_api: a lock was taken, seen and given back. lease_seconds: None if the server does not tell.
    lock_seconds: how long that one lock call took to be answered, None if it was not. cached: the server reads through
    CachedStore, so its answers may be outdated.
    transaction_tables: a transaction could be opened and aborted.
    disallow_incompatible_col_type_changes: the server's setting, None if it does not tell.
    problems: one sentence for each thing that did not work, and for each lock whose holder seems to be dead.
    """

    uri: str
    version: str
    lock_api: bool
    lease_seconds: float | None
    transaction_tables: bool
    compare_and_swap: CompareAndSwap
    disallow_incompatible_col_type_changes: bool | None
    problems: tuple[str, ...]
    lock_seconds: float | None = None
    cached: bool = False


def probe(uri: str, settings: Settings, *, namespace: str = "default", clock: Clock = SYSTEM_CLOCK) -> Capabilities:
    """Ask one server. The probe leaves nothing behind: its scratch row is a view named `iceberg_hms_probe_...` in
    `namespace`, without files, and is dropped.

    Raises MetastoreUnavailable if the server cannot be reached.
    """
    pool = ClientPool.configured(settings, only=uri)
    try:
        return _Probe(pool, settings, namespace, clock).run(uri)
    finally:
        pool.close()


class _Probe:
    def __init__(self, pool: ClientPool, settings: Settings, namespace: str, clock: Clock) -> None:
        self._pool = pool
        self._settings = settings
        self._namespace = namespace
        self._clock = clock
        self._lock_seconds: float | None = None
        self._problems: list[str] = []

    def run(self, uri: str) -> Capabilities:
        disallow = self._config_value(_DISALLOW)
        return Capabilities(
            uri=uri,
            version=self._pool.run(server_version, idempotent=True),
            lock_api=self._lock_works(),
            lock_seconds=self._lock_seconds,
            lease_seconds=lease_seconds(self._pool),
            transaction_tables=self._transactions_work(),
            compare_and_swap=self._compare_and_swap(),
            disallow_incompatible_col_type_changes=None if disallow is None else disallow.lower() == "true",
            cached=any("CachedStore" in (self._config_value(name) or "") for name in _STORES),
            problems=tuple(self._problems),
        )

    def _config_value(self, name: str) -> str | None:
        return self._pool.run(lambda client: config_value(client, name), idempotent=True)

    def _lock_works(self) -> bool:
        entries = LockEntries(self._pool, self._settings.user)
        sent = self._clock.monotonic()
        try:
            with entries.trial(scratch_name(self._namespace, self._clock), "probe") as entry:
                self._lock_seconds = self._clock.monotonic() - sent
                entries.renew(entry)
            dead = [row for row in LockTable(self._pool).entries() if row.seems_dead]
        except MetastoreError as error:
            self._problems.append(f"The lock API does not work: {reason_of(error)}")
            return False
        self._problems += [
            f"The holder of lock {row.lock_id} on {row.table}, {row.user}@{row.host}, seems to be "
            f"dead: {row.seems_dead}; if it is, `iceberg-hms locks break {row.lock_id} --yes` removes the lock"
            for row in dead
        ]
        return True

    def _transactions_work(self) -> bool:
        request = OpenTxnRequest(num_txns=1, user=self._settings.user, hostname="iceberg-hms", agentInfo="probe")
        try:
            transaction = self._pool.call_once("open_txns", rqst=request).txn_ids[0]
            self._pool.call_once("abort_txn", rqst=AbortTxnRequest(txnid=transaction))
        except MetastoreError as error:
            self._problems.append(f"There are no transaction tables: {reason_of(error)}")
            return False
        return True

    def _compare_and_swap(self) -> CompareAndSwap:
        proof = prove_server(self._pool, self._namespace, self._clock)
        self._problems.extend(proof.problems)
        return proof.support
