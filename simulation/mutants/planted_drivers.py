"""Planted defects of the metastore's drivers: compare-and-swap, lock, lock cleanup and connection pool."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_CLIENT = "metastore/connection/client.py"
_FAULTS = "metastore/connection/faults.py"
_SWAP = "metastore/compare_and_swap/swap.py"
_LOCK = "metastore/locks/table_lock.py"
_LOCK_ATTEMPT = "metastore/locks/lock_attempt.py"
_POOL = "metastore/connection/pool.py"
_REAPER = "metastore/locks/dead_lock_reaper.py"
_CLEANUP = "metastore/locks/lost_lock_cleanup.py"
_WRITE = "metastore/compare_and_swap/row_write.py"

DRIVERS: tuple[Mutant, ...] = (
    Mutant(
        "trust-one-database-error",
        "compare-and-swap counts as broken only if a scratch row proves it",
        _SWAP,
        "        self._prove_on_scratch_row(client, namespace)\n"
        "        if client.cas_support.of(namespace) is not CompareAndSwap",
        "        client.cas_support.learn(namespace, CompareAndSwap.BROKEN)\n"
        "        if client.cas_support.of(namespace) is not CompareAndSwap",
        scenario="bad-database",
    ),
    Mutant(
        "take-every-refusal-for-final",
        "a metastore that answers with an error may make the change later",
        _FAULTS,
        "        self.final = fault in _FINAL\n",
        "        self.final = True\n",
        scenario="doubtful-atomic",
    ),
    Mutant(
        "take-a-lost-store-for-a-refusal",
        "an error of a handler that lost its store is no answer to the call, and ends the connection",
        _CLIENT,
        "        if fault.fault is not Fault.HANDLER_BROKEN:\n",
        "        if True:\n",
        scenario="bad-database",
    ),
    Mutant(
        "remove-the-lock-of-a-blind-sleeper",
        "a silent holder's lock is removed only if its swap compares atomically",
        _REAPER,
        "        if holder.protection is SwapProtection.BLIND:\n",
        "        if False:\n",
        scenario="sleepers",
    ),
    Mutant(
        "take-an-unknown-server-for-atomic",
        "a server's compare-and-swap is proved, not presumed",
        _SWAP,
        "_SUPPORT_BY_FAULT.get(fault_of(answer) or Fault.OTHER, CompareAndSwap.UNKNOWN)",
        "CompareAndSwap.ATOMIC",
        scenario="sleepers",
    ),
    Mutant(
        "take-an-address-for-one-server",
        "each connection is proved on its own: servers of several versions may be behind one address",
        _SWAP,
        "        is_view = table.tableType == VIRTUAL_VIEW\n",
        "        if self._pool.cas_support.of(client.uri, namespace) is CompareAndSwap.ATOMIC:\n"
        "            client.cas_support.learn(namespace, CompareAndSwap.ATOMIC)\n"
        "        is_view = table.tableType == VIRTUAL_VIEW\n",
        scenario="balanced-ignored",
    ),
    Mutant(
        "take-a-checking-server-for-atomic",
        "a server that compares, and then swaps, does not compare atomically",
        _SWAP,
        "    Fault.TABLE_MODIFIED: CompareAndSwap.CHECKED,\n",
        "    Fault.TABLE_MODIFIED: CompareAndSwap.ATOMIC,\n",
        scenario="no-lock-checked",
    ),
    Mutant(
        "take-an-unanswered-swap-for-unsent",
        "a swap without an answer may have been made",
        _WRITE,
        "        waited = clock.monotonic() - sent\n",
        "        if method == ALTER:\n"
        "            raise MetastoreUnavailable(error.message) from error\n"
        "        waited = clock.monotonic() - sent\n",
        scenario="ignored",
    ),
    Mutant(
        "take-an-unanswered-drop-for-unsent",
        "a creation or a drop without an answer may have been made",
        _WRITE,
        "        waited = clock.monotonic() - sent\n",
        "        if method != ALTER:\n"
        "            raise MetastoreUnavailable(error.message) from error\n"
        "        waited = clock.monotonic() - sent\n",
        scenario="operations-network",
    ),
    Mutant(
        "take-an-in-doubt-creation-for-failed",
        "a creation that the metastore may make later is unknown",
        _WRITE,
        "in_doubt=not fault.final)\n",
        "in_doubt=not fault.final and method == ALTER)\n",
        scenario="doubtful-operations",
    ),
    Mutant(
        "repeat-every-unanswered-call",
        "only idempotent calls are repeated when their answer is lost",
        _POOL,
        "                if not idempotent or (isinstance(error, ServerFault) and",
        "                if (isinstance(error, ServerFault) and",
        scenario="lost-locks",
    ),
    Mutant(
        "announce-cas-before-it-is-known",
        "a lock entry announces only a protection that is known",
        _LOCK,
        "        info = self._new_agent_info(request, protection, announced)\n",
        "        info = self._new_agent_info(request, SwapProtection.CAS, announced)\n",
        scenario="sleepers",
    ),
    Mutant(
        "skip-the-lost-lock-cleanup",
        "the cleanup looks for the entry of an unanswered lock call until it can no longer appear",
        _LOCK,
        "                self._cleanup.watch(name, info, self._leases.longest)\n",
        "                pass\n",
        scenario="lost-locks",
    ),
    Mutant(
        "look-for-lost-locks-once",
        "an unanswered lock call may be carried out later",
        _CLEANUP,
        "                if over:\n",
        "                if True:\n",
        scenario="lost-locks",
    ),
    Mutant(
        "leave-the-entry-on-giving-up",
        "a waiter that gives up removes its lock entry",
        _LOCK_ATTEMPT,
        "                self._entries.remove(self._entry)\n",
        "                pass\n",
        scenario="impatient",
    ),
)
