"""Random schemas, and random steps that evolve them, for Hypothesis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.schema.types import parse_type, walk_fields
from tests.changes.operations.columns import column, list_of, map_of, struct

NAMES = ("a", "b", "c", "d")
PRIMITIVES = ("int", "long", "float", "double", "string", "date", "decimal(9, 2)", "decimal(12, 2)")


@dataclass(frozen=True)
class Step:
    """One step: what it does, to which column, and with what."""

    kind: str
    path: tuple[str, ...]
    more: Any = None

    def __call__(self, draft: SchemaDraft) -> None:
        match self.kind:
            case "add":
                draft.add_column(self.path, parse_type(self.more))
            case "delete":
                draft.delete_column(self.path)
            case "rename":
                draft.rename_column(self.path, self.more)
            case "type":
                draft.update_column(self.path, parse_type(self.more))
            case "doc":
                draft.update_column(self.path, doc=self.more)
            case "optional":
                draft.update_column(self.path, required=False)
            case "first":
                draft.move(self.path)
            case "before":
                draft.move(self.path, before=(*self.path[:-1], self.more))
            case "after":
                draft.move(self.path, after=(*self.path[:-1], self.more))


def _type(draw: st.DrawFn, ids: Iterator[int], depth: int) -> Any:
    kind = draw(st.sampled_from(("primitive", "primitive", "struct", "list", "map"))) if depth else "primitive"
    match kind:
        case "struct":
            return _struct(draw, ids, depth - 1)
        case "list":
            return list_of(next(ids), _type(draw, ids, depth - 1))
        case "map":
            return map_of(next(ids), "string", next(ids), _type(draw, ids, depth - 1))
        case _:
            return draw(st.sampled_from(PRIMITIVES))


def _struct(draw: st.DrawFn, ids: Iterator[int], depth: int) -> dict[str, Any]:
    found = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return struct(*(column(next(ids), name, _type(draw, ids, depth), required=draw(st.booleans())) for name in found))


@st.composite
def schemas(draw: st.DrawFn, *, required: bool = True) -> list[dict[str, Any]]:
    """The columns of a schema, in JSON. required: whether some are."""
    fields: list[dict[str, Any]] = _struct(draw, itertools.count(1), 2)["fields"]
    return fields if required else [_optional(field) for field in fields]


def _optional(raw: Any) -> Any:
    match raw:
        case dict():
            return {key: False if key == "required" else _optional(value) for key, value in raw.items()}
        case list():
            return [_optional(each) for each in raw]
        case _:
            return raw


@st.composite
def steps(draw: st.DrawFn, columns: list[dict[str, Any]]) -> Step:
    """A step that has a chance on a schema: most name one of its columns."""
    schema = Schema.parse(struct(*columns))
    known = [_path(schema, field.id) for field in walk_fields(schema.as_struct())]
    kind = draw(
        st.sampled_from(("add", "add", "delete", "rename", "type", "doc", "optional", "first", "before", "after"))
    )
    path = draw(st.sampled_from(known))
    if kind == "add":
        above = draw(st.sampled_from([(), *known]))
        return Step(kind, (*above, draw(st.sampled_from((*NAMES, "e", "f")))), _type(draw, itertools.count(1), 1))
    if kind == "type":
        return Step(kind, path, draw(st.sampled_from(PRIMITIVES)))
    return Step(kind, path, draw(st.sampled_from((*NAMES, "g"))))


@st.composite
def updates(draw: st.DrawFn, columns: list[dict[str, Any]]) -> list[Step]:
    """The steps of one update; often it gives a column's name to another one, which is what others trip over."""
    names = [field["name"] for field in columns]
    name = draw(st.sampled_from(names))
    match draw(st.sampled_from(("any", "any", "replace", "exchange"))):
        case "replace":
            return [Step("delete", (name,)), Step("add", (name,), draw(st.sampled_from(PRIMITIVES)))]
        case "exchange":
            other = draw(st.sampled_from(names))
            return [Step("rename", (name,), other), Step("rename", (other,), name)]
        case _:
            return list(draw(st.lists(steps(columns), min_size=1, max_size=3)))


def _path(schema: Schema, field_id: int) -> tuple[str, ...]:
    names: list[str] = []
    field = schema.field(field_id)
    while field is not None:
        names.append(field.name)
        field = schema.parent_of(field.id)
    return tuple(reversed(names))
