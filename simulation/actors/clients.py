"""A server, and the stock clients that commit through it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from iceberg_hms.changes.change import Change
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.coordinator.outcome.outcome import CommitReport
from iceberg_hms.errors import (
    CommitFailed,
    CommitStateUnknown,
    IcebergHmsError,
    InvalidInput,
    InvariantViolated,
    MetastoreUnavailable,
    QueueFull,
    RequirementFailed,
)
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH, Snapshot
from simulation.actors.client_snapshots import NEVER_REBASED, CommitKind, SentSnapshot, SnapshotBuilder
from simulation.actors.requests import for_update_table, upgrade_format_version
from simulation.engine.scheduler import Task
from simulation.world.cluster import TABLE, Cluster, ClusterNode
from simulation.world.history import Answer, WriteAttempt

#: How often a client sends a commit with an unknown outcome again, at most.
_RESENDS = 2
#: Seconds within which it does so.
_RESEND_WITHIN = 300.0
#: Seconds within which a client that does not think sends its next commit.
_AT_ONCE = 0.02
#: How often a one-shot client checks whether the others have begun, at most.
_LOOKS_MAX = 20


@dataclass(frozen=True)
class Clients:
    """How the clients of each server behave.

    count: of clients; commits: how many each makes, one after the other; commit_kinds: one of these each time.
    one_shot: one more client for each of these kinds, which commits once.
    branches: one of these each time. retries: after a refused commit, as Java's `commit.retry.num-retries`.
    think: seconds between two commits, at most. back_within: seconds within which a refused client retries.
    backoff: if there is one, seconds after which a refused client retries, doubled each time.
    gives_up: how likely it does not retry.
    leaves_lists: how likely a client keeps its own list after another replaced it, as PyIceberg does and Java does not.
    leaves_files: how likely a client keeps the files of a refused attempt; its next one may name the same manifests, as
    Java's does.
    resent: how likely the first answer is lost, and a proxy sends the request again within `resent_within` seconds
    without the client's knowledge. hedged: how likely it sends the request again before the first one is answered; the
    client hears the second answer.
    upgrades: the format versions to which one more client upgrades the table, one after the other.
    """

    count: int = 4
    commits: int = 3
    commit_kinds: tuple[CommitKind, ...] = (CommitKind.APPEND,)
    one_shot: tuple[CommitKind, ...] = ()
    branches: tuple[str, ...] = (MAIN_BRANCH,)
    retries: int = 4
    think: float = 0.02
    back_within: float = 0.05
    backoff: float = 0.0
    gives_up: float = 0.0
    leaves_lists: float = 0.5
    leaves_files: float = 0.0
    resent: float = 0.0
    resent_within: float = 10.0
    hedged: float = 0.0
    upgrades: tuple[int, ...] = ()


@dataclass(frozen=True)
class CutOff:
    """A commit that its client had sent to a server which crashed before it answered."""

    attempt: WriteAttempt
    snapshot: SentSnapshot


class CommitServer:
    """A process with one coordinator, and clients that commit through it at the same time.

    skew_ms: of its clock. resume: commits that an earlier process of this server left; their clients send them again.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        clients: Clients,
        *,
        skew_ms: int | None = None,
        resume: Sequence[CutOff] = (),
    ) -> None:
        self.skew_ms = cluster.random.below(7_200_000) - 3_600_000 if skew_ms is None else skew_ms
        self.node = ClusterNode(cluster, name, skew_ms=self.skew_ms)
        self._coordinator = self.node.coordinator()
        self._resume = tuple(resume)
        self._clients = clients
        self._random = self.node.random
        #: The attempts that wait for an answer, how often they were made, and the tasks that wait.
        self._waiting: dict[WriteAttempt, tuple[int, Task]] = {}
        self._cut_off: dict[WriteAttempt, CutOff] = {}

    @property
    def cut_off(self) -> Sequence[CutOff]:
        """The commits that were under way when the process crashed."""
        return tuple(self._cut_off.values())

    def start(self) -> None:
        clients = self._clients
        if self._resume:
            for each in self._resume:
                self.node.runtime.spawn(f"client {each.attempt.operation}", partial(self._send_again, each))
            return
        for number, commit_kind in enumerate(clients.one_shot):
            self.node.runtime.spawn(f"firm client {number}", partial(self._work_once, f"firm{number}", commit_kind))
        if clients.upgrades:
            self.node.runtime.spawn("upgrading client", self._upgrade)
        for number in range(clients.count):
            commit_kinds = [self._random.pick(clients.commit_kinds) for _ in range(clients.commits)]
            self.node.runtime.spawn(f"client {number}", partial(self._work, str(number), commit_kinds))

    def _work_once(self, name: str, commit_kind: CommitKind) -> None:
        """Begin when the others have committed, so that there is something to delete."""
        runtime = self.node.runtime
        for _ in range(_LOOKS_MAX):
            runtime.sleep(self._random.between(0.0, 2 * self._clients.think))
            try:
                if len(self._coordinator.load(TABLE).metadata.snapshots) > 1:
                    break
            except IcebergHmsError:
                continue
        self._work(name, (commit_kind,))

    def _work(self, name: str, commit_kinds: Sequence[CommitKind]) -> None:
        for number, commit_kind in enumerate(commit_kinds):
            # Bursts make groups; deletions of old files need later commits.
            think = self._clients.think if self._random.chance(0.5) else min(self._clients.think, _AT_ONCE)
            self.node.runtime.sleep(self._random.between(0.0, think))
            self._fulfil(f"{self.node.process.name}.{name}.{number}-{commit_kind}", commit_kind)

    def _upgrade(self) -> None:
        """Upgrade the table while the others have commits under way."""
        for version in self._clients.upgrades:
            self.node.runtime.sleep(self._random.between(0.0, self._clients.commits * self._clients.think))
            with contextlib.suppress(IcebergHmsError):
                self._coordinator.commit(TABLE, from_request([], [upgrade_format_version(version)]), wait_seconds=300.0)

    def _fulfil(self, operation: str, commit_kind: CommitKind) -> None:
        clients, cluster = self._clients, self.node.cluster
        attempt = self._begin(operation, commit_kind)
        builder = SnapshotBuilder(self.node, attempt, commit_kind)
        made: list[SentSnapshot] = []
        for retry in range(clients.retries + 1):
            try:
                snapshot = builder.make(self._coordinator.load(TABLE).metadata)
            except IcebergHmsError:
                break
            if snapshot is None:
                attempt.obsolete = True
                break
            made.append(snapshot)
            if not self._commit(attempt, snapshot) or self._random.chance(clients.gives_up):
                break
            if clients.leaves_files and self._random.chance(clients.leaves_files):
                self._leave_files(attempt, snapshot)
            else:
                self._discard(attempt, snapshot)
                builder.forget()
            backoff = clients.backoff * 2**retry * self._random.between(1.0, 1.1)
            self.node.runtime.sleep(backoff or self._random.between(0.0, clients.back_within))
            cluster.history.reopen(attempt)
        if attempt.answer is Answer.NOTHING:
            cluster.history.record_answer(attempt, Answer.FAILED)
        if attempt.answer is Answer.FAILED:
            for snapshot in made:
                self._discard(attempt, snapshot)
            for path in builder.data:
                cluster.storage.delete(path)

    def _send_again(self, cut_off: CutOff) -> None:
        """The client of a commit that another process left unanswered; it deletes what the refused snapshot made."""
        attempt, snapshot = cut_off.attempt, cut_off.snapshot
        self.node.runtime.sleep(self._random.between(0.0, self._clients.resent_within))
        self._commit(attempt, snapshot)
        if attempt.answer is Answer.FAILED:
            self._discard(attempt, snapshot)

    def _begin(self, operation: str, commit_kind: CommitKind) -> WriteAttempt:
        attempt = self.node.new_append(operation)
        attempt.branch = self._random.pick(self._clients.branches)
        attempt.rewrites = commit_kind is CommitKind.REWRITE
        if commit_kind in NEVER_REBASED:
            attempt.data_file = None
        if commit_kind is CommitKind.INVALID:
            attempt.mark = f"mark-{operation}"
        return attempt

    def _commit(self, attempt: WriteAttempt, snapshot: SentSnapshot) -> bool:
        """Send a snapshot, and again while its outcome is unknown. True: it was refused, and its client may retry."""
        self._cut_off[attempt] = CutOff(attempt, snapshot)
        try:
            return self._send_until_known(attempt, snapshot)
        finally:
            # A crashed process runs nothing more, so it leaves its own here.
            if self.node.process.alive:
                del self._cut_off[attempt]

    def _send_until_known(self, attempt: WriteAttempt, snapshot: SentSnapshot) -> bool:
        requirements = for_update_table(snapshot.base, snapshot.updates)
        if self._clients.hedged and self._random.chance(self._clients.hedged):
            first = from_request(list(requirements), list(snapshot.updates))
            self.node.runtime.spawn(f"copy {attempt.operation}", partial(self._send_unheard, attempt, first))
            self.node.runtime.sleep(self._random.between(0.0, self._clients.resent_within))
        if self._clients.resent and self._random.chance(self._clients.resent):
            self._send(attempt, from_request(list(requirements), list(snapshot.updates)), snapshot, heard=False)
            self.node.runtime.sleep(self._random.between(0.0, self._clients.resent_within))
        for _ in range(_RESENDS + 1):
            words = partial(self.node.rebase_policies.of, TABLE.namespace)
            change = from_request(list(requirements), list(snapshot.updates), rebase_policy=words)
            may_try_again = self._send(attempt, change, snapshot)
            if attempt.answer is not Answer.UNKNOWN or self._random.chance(0.5):
                # After an unknown outcome a client deletes nothing, so it never makes its snapshot again.
                return may_try_again and attempt.answer is Answer.FAILED
            self.node.sleep_beside(_RESEND_WITHIN)
        return False

    def _send(self, attempt: WriteAttempt, change: Change, snapshot: SentSnapshot, *, heard: bool = True) -> bool:
        """True: it was refused, and its client may retry. heard: whether the answer reaches the client."""
        cluster, runtime = self.node.cluster, self.node.runtime
        present = cluster.present(attempt)
        attempt.ahead = tuple(
            (each, sent) for each, (sent, task) in self._waiting.items() if not task.ready and task.deadline is not None
        )
        self._waiting[attempt] = (len(attempt.parents_seen), cluster.scheduler.current)
        begun = runtime.now()
        attempt.sent_at.append(begun)
        answer, may_try_again, detail = Answer.FAILED, False, ""
        try:
            report = self._coordinator.commit(TABLE, change, wait_seconds=self._random.pick(cluster.waits))
        except CommitStateUnknown as error:
            answer, detail = Answer.UNKNOWN, error.message.partition(": ")[0]
        except IcebergHmsError as error:
            detail = f"{type(error).__name__}: {error.message}"
            if len(attempt.sent_at) > 1 and isinstance(error, MetastoreUnavailable):
                # It was sent before, perhaps to an earlier process, and the server could not look at the table: a 429,
                # after which clients keep their files (Java: SnapshotProducer, whose cleanup is strict).
                answer = Answer.UNKNOWN
            may_try_again = isinstance(error, CommitFailed | QueueFull)
            # Known problems of the table or of its storage have error types of their own.
            blames = isinstance(error, InvariantViolated | InvalidInput) or type(error) is CommitFailed
            attempt.called_invalid = blames and attempt.mark is None
            # A foreign writer may have removed it meanwhile.
            there = present and cluster.present(attempt)
            attempt.refused_while_present = there and isinstance(error, InvalidInput | RequirementFailed)
            if isinstance(error, QueueFull):
                # A full queue refused it, so it was not queued.
                attempt.sent_at.remove(begun)
            if isinstance(error, RequirementFailed) and error.name == ASSERT_REF_SNAPSHOT_ID:
                attempt.lost_at.append(runtime.now())
        else:
            answer = Answer.COMMITTED
            self._leave_list(attempt, snapshot, report, begun, heard=heard)
        finally:
            del self._waiting[attempt]
            attempt.waited = max(attempt.waited, runtime.now() - begun)
        verb = "is answered" if heard else "is not heard:"
        cluster.wire.note(self.node.process, f"{attempt.operation} {verb} {answer.value}", detail)
        if heard:
            cluster.history.record_answer(attempt, answer)
        return may_try_again

    def _send_unheard(self, attempt: WriteAttempt, change: Change) -> None:
        """A copy of a commit whose answer reaches nobody."""
        with contextlib.suppress(IcebergHmsError):
            begun = self.node.runtime.now()
            report = self._coordinator.commit(TABLE, change, wait_seconds=self._random.pick(self.node.cluster.waits))
            committed = report.metadata.snapshot_by_id(attempt.snapshot_id or 0)
            if committed is not None:
                # The client keeps its own list, if the snapshot has another one.
                self._note_left(attempt, begun)

    def _note_left(self, attempt: WriteAttempt, begun: float) -> None:
        """The client of a call that began then leaves its list. The server may have slept after it had answered."""
        attempt.left_at = self.node.runtime.now()
        attempt.left_since = self.node.process.awake_since(begun, attempt.left_at)

    def _leave_list(
        self, attempt: WriteAttempt, snapshot: SentSnapshot, report: CommitReport, begun: float, *, heard: bool
    ) -> None:
        """A client keeps or deletes its list when its snapshot has another one. Without an answer it keeps it."""
        own = snapshot.made[0]
        committed = report.metadata.snapshot_by_id(attempt.snapshot_id or 0)
        if committed is None or committed.manifest_list == own:
            attempt.lists.discard(own)
        elif heard and not self._random.chance(self._clients.leaves_lists):
            attempt.lists.discard(own)
            self.node.cluster.storage.delete(own)
        if attempt.lists and not report.already_committed:
            self._note_left(attempt, begun)
        self._leave_manifests(attempt, snapshot, committed, heard=heard)

    def _leave_manifests(
        self, attempt: WriteAttempt, snapshot: SentSnapshot, committed: Snapshot | None, *, heard: bool
    ) -> None:
        """A client deletes its manifests that its snapshot does not name (Java: SnapshotProducer.cleanUncommitted). It
        keeps them without an answer, and if it cannot see what the snapshot names."""
        own = snapshot.made[1:]
        try:
            listed = () if committed is None or not heard else self.node.manifests().list(committed)
        except IcebergHmsError:
            listed = ()
        if not listed:
            attempt.left_files.update(own)
        named = {each.manifest_path for each in listed}
        for location in own if listed else ():
            attempt.left_files.discard(location)
            if location not in named:
                self.node.cluster.storage.delete(location)

    def _discard(self, attempt: WriteAttempt, snapshot: SentSnapshot) -> None:
        """After a refusal the client deletes its list and manifests, and keeps its data for the next attempt."""
        attempt.lists.discard(snapshot.made[0])
        for location in snapshot.made:
            attempt.left_files.discard(location)
            self.node.cluster.storage.delete(location)

    def _leave_files(self, attempt: WriteAttempt, snapshot: SentSnapshot) -> None:
        """After a refusal the client leaves its list and manifests."""
        attempt.lists.discard(snapshot.made[0])
        attempt.left_files.update(snapshot.made)
