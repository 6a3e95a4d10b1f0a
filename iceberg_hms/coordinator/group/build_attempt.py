"""Steps 2 to 4 of a commit: load the table, stage a group's changes on it, and write what would be swapped in."""

from __future__ import annotations

from iceberg_hms.coordinator.group.group_progress import GroupContext, GroupProgress, TableHints, drop_withdrawn
from iceberg_hms.coordinator.outcome.outcome import Committed
from iceberg_hms.coordinator.ports import Pointer
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.coordinator.staging.attempt import attempt_of, next_metadata, write
from iceberg_hms.coordinator.staging.staging import Staging
from iceberg_hms.errors import IcebergHmsError, InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: A group is built on what the last one left, without a look at the pointer, if that is not older.
REMEMBERED_SECONDS = 5.0


def load_remembered(group: GroupContext, hints: TableHints) -> TableVersion | None:
    """The table as the last group left it, if that was just now: good enough to build on, since it is read again under
    the lock."""
    location = hints.last_location
    if location is None or group.ports.runtime.now() - hints.ended > REMEMBERED_SECONDS:
        return None
    try:
        metadata = group.cache.get(location)
    except IcebergHmsError:
        # Others may have moved the table since, and deleted the file.
        return None
    # The last group's swap set the row's location, too.
    return TableVersion(Pointer(group.name, location, None, {}, None, metadata.location), metadata)


def load_table(group: GroupContext, row: Pointer | None = None) -> TableVersion:
    """Steps 2 and 6. row: if the lock's driver has read it already."""
    return group.cache.version(row or group.ports.pointer.load(group.name))


def begin_staging(
    group: GroupContext, progress: GroupProgress, base: TableVersion, *, measured: bool = False
) -> Staging:
    """A staging of the commits that wait, with none of them staged yet. measured: refuse each commit with which the
    metadata would be beyond its bounds, which takes as long for each commit as to write the metadata."""
    group.figures.attempts += 1
    drop_withdrawn(group, progress)
    metadata = base.metadata
    seen = group.sources.sent.highest_number(progress.waiting)
    if metadata.format_version > 1 and metadata.last_sequence_number < seen:
        # Recommitting a snapshot id assigns a higher sequence number than its first commit can have had, so readers of
        # the lost commit are detected (`changes.sequence_numbers`).
        metadata = metadata.replace(last_sequence_number=seen)
    ports = group.ports

    def measure(staged: TableMetadata) -> None:
        group.cache.encode(next_metadata(staged, base), base.metadata)

    return Staging(
        metadata,
        progress.waiting,
        ports.manifests(),
        ports.runtime.now_ms,
        base.pointer,
        group.moves.check,
        measure if measured else None,
    )


def build_attempt(
    group: GroupContext,
    progress: GroupProgress,
    base: TableVersion,
    staging: Staging,
    *,
    locked: bool = True,
    fresh: bool = True,
) -> None:
    """The rest of step 3, and step 4: leaves the attempt in `progress`. Leaves none if there is nothing to swap: each
    commit has its outcome, or has to wait for the lock.

    locked: whether the lock covers what is read. Only then may a change be acknowledged because it is in the table:
    the writer that holds the lock may be about to swap over it. fresh: whether it was read just now. Only then may a
    change be refused for what is in it.
    """
    try:
        _build(group, progress, base, staging, locked=locked, fresh=fresh)
    except InvalidInput:
        # Some of the commits make the metadata too large, perhaps only after others: each is measured as it is staged.
        # What is measured last is what is written then.
        measured = begin_staging(group, progress, base, measured=True)
        _build(group, progress, base, measured, locked=locked, fresh=fresh)


def _build(
    group: GroupContext,
    progress: GroupProgress,
    base: TableVersion,
    staging: Staging,
    *,
    locked: bool,
    fresh: bool,
) -> None:
    staging.finish()
    group.files.staged(staging.files)
    group.files.wrote(staging.manifests_written)
    for commit in staging.withdrawn:
        group.files.withdrawn(commit)
    adds_nothing = staging.metadata is None or staging.metadata is staging.base
    if not locked and (staging.already or (staging.carried and adds_nothing)):
        return
    if staging.refused and not fresh:
        return
    for commit, error in staging.refused:
        group.outcomes.refuse(commit, error, base)
    progress.waiting = [] if adds_nothing else list(staging.carried)
    now = group.ports.runtime.now()
    for commit in [*staging.already, *staging.carried] if adds_nothing else staging.already:
        ids = staging.committed_as.get(commit, commit.change.identity.snapshot_ids)
        group.outcomes.add(commit, Committed(group.figures.report_already_committed(commit, base, ids, now)))
    if staging.metadata is None or not progress.waiting:
        return
    owns_folder = group.moves.may_own(staging.metadata.location)
    attempt = attempt_of(staging, staging.metadata, base, group.ports.runtime.uuid(), owns_folder=owns_folder)
    try:
        progress.attempt = write(group.ports, attempt, staging.manifests, group.cache)
    except Exception:
        group.files.not_written(attempt.location)
        raise
    group.cache.put(attempt.location, attempt.metadata)
