"""What a server proves on a scratch row: what it makes of compare-and-swap, and whether it carries out writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from iceberg_hms.clock import Clock
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.metastore.compare_and_swap.row_write import ALTER, PROBE_KEY, PROBE_VALUE, alter_arguments
from iceberg_hms.metastore.compare_and_swap.scratch_row import FIRST_VALUE, VALUE_KEY, Call, ScratchRows
from iceberg_hms.metastore.connection.cas_support import CompareAndSwap
from iceberg_hms.metastore.connection.faults import Fault, NotSent, ServerFault, reason_of
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import GetTableRequest

#: Refusals to make a scratch row that say nothing of whether the server carries out writes.
_NOT_ALLOWED: Final = frozenset(
    {Fault.ACCESS_DENIED, Fault.NO_SUCH_OBJECT, Fault.NO_SUCH_DATABASE, Fault.INVALID, Fault.UNKNOWN_METHOD}
)


@dataclass(frozen=True, slots=True)
class CasProof:
    """What a server makes of compare-and-swap. problems: one sentence for each thing that did not work."""

    support: CompareAndSwap
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteProof:
    """works: whether a row could be made, altered and dropped; None if the caller may make none. problem: what failed,
    "" if nothing did."""

    works: bool | None
    problem: str = ""


def prove_cas(rows: ScratchRows, call: Call, namespace: str) -> CasProof:
    """Swap on a scratch row. Raises no MetastoreError: what does not work is UNKNOWN, with the problem."""
    trial = rows.attempt(call, namespace, _cas_support)
    if trial.not_made is not None:
        problem = f"Compare-and-swap could not be probed, no scratch view in {namespace}: {reason_of(trial.not_made)}"
        return CasProof(CompareAndSwap.UNKNOWN, (problem,))
    problems = []
    proof = trial.result or CasProof(CompareAndSwap.UNKNOWN)
    if trial.failed is not None:
        problems.append(f"Compare-and-swap could not be probed: {reason_of(trial.failed)}")
    if trial.not_dropped is not None:
        problems.append(f"The scratch view {trial.name} could not be dropped: {reason_of(trial.not_dropped)}")
    return CasProof(proof.support, (*proof.problems, *problems))


def prove_server(pool: ClientPool, namespace: str, clock: Clock) -> CasProof:
    """`prove_cas` through a pool that has one server. A scratch row that was left is tried once more. Raises no
    MetastoreError."""
    rows = ScratchRows(pool, clock)
    proof = prove_cas(rows, pool.call_once, namespace)
    rows.drop_left()
    return proof


def prove_writes(rows: ScratchRows, call: Call, namespace: str) -> WriteProof:
    """Alter a scratch row as a swap would, but without an expected value. Raises NotSent if not even the row's creation
    was sent."""
    trial = rows.attempt(call, namespace, _refused_write)
    if trial.not_made is not None:
        if isinstance(trial.not_made, NotSent):
            raise trial.not_made
        not_allowed = isinstance(trial.not_made, ServerFault) and trial.not_made.fault in _NOT_ALLOWED
        return WriteProof(None if not_allowed else False, reason_of(trial.not_made))
    problem = trial.failed or trial.result or trial.not_dropped
    return WriteProof(True) if problem is None else WriteProof(False, reason_of(problem))


def _cas_support(call: Call, name: TableName) -> CasProof:
    """Three alters: one that expects a key which the row lacks, one that is right, and one that is outdated.

    If the right one fails, the row is altered without the keys. If that works, as making the row did, the database
    cannot do the other; if not, it is out of order or read-only, which proves nothing: the error is raised.
    """
    first = _alter(call, name, {VALUE_KEY: "1"}, expected=(PROBE_KEY, PROBE_VALUE))
    if first is None:
        return CasProof(CompareAndSwap.IGNORED)
    if first.fault not in (Fault.EXPECTED_KEY_MISSING, Fault.TABLE_MODIFIED):
        raise first
    right = _alter(call, name, {VALUE_KEY: "1"}, expected=(VALUE_KEY, FIRST_VALUE))
    if right is not None:
        if right.fault is not Fault.SWAP_BROKEN:
            raise right
        if (without_keys := _refused_write(call, name)) is not None:
            raise without_keys
        return CasProof(CompareAndSwap.BROKEN, (f"Compare-and-swap fails on this server's database: {right.detail}",))
    outdated = _alter(call, name, {VALUE_KEY: "2"}, expected=(VALUE_KEY, FIRST_VALUE))
    if outdated is None:
        return CasProof(CompareAndSwap.IGNORED)
    if outdated.fault is not Fault.TABLE_MODIFIED:
        raise outdated
    is_atomic = first.fault is Fault.EXPECTED_KEY_MISSING
    return CasProof(CompareAndSwap.ATOMIC if is_atomic else CompareAndSwap.CHECKED)


def _refused_write(call: Call, name: TableName) -> ServerFault | None:
    return _alter(call, name, {VALUE_KEY: "1"}, expected=None)


def _alter(
    call: Call, name: TableName, parameters: Mapping[str, str], *, expected: tuple[str, str] | None
) -> ServerFault | None:
    """The server's refusal, or None for success."""
    row = call("get_table_req", req=GetTableRequest(dbName=name.namespace, tblName=name.name)).table
    row.parameters = {**(row.parameters or {}), **parameters}
    try:
        call(ALTER, **alter_arguments(name, row, expected))
    except ServerFault as fault:
        return fault
    return None
