"""Locks for a catalog operation, sends it, and finds out whether it was made.

A refusal or a lost reply proves nothing by itself: the table is looked at before anybody believes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn, TypeVar

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.lease_check import renew_if_half_expired
from iceberg_hms.coordinator.ports import (
    CommitPorts,
    HeldLock,
    LockUse,
    Pointer,
    Refused,
    Sending,
    SwapAnswer,
    Swapped,
    TableName,
    Unanswered,
    tell_nobody,
)
from iceberg_hms.coordinator.sending.status_checks import status_checks, status_checks_while_pending
from iceberg_hms.coordinator.sending.unanswered_swaps import let_locks_expire
from iceberg_hms.errors import (
    AlreadyExists,
    CommitStateUnknown,
    CompareAndSwapUnproven,
    IcebergHmsError,
    LockLost,
    NoSuchTable,
    NoSuchView,
    NotAnIcebergTable,
    proved,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: How often an operation is run again that sent nothing: its short lease was lost, and the server proved not atomic.
_RETRIES_MAX: Final = 2


@contextmanager
def locked(
    ports: CommitPorts, names: Sequence[TableName], wait_seconds: float, *, use: LockUse
) -> Iterator[Sequence[HeldLock]]:
    """Hold the locks on tables, acquired in the order given. Sort the names: two operations that lock the same tables
    in different orders would wait for each other."""
    request = ports.runtime.uuid()
    held: list[HeldLock] = []
    try:
        for name in names:
            held.append(ports.lock.acquire(name, wait_seconds=wait_seconds, request=request, use=use))
        yield held
    finally:
        for lock in reversed(held):
            lock.release()


def retry_with_full_lease(operation: Callable[[LockUse], T]) -> T:
    """Run an operation whose requests carry an expected value. LockLost and CompareAndSwapUnproven mean that nothing
    was sent. After LockLost the metastore may be too slow for a short lease: run it again under the server's full one.
    After CompareAndSwapUnproven no lock may promise that the request compares atomically."""
    use = LockUse.CAS
    for _ in range(_RETRIES_MAX):
        try:
            return operation(use)
        except (LockLost, CompareAndSwapUnproven) as error:
            logger.info("taking a table's lock again, with the server's full lease: %s", error)
            is_unproven = isinstance(error, CompareAndSwapUnproven) or use is LockUse.BLIND
            use = LockUse.BLIND if is_unproven else LockUse.CAS_FULL_LEASE
    return operation(use)


def send(
    request: Callable[[Sending], SwapAnswer],
    locks: Sequence[HeldLock] = (),
    *,
    blind: bool = False,
    overdue: Callable[[], None] = tell_nobody,
) -> SwapAnswer:
    """Send one request under locks, to a server such as they require. Raises an IcebergHmsError, proved, if nothing was
    sent. blind: it may overwrite later commits on any server. overdue: as `Sending` has it."""
    try:
        for lock in locks:
            lock.ensure_held(blind=blind)
        # The ports raise their own errors only for failures before anything was sent.
        return request(Sending(locks, any(lock.require_cas for lock in locks), overdue))
    except IcebergHmsError as error:
        raise proved(error) from error.__cause__
    except Exception as error:  # noqa: BLE001 - whatever this is, the request may have been sent
        return Unanswered(error)


def was_made(
    ports: CommitPorts,
    settings: Settings,
    name: TableName,
    answer: SwapAnswer,
    is_made: Callable[[], bool],
    locks: Sequence[HeldLock] = (),
    overdue: Callable[[], None] = tell_nobody,
) -> bool:
    """Whether an operation was made, by its answer or by looks at the table (`is_made`).

    Without a final answer it may still be under way, so the table is looked at more than once; where only `locks`
    protect the operation, until it can hardly be made any more. If it is not seen even then, the locks are left to
    expire."""
    match answer:
        case Swapped():
            return True
        case Refused(in_doubt=False):
            return is_made()
        case Unanswered(atomic=False, waited_seconds=waited_seconds) if locks:
            checks = status_checks_while_pending(ports.runtime, settings, waited_seconds, overdue)
            seen = any(is_made() for _ in checks)
            if not seen:
                let_locks_expire(ports, name, locks)
            return seen
        case Refused() | Unanswered():
            return any(is_made() for _ in status_checks(ports.runtime, settings))


def raise_not_made(answer: SwapAnswer, *, unchanged: bool, what: str) -> NoReturn:
    """For an operation that was not seen. Raises the metastore's refusal if that is final and the table stands as it
    was read (`unchanged`), else CommitStateUnknown."""
    # The metastore found the table changed, but it stands as it was read: another writer undid what may have been our
    # operation.
    was_undone = isinstance(answer, Refused) and answer.conflict and not isinstance(answer.error, AlreadyExists)
    if isinstance(answer, Refused) and not answer.in_doubt and unchanged and not was_undone:
        raise answer.error
    raise CommitStateUnknown(
        f"it is not known whether the {what} was made: {answer}",
        next_step="look at the table before you try again, and delete nothing",
    )


def held_until_now(locks: Sequence[HeldLock]) -> bool:
    """Whether locks were held all the time: then an operation changed the table that was loaded under them."""
    try:
        for lock in locks:
            renew_if_half_expired(lock)
    except IcebergHmsError:
        return False
    return True


def find_taken(ports: CommitPorts, name: TableName) -> Pointer | None:
    """The Iceberg table that has a name; None if the name is free. Raises AlreadyExists if a view or another kind of
    table has it."""
    try:
        return ports.pointer.load(name)
    except NotAnIcebergTable as error:
        holder = "View with same name" if error.is_view else "Table"
        raise AlreadyExists(f"{holder} already exists: {name}") from error
    except NoSuchTable:
        return None


def refuse_taken(ports: CommitPorts, name: TableName, what: str) -> None:
    """Raises AlreadyExists if a table or view has a name. what: cannot be done, for the message."""
    try:
        ports.pointer.load(name)
    except NotAnIcebergTable as error:
        raise AlreadyExists(f"{what}. {'View' if error.is_view else 'Table'} already exists") from error
    except NoSuchTable:
        return
    raise AlreadyExists(f"{what}. Table already exists")


def points_at(load: Callable[[TableName], Pointer], name: TableName, location: str) -> bool:
    """Whether a table or view is seen to have this metadata location; False also if it cannot be loaded. load: of the
    port that has its row."""
    try:
        return load(name).metadata_location == location
    except IcebergHmsError:
        return False


def is_dropped(load: Callable[[TableName], Pointer], name: TableName, has_another_name: Callable[[], object]) -> bool:
    """Whether a table or view is seen to be gone, and under no other name: others rename without a lock.
    has_another_name: searches for it. One that nobody can search for counts as dropped."""
    if not is_gone(load, name):
        return False
    try:
        return not has_another_name()
    except IcebergHmsError as error:
        logger.warning("%s is gone, and could not be looked up under other names: %s", name, error)
        return True


def is_gone(load: Callable[[TableName], Pointer], name: TableName) -> bool:
    """Whether a name is seen to have no table, or no view; False also if the metastore cannot be asked."""
    try:
        load(name)
    except (NoSuchTable, NoSuchView):
        return True
    except IcebergHmsError:
        return False
    return False
