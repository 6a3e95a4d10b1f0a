"""Compare-and-swap on every alter of a table's row, with a verdict on each connection of whether it is atomic.

Servers are asked, not judged by their version: some carry out `expected_parameter_key` and `expected_parameter_value`,
some check them without being atomic (HIVE-26882 without HIVE-28121), some ignore them in silence, some fail on their
database. The first alter on a connection asks by expecting a parameter that the row has not:

    "New value for expected key"        atomic: the server looks for the new value before it compares
    "The table has been modified"       checked, not atomic
    success                             ignored, and the alter is done
    an error of the swap's own SQL      broken here: look at the row, and alter it without the keys
    any other error, or no answer       tells nothing

and then goes out with what is truly expected.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from iceberg_hms import forks
from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.coordinator.ports import Pointer, Refused, SwapAnswer, Swapped, TableName, Unanswered
from iceberg_hms.errors import MetastoreError, MetastoreUnavailable, NoSuchTable
from iceberg_hms.metastore.client import MetastoreClient
from iceberg_hms.metastore.faults import Fault, NoAnswer, NotSent, ServerFault
from iceberg_hms.metastore.parameters import METADATA_LOCATION
from iceberg_hms.metastore.pool import ClientPool
from iceberg_hms.metastore.scratch import PROBE_KEY, PROBE_VALUE, drop, environment, prove, scratch_name
from iceberg_hms.metastore.thrift_types import GetTableRequest
from iceberg_hms.metastore.verdict import CompareAndSwap

logger = logging.getLogger(__name__)

#: Scratch rows that could not be dropped and are tried again after a later proof; older ones are left.
_LEFT_MAX = 100

#: What the probe's refusal says of the server.
_VERDICTS = {
    Fault.EXPECTED_KEY_MISSING: CompareAndSwap.ATOMIC,
    Fault.TABLE_MODIFIED: CompareAndSwap.CHECKED,
}


class Fence:
    """Sends alters through a pool, and keeps the verdicts: on the connections, and summed up in `pool.verdicts`."""

    def __init__(self, pool: ClientPool, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pool = pool
        self._clock = clock
        self.begin_in_forked_child()
        forks.tell(self)

    def begin_in_forked_child(self) -> None:
        """The parent drops the scratch rows that it left."""
        self._mutex = threading.Lock()
        self._left: list[TableName] = []

    def alter(self, base: Pointer, table: Any, *, only_fenced: bool = False) -> SwapAnswer:
        """Write `table` over the row that was read as `base`, if it is still at `base.metadata_location`.

        Unanswered is `fenced` only if the connection's server was known to be atomic when the alter was sent. With
        only_fenced nothing is sent to any other: a connection without a verdict is proven on a scratch row of the same
        namespace first. Raises MetastoreUnavailable if the alter was not sent.
        """
        try:
            return self._pool.run(lambda client: self._on(client, base, table, only_fenced), idempotent=False)
        finally:
            if only_fenced:
                self._drop_left()

    def _on(self, client: MetastoreClient, base: Pointer, table: Any, only_fenced: bool) -> SwapAnswer:
        """One alter on one connection. NotSent means that no alter was sent that is not refused by now, so that all of
        it may be repeated on another connection."""
        if only_fenced:
            self._require_atomic(client, base.name.namespace)
        elif client.compare_and_swap is CompareAndSwap.UNKNOWN:
            answer = self._probe(client, base, table)
            if client.compare_and_swap in (CompareAndSwap.UNKNOWN, CompareAndSwap.IGNORED):
                return answer
        if client.compare_and_swap is CompareAndSwap.BROKEN:
            return _send(client, base, table, None)
        answer = _send(client, base, table, (METADATA_LOCATION, base.metadata_location))
        if isinstance(answer, Swapped):
            client.has_swapped = True
            self._pool.verdicts.learned(client.uri, client.compare_and_swap)
        if only_fenced or client.has_swapped or _fault_of(answer) is not Fault.SWAP_BROKEN:
            # A server that could swap once can do it: this error was of the moment.
            return answer
        return self._without_keys(client, base, table, answer)

    def _probe(self, client: MetastoreClient, base: Pointer, table: Any) -> SwapAnswer:
        answer = _send(client, base, table, (_probe_key(base, table), PROBE_VALUE))
        if isinstance(answer, Swapped):
            self._learn(client, CompareAndSwap.IGNORED)
        elif (verdict := _VERDICTS.get(_fault_of(answer) or Fault.OTHER)) is CompareAndSwap.CHECKED:
            self._learn(client, verdict)
        elif verdict is not None:
            # Known to be atomic by its code; that it works on its database is shown by the swap.
            client.compare_and_swap = verdict
        return answer

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
        logger.warning(
            "Compare-and-swap fails on the database of %s: swaps there are protected by the lock alone", client.uri
        )
        self._learn(client, CompareAndSwap.BROKEN)
        try:
            return _send(client, base, table, None)
        except NotSent:
            # The caller must look at the row: a first alter was sent, and its error is not proof enough.
            return answer

    def _require_atomic(self, client: MetastoreClient, namespace: str) -> None:
        if client.compare_and_swap is CompareAndSwap.UNKNOWN:
            scratch = scratch_name(namespace, self._clock)
            proof = prove(client.call, scratch)
            if proof.left_behind:
                self._remember_left(scratch)
            for problem in proof.problems:
                logger.info("%s: %s", client.uri, problem)
            client.has_swapped = proof.verdict is CompareAndSwap.ATOMIC
            self._learn(client, proof.verdict)
        if client.compare_and_swap is not CompareAndSwap.ATOMIC:
            raise MetastoreUnavailable(
                f"The metastore {client.uri} is not proven to compare and swap atomically: {client.compare_and_swap}"
            )

    def _learn(self, client: MetastoreClient, verdict: CompareAndSwap) -> None:
        client.compare_and_swap = verdict
        self._pool.verdicts.learned(client.uri, verdict)

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


def _send(client: MetastoreClient, base: Pointer, table: Any, expected: tuple[str, str] | None) -> SwapAnswer:
    """One alter, with an expected parameter or none. Raises NotSent."""
    # The probe goes out before there is a verdict, and an alter without the keys where they are broken.
    fenced = client.compare_and_swap is CompareAndSwap.ATOMIC
    try:
        client.call(
            "alter_table_with_environment_context",
            dbname=base.name.namespace,
            tbl_name=base.name.name,
            new_tbl=table,
            environment_context=environment(expected),
        )
    except ServerFault as fault:
        return Refused(fault.fault is Fault.TABLE_MODIFIED, fault)
    except NoAnswer as error:
        return Unanswered(MetastoreUnavailable(error.message), fenced)
    return Swapped()


def _fault_of(answer: SwapAnswer) -> Fault | None:
    return answer.error.fault if isinstance(answer, Refused) and isinstance(answer.error, ServerFault) else None


def _probe_key(base: Pointer, table: Any) -> str:
    """A parameter that neither the row nor its successor has."""
    key = PROBE_KEY
    while key in base.parameters or key in table.parameters:
        key += "-"
    return key
