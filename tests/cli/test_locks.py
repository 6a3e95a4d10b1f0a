"""`iceberg-hms locks`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from iceberg_hms.errors import LockUnavailable, NotFound
from iceberg_hms.lock_record import LockRecord
from iceberg_hms.locking.lock_admin import Listing
from tests.cli.fakes import Asked, answer, run

HELD = LockRecord("7", "hms", "db.t", "ACQUIRED", "EXCLUSIVE", "ann", "h1", "iceberg-hms/x", 1_617_280_000_009, None)
WAITS = LockRecord("db.t/a-0-lock-0000000001", "zookeeper", "db.t", "WAITING", "EXCLUSIVE", "bob", "h2", "y", 5, None)


@dataclass
class Locks:
    """What the commands ask of a catalog, with two locks."""

    problems: tuple[str, ...] = ()
    broken: list[str] = field(default_factory=list)
    used: list[tuple[str, str]] = field(default_factory=list)
    forced: list[str] = field(default_factory=list)
    refusal: Exception | None = None
    default_wait_seconds: float = 1.0
    held: LockRecord = HELD

    @property
    def locks(self) -> Self:
        return self

    def list(self, table: str | None = None) -> Listing:
        return Listing((self.held, WAITS) if table in (None, "db.t") else (), self.problems)

    def find(self, lock_id: str) -> LockRecord:
        for lock in (self.held, WAITS):
            if lock.lock_id == lock_id:
                return lock
        raise NotFound(f"There is no lock {lock_id}")

    def break_lock(self, lock_id: str) -> LockRecord:
        self.broken.append(lock_id)
        return self.find(lock_id)

    def use(self, name: str, mode: str, *, wait_seconds: float, force: bool = False) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.used.append((name, str(mode)))
        if force:
            self.forced.append(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return


def test_locks_are_listed_for_people_and_programs() -> None:
    assert answer("locks", "list", catalog=Locks()) == [asdict(HELD), asdict(WAITS)]
    assert answer("locks", "list", "db.other", catalog=Locks()) == []
    text = run("locks", "list", "db.t", catalog=Locks()).stdout
    for part in ("7", "hms", "ann", "2021-04-01", "zookeeper", "WAITING"):
        assert part in text


def test_a_lock_whose_holder_seems_dead_is_named_with_what_removes_it() -> None:
    why = "process 71 of this machine has ended"
    dead = Locks(held=replace(HELD, seems_dead=why))
    result = run("locks", "list", catalog=dead)
    assert result.stderr == (
        f"the holder of 7 on db.t seems to be dead: {why}\n"
        "next: if it is, `iceberg-hms locks break 7 --yes` removes its lock\n"
    )
    assert why in run("locks", "show", "7", catalog=dead).stdout
    assert answer("locks", "list", catalog=dead)[0]["seems_dead"] == why
    assert run("locks", "list", catalog=Locks()).stderr == ""


def test_locks_list_names_a_keeper_that_it_could_not_ask_on_stderr() -> None:
    result = run("locks", "list", "--json", catalog=Locks(problems=("hms: Internal error\nprocessing show_locks",)))
    assert result.exit_code == 0
    assert result.stderr == "not listed: hms: Internal error processing show_locks\n"


def test_one_lock_is_shown() -> None:
    assert answer("locks", "show", "7", catalog=Locks()) == asdict(HELD)
    assert "iceberg-hms/x" in run("locks", "show", "7", catalog=Locks()).stdout
    missing = run("locks", "show", "8", catalog=Locks())
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "error: There is no lock 8" in missing.stderr


def test_a_lock_is_broken_only_with_yes() -> None:
    locks = Locks()
    refused = run("locks", "break", "7", catalog=locks)
    assert refused.exit_code == 2
    assert "ann@h1 may still run" in refused.stderr
    assert "--yes" in refused.stderr
    assert locks.broken == []
    assert answer("locks", "break", WAITS.lock_id, "--yes", catalog=locks) == asdict(WAITS)
    assert locks.broken == [WAITS.lock_id]


def test_locks_use_sets_which_lock_a_table_takes() -> None:
    locks, asked = Locks(), Asked()
    result = run("locks", "use", "zookeeper", "db.t", "--zookeeper", "z:2181", catalog=locks, asked=asked)
    assert (result.exit_code, result.stdout) == (0, "db.t takes the zookeeper lock\n")
    assert asked.settings[0].zookeeper == "z:2181"
    assert answer("locks", "use", "hms", "db.u", catalog=locks) == {"name": "db.u", "lock": "hms"}
    assert locks.used == [("db.t", "zookeeper"), ("db.u", "hms")]


def test_only_a_table_is_moved_by_force_and_only_when_told_so() -> None:
    locks = Locks()
    answer("locks", "use", "hms", "db.t", catalog=locks)
    answer("locks", "use", "hms", "db.u", "--force", catalog=locks)
    assert locks.forced == ["db.u"]
    assert locks.used == [("db.t", "hms"), ("db.u", "hms")]


def test_no_other_lock_can_be_named() -> None:
    locks = Locks()
    assert run("locks", "use", "none", "db.t", catalog=locks).exit_code == 2
    assert locks.used == []


def test_locks_use_prints_why_a_table_could_not_change_its_lock() -> None:
    problem: Any = LockUnavailable("ZooKeeper is out of reach")
    result = run("locks", "use", "zookeeper", "db.t", catalog=Locks(refusal=problem))
    assert result.exit_code == 1
    assert "error: ZooKeeper is out of reach" in result.stderr
