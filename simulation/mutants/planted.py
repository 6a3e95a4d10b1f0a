"""The planted defects, as texts: what stands in a module, and what stands there in the mutant."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant as Mutant
from simulation.mutants.planted_drivers import DRIVERS
from simulation.mutants.planted_groups import GROUPS
from simulation.mutants.planted_locks import LOCKS
from simulation.mutants.planted_moves import MOVES
from simulation.mutants.planted_rebase import REBASE

_GROUP = "coordinator/protocol/commit_group.py"
_RESOLUTION = "coordinator/protocol/swap_outcome.py"
_OUTCOME = "coordinator/protocol/commit_status.py"
_MEMBER = "coordinator/protocol/pending_commit.py"
_STAGING = "coordinator/protocol/staging.py"
_COORDINATOR = "coordinator/coordinator.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "expect-whatever-is-there",
        "a swap expects the base that it was built on",
        _GROUP,
        "                    base.pointer,\n                    attempt.location,\n",
        "                    self._world.pointer.load(self._name),\n                    attempt.location,\n",
    ),
    Mutant(
        "forget-the-re-read",
        "the pointer is loaded again under the lock",
        _GROUP,
        "            base = self._load(None if round_ else lock.row)\n",
        "            base = self._unsent.base if self._unsent else self._load()\n",
    ),
    Mutant(
        "swap-without-the-lock",
        "the lock is held until the outcome is known",
        _GROUP,
        "            elif self._swap(attempt, base, lock):\n",
        "            elif lock.release() or self._swap(attempt, base, lock):\n",
    ),
    Mutant(
        "keep-the-lock",
        "whoever has the lock gives it back",
        _GROUP,
        "            finally:\n                lock.release()\n",
        "            finally:\n                pass\n",
    ),
    Mutant(
        "point-before-writing",
        "the metadata file is there before the pointer names it",
        _GROUP,
        "lambda: self._world.files.write(location, data)",
        "lambda: None",
    ),
    Mutant(
        "skip-the-flush",
        "the manifest lists are there before the pointer names them",
        _GROUP,
        "draft.manifests.flush,",
        "tuple,",
    ),
    Mutant(
        "reuse-a-pointer-name",
        "a metadata file has a name that was never used before",
        _GROUP,
        "base.pointer.metadata_location, self._world.runtime.uuid())",
        "base.pointer.metadata_location, 'same')",
    ),
    Mutant(
        "forget-the-predecessor",
        "the metadata log names the file that was replaced",
        _GROUP,
        "            base.pointer.metadata_location, base.metadata.last_updated_ms\n",
        "            base.pointer.previous_metadata_location or '', base.metadata.last_updated_ms\n",
    ),
    Mutant(
        "delete-on-unknown",
        "files are deleted on proof only",
        _GROUP,
        "        if found is CommitStatus.UNKNOWN:\n",
        "        if found is CommitStatus.UNKNOWN:\n            self._abandon(attempt)\n",
    ),
    Mutant(
        "unknown-is-failed",
        "a change that may be in the table is not answered as failed",
        _GROUP,
        "attempt.members:\n                self._outcomes.append((member, Unknown(unknown)))",
        "attempt.members:\n                self._outcomes.append((member, Failed(unknown)))",
    ),
    Mutant(
        "delete-what-a-replay-names",
        "a change's own manifests live until it is proved to have failed",
        _GROUP,
        "            self._garbage.extend(attempt.written)\n",
        "            self._garbage.extend(attempt.written)\n"
        "            for files in self._own_files.values():\n"
        "                self._garbage.extend(files)\n",
    ),
    Mutant(
        "delete-the-whole-log",
        "only metadata files that fell out of the log are deleted",
        "coordinator/protocol/cleanup.py",
        'for entry in base.metadata_log if entry["metadata-file"] not in kept]',
        "for entry in new.metadata_log]",
    ),
    Mutant(
        "answer-before-the-outcome",
        "a change is acknowledged when it is in the table, not when its swap was sent",
        _GROUP,
        "        if found is CommitStatus.SUCCESS:\n",
        "        if found is not CommitStatus.FAILURE:\n",
    ),
    Mutant(
        "trust-a-refusal",
        "a refusal is looked up: a metastore can refuse its own committed change",
        _RESOLUTION,
        "                case Refused(in_doubt=False):\n",
        "                case Refused(in_doubt=False):\n                    return CommitStatus.FAILURE\n"
        "                case Refused(in_doubt=False):\n",
    ),
    Mutant(
        "skip-the-check-after-the-swap",
        "only what the lock covered is acknowledged",
        _RESOLUTION,
        "            renew_if_half_expired(self._lock)\n",
        "            pass\n",
    ),
    Mutant(
        "count-what-is-only-seen",
        "a swap that is found by looking counts only if the lock covered it",
        _RESOLUTION,
        "self._confirm_coverage() if found is CommitStatus.SUCCESS else found",
        "found",
        scenario="pauses",
    ),
    Mutant(
        "believe-a-look-without-the-lock",
        "a change counts as committed before only on a base that was read under the lock",
        _GROUP,
        ", locked=False, fresh=fresh",
        "",
        scenario="resent",
    ),
    Mutant(
        "silence-is-absence",
        "an unanswered swap may still arrive, so its absence is no proof",
        _RESOLUTION,
        "        if found is CommitStatus.FAILURE and could_still_land and not (atomic and current != base):\n",
        "        if False:\n",
    ),
    Mutant(
        "fence-without-a-move",
        "an unanswered atomic swap is proved absent only once the pointer has left its base",
        _RESOLUTION,
        "not (atomic and current != base):\n",
        "not atomic:\n",
    ),
    Mutant(
        "resend-without-a-fence",
        "what is sent again expects the same base",
        _RESOLUTION,
        "                base.pointer, swap.location, swap.metadata, base.metadata, require_cas=True\n",
        "                self._world.pointer.load(self._name), swap.location, swap.metadata, base.metadata\n",
    ),
    Mutant(
        "look-at-the-pointer-alone",
        "a swap may have landed and been followed by others: the chain is walked",
        _OUTCOME,
        "    location = current_location\n",
        "    return CommitStatus.FAILURE\n    location = current_location\n",
    ),
    Mutant(
        "a-gap-is-absence",
        "a chain with a gap proves nothing",
        _OUTCOME,
        "        except IcebergHmsError:\n            return CommitStatus.UNKNOWN\n",
        "        except IcebergHmsError:\n            return CommitStatus.FAILURE\n",
        scenario="short-log",
    ),
    Mutant(
        "one-log-is-the-chain",
        "the metadata log holds the last entries only: its oldest file is followed",
        _OUTCOME,
        "        location = oldest\n",
        "        return CommitStatus.FAILURE\n",
        scenario="short-log",
    ),
    Mutant(
        "one-snapshot-proves-all",
        "a change that is in the table by an earlier swap proves nothing of those in its group",
        _OUTCOME,
        "    if found is CommitStatus.UNKNOWN and snapshot_ids:\n"
        "        known = _snapshots(cache, current_location)\n"
        "        if all(",
        "    if found is not CommitStatus.SUCCESS and snapshot_ids:\n"
        "        known = _snapshots(cache, current_location)\n"
        "        if any(",
        scenario="again",
    ),
    Mutant(
        "withdraw-what-was-sent",
        "a caller leaves only while no swap carries its change",
        _MEMBER,
        "            if self._state is State.WAITING:\n                self._state = State.WITHDRAWN\n",
        "            if self._state in (State.WAITING, State.SENT):\n                self._state = State.WITHDRAWN\n",
    ),
    Mutant(
        "send-what-was-withdrawn",
        "a withdrawn change is not sent",
        _MEMBER,
        "            if self._state is State.WITHDRAWN:\n                return False\n",
        "            if self._state is State.WITHDRAWN:\n                return True\n",
    ),
    Mutant(
        "settle-in-silence",
        "every caller hears its outcome",
        _MEMBER,
        "        self._done.set()\n",
        "        if isinstance(outcome, Committed):\n            self._done.set()\n",
    ),
    Mutant(
        "skip-the-check-of-assumptions",
        "assumptions are checked on the base that the change lands on",
        _STAGING,
        "    change.check(savepoint)\n",
        "",
    ),
    Mutant(
        "skip-the-savepoint",
        "a change that breaks leaves nothing of itself behind",
        _STAGING,
        "            self.broken.append((member, error))\n",
        "            self.carried.append(member)\n",
    ),
    Mutant(
        "forget-the-idempotency-key",
        "a job that runs again under its key adds nothing",
        _STAGING,
        "    if identity.idempotency_key is None or head is None:\n        return None\n",
        "    return None\n",
    ),
    Mutant(
        "forget-the-snapshot-id",
        "a change that is sent again and is in the table is answered as committed",
        _STAGING,
        "    if present:\n",
        "    if False:\n",
    ),
    Mutant(
        "lose-a-late-comer",
        "a queue and its worker end in the same instant",
        _COORDINATOR,
        "del self._queues[name]\n",
        "pass\n",
    ),
    *MOVES,
    *LOCKS,
    *REBASE,
    *GROUPS,
    *DRIVERS,
)
