"""Operations on a table's branches and tags, and on which snapshot is current."""

from __future__ import annotations

from typing import Any, Literal

from iceberg_hms.catalog.operations.submitter import Result, Submitter
from iceberg_hms.catalog.time_travel import Timestamp, as_millis
from iceberg_hms.changes.operations.snapshots.cherry_pick import CherryPick
from iceberg_hms.changes.operations.snapshots.ref_change import Retention, SeenRef, Target
from iceberg_hms.changes.operations.snapshots.refs import (
    CreateRef,
    FastForward,
    RemoveRef,
    RenameBranch,
    ReplaceRef,
    SetRetention,
    StartBranch,
)
from iceberg_hms.changes.operations.snapshots.rollback import RollBack, RollBackToTimestamp, SetCurrentSnapshot
from iceberg_hms.changes.updates import TAG
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH

#: What to do with commits to a branch that the caller's state of the table does not have.
UnseenCommits = Literal["refuse", "discard"]


class RefOperations(Submitter[Result]):
    """Branches, tags, rollback and cherry-pick.

    What takes commits out of a branch is meant for the branch as this object has seen it: commits that others made
    since would be lost, so RequirementFailed names them, and the caller looks at them after `refresh()`.
    `on_unseen_commits="discard"` takes them out as well. All else applies to the refs as they are.

    Every call raises RequirementFailed if a snapshot or ref that it names is not in the table any more, or if the table
    was replaced by another one; InvalidInput for a tag where a branch is meant, and the reverse.
    Ages are milliseconds. wait_seconds: how long to wait for the commit; None: long enough to outlive a dead writer's
    lock.
    """

    def create_branch(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
        wait_seconds: float | None = None,
    ) -> Result:
        """Make a branch.

        snapshot_id: None: main's snapshot when this is committed, whatever was appended since this object loaded. If
        the table has no snapshot, the branch gets an empty one, as in Java.
        min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms: what an expiration keeps of it (spec: Snapshot
        Retention Policy); None: the table's defaults.
        Raises RequirementFailed if a branch or tag has the name.
        """
        retention = Retention(min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms)
        if snapshot_id is None and self.metadata.ref(MAIN_BRANCH) is None:
            start = StartBranch(self._new_snapshot(name, None, None), retention)
            return self._submit_operation(start, wait_seconds=wait_seconds)
        change = CreateRef(name=name, target=snapshot_id, retention=retention, **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def create_tag(
        self,
        name: str,
        snapshot_id: int | None = None,
        max_ref_age_ms: int | None = None,
        *,
        wait_seconds: float | None = None,
    ) -> Result:
        """Make a tag.

        snapshot_id: None: main's snapshot when this is committed; to tag what was looked at, give its id.
        Raises RequirementFailed if a branch or tag has the name, or the table has no snapshot."""
        retention = Retention(max_ref_age_ms=max_ref_age_ms)
        change = CreateRef(name=name, kind=TAG, target=snapshot_id, retention=retention, **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def replace_branch(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        ref_name: str | None = None,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
        on_unseen_commits: UnseenCommits = "refuse",
        wait_seconds: float | None = None,
    ) -> Result:
        """Move a branch to any snapshot.

        snapshot_id, ref_name: one of them: a snapshot, or a branch or tag whose snapshot is meant, where this object
        has seen it. Settings that are None stay as they are. on_unseen_commits: see the class.
        Raises InvalidInput for both or neither of snapshot_id and ref_name."""
        change = ReplaceRef(
            name=name,
            target=self._target(snapshot_id, ref_name),
            seen=self._seen(name, on_unseen_commits),
            retention=Retention(min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms),
            **self._known,
        )
        return self._submit(change, wait_seconds=wait_seconds)

    def replace_tag(
        self,
        name: str,
        snapshot_id: int,
        max_ref_age_ms: int | None = None,
        *,
        on_unseen_commits: UnseenCommits = "refuse",
        wait_seconds: float | None = None,
    ) -> Result:
        """Move a tag to any snapshot. max_ref_age_ms: None: it stays as it is. on_unseen_commits: whether a tag that
        another caller has moved since is moved all the same ("discard")."""
        change = ReplaceRef(
            name=name,
            kind=TAG,
            target=snapshot_id,
            seen=self._seen(name, on_unseen_commits),
            retention=Retention(max_ref_age_ms=max_ref_age_ms),
            **self._known,
        )
        return self._submit(change, wait_seconds=wait_seconds)

    def rename_branch(self, name: str, new_name: str, *, wait_seconds: float | None = None) -> Result:
        """Give a branch another name, with all commits that it has by then. Appends that still use the old name make a
        new branch of it. Raises RequirementFailed if the new name is taken, InvalidInput for main."""
        change = RenameBranch(name=name, new_name=new_name, **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def remove_branch(
        self, name: str, *, on_unseen_commits: UnseenCommits = "refuse", wait_seconds: float | None = None
    ) -> Result:
        """Remove a branch. Its snapshots stay until they expire. on_unseen_commits: see the class. Raises InvalidInput
        for main."""
        change = RemoveRef(name=name, seen=self._seen(name, on_unseen_commits), **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def remove_tag(
        self, name: str, *, on_unseen_commits: UnseenCommits = "refuse", wait_seconds: float | None = None
    ) -> Result:
        """Remove a tag. on_unseen_commits: whether a tag that another caller has moved since is removed all the same
        ("discard")."""
        change = RemoveRef(name=name, kind=TAG, seen=self._seen(name, on_unseen_commits), **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def set_branch_retention(
        self,
        name: str,
        *,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
        wait_seconds: float | None = None,
    ) -> Result:
        """Change what an expiration keeps of a branch. Settings that are None stay as they are, so callers who change
        different ones do not undo each other. Raises InvalidInput for no setting, for values below 1, and for
        max_ref_age_ms of main, which never expires."""
        retention = Retention(min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms)
        change = SetRetention(name=name, retention=retention, **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def set_tag_retention(self, name: str, max_ref_age_ms: int, *, wait_seconds: float | None = None) -> Result:
        """Change how old a tag may become before an expiration removes it."""
        retention = Retention(max_ref_age_ms=max_ref_age_ms)
        change = SetRetention(name=name, kind=TAG, retention=retention, **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def fast_forward(self, branch: str, to: str, *, wait_seconds: float | None = None) -> Result:
        """Move a branch forward to where another branch or tag is, as this object has seen it; the branch is made if
        there is none. So an audited branch is published: `table.fast_forward("main", "audit")`.

        Raises RequirementFailed if `to` does not descend from the branch as it is, which then keeps its commits; or if
        `to` has moved since: its new commits were not audited."""
        change = FastForward(branch=branch, to=self._seen_ref(to), **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def rollback_to_snapshot(
        self, snapshot_id: int, *, on_unseen_commits: UnseenCommits = "refuse", wait_seconds: float | None = None
    ) -> Result:
        """Move main back to one of its ancestors. Later snapshots stay in the table until they expire:
        `set_current_snapshot` moves main forward again. on_unseen_commits: see the class. Raises RequirementFailed if
        the snapshot is no ancestor of main's."""
        seen = self._seen(MAIN_BRANCH, on_unseen_commits)
        return self._submit(RollBack(snapshot_id=snapshot_id, seen=seen, **self._known), wait_seconds=wait_seconds)

    def rollback_to_timestamp(
        self, timestamp_ms: Timestamp, *, on_unseen_commits: UnseenCommits = "refuse", wait_seconds: float | None = None
    ) -> Result:
        """Move main back to the latest of its ancestors that was made before a time.

        timestamp_ms: milliseconds since 1970 UTC, or a datetime with a time zone. It is compared with the timestamps of
        snapshots, as in Java; `snapshot_as_of_timestamp` asks which one was current. on_unseen_commits: see the class.
        Raises RequirementFailed if no ancestor is older; InvalidInput for a datetime without a time zone."""
        seen = self._seen(MAIN_BRANCH, on_unseen_commits)
        change = RollBackToTimestamp(timestamp_ms=as_millis(timestamp_ms, round_up=True), seen=seen, **self._known)
        return self._submit(change, wait_seconds=wait_seconds)

    def set_current_snapshot(
        self,
        snapshot_id: int | None = None,
        *,
        ref_name: str | None = None,
        on_unseen_commits: UnseenCommits = "refuse",
        wait_seconds: float | None = None,
    ) -> Result:
        """Move main to any snapshot, back or forward.

        snapshot_id, ref_name: one of them: a snapshot, or a branch or tag whose snapshot is meant, where this object
        has seen it. on_unseen_commits: see the class. Raises InvalidInput for both of them or neither."""
        target, seen = self._target(snapshot_id, ref_name), self._seen(MAIN_BRANCH, on_unseen_commits)
        return self._submit(SetCurrentSnapshot(target=target, seen=seen, **self._known), wait_seconds=wait_seconds)

    def cherry_pick(self, snapshot_id: int, *, wait_seconds: float | None = None) -> Result:
        """Commit to main what a snapshot changed that is not in main's history: one that was staged, rolled back, or
        committed to another branch. Main moves to the snapshot itself if it is the next one, and the report names no
        new snapshot then; else a new snapshot adds its files.

        Raises RequirementFailed if main has the change already; if the snapshot is neither an append nor a dynamic
        partition overwrite, and not the next one of main; or if others changed the partitions that it overwrote."""
        return self._pick(snapshot_id, wait_seconds)

    def publish_changes(self, wap_id: str, *, wait_seconds: float | None = None) -> Result:
        """Cherry-pick the snapshot that was staged under a WAP id: by an operation with `wap_id=...`, or by Spark with
        `spark.wap.id`.

        Raises as `cherry_pick`, and RequirementFailed if no snapshot, or more than one, is staged under the id."""
        if not isinstance(wap_id, str):
            raise InvalidInput(f"a WAP id is a text, but is {wap_id!r}")
        return self._pick(wap_id, wait_seconds)

    def _pick(self, picked: int | str, wait_seconds: float | None) -> Result:
        change = CherryPick(self._new_snapshot(MAIN_BRANCH, None, None), picked)
        return self._submit_operation(change, wait_seconds=wait_seconds)

    @property
    def _known(self) -> dict[str, Any]:
        """What every change of refs has from its caller."""
        return {"table_uuid": self.metadata.uuid, "caller": self._access.services.settings.user}

    def _seen_ref(self, name: str) -> SeenRef:
        return SeenRef.of(self.metadata, name, self._earlier_ids)

    def _seen(self, name: str, on_unseen_commits: UnseenCommits) -> SeenRef | None:
        if on_unseen_commits not in ("refuse", "discard"):
            raise InvalidInput(f'on_unseen_commits must be "refuse" or "discard", but is {on_unseen_commits!r}')
        return self._seen_ref(name) if on_unseen_commits == "refuse" else None

    def _target(self, snapshot_id: int | None, ref_name: str | None) -> Target:
        if snapshot_id is not None and ref_name is None:
            return snapshot_id
        if ref_name is not None and snapshot_id is None:
            return self._seen_ref(ref_name)
        raise InvalidInput("give a snapshot_id or a ref_name, and not both")
