"""Operations on what is around the files: schema, partition spec, properties and format version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.random_operations.independent_reader import require
from tests.random_operations.model import Column, Model
from tests.random_operations.plans import Plan, Planner
from tests.random_operations.shapes import AT, COUNT, ID, LEVEL, PRICE

_PROPERTIES: Final = (
    {"commit.manifest.min-count-to-merge": "2"},
    {"commit.manifest.min-count-to-merge": "5"},
    {"commit.manifest-merge.enabled": "false"},
    {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"},
    {"commit.manifest.target-size-bytes": "6000"},
    {"commit.manifest.target-size-bytes": "8388608"},
    {"write.metadata.compression-codec": "gzip"},
    {"write.metadata.compression-codec": "none"},
    {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "8"},
)
_FIELDS: Final = (("bucket[2]", ID), ("truncate[1]", LEVEL), ("identity", LEVEL), ("day", AT))


def set_properties(planner: Planner) -> Plan:
    properties = planner.choose.choice(_PROPERTIES)
    return Plan(f"set {properties}", lambda table: table.set_properties(properties), nothing)


def add_column(planner: Planner) -> Plan | None:
    if not planner.bench.shape.evolves_schema or len(planner.state.schema()) > 12:
        return None
    name, type_ = f"c{planner.bench.new_number()}", planner.choose.choice(("long", "string"))
    default = None
    if planner.state.version > 2 and planner.choose.random() < 0.5:
        default = 7 if type_ == "long" else "seven"

    def apply(model: Model, _: Sequence[int]) -> None:
        model.last_column_id += 1
        model.columns = (*model.columns, Column(model.last_column_id, name, type_))
        if default is not None:
            model.defaults[model.last_column_id] = default

    return Plan(
        f"add column {name} {type_}, default {default}",
        lambda table: table.update_schema().add_column(name, type_, default_value=default).commit(),
        apply,
    )


def rename_column(planner: Planner) -> Plan | None:
    if not planner.bench.shape.evolves_schema:
        return None
    column = planner.choose.choice([each for each in planner.state.schema() if each["id"] in (LEVEL, PRICE, COUNT)])
    name = f"r{planner.bench.new_number()}"
    return Plan(
        f"rename column {column['name']} to {name}",
        lambda table: table.update_schema().rename_column(column["name"], name).commit(),
        lambda model, _: _change(model, column["id"], name=name),
    )


def widen_column(planner: Planner) -> Plan | None:
    if not planner.bench.shape.evolves_schema:
        return None
    return Plan(
        "widen column count",
        lambda table: table.update_schema().update_column(planner.column(COUNT), "long").commit(),
        lambda model, _: _change(model, COUNT, type="long"),
    )


def drop_column(planner: Planner) -> Plan | None:
    later = [each for each in planner.state.schema() if each["id"] > COUNT]
    if not later:
        return None
    column = planner.choose.choice(later)

    def apply(model: Model, _: Sequence[int]) -> None:
        require(any(each.id == column["id"] for each in model.columns), f"{column['name']} was dropped twice")
        model.columns = tuple(each for each in model.columns if each.id != column["id"])

    return Plan(
        f"drop column {column['name']}", lambda t: t.update_schema().delete_column(column["name"]).commit(), apply
    )


def _change(model: Model, id_: int, **changes: Any) -> None:
    require(any(each.id == id_ for each in model.columns), f"column {id_}, which is gone, was changed")
    model.columns = tuple(replace(each, **changes) if each.id == id_ else each for each in model.columns)


def update_spec(planner: Planner) -> Plan | None:
    """Add a field, or remove one."""
    if not planner.bench.shape.evolves_spec:
        return None
    fields = [each for each in planner.state.spec() if each["transform"] != "void"]
    there = {(each["transform"], each["source-id"]) for each in fields}
    new = [each for each in _FIELDS if each not in there]
    if fields and (len(fields) > 1 or planner.choose.random() < 0.5):
        gone = planner.choose.choice(fields)
        return Plan(
            f"remove partition field {gone['name']}",
            lambda table: table.update_spec().remove_field(gone["name"]).commit(),
            lambda model, _: setattr(model, "spec", model.spec - {(gone["transform"], gone["source-id"])}),
        )
    transform, source = planner.choose.choice(new)
    return Plan(
        f"add partition field {transform} of {source}",
        lambda table: table.update_spec().add_field(planner.column(source), transform).commit(),
        lambda model, _: setattr(model, "spec", model.spec | {(transform, source)}),
    )


def upgrade(planner: Planner) -> Plan | None:
    version = planner.state.version + 1
    if not planner.bench.shape.upgrades or version > 3:
        return None
    return Plan(
        f"upgrade to version {version}",
        lambda table: table.upgrade_table_version(version),
        lambda model, _: setattr(model, "version", version),
    )


def nothing(_model: Model, _snapshot_ids: Sequence[int]) -> None:
    """Rows and columns stay."""
