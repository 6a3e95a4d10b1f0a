"""Those who move tables, and the operator who says which lock they take, while others write to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iceberg_hms.catalog.purge import purge_files
from iceberg_hms.changes import updates
from iceberg_hms.changes.request import from_request
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CommitStateUnknown, IcebergHmsError, InvalidInput
from iceberg_hms.format.metadata.snapshot import MAIN_BRANCH
from iceberg_hms.format.updates.create import create_updates
from simulation.actors import requests
from simulation.world.first_table import empty_table
from simulation.world.history import Answer, CommitCall, Move, MoveKind
from simulation.world.site import TABLE, Node, Site

#: The names under which tables come and go, in two databases.
NAMES = (TABLE, TableName("default", "u"))
#: Seconds within which a mover begins.
_WITHIN = 40.0
#: Seconds between two acts of the operator, at most.
_BETWEEN_ACTS = 60.0
#: Or this, which is when most writers are at work.
_SOON = 10.0
_ACTS_MAX = 5


class Mover:
    """A process that makes one move of one table."""

    def __init__(self, site: Site, name: str, kinds: Sequence[MoveKind], pool: list[str]) -> None:
        """pool: metadata files of dropped tables whose files were kept, each to be registered once."""
        self.node = Node(site, name)
        self._luck = self.node.luck
        self._pool = pool
        self._coordinator = self.node.coordinator()
        target = self._luck.pick(NAMES)
        other = next(each for each in NAMES if each != target)
        self.move = Move(self._luck.pick(kinds), name, target, to=other)

    def start(self) -> None:
        self.node.runtime.spawn("mover", self._run)

    def _run(self) -> None:
        node, move = self.node, self.move
        node.runtime.sleep(node.site.wire.some_time(_WITHIN))
        node.site.history.moves.append(move)
        try:
            finish = self._make()
        except IcebergHmsError as error:
            # Any other error leaves it open, as a REST client has it: 5xx proves nothing.
            told, finish = Answer.FAILED if error.proved_failed else Answer.UNKNOWN, None
            answer = f"{type(error).__name__}: {error.message.partition(': ')[0]}"
        else:
            told, answer = Answer.COMMITTED, ""
        node.site.wire.note(node.process, f"{move.kind} of {move.name} is told {told.value}", answer)
        node.site.history.tell_move(move, told)
        if finish is not None:
            finish()

    def _make(self) -> Callable[[], None] | None:
        """Make the move; returns what is left to do when it is known to be made."""
        moves, move = self._coordinator.operations, self.move
        wait = self._luck.pick(self.node.site.waits)
        match move.kind:
            case MoveKind.RENAME:
                moves.rename(move.name, move.to, wait_seconds=wait)
            case MoveKind.DROP:
                moves.drop(move.name, wait_seconds=wait)
            case MoveKind.PURGE:
                dropped = moves.drop(move.name, wait_seconds=wait)
                if dropped is not None:
                    location = dropped.pointer.metadata_location
                    return lambda: purge_files(self.node.world(), dropped.metadata, location)
            case MoveKind.CREATE:
                metadata = empty_table(self.node.runtime.uuid(), {}, self.node.runtime.now_ms())
                moves.create(move.name, from_request([requests.assert_create()], create_updates(metadata)))
            case MoveKind.REGISTER:
                if not self._pool:
                    raise InvalidInput("nothing is there to be registered")
                moves.register(move.name, self._pool.pop(), overwrite=False, wait_seconds=wait)
            case MoveKind.OVERWRITE:
                self._overwrite(wait)
            case MoveKind.REPLACE:
                self._replace(wait)
        return None

    def _overwrite(self, wait: float) -> None:
        """Register over a table: an older file of its own, or one of a table that was dropped."""
        base = self._coordinator.load(self.move.name)
        older = [entry["metadata-file"] for entry in base.metadata.metadata_log] or [base.pointer.metadata_location]
        source = self._pool.pop() if self._pool and self._luck.chance(0.5) else self._luck.pick(older)
        self._coordinator.operations.register(self.move.name, source, overwrite=True, wait_seconds=wait)

    def _replace(self, wait: float) -> None:
        """Replace a table, as CREATE OR REPLACE does: its history stays, main begins anew."""
        mark = f"replaced-by-{self.move.mover}"
        attempt = CommitCall(f"{self.move.mover}.replace", self.node.process.name, mark=mark, replaces=True)
        self.node.site.history.begin(attempt)
        self.move.attempt = attempt
        changes = [requests.remove_snapshot_ref(MAIN_BRANCH), updates.set_properties({mark: "1"})]
        try:
            self._coordinator.commit(self.move.name, from_request([], changes), wait_seconds=wait)
        except CommitStateUnknown:
            self.node.site.history.tell(attempt, Answer.UNKNOWN)
            raise
        except IcebergHmsError:
            self.node.site.history.tell(attempt, Answer.FAILED)
            raise
        self.node.site.history.tell(attempt, Answer.COMMITTED)


class Operator:
    """Marks the table or its database, and breaks and heals the metastore's lock API; some acts, in some order."""

    def __init__(self, site: Site, acts: Sequence[str]) -> None:
        self.node = Node(site, "operator")
        self._acts = [site.luck.pick(acts) for _ in range(1 + site.luck.below(_ACTS_MAX))]

    def start(self) -> None:
        self.node.runtime.spawn("operator", self._run)

    def _run(self) -> None:
        wire, process = self.node.site.wire, self.node.process
        for act in self._acts:
            soon = self.node.luck.chance(0.5)
            pause = wire.between(0.0, _SOON) if soon else wire.some_time(_BETWEEN_ACTS)
            self.node.runtime.sleep(pause)
            wire.note(process, act, "")
            try:
                self._do(act)
            except IcebergHmsError as error:
                wire.note(process, act, error)
            else:
                wire.note(process, act, "done")

    def _do(self, act: str) -> None:
        admin = self.node.lock_admin()
        metastore = self.node.site.metastore
        what, _, mode = act.partition(" ")
        match what:
            case "use":
                admin.use(TABLE, mode, wait_seconds=self.node.luck.pick(self.node.site.waits))
            case _:
                metastore.lock_api_works = what == "heal"
