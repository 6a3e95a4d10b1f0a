"""Compare-and-swap on every alter of a table's row, with a verdict on each connection and database of whether it is
atomic there.

Servers are asked, not judged by their version: some carry out `expected_parameter_key` and `expected_parameter_value`,
some check them without being atomic (HIVE-26882 without HIVE-28121), some ignore them in silence, some fail on their
database. Before the first alter a probe asks, an alter that no metastore carries out: it expects a parameter that the
row has not, and changes the partition keys, which no release of Hive allows. What comes first in the server answers:

    "New value for expected key"            atomic: the server looks for the new value before it compares
    "The table has been modified"           checked, not atomic
    "partition keys can not be changed"     ignored
    any other error, or no answer           tells nothing

and then goes out what is truly expected. An error of the swap's own SQL is a refusal like any other, since a database
has bad moments. Only where a swap fails on a scratch row too, on the same connection and in the same database, and an
alter without the keys works there, compare-and-swap is broken, and alters go out without the keys for a while.
"""

from __future__ import annotations

import copy
import logging
import threading
from dataclasses import replace
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.ports import Pointer, Refused, SwapAnswer, Swapped, TableName, Unanswered
from iceberg_hms.coordinator.protocol.lease_check import require_fresh_locks
from iceberg_hms.errors import CompareAndSwapUnproven, LockLost, MetastoreError, MetastoreUnavailable, NoSuchTable
from iceberg_hms.metastore.compare_and_swap.findings import CompareAndSwap
from iceberg_hms.metastore.compare_and_swap.scratch_row import (
    PROBE_KEY,
    PROBE_VALUE,
    Trial,
    drop,
    environment,
    prove,
    scratch_name,
    try_to_write,
)
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, GetTableRequest
from iceberg_hms.metastore.tables.parameters import METADATA_LOCATION

logger = logging.getLogger(__name__)

#: Scratch rows that could not be dropped and are tried again after a later proof; older ones are left.
_LEFT_MAX = 100

#: What the probe's refusal says of the server.
_VERDICTS = {
    Fault.EXPECTED_KEY_MISSING: CompareAndSwap.ATOMIC,
    Fault.TABLE_MODIFIED: CompareAndSwap.CHECKED,
    Fault.PARTITION_KEYS_CHANGED: CompareAndSwap.IGNORED,
}


class CompareAndSwapTables:
    """Sends alters through a pool, and keeps the verdicts: on the connections, and summed up in `pool.verdicts`."""

    def __init__(self, pool: ClientPool, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pool = pool
        self._clock = clock
        self._mutex = threading.Lock()
        self._left: list[TableName] = []

    def alter(self, base: Pointer, table: Any, *, require_cas: bool = False) -> SwapAnswer:
        """Write `table` over the row that was read as `base`, if it is still at `base.metadata_location`.

        Unanswered is `atomic` only if the connection's server was known to be atomic for this database when the alter
        was sent. With require_cas nothing is sent to any other, and CompareAndSwapUnproven is raised. Raises LockLost
        (see `require_fresh_locks`) and MetastoreUnavailable if the alter was not sent.
        """
        probes_lost: list[NotSent] = []
        try:
            return self._pool.run(
                lambda client: self._on(client, base, table, require_cas, probes_lost), idempotent=False
            )
        except NotSent as error:
            if not probes_lost:
                raise
            # No Hive carries out a probe. Some other kind of server may, so the caller shall look.
            return Unanswered(MetastoreUnavailable(error.message), atomic=True)
        finally:
            self._drop_left()

    def _on(
        self, client: MetastoreClient, base: Pointer, table: Any, require_cas: bool, probes_lost: list[NotSent]
    ) -> SwapAnswer:
        """One alter on one connection. NotSent means that no alter was sent that can be made, or is not refused by now,
        so that all of it may be repeated on another connection."""
        namespace = base.name.namespace
        if self._is_unknown(client, namespace) and self._is_broken_elsewhere(client, namespace):
            # A swap here may well meet the same error, and would have to be looked up.
            self._ask_scratch_row(client, namespace)
        if self._is_unknown(client, namespace):
            answer = self._probe(client, base, table, probes_lost)
            if isinstance(answer, Swapped) or self._is_unknown(client, namespace):
                return answer
        verdict = client.findings.of(namespace)
        if require_cas and verdict is not CompareAndSwap.ATOMIC:
            # The next lock must not say that whatever is sent under it is atomic.
            self._pool.verdicts.learned(client.uri, namespace, verdict)
            raise self._unproven(client, verdict)
        if verdict is CompareAndSwap.BROKEN:
            return self._send(client, base, table, None)
        atomic = verdict is CompareAndSwap.ATOMIC
        answer = self._send(client, base, table, (METADATA_LOCATION, base.metadata_location), atomic=atomic)
        if isinstance(answer, Swapped):
            self._swapped(client, namespace)
        if _fault_of(answer) is not Fault.SWAP_BROKEN or client.findings.has_swapped(namespace):
            # A server that could swap once can do it: this error was of the moment.
            return answer
        self._ask_scratch_row(client, namespace)
        if client.findings.of(namespace) is not CompareAndSwap.BROKEN:
            return answer
        # It fails so whenever it is tried, before anything is written.
        if require_cas:
            raise self._unproven(client, CompareAndSwap.BROKEN)
        return self._without_keys(client, base, table, _final(answer))

    def _probe(self, client: MetastoreClient, base: Pointer, table: Any, lost: list[NotSent]) -> SwapAnswer:
        """Ask what the server makes of an expected value, and return its answer. Without one NotSent is raised, and is
        kept in `lost`."""
        impossible = copy.copy(table)
        # More keys than the table has, whatever it has.
        impossible.partitionKeys = [*(table.partitionKeys or []), FieldSchema(name="iceberg_hms_probe", type="string")]
        answer = self._send(client, base, impossible, (_probe_key(base, table), PROBE_VALUE), can_be_made=False)
        if isinstance(answer, Unanswered):
            lost.append(NotSent(str(answer.error)))
            raise lost[-1]
        namespace = base.name.namespace
        if isinstance(answer, Swapped):
            verdict = CompareAndSwap.IGNORED
        else:
            verdict = _VERDICTS.get(_fault_of(answer) or Fault.OTHER, CompareAndSwap.UNKNOWN)
        client.findings.learned(namespace, verdict)
        if verdict is not CompareAndSwap.ATOMIC:
            # ATOMIC is known by its code here; that it works on its database is shown by the swap.
            self._pool.verdicts.learned(client.uri, namespace, verdict)
        return _final(answer)

    def _unproven(self, client: MetastoreClient, verdict: CompareAndSwap) -> CompareAndSwapUnproven:
        return CompareAndSwapUnproven(
            f"The metastore {client.uri} is not proven to compare and swap atomically: {verdict}"
        )

    def _is_unknown(self, client: MetastoreClient, namespace: str) -> bool:
        return client.findings.of(namespace) is CompareAndSwap.UNKNOWN

    def _is_broken_elsewhere(self, client: MetastoreClient, namespace: str) -> bool:
        return self._pool.verdicts.of(client.uri, namespace) is CompareAndSwap.BROKEN

    def _ask_scratch_row(self, client: MetastoreClient, namespace: str) -> None:
        """Find out on a scratch row whether compare-and-swap works."""
        scratch = scratch_name(namespace, self._clock)
        proof = prove(client.call, scratch)
        if proof.left_behind:
            self._remember_left(scratch)
        for problem in proof.problems:
            logger.info("%s: %s", client.uri, problem)
        if proof.verdict is CompareAndSwap.BROKEN:
            logger.warning(
                "Compare-and-swap fails on the database of %s: swaps in %s are protected by the lock alone",
                client.uri,
                namespace,
            )
        client.findings.learned(namespace, proof.verdict)
        if proof.verdict is CompareAndSwap.ATOMIC:
            client.findings.swapped(namespace)
        self._pool.verdicts.learned(client.uri, namespace, proof.verdict)

    def _swapped(self, client: MetastoreClient, namespace: str) -> None:
        client.findings.swapped(namespace)
        self._pool.verdicts.learned(client.uri, namespace, client.findings.of(namespace))

    def _without_keys(self, client: MetastoreClient, base: Pointer, table: Any, answer: SwapAnswer) -> SwapAnswer:
        """The server's database cannot do the swap. It may also have failed because the row moved at that moment:
        only a row that stands where it was is altered without the keys."""
        name = base.name
        try:
            request = GetTableRequest(dbName=name.namespace, tblName=name.name)
            row = client.call("get_table_req", req=request).table
        except ServerFault as fault:
            return Refused(True, NoSuchTable(name)) if fault.fault is Fault.NO_SUCH_OBJECT else answer
        except (NotSent, NoAnswer):
            return answer
        if (row.parameters or {}).get(METADATA_LOCATION) != base.metadata_location:
            return Refused(True, answer.error) if isinstance(answer, Refused) else answer
        try:
            return self._send(client, base, table, None)
        except LockLost as error:
            # The caller must look at the row: a first alter was sent, and its error is not proof enough.
            return Refused(True, error)
        except NotSent:
            return answer

    def _send(
        self,
        client: MetastoreClient,
        base: Pointer,
        table: Any,
        expected: tuple[str, str] | None,
        *,
        atomic: bool = False,
        can_be_made: bool = True,
    ) -> SwapAnswer:
        """One alter, with an expected parameter or none. atomic: the server is known to compare it atomically. One that
        can be made and is not atomic is waited for. Raises NotSent, and LockLost before such a one."""
        call = client.call
        if can_be_made and not atomic:
            require_fresh_locks()
            call = client.call_patiently
        sent = self._clock.monotonic()
        try:
            call(
                "alter_table_with_environment_context",
                dbname=base.name.namespace,
                tbl_name=base.name.name,
                new_tbl=table,
                environment_context=environment(expected),
            )
        except ServerFault as fault:
            return Refused(fault.fault is Fault.TABLE_MODIFIED, fault, in_doubt=not fault.final)
        except NoAnswer as error:
            if error.is_over and can_be_made and not atomic:
                return Refused(False, MetastoreUnavailable(error.message), in_doubt=True)
            waited = self._clock.monotonic() - sent
            return Unanswered(MetastoreUnavailable(error.message), atomic, waited)
        return Swapped()

    def _remember_left(self, scratch: TableName) -> None:
        with self._mutex:
            self._left.append(scratch)
            del self._left[:-_LEFT_MAX]

    def _drop_left(self) -> None:
        with self._mutex:
            left, self._left = self._left, []
        for scratch in left:
            try:
                self._pool.run(lambda client, scratch=scratch: drop(client.call, scratch), idempotent=True)  # type: ignore[misc]
            except MetastoreError as error:
                logger.warning("The scratch view %s could not be dropped: %s", scratch, error.message)
                self._remember_left(scratch)

    def accepts_writes(self, namespace: str) -> bool | None:
        """As `TablePointer.accepts_writes`, in a database."""
        scratch = scratch_name(namespace, self._clock)
        try:
            trial = self._pool.run(lambda client: try_to_write(client.call, scratch), idempotent=False)
        except MetastoreError as error:
            trial = Trial(False, error.message)
        if trial.left_behind:
            self._remember_left(scratch)
        if trial.problem:
            logger.warning("A scratch view in %s, to see whether anything can be written: %s", namespace, trial.problem)
        return trial.works


def _final(answer: SwapAnswer) -> SwapAnswer:
    """The same, where nothing was sent that can be made."""
    return replace(answer, in_doubt=False) if isinstance(answer, Refused) else answer


def _fault_of(answer: SwapAnswer) -> Fault | None:
    return answer.error.fault if isinstance(answer, Refused) and isinstance(answer.error, ServerFault) else None


def _probe_key(base: Pointer, table: Any) -> str:
    """A parameter that neither the row nor its successor has."""
    key = PROBE_KEY
    while key in base.parameters or key in table.parameters:
        key += "-"
    return key
