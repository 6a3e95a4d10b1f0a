"""Several locks as one, and none as one."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.errors import LockLost
from iceberg_hms.locking.held_locks import ChosenHeldLock, NoLock


class Part:
    """A HeldLock whose cover a test sets. log: what was done to it. error: what `ensure` raises."""

    row = None
    exclusive = True
    require_cas = False
    behind_foreign_writer = False
    error: Exception | None = None

    def __init__(self, name: str, log: list[str], *, age: float = 0.0, lease: float = 30.0) -> None:
        self.name = name
        self.log = log
        self.age = age
        self.lease_seconds = lease

    def seconds_since_renewal(self) -> float:
        return self.age

    def ensure_held(self, *, blind: bool = False) -> None:
        self.log.append(f"ensure {self.name}{' blindly' if blind else ''}")
        if self.error is not None:
            raise self.error

    def renew(self) -> None:
        self.log.append(f"renew {self.name}")
        self.age = 0.0

    def release(self) -> None:
        self.log.append(f"release {self.name}")

    def let_expire(self) -> None:
        self.log.append(f"leave {self.name}")


def held(*parts: Any) -> ChosenHeldLock:
    return ChosenHeldLock(parts)


def test_all_parts_must_cover_and_the_weakest_decides() -> None:
    log: list[str] = []
    both = held(Part("a", log, age=3.0, lease=30.0), Part("b", log, age=5.0, lease=300.0))
    assert (both.lease_seconds, both.seconds_since_renewal()) == (30.0, 5.0)
    both.renew()
    assert log == ["renew a", "renew b"]


def test_the_last_taken_is_given_back_first() -> None:
    log: list[str] = []
    held(Part("a", log), Part("b", log)).release()
    assert log == ["release b", "release a"]


def test_a_move_starts_only_if_every_part_lets_it() -> None:
    log: list[str] = []
    parts = Part("a", log), Part("b", log)
    held(*parts).ensure_held()
    assert log == ["ensure a", "ensure b"]
    parts[1].error = LockLost("b is SUSPENDED")
    with pytest.raises(LockLost, match="SUSPENDED"):
        held(*parts).ensure_held()


def test_only_no_lock_at_all_requires_cas() -> None:
    assert held(NoLock()).require_cas
    assert not held(Part("a", [])).require_cas


def test_a_foreign_writer_before_any_of_them_was_before_all() -> None:
    first, second = Part("a", []), Part("b", [])
    assert not held(first, second).behind_foreign_writer
    second.behind_foreign_writer = True
    assert held(first, second).behind_foreign_writer


def test_no_lock_covers_always() -> None:
    lock = NoLock()
    assert lock.seconds_since_renewal() == 0
    lock.ensure_held()
    lock.renew()
    lock.release()


def test_all_parts_hear_what_a_move_is_and_that_it_may_still_be_made() -> None:
    log: list[str] = []
    both = held(Part("a", log), Part("b", log))
    both.ensure_held(blind=True)
    both.let_expire()
    assert log == ["ensure a blindly", "ensure b blindly", "leave a", "leave b"]
    NoLock().let_expire()


def test_a_part_that_cannot_be_left_does_not_give_the_others_back(caplog: pytest.LogCaptureFixture) -> None:
    class Defect(Part):
        def let_expire(self) -> None:
            raise RuntimeError("a defect")

    log: list[str] = []
    both = held(Defect("a", log), Part("b", log))
    both.let_expire()
    assert log == ["leave b"]
    assert "could not be left to expire" in caplog.text
