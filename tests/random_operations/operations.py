"""Every operation that is chosen from, with those that are made of others: transactions, and what is staged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.random_operations import data_plans, delete_plans, ref_plans, table_plans
from tests.random_operations.independent_reader import require
from tests.random_operations.model import Model
from tests.random_operations.plans import Plan, Planner


def transaction(planner: Planner) -> Plan | None:
    """Several operations in one swap. Steps that each add a snapshot, or none in any case."""
    makers: list[Callable[[Planner], Plan | None]] = [
        data_plans.append,
        table_plans.set_properties,
        delete_plans.delete_positions,
        table_plans.add_column,
        data_plans.append,
    ]
    chosen = planner.choose.sample(makers, planner.choose.randint(2, 3))
    steps = [plan for plan in (make(planner) for make in chosen) if plan is not None]

    def submit(table: Any) -> Any:
        with table.transaction() as tx:
            for step in steps:
                step.submit(tx)
        return tx.report

    def apply(model: Model, snapshot_ids: Sequence[int]) -> None:
        left = list(snapshot_ids)
        for step in steps:
            step.apply(model, [left.pop(0)] if step.adds_snapshot else [])
        require(not left, f"a transaction added {len(left)} snapshots more than it has steps")

    what = "; ".join(step.what for step in steps)
    return Plan(what, submit, apply) if steps else None


def stage(planner: Planner) -> Plan | None:
    """An operation whose snapshot no ref names."""
    makers = (
        data_plans.append,
        data_plans.append,
        data_plans.replace_partitions,
        data_plans.overwrite,
        data_plans.delete_files,
        delete_plans.delete_positions,
    )
    return planner.choose.choice(makers)(Planner(planner.bench, planner.state, is_staged=True))


#: Every operation, with how often it is chosen beside the others.
OPERATIONS: Final[dict[Callable[[Planner], Plan | None], int]] = {
    data_plans.append: 8,
    data_plans.append_again: 2,
    data_plans.delete_files: 4,
    data_plans.delete_where: 5,
    data_plans.overwrite: 4,
    data_plans.replace_partitions: 5,
    data_plans.rewrite: 6,
    data_plans.rewrite_manifests: 3,
    data_plans.cherry_pick: 5,
    delete_plans.delete_positions: 9,
    delete_plans.delete_equal: 6,
    delete_plans.rewrite_deletes: 4,
    delete_plans.convert_equality_deletes: 5,
    table_plans.set_properties: 2,
    table_plans.add_column: 2,
    table_plans.rename_column: 1,
    table_plans.widen_column: 1,
    table_plans.drop_column: 1,
    table_plans.update_spec: 3,
    table_plans.upgrade: 1,
    ref_plans.create_ref: 3,
    ref_plans.rename_branch: 1,
    ref_plans.remove_ref: 1,
    ref_plans.move_ref: 1,
    ref_plans.roll_back: 2,
    ref_plans.fast_forward: 2,
    ref_plans.expire_snapshots: 2,
    ref_plans.remove_orphan_files: 1,
    transaction: 5,
    stage: 5,
}
