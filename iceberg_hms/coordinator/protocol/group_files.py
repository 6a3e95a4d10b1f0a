"""The files that a group wrote: which of them no table can ever name, and may be deleted.

A file is deleted only if no swap was sent that would have made the table name it. What a refused swap carried stays for
a sweep for orphans, which waits until it is old: one look proves its absence, and a metastore that answers that look
from a cache, or from a copy of its database, would make us delete a living table's files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.coordinator.protocol.attempt import CommitAttempt
from iceberg_hms.coordinator.protocol.cleanup import delete_files
from iceberg_hms.coordinator.protocol.outcome import Committed, Failed, Outcome
from iceberg_hms.coordinator.protocol.pending_commit import PendingCommit

logger = logging.getLogger(__name__)


class GroupFiles:
    """Collects garbage while a group is committed, and deletes it when the group ends. commits: those of the group."""

    def __init__(self, commits: Sequence[PendingCommit] = ()) -> None:
        self._garbage: list[str] = []
        #: What swaps carried that were refused.
        self._carried: set[str] = set()
        #: What each commit wrote; in order, so that a simulated run can be replayed.
        self._own: dict[PendingCommit, dict[str, None]] = {
            commit: dict.fromkeys(commit.prepared) for commit in commits if commit.prepared
        }

    def staged(self, files: Mapping[PendingCommit, Iterable[str]]) -> None:
        """Commits were staged, and wrote these."""
        for commit, locations in files.items():
            self._own.setdefault(commit, {}).update(dict.fromkeys(locations))

    def not_written(self, location: str) -> None:
        """Writing a metadata file failed; part of it may be there."""
        self._garbage.append(location)

    def never_sent(self, attempt: CommitAttempt) -> None:
        """No swap carried an attempt: its own files are garbage. Those of its commits are staged again."""
        self._garbage.extend(attempt.written)

    def refused(self, attempt: CommitAttempt) -> None:
        """The swap of an attempt was refused: what it would have named stays."""
        self._carried.update(attempt.written, attempt.staged_files)
        logger.info("%s was refused: it stays for a sweep for orphans", attempt.location)

    def withdrawn(self, commit: PendingCommit) -> None:
        """A caller has left, and no swap carries what its commit wrote."""
        self._garbage.extend(self._own.pop(commit, ()))

    def delete_garbage(self, files: Files, outcomes: Sequence[tuple[PendingCommit, Outcome]]) -> None:
        """Delete what no table can name. outcomes: of all commits that were not withdrawn."""
        for commit, outcome in outcomes:
            if isinstance(outcome, Failed) or _landed_as_another(commit, outcome):
                self._garbage.extend(self._own.get(commit, ()))
        delete_files(files, [each for each in self._garbage if each not in self._carried])


def _landed_as_another(commit: PendingCommit, outcome: Outcome) -> bool:
    """Whether a job's change is in the table as the snapshot of another run: then its own was never in it."""
    if not isinstance(outcome, Committed) or not outcome.report.already_committed:
        return False
    return outcome.report.snapshot_ids != commit.change.identity.snapshot_ids
