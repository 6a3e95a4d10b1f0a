"""A server, and the stock clients that commit through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from iceberg_hms.changes.change import Change
from iceberg_hms.changes.request import from_request
from iceberg_hms.changes.requirements import ASSERT_REF_SNAPSHOT_ID
from iceberg_hms.coordinator.protocol.commit_report import CommitReport
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
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from simulation.actors.requests import for_update_table
from simulation.actors.shipments import FIRM, Doing, Shipment, Shipper
from simulation.engine.scheduler import Task
from simulation.world.history import Answer, CommitCall
from simulation.world.site import TABLE, Node, Site

#: How often a client sends a commit again whose outcome is not known.
_RESENDS = 2
#: Seconds within which it does so.
_RESEND_WITHIN = 300.0
#: Seconds within which a client comes that comes at once.
_AT_ONCE = 0.02
#: How often one looks whether the others have begun.
_LOOKS_MAX = 20


@dataclass(frozen=True)
class Clients:
    """How the clients of each server behave.

    each: how many there are; commits: how many each makes, one after the other. doings: one of these each time.
    firm: what others do beside them, one commit each.
    branches: one of these each time. retries: after a commit was refused, as Java has it (`commit.retry.num-retries`).
    think: seconds between two commits, at most. back_within: seconds within which who was refused comes back.
    backoff: if there is one, seconds after which a refused client comes back, and twice as late each further time.
    gives_up: how likely it does not. leaves: how likely a client leaves its own list where another replaced it, as
    PyIceberg does and Java does not. litters: how likely it leaves what it made for an attempt that was refused; it may
    then name the same manifests the next time, as Java does. resent: how likely the first answer is lost on its way,
    and the request sent again within `resent_within` seconds, by a proxy that says nothing of it to the client.
    """

    each: int = 4
    commits: int = 3
    doings: tuple[Doing, ...] = (Doing.APPEND,)
    firm: tuple[Doing, ...] = ()
    branches: tuple[str, ...] = (MAIN_BRANCH,)
    retries: int = 4
    think: float = 0.02
    back_within: float = 0.05
    backoff: float = 0.0
    gives_up: float = 0.0
    leaves: float = 0.5
    litters: float = 0.0
    resent: float = 0.0
    resent_within: float = 10.0


class Server:
    """A process with one coordinator, and clients that commit through it at the same time."""

    def __init__(self, site: Site, name: str, clients: Clients) -> None:
        self.node = Node(site, name, skew_ms=site.luck.below(7_200_000) - 3_600_000)
        self._coordinator = self.node.coordinator()
        self._clients = clients
        self._luck = self.node.luck
        #: The attempts that wait for an answer, how often they were sent, and the threads that wait.
        self._waiting: dict[CommitCall, tuple[int, Task]] = {}

    def start(self) -> None:
        clients = self._clients
        for number, doing in enumerate(clients.firm):
            self.node.runtime.spawn(f"firm client {number}", partial(self._work_firmly, f"firm{number}", doing))
        for number in range(clients.each):
            doings = [self._luck.pick(clients.doings) for _ in range(clients.commits)]
            self.node.runtime.spawn(f"client {number}", partial(self._work, str(number), doings))

    def _work_firmly(self, name: str, doing: Doing) -> None:
        """Begin when others are at work, so that there is something to delete."""
        runtime = self.node.runtime
        for _ in range(_LOOKS_MAX):
            runtime.sleep(self._luck.between(0.0, 2 * self._clients.think))
            try:
                if len(self._coordinator.load(TABLE).metadata.snapshots) > 1:
                    break
            except IcebergHmsError:
                continue
        self._work(name, (doing,))

    def _work(self, name: str, doings: Sequence[Doing]) -> None:
        for number, doing in enumerate(doings):
            # As likely at once as later: bursts make groups, and what waits for its time needs later ones.
            think = self._clients.think if self._luck.chance(0.5) else min(self._clients.think, _AT_ONCE)
            self.node.runtime.sleep(self._luck.between(0.0, think))
            self._fulfil(f"{self.node.process.name}.{name}.{number}-{doing}", doing)

    def _fulfil(self, wish: str, doing: Doing) -> None:
        clients, site = self._clients, self.node.site
        attempt = self._begin(wish, doing)
        shipper = Shipper(self.node, attempt, doing)
        made: list[Shipment] = []
        for retry in range(clients.retries + 1):
            try:
                shipment = shipper.make(self._coordinator.load(TABLE).metadata)
            except IcebergHmsError:
                break
            if shipment is None:
                attempt.moot = True
                break
            made.append(shipment)
            if not self._commit(attempt, shipment) or self._luck.chance(clients.gives_up):
                break
            if clients.litters and self._luck.chance(clients.litters):
                self._litter(attempt, shipment)
            else:
                self._discard(attempt, shipment)
                shipper.forget()
            backoff = clients.backoff * 2**retry * self._luck.between(1.0, 1.1)
            self.node.runtime.sleep(backoff or self._luck.between(0.0, clients.back_within))
            site.history.again(attempt)
        if attempt.told is Answer.NOTHING:
            site.history.tell(attempt, Answer.FAILED)
        if attempt.told is Answer.FAILED:
            for shipment in made:
                self._discard(attempt, shipment)
            for path in shipper.data:
                site.storage.delete(path)

    def _begin(self, wish: str, doing: Doing) -> CommitCall:
        attempt = self.node.new_append(wish)
        attempt.branch = self._luck.pick(self._clients.branches)
        attempt.rewrites = doing is Doing.REWRITE
        if doing in FIRM:
            attempt.data_file = None
        if doing is Doing.CLUMSY:
            attempt.mark = f"mark-{wish}"
        return attempt

    def _commit(self, attempt: CommitCall, shipment: Shipment) -> bool:
        """Send it, and again where its outcome is not known. True: it was refused, and its client may try again."""
        requirements = for_update_table(shipment.base, shipment.updates)
        if self._clients.resent and self._luck.chance(self._clients.resent):
            self._send(attempt, from_request(list(requirements), list(shipment.updates)), shipment, heard=False)
            self.node.runtime.sleep(self._luck.between(0.0, self._clients.resent_within))
        for _ in range(_RESENDS + 1):
            words = partial(self.node.rebase_words.of, TABLE.namespace)
            change = from_request(list(requirements), list(shipment.updates), rebase_default=words)
            may_try_again = self._send(attempt, change, shipment)
            if attempt.told is not Answer.UNKNOWN or self._luck.chance(0.5):
                # Who once did not know deletes nothing any more, and so makes nothing anew.
                return may_try_again and attempt.told is Answer.FAILED
            self.node.idle(_RESEND_WITHIN)
        return False

    def _send(self, attempt: CommitCall, change: Change, shipment: Shipment, *, heard: bool = True) -> bool:
        """True: it was refused, and may be made anew. heard: whether the answer comes to the client."""
        site, runtime = self.node.site, self.node.runtime
        present = site.present(attempt)
        attempt.ahead = tuple(
            (each, sent) for each, (sent, task) in self._waiting.items() if not task.ready and task.deadline is not None
        )
        self._waiting[attempt] = (len(attempt.seen), site.scheduler.current)
        begun = runtime.now()
        attempt.sent.append(begun)
        told, may_try_again, answer = Answer.FAILED, False, ""
        try:
            report = self._coordinator.commit(TABLE, change, wait_seconds=self._luck.pick(site.waits))
        except CommitStateUnknown as error:
            told, answer = Answer.UNKNOWN, error.message.partition(": ")[0]
        except IcebergHmsError as error:
            answer = f"{type(error).__name__}: {error.message}"
            if present and isinstance(error, MetastoreUnavailable):
                # It was sent before, and nobody could look: a client that is told to come again keeps its files.
                told = Answer.UNKNOWN
            may_try_again = isinstance(error, CommitFailed | QueueFull)
            # What is known to be wrong with the table or its places has a type of its own.
            blames = isinstance(error, InvariantViolated | InvalidInput) or type(error) is CommitFailed
            attempt.blamed = blames and attempt.mark is None
            attempt.denied = present and isinstance(error, InvalidInput | RequirementFailed)
            if isinstance(error, QueueFull):
                # It was turned away at the door, so it has not come back.
                attempt.sent.remove(begun)
            if isinstance(error, RequirementFailed) and error.name == ASSERT_REF_SNAPSHOT_ID:
                attempt.lost.append(runtime.now())
        else:
            told = Answer.COMMITTED
            self._leave_list(attempt, shipment, report, heard=heard)
        finally:
            del self._waiting[attempt]
            attempt.waited = max(attempt.waited, runtime.now() - begun)
        verb = "is told" if heard else "is not heard:"
        site.wire.note(self.node.process, f"{attempt.wish} {verb} {told.value}", answer)
        if heard:
            site.history.tell(attempt, told)
        return may_try_again

    def _leave_list(self, attempt: CommitCall, shipment: Shipment, report: CommitReport, *, heard: bool) -> None:
        """What a client does with its list when its snapshot has another one. Without an answer it leaves it."""
        own = shipment.made[0]
        snapshot = report.metadata.snapshot_by_id(attempt.snapshot_id or 0)
        if snapshot is None or snapshot.manifest_list == own:
            attempt.lists.discard(own)
        elif heard and not self._luck.chance(self._clients.leaves):
            attempt.lists.discard(own)
            self.node.site.storage.delete(own)
        if attempt.lists and not report.already_committed:
            attempt.left = self.node.runtime.now()

    def _discard(self, attempt: CommitCall, shipment: Shipment) -> None:
        """What a client deletes when its commit was refused. Its data it keeps for the next time."""
        attempt.lists.discard(shipment.made[0])
        for location in shipment.made:
            attempt.litter.pop(location, None)
            self.node.site.storage.delete(location)

    def _litter(self, attempt: CommitCall, shipment: Shipment) -> None:
        """Leave all that was made for an attempt that was refused."""
        for manifest in self.node.site.storage.store.lists[shipment.made[0]]:
            if manifest.manifest_path in shipment.made:
                attempt.litter[manifest.manifest_path] = bool(manifest.existing_files_count)
