"""Planted defects of groups: which commits they have, retry priority, backoff, and what stock clients send."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_QUEUE = "coordinator/scheduling/commit_queue.py"
_COMMIT_GROUP = "coordinator/group/commit_group.py"
_REPLACED_LISTS = "coordinator/files/replaced_lists.py"
_BACKOFF = "coordinator/scheduling/foreign_writer_backoff.py"
_TIME_BUDGET = "coordinator/scheduling/time_budget.py"
_STAGING = "coordinator/staging/staging.py"
_RETRY_PRIORITY = "coordinator/scheduling/retry_priority.py"
_APPEND = "changes/operations/files/append.py"
_SEQUENCE_NUMBERS = "changes/sequence_numbers.py"
_BLIND_APPEND = "changes/clients/blind_append.py"
_REBASE_POLICIES = "catalog/rebase_policies.py"
_REBASE = "changes/clients/rebase.py"
_MANIFEST_DELTA = "changes/manifest_delta.py"

GROUPS: tuple[Mutant, ...] = (
    Mutant(
        "leave-unsent-files",
        "the files of an attempt that no swap carried are deleted",
        "coordinator/files/group_files.py",
        "        self._garbage.extend(attempt.written)\n",
        "        pass\n",
        scenario="contested",
    ),
    Mutant(
        "trust-a-reused-snapshot-id",
        "a snapshot that is recommitted under its id is not the one that a reader saw before",
        _SEQUENCE_NUMBERS,
        " or number > parent.sequence_number:\n",
        " or number:\n",
        scenario="hedged-overwritten",
    ),
    Mutant(
        "stage-half-a-change",
        "a change that fails half-way leaves nothing of its first half behind",
        _STAGING,
        "            self.refused.append((commit, error))\n",
        "            self.refused.append((commit, error))\n"
        "            sent = getattr(commit.change, 'updates', ())\n"
        "            self.metadata = apply(self.metadata, sent[:1], now_ms=self._now_ms())\n",
        scenario="groups",
    ),
    Mutant(
        "keep-the-list-of-a-failed-change",
        "a change that fails to stage leaves no manifest list behind",
        _STAGING,
        "        manifests.discard(manifests.lists)\n",
        "        pass\n",
        scenario="branches",
    ),
    Mutant(
        "drop-changes-beyond-the-group",
        "a change that does not fit into a group is in the next one",
        _QUEUE,
        "self._waiting[self._settings.group_max_changes :]",
        "[]",
        scenario="groups",
    ),
    Mutant(
        "queue-a-refused-change",
        "a change that a full queue refuses is not queued",
        _QUEUE,
        "            if reached := self._limit_reached(size):\n",
        "            if reached := self._limit_reached(size):\n                self._waiting.append((commit, size))\n",
        scenario="priority-given-up",
    ),
    Mutant(
        "serve-the-last-first",
        "changes are taken in the order in which they came",
        _QUEUE,
        "self._waiting.append((commit, size))",
        "self._waiting.insert(0, (commit, size))",
        scenario="groups",
    ),
    Mutant(
        "serve-retries-last",
        "a commit that lost a conflict goes first when it comes back",
        _QUEUE,
        "-priority.times_refused(",
        "priority.times_refused(",
        scenario="retry-priority",
    ),
    Mutant(
        "give-no-retry-priority",
        "a commit that lost a conflict gets retry priority",
        _RETRY_PRIORITY,
        "if not ids or not self._max_wait:",
        "if True:",
        scenario="retry-priority",
    ),
    Mutant(
        "answer-all-losers-at-once",
        "of several commits that lost a conflict, one is answered at a time",
        _RETRY_PRIORITY,
        "elif id_ not in self._held and ",
        "elif False and ",
        scenario="priority-appenders",
    ),
    Mutant(
        "hold-retry-priority-for-ever",
        "retry priority ends, whether or not the client comes back",
        _RETRY_PRIORITY,
        " and now >= self._refused[self._awaited].since + self._max_wait:",
        " and False:",
        scenario="priority-given-up",
    ),
    Mutant(
        "give-retry-priority-to-anyone",
        "only a commit that lost a conflict gets retry priority",
        _RETRY_PRIORITY,
        "if not lost_its_place(commit):",
        "if False:",
        scenario="retry-priority",
    ),
    Mutant(
        "ignore-the-time-budget",
        "retry priority takes at most its time budget",
        _TIME_BUDGET,
        "        self._not_before = ended + (ended - begun) * (1 / self._share - 1)\n",
        "        pass\n",
        scenario="priority-given-up",
    ),
    Mutant(
        "back-off-for-nobody",
        "commits pause only while a foreign writer waits for the lock",
        _BACKOFF,
        "if not (lost or self._ports.foreign_writer_waits(self._name)):",
        "if False:",
        scenario="groups",
    ),
    Mutant(
        "skip-the-backoff-after-a-wasted-lock",
        "commits pause after a foreign writer held the lock and did not swap",
        _BACKOFF,
        "lost = behind_foreign_writer and not moved\n",
        "lost = False\n",
        scenario="backoff",
    ),
    Mutant(
        "back-off-for-ever",
        "the backoff for foreign writers ends, whether or not the table changes",
        _BACKOFF,
        "runtime.now() - begun < self._max_wait and ",
        "",
        scenario="backoff",
    ),
    Mutant(
        "delete-a-replaced-list-at-once",
        "a replaced list of a client is kept for its time",
        _REPLACED_LISTS,
        "self._ports.runtime.now() + self._age\n",
        "self._ports.runtime.now()\n",
        scenario="replaced-lists",
    ),
    Mutant(
        "keep-replaced-lists-for-ever",
        "a replaced list of a client is deleted when its time is over",
        _REPLACED_LISTS,
        "        if old:\n",
        "        if False:\n",
        scenario="replaced-lists",
    ),
    Mutant(
        "delete-a-replaced-list-with-the-garbage",
        "a replaced list stays its client's while that client may send it again",
        _COMMIT_GROUP,
        "        self.landed.append(attempt)\n",
        "        self._files.never_sent(replace(attempt, written=attempt.replaced_lists))\n"
        "        self.landed.append(replace(attempt, replaced_lists=()))\n",
        scenario="groups",
    ),
    Mutant(
        "keep-stale-sequence-numbers",
        "a snapshot whose sequence number is stale gets the next one",
        _SEQUENCE_NUMBERS,
        "        return is_late or ",
        "        return False and is_late or ",
        scenario="branches-network",
    ),
    Mutant(
        "keep-the-stale-number-in-the-list",
        "the manifest list of a renumbered snapshot has its new sequence number",
        _MANIFEST_DELTA,
        "        sequence_number=UNASSIGNED,\n",
        "",
        scenario="branches",
    ),
    Mutant(
        "keep-the-first-row-id",
        "a renumbered or rebased snapshot gets the table's next row ids",
        _SEQUENCE_NUMBERS,
        '        raw["first-row-id"] = base.next_row_id\n',
        "        pass\n",
        scenario="branches",
    ),
    Mutant(
        "rebase-a-replace-over-a-delete",
        "a rewrite is rebased only if nothing was deleted in between",
        _REBASE,
        '        return "files were deleted since the snapshot that it was made on"\n',
        "        return None\n",
        scenario="rewrites",
    ),
    Mutant(
        "rebase-a-delete",
        "a delete is not rebased",
        _REBASE,
        "if snapshot.operation not in (summary.APPEND, summary.REPLACE):",
        "if False:",
        scenario="rewrites",
    ),
    Mutant(
        "rebase-on-replaced-manifests",
        "the manifests that a rebased snapshot replaces are still in the head",
        _REBASE,
        "    if reason is None and not delta.replaced <= {each.manifest_path for each in after}:\n",
        "    if False:\n",
        scenario="rebase-all",
    ),
    Mutant(
        "keep-merged-manifests",
        "manifests that a client merged are left out of the new list",
        _MANIFEST_DELTA,
        "for manifest in head if manifest.manifest_path not in left_out",
        "for manifest in head",
        scenario="rebase-all",
    ),
    Mutant(
        "take-every-append-for-blind",
        "an append with an unknown summary property is not rebased",
        _BLIND_APPEND,
        "    if unknown:\n",
        "    if False:\n",
        scenario="branches",
    ),
    Mutant(
        "check-duplicates-once",
        "duplicate files are checked on every base, under the lock too",
        _APPEND,
        "        self._duplicates.refuse(self._new.branch, state.manifests, manifests)\n",
        "        if not self.__dict__.setdefault('checked', False):\n"
        "            self._duplicates.refuse(self._new.branch, state.manifests, manifests)\n"
        "        self.checked = True\n",
        scenario="same-files",
    ),
    Mutant(
        "trust-an-unlanded-duplicate",
        "a file is refused as a duplicate of another in its group only if that one has landed",
        "coordinator/group/group_outcomes.py",
        "            for commit, outcome in replace_dependent_refusals(self.known, self._commits):\n"
        "                self._answer_one(",
        "            for commit, outcome in self.known:\n                self._answer_one(",
        scenario="same-files",
    ),
    Mutant(
        "ignore-the-table-s-rebase-setting",
        "nothing is rebased where the table's property forbids it",
        _REBASE,
        "    if policy.mode == blind_append.NONE:\n",
        "    if False:\n",
        scenario="rebase-none",
    ),
    Mutant(
        "rebase-when-the-namespace-is-unreadable",
        "a namespace that cannot be read may forbid rebasing",
        _REBASE_POLICIES,
        "        except IcebergHmsError as error:\n",
        "        except IcebergHmsError as error:\n            return self._server\n",
        scenario="rebase-namespace",
    ),
    Mutant(
        "leave-a-kept-lock",
        "a lock that was kept for a client is released when the client does not come back",
        "coordinator/scheduling/kept_lock.py",
        "            lock.release()\n            self._publish()\n",
        "            self._publish()\n",
        scenario="outside-crash",
    ),
    Mutant(
        "keep-the-lock-from-the-group",
        "the group of the client that is back has the lock that was kept for it",
        "coordinator/coordinator.py",
        "group.commit(state.kept_lock.take())",
        "group.commit()",
        scenario="outside",
    ),
    Mutant(
        "trust-a-listener",
        "a listener's exception loses no group that was taken from the queue",
        _QUEUE,
        '            with log_and_continue(f"telling listeners of {self._name}", REPORT):\n                seconds',
        "            if True:\n                seconds",
        scenario="defects",
    ),
)
