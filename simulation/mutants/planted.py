"""All planted defects, those of the commit group first: a text of a module, and what a mutant has in its place."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant as Mutant
from simulation.mutants.planted_catalog_operations import CATALOG_OPERATIONS
from simulation.mutants.planted_drivers import DRIVERS
from simulation.mutants.planted_groups import GROUPS
from simulation.mutants.planted_kinds import KINDS
from simulation.mutants.planted_locks import LOCKS
from simulation.mutants.planted_operations import OPERATIONS
from simulation.mutants.planted_rebase import REBASE
from simulation.mutants.planted_views import VIEWS

_COMMIT_GROUP = "coordinator/group/commit_group.py"
_STATUS_CHECK = "coordinator/sending/status_check.py"
_COMMIT_STATUS = "coordinator/outcome/commit_status.py"
_PENDING_COMMIT = "coordinator/staging/pending_commit.py"
_STAGING = "coordinator/staging/staging.py"
_SENT_SWAPS = "coordinator/outcome/sent_swaps.py"
_QUEUE = "coordinator/scheduling/commit_queue.py"
_ALREADY_COMMITTED = "coordinator/outcome/already_committed.py"
_ATTEMPT = "coordinator/staging/attempt.py"
_GROUP_OUTCOMES = "coordinator/group/group_outcomes.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "expect-the-current-location",
        "a swap expects the base that it was built on",
        _STATUS_CHECK,
        "        return self._ports.pointer.swap(\n            base.pointer,\n",
        "        return self._ports.pointer.swap(\n            self._ports.pointer.load(self.name),\n",
    ),
    Mutant(
        "skip-the-reload-under-the-lock",
        "the pointer is loaded again under the lock",
        _COMMIT_GROUP,
        "            base = self._load(None if round_ else lock.row)\n",
        "            base = self._attempt.base if self._attempt else self._load()\n",
    ),
    Mutant(
        "swap-without-the-lock",
        "the lock is held until the outcome of the swap is known",
        _COMMIT_GROUP,
        "            elif self._swap(attempt.on(base.pointer), swap, lock):\n",
        "            elif lock.release() or self._swap(attempt.on(base.pointer), swap, lock):\n",
    ),
    Mutant(
        "keep-the-lock",
        "the lock's holder releases it",
        _COMMIT_GROUP,
        "            finally:\n                lock.release()\n",
        "            finally:\n                pass\n",
    ),
    Mutant(
        "skip-the-metadata-file",
        "the metadata file is written before the pointer names it",
        _ATTEMPT,
        "lambda: ports.files.write(location, data)",
        "lambda: None",
    ),
    Mutant(
        "skip-the-flush",
        "the manifest lists are written before the pointer names them",
        _ATTEMPT,
        "[manifests.flush,",
        "[tuple,",
    ),
    Mutant(
        "reuse-a-metadata-location",
        "a new metadata file has a name that was never used before",
        _ATTEMPT,
        "base.pointer.metadata_location, unique),\n        tuple(",
        "base.pointer.metadata_location, 'same'),\n        tuple(",
    ),
    Mutant(
        "log-the-wrong-predecessor",
        "the metadata log names the file that was replaced",
        _ATTEMPT,
        "with_metadata_log_entry(base.pointer.metadata_location, base.metadata.last_updated_ms)\n",
        "with_metadata_log_entry(\n"
        "        base.pointer.previous_metadata_location or '', base.metadata.last_updated_ms\n    )\n",
    ),
    Mutant(
        "delete-on-unknown",
        "files are deleted only on proof that the commit failed",
        _COMMIT_GROUP,
        "        if sent.status is CommitStatus.UNKNOWN:\n",
        "        if sent.status is CommitStatus.UNKNOWN:\n            self._files.never_sent(attempt)\n"
        "            self._swaps.clear()\n",
    ),
    Mutant(
        "answer-failed-for-unknown",
        "a change that may be in the table is not answered as failed",
        _GROUP_OUTCOMES,
        "        self.known.extend((commit, Unknown(error)) for commit in commits)\n",
        "        from iceberg_hms.coordinator.outcome.outcome import Failed\n"
        "        from iceberg_hms.errors import CommitConflict\n\n"
        "        self.known.extend((commit, Failed(CommitConflict(error.message))) for commit in commits)\n",
    ),
    Mutant(
        "delete-the-whole-log",
        "only metadata files that fell out of the log are deleted",
        "coordinator/files/own_files.py",
        "        old = (each for each in expired if each not in named)\n",
        "        old = named - {last.location}\n",
    ),
    Mutant(
        "answer-before-the-outcome",
        "a change is acknowledged when it is in the table, not when its swap was sent",
        _COMMIT_GROUP,
        "    if sent.status is CommitStatus.SUCCESS:\n",
        "    if sent.status is not CommitStatus.FAILURE:\n",
    ),
    Mutant(
        "trust-a-refusal",
        "a refused swap is checked in the table: a metastore can refuse its own committed change",
        _STATUS_CHECK,
        "                found = self._look(could_still_land=False)\n",
        "                found = CommitStatus.FAILURE\n",
    ),
    Mutant(
        "skip-the-lease-check-after-the-swap",
        "only a swap that the lock covered is acknowledged",
        _STATUS_CHECK,
        "            renew_if_half_expired(self._lock)\n",
        "            pass\n",
    ),
    Mutant(
        "acknowledge-a-found-swap-unchecked",
        "a swap that a status check finds counts only if the lock covered it",
        _STATUS_CHECK,
        "return self._count() if found is CommitStatus.SUCCESS else found",
        "return self._count() if isinstance(answer, Swapped) else found",
        scenario="pauses",
    ),
    Mutant(
        "trust-a-read-without-the-lock",
        "a change counts as already committed only on a base that was read under the lock",
        _COMMIT_GROUP,
        ", locked=False, fresh=fresh",
        "",
        scenario="resent",
    ),
    Mutant(
        "take-an-unanswered-swap-for-absent",
        "an unanswered swap may still arrive, so its absence is no proof",
        _STATUS_CHECK,
        "        if found is CommitStatus.FAILURE and could_still_land and not (atomic and has_moved):\n",
        "        if False:\n",
    ),
    Mutant(
        "take-absence-after-an-outage-for-proof",
        "a swap that the metastore went away with may still be made while the row is where it was",
        _STATUS_CHECK,
        "            found = self._look(could_still_land=not is_over, atomic=atomic)\n",
        "            found = self._look(could_still_land=False)\n",
    ),
    Mutant(
        "take-an-unmoved-pointer-for-absence",
        "an unanswered compare-and-swap is proved absent only once the pointer has left its base",
        _STATUS_CHECK,
        "not (atomic and has_moved):\n",
        "not atomic:\n",
    ),
    Mutant(
        "resend-on-a-newer-base",
        "a swap that is sent again expects the same base",
        _STATUS_CHECK,
        "            base.pointer,\n            attempt.location,\n            attempt.metadata,\n"
        "            base.metadata,\n            sending,\n",
        "            self._ports.pointer.load(self.name)\n"
        "            if sending.overdue.__name__ == 'tell_nobody'\n            else base.pointer,\n"
        "            attempt.location,\n            attempt.metadata,\n"
        "            base.metadata,\n            sending,\n",
    ),
    Mutant(
        "skip-the-metadata-log",
        "a swap may have landed and been followed by others: the metadata log is searched",
        _COMMIT_STATUS,
        "    location = current_location\n",
        "    return CommitStatus.FAILURE\n    location = current_location\n",
    ),
    Mutant(
        "take-a-gap-for-absence",
        "a metadata log with a missing file proves nothing",
        _COMMIT_STATUS,
        "        except IcebergHmsError:\n            return CommitStatus.UNKNOWN\n",
        "        except IcebergHmsError:\n            return CommitStatus.FAILURE\n",
        scenario="short-log",
    ),
    Mutant(
        "read-one-metadata-log-only",
        "a metadata log holds the last entries only: its oldest file is followed",
        _COMMIT_STATUS,
        "        location = oldest\n",
        "        return CommitStatus.FAILURE\n",
        scenario="short-log",
    ),
    Mutant(
        "let-one-snapshot-prove-the-group",
        "a change that an earlier swap brought into the table proves nothing of the rest of its group",
        _COMMIT_STATUS,
        "    if found is CommitStatus.UNKNOWN and snapshot_ids:\n"
        "        known = _snapshots(cache, current_location)\n"
        "        if all(",
        "    if found is not CommitStatus.SUCCESS and snapshot_ids:\n"
        "        known = _snapshots(cache, current_location)\n"
        "        if any(",
        scenario="hedged-short-log",
    ),
    Mutant(
        "withdraw-a-sent-change",
        "a caller can withdraw its change only while no swap carries it",
        _PENDING_COMMIT,
        "not (is_settled or self.sent)\n",
        "not is_settled\n",
    ),
    Mutant(
        "send-a-withdrawn-change",
        "a withdrawn change is not sent",
        _PENDING_COMMIT,
        "            if not self.withdrawn:\n                self._swap = swap\n"
        "            return not self.withdrawn\n",
        "            self._swap = swap\n            return True\n",
    ),
    Mutant(
        "trust-a-read-under-a-lost-lock",
        "what is in the table counts as committed only if the lock covered the read",
        _COMMIT_GROUP,
        "            renew_if_half_expired(lock)\n            if not round_:\n",
        "            if not round_:\n",
        scenario="hedged-overslept",
    ),
    Mutant(
        "forget-a-swap-under-way",
        "a change is refused only if no swap that carries it may still be made",
        _SENT_SWAPS,
        "            for swap in self._open_with(identity):\n                if row",
        "            for swap in self._open_with(identity)[:0]:\n                if row",
        scenario="hedged",
    ),
    Mutant(
        "refuse-in-a-young-process",
        "a process that has just begun knows nothing of the swaps that an earlier one sent",
        _SENT_SWAPS,
        "            if self.would_know(identity):\n                return None\n",
        "            if not self._events < 0:\n                return None\n",
        scenario="restarted",
    ),
    Mutant(
        "wake-successful-callers-only",
        "every caller gets an answer",
        _PENDING_COMMIT,
        "        for listener in listeners:\n",
        "        for listener in listeners if isinstance(self.outcome, Committed) else ():\n",
    ),
    Mutant(
        "skip-the-requirements",
        "requirements are checked on the base that the change lands on",
        _STAGING,
        "    change.check(savepoint)\n",
        "",
    ),
    Mutant(
        "carry-a-broken-change",
        "a change that fails to stage leaves nothing behind",
        _STAGING,
        "            self.refused.append((commit, error))\n",
        "            self.carried.append(commit)\n",
    ),
    Mutant(
        "forget-the-idempotency-key",
        "a job that runs again under its idempotency key adds nothing",
        _ALREADY_COMMITTED,
        "    if identity.idempotency_key is None or (identity.ref is not None and head is None):\n",
        "    if True:\n",
    ),
    Mutant(
        "forget-the-snapshot-id",
        "a change that is sent again while it is in the table is answered as committed",
        _ALREADY_COMMITTED,
        "    if present:\n",
        "    if False:\n",
    ),
    Mutant(
        "keep-an-ended-queue",
        "a queue and its worker end at the same instant",
        _QUEUE,
        "            self._end()\n",
        "            pass\n",
    ),
    *CATALOG_OPERATIONS,
    *LOCKS,
    *OPERATIONS,
    *REBASE,
    *GROUPS,
    *DRIVERS,
    *VIEWS,
    *KINDS,
)
