"""The planted defects of the locks: ZooKeeper's, and the choice between it and the metastore's."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_HELD = "zookeeper/held.py"
_ATTEMPT = "zookeeper/attempt.py"
_SESSION = "zookeeper/session.py"
_TABLE_LOCKS = "locking/chosen_lock.py"
_HELD_LOCKS = "locking/held_locks.py"
_STALE = "metastore/locks/dead_lock_reaper.py"
_LOCK = "metastore/locks/table_lock.py"
_COVERAGE = "coordinator/protocol/lease_check.py"

LOCKS: tuple[Mutant, ...] = (
    Mutant(
        "give-up-what-nothing-fences",
        "a swap that only its lock fences is looked for, with the lock held, until it has had its time",
        "coordinator/protocol/status_checks.py",
        "    deadline = runtime.now() + settings.unanswered_swap_timeout_ms / 1000 - waited_seconds\n",
        "    deadline = runtime.now()\n",
        scenario="late-ignored",
    ),
    Mutant(
        "send-under-a-lock-that-aged",
        "a swap that only its lock fences finds it fresh just before it goes out",
        _COVERAGE,
        "        if lock.seconds_since_renewal() > lock.lease_seconds / 2:\n            raise LockLost(",
        "        if False:\n            raise LockLost(",
        scenario="late-ignored",
    ),
    Mutant(
        "mark-after-one-lease",
        "who moves a table to ZooKeeper waits for what was sent under the metastore's last lock",
        "metastore/locks/unavailable_lock.py",
        " + settings.unanswered_swap_timeout_ms / 1000",
        "",
        scenario="marking-alone",
    ),
    Mutant(
        "follow-without-waiting",
        "who follows a writer whose session ended waits for what that one sent",
        _ATTEMPT,
        "            return own[0] if all(over) else None\n",
        "            return own[0]\n",
        scenario="late-zookeeper-alone",
    ),
    Mutant(
        "ignore-suspended",
        "while ZooKeeper is out of reach no swap starts",
        _HELD,
        "        if state is not SessionState.CONNECTED:\n",
        "        if False:\n",
        scenario="hasty",
    ),
    Mutant(
        "keep-the-lock-of-a-lost-session",
        "a lost session is the end of its locks",
        _HELD,
        "        if self._session.epoch != self._node.epoch:\n",
        "        if False:\n",
        scenario="hasty",
    ),
    Mutant(
        "a-new-session-is-the-old-one",
        "each session is an epoch of its own",
        _SESSION,
        "                self._epoch += 1\n            sweep",
        "                pass\n            sweep",
        scenario="hasty",
    ),
    Mutant(
        "the-second-has-the-lock-too",
        "the first node of a folder has the lock",
        _ATTEMPT,
        "        if position == 0:\n",
        "        if position <= 1:\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "the-newest-node-is-the-first",
        "nodes are in the order of their numbers",
        _ATTEMPT,
        "row = in_order(self._session.children(self._folder))",
        "row = in_order(self._session.children(self._folder))[::-1]",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "leave-the-node",
        "whoever gives up takes its node away",
        _ATTEMPT,
        "        if self._tried:\n            self._session.discard(self._folder, self._prefix)\n",
        "        if False:\n            self._session.discard(self._folder, self._prefix)\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "leave-the-second-node",
        "a node whose creation was not answered is taken away as well",
        _HELD,
        "        if node.strays is not None:\n",
        "        if False:\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "forget-what-could-not-be-deleted",
        "a node that could not be deleted is deleted later",
        _HELD,
        "            self._session.discard(node.folder, node.name)\n",
        "            pass\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "sweep-never",
        "what could not be deleted is deleted when there is a connection again",
        _SESSION,
        "            sweep = self._state is SessionState.CONNECTED and bool(self._forgotten)\n",
        "            sweep = False\n",
        scenario="zookeeper-alone",
    ),
    Mutant(
        "leave-out-the-metastore",
        "a marked table takes the metastore's lock too, where it can be had",
        _TABLE_LOCKS,
        "            if with_hms:\n",
        "            if False:\n",
        scenario="marked-beside-locks",
    ),
    Mutant(
        "mark-under-one-lock",
        "a mark is changed under the locks of both modes",
        _TABLE_LOCKS,
        "            if mode is LockMode.HMS or self._hms_can_be_had():\n",
        "            if mode is LockMode.HMS:\n",
        scenario="marking",
    ),
    Mutant(
        "take-the-mark-for-granted",
        "the mark is read again under the lock",
        _TABLE_LOCKS,
        "                if found is mode:\n                    held.row",
        "                if found:\n                    held.row",
        scenario="marking",
    ),
    Mutant(
        "mark-over-old-locks",
        "a table goes to ZooKeeper alone when the metastore's locks are over",
        _TABLE_LOCKS,
        "            elif not self._is_marked(name, row):\n",
        "            elif False:\n",
        scenario="marking-alone",
    ),
    Mutant(
        "zookeeper-without-a-mark",
        "without a mark nothing is swapped under ZooKeeper alone",
        _TABLE_LOCKS,
        "            case LockMode.FREE if self._zookeeper",
        "            case LockMode.FREE | LockMode.HMS if self._zookeeper",
        scenario="marking",
    ),
    Mutant(
        "no-lock-and-no-fence",
        "without a lock a swap goes to an atomic server only",
        _HELD_LOCKS,
        "    require_cas = True\n",
        "    require_cas = False\n",
        scenario="no-lock-refused",
    ),
    Mutant(
        "two-looks-are-enough",
        "one answer that a metastore kept for long must not outweigh the heartbeats that wait behind it",
        _STALE,
        "LOOKS = 3\n",
        "LOOKS = 2\n",
        scenario="stalls",
    ),
    Mutant(
        "an-ended-process-needs-no-missed-beats",
        "a clone of a machine has its boot id: a process that lives there renews its lock",
        _STALE,
        "        if looked and silent >= MISSED_BEATS * heartbeat_seconds(lease) and self._is_over(holder):\n",
        "        if self._is_over(holder):\n",
        scenario="stalls",
    ),
    Mutant(
        "announce-a-lease-and-live-by-the-servers",
        "a holder acknowledges nothing beyond the lease that it announces",
        _LOCK,
        "                lease_seconds=min(announced or math.inf, self._told_lease()),\n",
        "                lease_seconds=self._told_lease(),\n",
        scenario="frozen",
    ),
    Mutant(
        "a-holder-goes-by-its-slowest-clock",
        "a lease passes while the machine is suspended",
        _COVERAGE,
        "            seconds = self._runtime.read_clocks().max_seconds_since(self._renewed)\n",
        "            seconds = self._runtime.read_clocks().min_seconds_since(self._renewed)\n",
        scenario="frozen",
    ),
)
