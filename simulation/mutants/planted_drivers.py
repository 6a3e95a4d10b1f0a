"""The planted defects of the metastore's drivers: fence, lock, sweepers and pool."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_CLIENT = "metastore/connection/client.py"
_FAULTS = "metastore/connection/faults.py"
_FENCE = "metastore/compare_and_swap/swap.py"
_LOCK = "metastore/locks/table_lock.py"
_POOL = "metastore/connection/pool.py"
_STALE = "metastore/locks/dead_lock_reaper.py"
_STRAYS = "metastore/locks/lost_lock_cleanup.py"
_TABLES = "metastore/tables/table_pointer.py"

DRIVERS: tuple[Mutant, ...] = (
    Mutant(
        "believe-one-error-of-the-database",
        "compare-and-swap is broken only if a scratch row proves it",
        _FENCE,
        "        self._ask_scratch_row(client, namespace)\n"
        "        if client.findings.of(namespace) is not CompareAndSwap",
        "        client.findings.learned(namespace, CompareAndSwap.BROKEN)\n"
        "        if client.findings.of(namespace) is not CompareAndSwap",
        scenario="bad-database",
    ),
    Mutant(
        "every-refusal-is-final",
        "an error of the metastore's database may stand for a COMMIT that is made later",
        _FAULTS,
        "        self.final = fault in _FINAL\n",
        "        self.final = True\n",
        scenario="doubtful-atomic",
    ),
    Mutant(
        "a-lost-store-is-a-refusal",
        "what a handler says that lost its store is no answer to the call, and ends the connection",
        _CLIENT,
        "        if fault.fault is not Fault.HANDLER_BROKEN:\n",
        "        if True:\n",
        scenario="bad-database",
    ),
    Mutant(
        "remove-the-lock-of-an-unfenced-sleeper",
        "a silent holder's lock is removed only if its swap compares atomically",
        _STALE,
        "        if holder.word is SwapProtection.BLIND:\n",
        "        if False:\n",
        scenario="sleepers",
    ),
    Mutant(
        "take-an-unknown-server-for-atomic",
        "a server's fence is proved, not presumed",
        _FENCE,
        "_VERDICTS.get(_fault_of(answer) or Fault.OTHER, CompareAndSwap.UNKNOWN)",
        "CompareAndSwap.ATOMIC",
        scenario="sleepers",
    ),
    Mutant(
        "take-a-checking-server-for-atomic",
        "a server that compares, and then swaps, is no fence",
        _FENCE,
        "    Fault.TABLE_MODIFIED: CompareAndSwap.CHECKED,\n",
        "    Fault.TABLE_MODIFIED: CompareAndSwap.ATOMIC,\n",
        scenario="no-lock-checked",
    ),
    Mutant(
        "an-unanswered-swap-was-not-sent",
        "a swap without an answer may have been made",
        _FENCE,
        "            return Unanswered(MetastoreUnavailable(error.message), atomic, waited)\n",
        "            raise NotSent(error.message) from error\n",
        scenario="ignored",
    ),
    Mutant(
        "an-unanswered-move-was-not-sent",
        "a creation or a drop without an answer may have been made",
        _TABLES,
        "                return Unanswered(MetastoreUnavailable(error.message), waited_seconds=waited)\n",
        "                raise MetastoreUnavailable(error.message) from error\n",
        scenario="moves-network",
    ),
    Mutant(
        "a-creation-in-doubt-has-failed",
        "a creation that the metastore's database may make later is unknown",
        _TABLES,
        "                return Refused(fault.fault is Fault.TABLE_MODIFIED, fault, in_doubt=not fault.final)\n",
        "                return Refused(fault.fault is Fault.TABLE_MODIFIED, fault)\n",
        scenario="doubtful-moves",
    ),
    Mutant(
        "repeat-what-was-not-answered",
        "only calls that may be carried out twice are repeated when their answer is lost",
        _POOL,
        "            if not idempotent or (isinstance(error, ServerFault) and",
        "            if (isinstance(error, ServerFault) and",
        scenario="lost-locks",
    ),
    Mutant(
        "say-cas-before-it-is-known",
        "a lock says what is known to protect its holder's swap",
        _LOCK,
        "        info = self._new_agent_info(request, word, announced)\n",
        "        info = self._new_agent_info(request, Word.CAS, announced)\n",
        scenario="sleepers",
    ),
    Mutant(
        "do-not-look-for-lost-locks",
        "an entry of a lock call that was not answered is looked for until it can no longer appear",
        _LOCK,
        "                self._strays.watch(name, attempt.agent_info, lease)\n",
        "                pass\n",
        scenario="lost-locks",
    ),
    Mutant(
        "look-for-lost-locks-once",
        "a lock call that was not answered may be carried out later",
        _STRAYS,
        "                if over:\n",
        "                if True:\n",
        scenario="lost-locks",
    ),
    Mutant(
        "whoever-gives-up-leaves-its-entry",
        "an entry that nobody waits for is taken away",
        _LOCK,
        "                self._entries.remove(self._entry)\n",
        "                pass\n",
        scenario="impatient",
    ),
)
