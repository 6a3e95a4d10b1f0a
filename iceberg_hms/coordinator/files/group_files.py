"""The files that a group wrote: which of them no table can ever name, and may be deleted.

A file is deleted only if no swap was sent that would have made the table name it. What a refused swap carried stays for
a sweep for orphans, which waits until it is old: one look proves its absence, and a metastore that answers that look
from a cache, or from a copy of its database, would make us delete a living table's files.

A change that is staged again on a newer state may need other manifests than before: one that it wrote without a removed
file is of no use once another writer has rewritten the original. Such manifests are deleted when the change has landed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from iceberg_hms.coordinator.files.cleanup import delete_files
from iceberg_hms.coordinator.outcome.outcome import Committed, Failed, Outcome
from iceberg_hms.coordinator.outcome.sent_swaps import SentSwap
from iceberg_hms.coordinator.ports import CommitPorts, Manifests, TableName
from iceberg_hms.coordinator.staging.attempt import CommitAttempt
from iceberg_hms.coordinator.staging.pending_commit import PendingCommit
from iceberg_hms.errors import IcebergHmsError

logger = logging.getLogger(__name__)


class GroupFiles:
    """Collects garbage while a group is committed, and deletes it when the group ends. commits: those of the group."""

    def __init__(self, commits: Sequence[PendingCommit] = ()) -> None:
        self._garbage: list[str] = []
        #: The manifests that each commit wrote. Staged again, it may need others.
        self._manifests: dict[PendingCommit, dict[str, None]] = {
            commit: dict.fromkeys(commit.prepared) for commit in commits if commit.prepared
        }
        #: What each commit wrote; in order, so that a simulated run can be replayed.
        self._own: dict[PendingCommit, dict[str, None]] = {
            commit: dict.fromkeys(commit.prepared) for commit in commits if commit.prepared
        }

    def staged(self, files: Mapping[PendingCommit, Iterable[str]]) -> None:
        """Commits were staged, and wrote these."""
        for commit, locations in files.items():
            self._own.setdefault(commit, {}).update(dict.fromkeys(locations))

    def wrote(self, manifests: Mapping[PendingCommit, Iterable[str]]) -> None:
        """Commits wrote these manifests while they were staged, whether or not the result names them."""
        for commit, locations in manifests.items():
            self._manifests.setdefault(commit, {}).update(dict.fromkeys(locations))
        self.staged(manifests)

    def not_written(self, location: str) -> None:
        """Writing a metadata file failed; part of it may be there."""
        self._garbage.append(location)

    def never_sent(self, attempt: CommitAttempt) -> None:
        """No swap carried an attempt: its own files are garbage. Those of its commits are staged again."""
        self._garbage.extend(attempt.written)

    def withdrawn(self, commit: PendingCommit) -> None:
        """A caller has left, and no swap carries what its commit wrote."""
        self._garbage.extend(self._own.pop(commit, ()))
        self._manifests.pop(commit, None)

    def delete_garbage(
        self,
        ports: CommitPorts,
        name: TableName,
        open_manifests: Callable[[], Manifests],
        outcomes: Sequence[tuple[PendingCommit, Outcome]],
        swaps: Sequence[SentSwap],
        landed: Sequence[CommitAttempt],
    ) -> None:
        """Delete what no table can name. outcomes: of all commits that were not withdrawn. swaps: all of the group,
        whatever became of them. landed: the attempts whose swaps were made."""
        sent = frozenset[str]().union(*(swap.files for swap in swaps if swap.was_sent))
        garbage = [*self._garbage]
        for attempt in landed:
            garbage += self._superseded(attempt, sent, open_manifests)
        for commit, outcome in outcomes:
            if isinstance(outcome, Failed) or _landed_as_another(commit, outcome):
                garbage += self._own.get(commit, ())
        delete_files(ports, name, [each for each in garbage if each not in sent])

    def _superseded(
        self, attempt: CommitAttempt, sent: frozenset[str], open_manifests: Callable[[], Manifests]
    ) -> list[str]:
        """The manifests that the commits of a landed attempt wrote for a state of the table that it no longer had. A
        commit that landed before, by a swap of another group, may have named any of them."""
        unsent = [each for commit in attempt.commits for each in self._manifests.get(commit, ()) if each not in sent]
        if not unsent:
            return []
        try:
            # What the change says that it names is one proof, what its snapshots list another.
            manifests = open_manifests()
            snapshots = [attempt.metadata.snapshot_by_id(id_) for id_ in attempt.carried_ids]
            named = {file.manifest_path for each in snapshots if each is not None for file in manifests.list(each)}
        except IcebergHmsError as error:
            logger.warning("%s stay for a sweep for orphans: %s", ", ".join(unsent), error)
            return []
        return [each for each in unsent if each not in named]


def _landed_as_another(commit: PendingCommit, outcome: Outcome) -> bool:
    """Whether a job's change is in the table as the snapshot of another run: then its own was never in it."""
    if not isinstance(outcome, Committed) or not outcome.report.already_committed:
        return False
    return outcome.report.snapshot_ids != commit.change.identity.snapshot_ids
