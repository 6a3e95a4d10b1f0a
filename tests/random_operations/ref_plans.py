"""Operations on branches, tags and snapshots: which there are, which is current, and what goes with those that are
expired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK
from tests.random_operations.independent_reader import TableState, require
from tests.random_operations.model import MAIN, Model, unchanged
from tests.random_operations.plans import NOTHING_COMMITTED, Plan, Planner, Target
from tests.random_operations.table_plans import nothing

_BRANCHES: Final = ("audit", "other")
_TAG: Final = "tag"


def create_ref(planner: Planner) -> Plan | None:
    """A branch or a tag, of any snapshot."""
    state = planner.state
    free = [each for each in (*_BRANCHES, _TAG) if each not in state.refs]
    if not free or not state.snapshots:
        return None
    name, snapshot = planner.choose.choice(free), _any_snapshot(planner)
    if name != _TAG and planner.choose.random() < 0.4:
        return _start_branch(name)

    def apply(model: Model, _: Sequence[int]) -> None:
        require(name not in model.refs, f"{name} was there")
        model.refs[name] = snapshot
        model.tags |= {name} & {_TAG}

    def submit(table: Target) -> Any:
        return table.create_tag(name, snapshot) if name == _TAG else table.create_branch(name, snapshot)

    return Plan(f"create {name} at {_place(state, snapshot)}", submit, apply)


def _start_branch(name: str) -> Plan:
    """A branch where main is when it is committed; where there is no main, on an empty snapshot."""

    def apply(model: Model, snapshot_ids: Sequence[int]) -> None:
        require(name not in model.refs, f"{name} was there")
        if snapshot_ids:
            require(MAIN not in model.refs, f"{name} does not start at main")
            model.commit(name, unchanged, snapshot_ids[0])
        else:
            model.refs[name] = model.refs[MAIN]

    return Plan(f"create {name} where main is", lambda table: table.create_branch(name), apply)


def rename_branch(planner: Planner) -> Plan | None:
    there = [each for each in _BRANCHES if each in planner.state.refs]
    if len(there) != 1:
        return None
    old = there[0]
    new = next(each for each in _BRANCHES if each != old)

    def apply(model: Model, _: Sequence[int]) -> None:
        require(new not in model.refs, f"{new} was there")
        model.refs[new] = model.refs.pop(old)

    return Plan(f"rename {old} to {new}", lambda table: table.rename_branch(old, new), apply)


def remove_ref(planner: Planner) -> Plan | None:
    there = [each for each in (*_BRANCHES, _TAG) if each in planner.state.refs]
    if not there:
        return None
    name = planner.choose.choice(there)

    def apply(model: Model, _: Sequence[int]) -> None:
        model.refs.pop(name)
        model.tags.discard(name)

    def submit(table: Target) -> Any:
        return table.remove_tag(name) if name == _TAG else table.remove_branch(name)

    return Plan(f"remove {name}", submit, apply)


def move_ref(planner: Planner) -> Plan | None:
    """A branch to any snapshot, main included."""
    state = planner.state
    there = [each for each in _BRANCHES if each in state.refs]
    if not state.snapshots:
        return None
    name, snapshot = planner.choose.choice((MAIN, *there)), _any_snapshot(planner)

    def submit(table: Target) -> Any:
        return table.set_current_snapshot(snapshot) if name == MAIN else table.replace_branch(name, snapshot)

    return Plan(f"move {name} to {_place(state, snapshot)}", submit, _moved(name, snapshot))


def roll_back(planner: Planner) -> Plan | None:
    state = planner.state
    at = state.refs.get(MAIN)
    chain: list[int] = []
    while at is not None and at in state.snapshots and len(chain) < 4:
        chain.append(at)
        at = state.snapshots[at].raw.get("parent-snapshot-id")
    if not chain:
        return None
    target = planner.choose.choice(chain)
    return Plan(f"roll back to {_place(state, target)}", lambda t: t.rollback_to_snapshot(target), _moved(MAIN, target))


def fast_forward(planner: Planner) -> Plan | None:
    there = [each for each in _BRANCHES if each in planner.state.refs]
    if not there:
        return None
    to = planner.choose.choice(there)
    seen = planner.state.refs[to]

    def apply(model: Model, _: Sequence[int]) -> None:
        main = model.refs.get(MAIN)
        require(main is None or main in model.ancestors(seen), f"main was no ancestor of {to}")
        model.refs[MAIN] = seen

    refused = frozenset({"fast-forward"})
    return Plan(f"fast-forward main to {to}", lambda table: table.fast_forward(MAIN, to), apply, refused)


def expire_snapshots(planner: Planner) -> Plan | None:
    if not planner.state.snapshots:
        return None
    keep = planner.choose.randint(1, 4)

    def submit(table: Target) -> Any:
        return table.expire_snapshots(SYSTEM_CLOCK.now_ms() + 60_000, keep).commit

    return Plan(f"expire all but {keep}", submit, lambda model, _: model.expire(keep))


def remove_orphan_files(planner: Planner) -> Plan | None:
    """All files of the table's folder that nothing leads to, however young: so nobody else may be at work."""
    if planner.is_stale:
        return None

    def submit(table: Target) -> Any:
        table.remove_orphan_files(SYSTEM_CLOCK.now_ms() + 60_000, force=True, equal_schemes={"": "file"})
        return NOTHING_COMMITTED

    return Plan("remove orphan files", submit, nothing)


def _moved(name: str, snapshot: int) -> Callable[[Model, Sequence[int]], None]:
    def apply(model: Model, _: Sequence[int]) -> None:
        require(snapshot in model.history, f"{name} was moved to an expired snapshot")
        model.refs[name] = snapshot

    return apply


def _any_snapshot(planner: Planner) -> int:
    return planner.choose.choice(list(planner.state.snapshots)[-6:])


def _place(state: TableState, snapshot: int) -> str:
    """A snapshot in a message: the ids differ from run to run."""
    return f"snapshot {list(state.snapshots).index(snapshot)} of {len(state.snapshots)}"
