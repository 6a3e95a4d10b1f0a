"""Alters of a table's row that carry their expected value, sent to servers that are proved first.

Servers are asked, not judged by their version: some carry out `expected_parameter_key` and `expected_parameter_value`,
some check them without being atomic (HIVE-26882 without HIVE-28121), some ignore them in silence, some fail on their
database. So before the first alter on a connection and database goes a probe, an alter that no metastore carries out:
it expects a parameter that the row lacks, and changes the partition keys, which no release of Hive allows for a table.
For a view all do (HiveAlterHandler), so there a scratch row tells. The answer tells which of the two the server checks
first:

    "New value for expected key"            atomic: the server looks for the new value before it compares
    "The table has been modified"           checked, not atomic
    "partition keys can not be changed"     ignored
    any other error, or no answer           proves nothing

Then the true alter is sent. If its SQL fails on the server's database, that is a refusal like any other, since a
database has bad moments. Compare-and-swap counts as broken only where a swap fails on a scratch row too, on the same
connection and in the same database, and an alter without the keys works there. Alters are then sent without the keys,
for `BROKEN_SECONDS`.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from functools import partial
from typing import Any

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.ports import Pointer, Refused, Sending, SwapAnswer, Swapped, Unanswered
from iceberg_hms.errors import CompareAndSwapUnproven, LockLost, MetastoreError, MetastoreUnavailable, NoSuchTable
from iceberg_hms.metastore.compare_and_swap.proofs import WriteProof, prove_cas, prove_writes
from iceberg_hms.metastore.compare_and_swap.row_write import (
    ALTER,
    PROBE_KEY,
    PROBE_VALUE,
    VIRTUAL_VIEW,
    LateWrite,
    ReadRow,
    alter_arguments,
    fault_of,
    write_row,
)
from iceberg_hms.metastore.compare_and_swap.scratch_row import ScratchRows
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.client import MetastoreClient
from iceberg_hms.metastore.connection.faults import Fault, NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema, GetTableRequest

logger = logging.getLogger(__name__)

#: What a refusal of the probe proves.
_SUPPORT_BY_FAULT = {
    Fault.EXPECTED_KEY_MISSING: CompareAndSwap.ATOMIC,
    Fault.TABLE_MODIFIED: CompareAndSwap.CHECKED,
    Fault.PARTITION_KEYS_CHANGED: CompareAndSwap.IGNORED,
}


class SwapSender:
    """Sends alters through a pool. Each connection remembers what its server makes of compare-and-swap
    (`cas_support`), and so does the pool for all of them."""

    def __init__(self, pool: ClientPool, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pool = pool
        self._clock = clock
        self._scratch_rows = ScratchRows(pool, clock)

    def alter(self, base: Pointer, table: Any, sending: Sending) -> SwapAnswer:
        """Write `table` over the row that was read as `base`, if it is still at `base.metadata_location`. As
        `replace`."""
        return self.replace(ReadRow.of(base), table, sending)

    def replace(self, base: ReadRow, table: Any, sending: Sending) -> SwapAnswer:
        """Write `table` over the row that was read as `base`, if its parameter still has the expected value.

        Unanswered is `atomic` only if the connection's server was known to be atomic for this database when the alter
        was sent, and no other server to be anything else: that may overwrite what arrives late. A rename never is: its
        expected value comes back when the table is renamed there and back. Raises CompareAndSwapUnproven, LockLost (see
        `Sending`) and MetastoreUnavailable if the alter was not sent.
        """
        if base.expected is None and sending.require_cas:
            raise CompareAndSwapUnproven(f"{base.name} has no parameter that the metastore could compare")
        lost_probes: list[NotSent] = []
        try:
            alter = partial(self._alter_on, base=base, table=table, sending=sending, lost_probes=lost_probes)
            return self._pool.run(alter, idempotent=False, overdue=sending.overdue)
        except NotSent as error:
            if not lost_probes:
                raise
            # No Hive carries out a probe. Some other kind of server may, so the caller must check the table.
            return Unanswered(MetastoreUnavailable(error.message), atomic=True)
        finally:
            self._scratch_rows.drop_left()

    def accepts_writes(self, namespace: str) -> bool | None:
        try:
            proof = self._pool.run(
                lambda client: prove_writes(self._scratch_rows, client.call, namespace), idempotent=False
            )
        except MetastoreError as error:
            proof = WriteProof(False, error.message)
        if proof.problem:
            logger.warning("Writing a scratch view in %s failed: %s", namespace, proof.problem)
        return proof.works

    def _alter_on(
        self, client: MetastoreClient, *, base: ReadRow, table: Any, sending: Sending, lost_probes: list[NotSent]
    ) -> SwapAnswer:
        """One alter on one connection. Raises NotSent only if every alter that it sent changes nothing, or was refused,
        so that the whole may be repeated on another connection."""
        namespace = base.name.namespace
        if (answer := self._prove(client, base, table, lost_probes)) is not None:
            return answer
        support = client.cas_support.of(namespace)
        if sending.require_cas and support is not CompareAndSwap.ATOMIC:
            # The next lock must not promise that every swap under it is atomic.
            self._pool.cas_support.learn(client.uri, namespace, support)
            raise _unproven(client, support)
        if support is CompareAndSwap.BROKEN or base.expected is None:
            arguments = alter_arguments(base.name, table, None)
            return write_row(client, self._clock, ALTER, LateWrite.OVERWRITES, sending, **arguments)
        renames = (table.dbName, table.tableName) != (base.table.dbName, base.table.tableName)
        atomic = support is CompareAndSwap.ATOMIC and not renames
        atomic = atomic and not self._pool.cas_support.may_overwrite(namespace)
        late = LateWrite.REFUSED if atomic else LateWrite.OVERWRITES
        arguments = alter_arguments(base.name, table, base.expected)
        answer = write_row(client, self._clock, ALTER, late, sending, **arguments)
        if isinstance(answer, Swapped):
            self._record_swap(client, namespace)
        if fault_of(answer) is not Fault.SWAP_BROKEN or client.cas_support.has_swapped(namespace):
            # A server that has swapped before can do it: its database had a bad moment.
            return answer
        self._prove_on_scratch_row(client, namespace)
        if client.cas_support.of(namespace) is not CompareAndSwap.BROKEN:
            return answer
        # It always fails so, before anything is written.
        if sending.require_cas:
            raise _unproven(client, CompareAndSwap.BROKEN)
        return self._alter_without_keys(client, base, table, sending, _as_final(answer))

    def _prove(
        self, client: MetastoreClient, base: ReadRow, table: Any, lost_probes: list[NotSent]
    ) -> SwapAnswer | None:
        """Learn what the server makes of compare-and-swap, if this connection does not know it. Returns the answer to
        the probe if that proves nothing, or carried out the alter. Raises NotSent as `_probe`."""
        namespace = base.name.namespace
        is_view = table.tableType == VIRTUAL_VIEW
        if self._is_unknown(client, namespace) and (is_view or self._is_broken_elsewhere(client, namespace)):
            # A server that ignores expected values would carry out the probe of a view. Where compare-and-swap is
            # broken, a swap would probably meet the same error here, and its outcome would have to be checked.
            self._prove_on_scratch_row(client, namespace)
        if self._is_unknown(client, namespace) and not is_view:
            answer = self._probe(client, base, table, lost_probes)
            if isinstance(answer, Swapped) or self._is_unknown(client, namespace):
                return answer
        return None

    def _probe(self, client: MetastoreClient, base: ReadRow, table: Any, lost_probes: list[NotSent]) -> SwapAnswer:
        """Send the probe, learn from the server's answer, and return it. Without an answer NotSent is raised, and added
        to `lost_probes`."""
        impossible = copy.copy(table)
        # More keys than the table has, whatever it has.
        impossible.partitionKeys = [*(table.partitionKeys or []), FieldSchema(name="iceberg_hms_probe", type="string")]
        arguments = alter_arguments(base.name, impossible, (_probe_key(base, table), PROBE_VALUE))
        answer = write_row(client, self._clock, ALTER, LateWrite.HARMLESS, Sending(), **arguments)
        if isinstance(answer, Unanswered):
            lost_probes.append(NotSent(str(answer.error)))
            raise lost_probes[-1]
        namespace = base.name.namespace
        if isinstance(answer, Swapped):
            support = CompareAndSwap.IGNORED
        else:
            support = _SUPPORT_BY_FAULT.get(fault_of(answer) or Fault.OTHER, CompareAndSwap.UNKNOWN)
        client.cas_support.learn(namespace, support)
        if support is not CompareAndSwap.ATOMIC:
            # ATOMIC is only what the server's code can do so far; the swap shows that its database can do it too.
            self._pool.cas_support.learn(client.uri, namespace, support)
        return _as_final(answer)

    def _is_unknown(self, client: MetastoreClient, namespace: str) -> bool:
        return client.cas_support.of(namespace) is CompareAndSwap.UNKNOWN

    def _is_broken_elsewhere(self, client: MetastoreClient, namespace: str) -> bool:
        return self._pool.cas_support.of(client.uri, namespace) is CompareAndSwap.BROKEN

    def _prove_on_scratch_row(self, client: MetastoreClient, namespace: str) -> None:
        proof = prove_cas(self._scratch_rows, client.call, namespace)
        for problem in proof.problems:
            logger.info("%s: %s", client.uri, problem)
        if proof.support is CompareAndSwap.BROKEN:
            logger.warning(
                "Compare-and-swap fails on the database of %s: only the lock protects swaps in %s",
                client.uri,
                namespace,
            )
        client.cas_support.learn(namespace, proof.support)
        if proof.support is CompareAndSwap.ATOMIC:
            client.cas_support.record_swap(namespace)
        self._pool.cas_support.learn(client.uri, namespace, proof.support)

    def _record_swap(self, client: MetastoreClient, namespace: str) -> None:
        client.cas_support.record_swap(namespace)
        self._pool.cas_support.learn(client.uri, namespace, client.cas_support.of(namespace))

    def _alter_without_keys(
        self, client: MetastoreClient, base: ReadRow, table: Any, sending: Sending, refusal: SwapAnswer
    ) -> SwapAnswer:
        """The server's database cannot do the swap. The swap may also have failed because the row moved at that moment:
        so the row is altered without the keys only if it still stands at `base`."""
        name = base.name
        try:
            request = GetTableRequest(dbName=name.namespace, tblName=name.name)
            row = client.call("get_table_req", req=request).table
        except ServerFault as fault:
            return Refused(True, NoSuchTable(name)) if fault.fault is Fault.NO_SUCH_OBJECT else refusal
        except (NotSent, NoAnswer):
            return refusal
        key, value = base.expected or ("", None)
        if (row.parameters or {}).get(key) != value:
            return Refused(True, refusal.error) if isinstance(refusal, Refused) else refusal
        try:
            arguments = alter_arguments(name, table, None)
            return write_row(client, self._clock, ALTER, LateWrite.OVERWRITES, sending, **arguments)
        except LockLost as error:
            # The caller must check the row: a first alter was sent, and its error is not proof enough.
            return Refused(True, error)
        except NotSent:
            return refusal


def _unproven(client: MetastoreClient, support: CompareAndSwap) -> CompareAndSwapUnproven:
    return CompareAndSwapUnproven(f"The metastore {client.uri} is not proven to compare and swap atomically: {support}")


def _as_final(answer: SwapAnswer) -> SwapAnswer:
    """The same answer, where nothing was sent that can still succeed."""
    return replace(answer, in_doubt=False) if isinstance(answer, Refused) else answer


def _probe_key(base: ReadRow, table: Any) -> str:
    """A parameter that neither the row nor its successor has."""
    key = PROBE_KEY
    while key in (base.table.parameters or {}) or key in table.parameters:
        key += "-"
    return key
