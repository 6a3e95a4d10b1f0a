"""What one metastore can do, asked and probed rather than told by its version.

A server may know the compare-and-swap keys and carry them out (2.3.10), check them without being atomic (HIVE-26882
without HIVE-28121), ignore them in silence (3.1.3), or fail on its database (4.0.1 on Derby). All four answer an
ordinary commit with success, so only a probe with a wrong expectation tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreError
from iceberg_hms.metastore.entries import LockEntries
from iceberg_hms.metastore.faults import Fault, ServerFault
from iceberg_hms.metastore.identity import agent_info
from iceberg_hms.metastore.lease import config_value, lease_seconds
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.thrift_types import (
    AbortTxnRequest,
    EnvironmentContext,
    FieldSchema,
    GetTableRequest,
    OpenTxnRequest,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from iceberg_hms.metastore.versions import server_version

_DISALLOW = "hive.metastore.disallow.incompatible.col.type.changes"
_PROBE_KEY = "iceberg-hms.probe"
_VALUE_KEY = "iceberg-hms.value"


class CompareAndSwap(StrEnum):
    """What the server makes of `expected_parameter_key` and `expected_parameter_value`."""

    #: Compared and swapped in one database statement: fences every writer that uses it.
    ATOMIC = "atomic"
    #: Compared, but not in the statement that writes: two writers may both pass.
    CHECKED = "checked"
    #: Taken and ignored: an outdated writer overwrites.
    IGNORED = "ignored"
    #: Known, and failing on this database: every swap that carries the keys fails.
    BROKEN = "broken"
    #: The probe itself did not work.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One server.

    version: "2.3.9", "2.x" for servers before Hive 3, which do not tell, or "unknown".
    lock_api: a lock was taken, seen and given back. lease_seconds: None if the server does not tell.
    transaction_tables: a transaction could be opened and aborted.
    disallow_incompatible_col_type_changes: the server's setting, None if it does not tell.
    problems: one sentence for each thing that did not work.
    """

    uri: str
    version: str
    lock_api: bool
    lease_seconds: float | None
    transaction_tables: bool
    compare_and_swap: CompareAndSwap
    disallow_incompatible_col_type_changes: bool | None
    problems: tuple[str, ...]


def probe(uri: str, settings: Settings, *, namespace: str = "default", clock: Clock = SYSTEM_CLOCK) -> Capabilities:
    """Ask one server. It leaves nothing behind: the scratch row for the compare-and-swap probe is a view named
    `iceberg_hms_probe_...` in `namespace`, without files, and is dropped.

    Raises MetastoreUnavailable if the server cannot be reached.
    """
    pool = ClientPool(
        [uri],
        size=1,
        connect_timeout_ms=settings.connect_timeout_ms,
        socket_timeout_ms=settings.socket_timeout_ms,
        user=settings.user,
    )
    try:
        return _Probe(pool, settings, TableName(namespace, f"iceberg_hms_probe_{clock.uuid().replace('-', '')}")).run(
            uri
        )
    finally:
        pool.close()


class _Probe:
    def __init__(self, pool: ClientPool, settings: Settings, scratch: TableName) -> None:
        self._pool = pool
        self._settings = settings
        self._scratch = scratch
        self._problems: list[str] = []

    def run(self, uri: str) -> Capabilities:
        disallow = self._pool.run(lambda client: config_value(client, _DISALLOW), idempotent=True)
        return Capabilities(
            uri=uri,
            version=self._pool.run(server_version, idempotent=True),
            lock_api=self._lock_works(),
            lease_seconds=lease_seconds(self._pool),
            transaction_tables=self._transactions_work(),
            compare_and_swap=self._compare_and_swap(),
            disallow_incompatible_col_type_changes=None if disallow is None else disallow.lower() == "true",
            problems=tuple(self._problems),
        )

    def _call(self, method: str, /, **arguments: Any) -> Any:
        return self._pool.run(lambda client: client.call(method, **arguments), idempotent=False)

    def _lock_works(self) -> bool:
        entries = LockEntries(self._pool, self._settings.user)
        try:
            entry = entries.enqueue(self._scratch, agent_info("probe"))
            try:
                entries.renew(entry)
            finally:
                entries.remove(entry)
        except MetastoreError as error:
            self._problems.append(f"The lock API does not work: {_words(error)}")
            return False
        return True

    def _transactions_work(self) -> bool:
        request = OpenTxnRequest(num_txns=1, user=self._settings.user, hostname="iceberg-hms", agentInfo="probe")
        try:
            transaction = self._call("open_txns", rqst=request).txn_ids[0]
            self._call("abort_txn", rqst=AbortTxnRequest(txnid=transaction))
        except MetastoreError as error:
            self._problems.append(f"There are no transaction tables: {_words(error)}")
            return False
        return True

    def _compare_and_swap(self) -> CompareAndSwap:
        try:
            self._call("create_table", tbl=_scratch_row(self._scratch))
        except MetastoreError as error:
            self._problems.append(
                f"Compare-and-swap could not be probed, no scratch view in {self._scratch.namespace}: {_words(error)}"
            )
            return CompareAndSwap.UNKNOWN
        try:
            return self._verdict()
        except MetastoreError as error:
            self._problems.append(f"Compare-and-swap could not be probed: {_words(error)}")
            return CompareAndSwap.UNKNOWN
        finally:
            self._drop()

    def _verdict(self) -> CompareAndSwap:
        """Three alters: one with a key that the row lacks, one that is right, one that is outdated."""
        first = self._alter({_VALUE_KEY: "1"}, expected=(_PROBE_KEY, "anything"))
        if first is None:
            return CompareAndSwap.IGNORED
        if first.fault not in (Fault.EXPECTED_KEY_MISSING, Fault.TABLE_MODIFIED):
            raise first
        right = self._alter({_VALUE_KEY: "1"}, expected=(_VALUE_KEY, "0"))
        if right is not None:
            if right.fault is not Fault.SWAP_BROKEN:
                raise right
            self._problems.append(f"Compare-and-swap fails on this server's database: {right.detail}")
            return CompareAndSwap.BROKEN
        outdated = self._alter({_VALUE_KEY: "2"}, expected=(_VALUE_KEY, "0"))
        if outdated is None:
            return CompareAndSwap.IGNORED
        if outdated.fault is not Fault.TABLE_MODIFIED:
            raise outdated
        return CompareAndSwap.ATOMIC if first.fault is Fault.EXPECTED_KEY_MISSING else CompareAndSwap.CHECKED

    def _alter(self, parameters: Mapping[str, str], *, expected: tuple[str, str]) -> ServerFault | None:
        """The server's refusal, or None for success."""
        name = self._scratch
        request = GetTableRequest(dbName=name.namespace, tblName=name.name)
        row = self._call("get_table_req", req=request).table
        row.parameters = {**(row.parameters or {}), **parameters}
        key, value = expected
        environment = {
            "DO_NOT_UPDATE_STATS": "true",
            "expected_parameter_key": key,
            "expected_parameter_value": value,
        }
        try:
            self._call(
                "alter_table_with_environment_context",
                dbname=name.namespace,
                tbl_name=name.name,
                new_tbl=row,
                environment_context=EnvironmentContext(properties=environment),
            )
        except ServerFault as fault:
            return fault
        return None

    def _drop(self) -> None:
        try:
            self._call("drop_table", dbname=self._scratch.namespace, name=self._scratch.name, deleteData=False)
        except MetastoreError as error:
            self._problems.append(f"The scratch view {self._scratch} could not be dropped: {_words(error)}")


def _scratch_row(name: TableName) -> Any:
    # A view: for a table the server would make a folder.
    return Table(
        dbName=name.namespace,
        tableName=name.name,
        owner="iceberg-hms",
        tableType="VIRTUAL_VIEW",
        viewOriginalText="select 1",
        viewExpandedText="select 1",
        partitionKeys=[],
        parameters={_VALUE_KEY: "0"},
        sd=StorageDescriptor(
            cols=[FieldSchema(name="value", type="int")], serdeInfo=SerDeInfo(parameters={}), parameters={}
        ),
    )


def _words(error: MetastoreError) -> str:
    if isinstance(error, ServerFault):
        return error.detail
    return error.message
