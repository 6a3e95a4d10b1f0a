"""Planted defects of the locks: ZooKeeper's, and the choice between ZooKeeper and the metastore."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_HELD = "zookeeper/held.py"
_ATTEMPT = "zookeeper/attempt.py"
_SESSION = "zookeeper/session.py"
_CHOSEN_LOCK = "locking/chosen_lock.py"
_HELD_LOCKS = "locking/held_locks.py"
_REAPER = "metastore/locks/dead_lock_reaper.py"
_LOCK = "metastore/locks/table_lock.py"
_HEARTBEAT = "metastore/locks/heartbeat.py"
_LOCK_ATTEMPT = "metastore/locks/lock_attempt.py"
_LEASE_CHECK = "coordinator/lease_check.py"

LOCKS: tuple[Mutant, ...] = (
    Mutant(
        "give-up-a-blind-swap-early",
        "a blind swap without an answer keeps its lock until it can no longer arrive",
        "coordinator/sending/status_check.py",
        "    deadline = runtime.now() + settings.unanswered_swap_timeout_ms / 1000 - waited_seconds\n",
        "    deadline = runtime.now()\n",
        scenario="late-ignored",
    ),
    Mutant(
        "send-a-blind-swap-under-an-old-lock",
        "a blind swap is sent only under a lock that was renewed just before",
        "coordinator/ports.py",
        "            if lock.seconds_since_renewal() > lock.lease_seconds / 2:\n                raise LockLost(",
        "            if False:\n                raise LockLost(",
        scenario="late-ignored",
    ),
    Mutant(
        "switch-to-zookeeper-after-one-lease",
        "moving a table to ZooKeeper waits for swaps sent under the metastore's last lock",
        "metastore/locks/lock_table.py",
        " + settings.unanswered_swap_timeout_ms / 1000",
        "",
        scenario="marking-alone",
    ),
    Mutant(
        "acquire-without-waiting-for-late-swaps",
        "a writer that follows an expired session waits for the swap that the session sent",
        _ATTEMPT,
        "            return own[0] if all(over) else None\n",
        "            return own[0]\n",
        scenario="late-zookeeper-alone",
    ),
    Mutant(
        "keep-the-lock-of-a-lost-session",
        "a lost session ends its locks",
        _HELD,
        "        if self._session.epoch != self._node.epoch:\n",
        "        if False:\n",
        scenario="hasty",
    ),
    Mutant(
        "keep-the-epoch-of-a-lost-session",
        "each session has an epoch of its own",
        _SESSION,
        "                self._epoch += 1\n            sweep",
        "                pass\n            sweep",
        scenario="hasty",
    ),
    Mutant(
        "let-the-second-node-hold-the-lock",
        "the first node of a folder holds the lock",
        _ATTEMPT,
        "        if position == 0:\n",
        "        if position <= 1:\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "reverse-the-lock-queue",
        "lock nodes are ordered by their sequence numbers",
        _ATTEMPT,
        "row = in_order(names)\n",
        "row = in_order(names)[::-1]\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "leave-the-node-on-giving-up",
        "a waiter that gives up deletes its lock node",
        _ATTEMPT,
        "        if self._tried:\n            self._session.discard(self._folder, self._prefix)\n",
        "        if False:\n            self._session.discard(self._folder, self._prefix)\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "leave-the-second-node",
        "a node whose creation was not answered is deleted too",
        _HELD,
        "        if node.lost_prefix is not None:\n",
        "        if False:\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "forget-undeleted-nodes",
        "a node that could not be deleted is deleted later",
        _HELD,
        "            self._session.discard(node.folder, node.name)\n",
        "            pass\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "never-sweep-undeleted-nodes",
        "nodes that could not be deleted are deleted after reconnecting",
        _SESSION,
        "            sweep = self._state is SessionState.CONNECTED and bool(self._discarded)\n",
        "            sweep = False\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "skip-the-metastore-s-lock",
        "a table on ZooKeeper takes the metastore's lock too, where the lock API works",
        _CHOSEN_LOCK,
        "            if with_hms:\n",
        "            if False:\n",
        scenario="marked-beside-locks",
    ),
    Mutant(
        "switch-modes-under-one-lock",
        "the lock mode of a table is changed under the locks of both modes",
        _CHOSEN_LOCK,
        "        if not self._hms_lock_works():\n            if marked:\n                return []\n",
        "        if True:\n            if True:\n                return []\n",
        scenario="marking",
    ),
    Mutant(
        "skip-the-reload-of-the-lock-mode",
        "the lock mode is read again under the lock",
        _CHOSEN_LOCK,
        "                if found is mode:\n                    held.row",
        "                if found:\n                    held.row",
        scenario="marking",
    ),
    Mutant(
        "switch-over-old-locks",
        "a table goes to ZooKeeper alone when the metastore's locks have ended",
        _CHOSEN_LOCK,
        "            self._wait_out_granted_locks(name, ",
        "            (lambda *_: None)(name, ",
        scenario="marking-alone",
    ),
    Mutant(
        "switch-to-zookeeper-over-a-healed-lock-api",
        "a table goes to ZooKeeper alone only if the lock API is still broken after the wait",
        _CHOSEN_LOCK,
        '            self._broken_until = float("-inf")\n',
        "            self._broken_until = self._runtime.now() + BROKEN_SECONDS\n",
        scenario="marking-healed",
    ),
    Mutant(
        "use-zookeeper-unasked",
        "a table that does not ask for ZooKeeper is not swapped under ZooKeeper alone",
        _CHOSEN_LOCK,
        "            case LockMode.FREE if self._zookeeper",
        "            case LockMode.FREE | LockMode.HMS if self._zookeeper",
        scenario="marking",
    ),
    Mutant(
        "swap-blindly-without-a-lock",
        "without a lock a swap needs an atomic compare-and-swap",
        _HELD_LOCKS,
        "    require_cas = True\n",
        "    require_cas = False\n",
        scenario="no-lock-refused",
    ),
    Mutant(
        "reap-after-two-looks",
        "one slow answer of the metastore must not outweigh the heartbeats queued behind it",
        _REAPER,
        "POLLS: Final = 3\n",
        "POLLS: Final = 2\n",
        scenario="stalls",
    ),
    Mutant(
        "reap-what-missed-two-heartbeats",
        "a lock is removed only after its whole lease: its process may sleep on a clone of this machine",
        _REAPER,
        "        if silent < lease or not (suspect.polls >= POLLS or holder.lease_seconds is None):\n",
        "        if silent < min(10.0, lease / 5):\n",
        scenario="sleeping-holders",
    ),
    Mutant(
        "announce-a-lease-and-ignore-it",
        "a holder acknowledges nothing after the lease that it announced",
        _LOCK,
        "                lease_seconds=min(announced or math.inf, self._leases.shortest),\n",
        "                lease_seconds=self._leases.shortest,\n",
        scenario="frozen",
    ),
    Mutant(
        "stamp-a-renewal-at-its-answer",
        "a lease begins when its renewal is sent: the server counts from before the answer",
        _HEARTBEAT,
        "        self._cover.record_renewal(sent)\n",
        "        self._cover.record_renewal(self._runtime.read_clocks())\n",
        scenario="slow-heartbeats",
    ),
    Mutant(
        "renew-across-the-lease",
        "a lease that has passed is not renewed: a waiter may be about to remove the lock",
        _LEASE_CHECK,
        "            if not self._lost and seconds > self.lease_seconds:\n",
        "            if False:\n",
        scenario="slow-removals",
    ),
    Mutant(
        "leave-a-waiter-unrenewed",
        "a waiter renews its entry while others are before it",
        _LOCK_ATTEMPT,
        "            if self._position.ahead and self._seconds_unrenewed() < self._check_seconds:\n",
        "            if self._position.ahead:\n",
        scenario="atomic-servers",
    ),
    Mutant(
        "measure-the-lease-by-the-slowest-clock",
        "a lease passes while the machine is suspended",
        _LEASE_CHECK,
        "            seconds = self._runtime.read_clocks().max_seconds_since(self._renewed)\n",
        "            seconds = self._runtime.read_clocks().min_seconds_since(self._renewed)\n",
        scenario="frozen",
    ),
)
