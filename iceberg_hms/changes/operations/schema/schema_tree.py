"""Makes the columns of a schema after deletions, updates, additions and moves, each by field id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type


@dataclass(frozen=True, slots=True)
class Move:
    """Where a field goes among its siblings: before or after another one, by id, else to the first place."""

    field_id: int
    before: int | None = None
    after: int | None = None


@dataclass
class Edits:
    """What happens to a schema.

    deleted: ids of fields. changed: id -> the field as it becomes; the fields inside of it count as before. added:
    fields in their order, by the id of the struct, element or value that gets them; None for columns. moves: likewise,
    applied in their order once fields were added.
    """

    deleted: set[int] = field(default_factory=set)
    changed: dict[int, NestedField] = field(default_factory=dict)
    added: dict[int | None, list[int]] = field(default_factory=dict)
    moves: dict[int | None, list[Move]] = field(default_factory=dict)

    def apply(self, columns: Sequence[NestedField]) -> tuple[NestedField, ...]:
        """The columns that result, unchecked."""
        return self._fields(columns, None)

    def added_fields(self) -> Mapping[int | None, Sequence[NestedField]]:
        return {parent: [self.changed[each] for each in ids] for parent, ids in self.added.items()}

    def _fields(self, fields: Sequence[NestedField], parent: int | None) -> tuple[NestedField, ...]:
        kept = [self._field(each) for each in fields if each.id not in self.deleted]
        kept += [self.changed[each] for each in self.added.get(parent, ())]
        for move in self.moves.get(parent, ()):
            kept = _moved(kept, move)
        return tuple(kept)

    def _field(self, was: NestedField) -> NestedField:
        now = self.changed.get(was.id, was)
        return replace(now, type=self._type(now.type, was.id))

    def _type(self, type_: Type, owner: int) -> Type:
        match type_:
            case PrimitiveType():
                return type_
            case StructType():
                return StructType(self._fields(type_.fields, owner))
            case ListType():
                element = self._field(type_.element_field)
                return ListType(type_.element_id, element.required, element.type)
            case MapType():
                value = self._field(type_.value_field)
                return MapType(type_.key_id, type_.key, type_.value_id, value.required, value.type)


def _moved(fields: list[NestedField], move: Move) -> list[NestedField]:
    moved = next((each for each in fields if each.id == move.field_id), None)
    rest = [each for each in fields if each.id != move.field_id]
    beside = move.before if move.before is not None else move.after
    at = 0 if beside is None else next((at for at, each in enumerate(rest) if each.id == beside), None)
    if moved is None or at is None:
        raise InvalidInput(
            f"Cannot move a column that was deleted: field id {move.field_id if moved is None else beside}"
        )
    rest.insert(at + (move.after is not None), moved)
    return rest
