"""Which types a column may be promoted to in a table (spec: Schema Evolution)."""

from __future__ import annotations

from typing import Any, Final

from iceberg_hms.changes.evolution import is_promotion_allowed
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.types import NestedField, PrimitiveType, Type

#: Promotions from these types exist since format version 3.
_SINCE_V3: Final = ("date", "unknown")
#: Transforms whose values of a date and of its midnight are equal.
_SAME_OF_MIDNIGHT: Final = frozenset({"year", "month", "day", "void"})


def check_promotion(base: TableMetadata, name: str, field: NestedField, new: Type) -> None:
    """Raises InvalidInput unless the column `field` may become `new`: the specification has the promotion, the table's
    format version too, and each partition field of the column keeps its values.

    Java has no promotion of the types date and unknown yet (TypeUtil.isPromotionAllowed); the specification has.
    """
    old = field.type
    if old == new:
        return
    what = f"Cannot change column type: {name}: {old} -> {new}"
    if not is_promotion_allowed(old, new) or (
        not isinstance(old, PrimitiveType) and not isinstance(new, PrimitiveType)
    ):
        raise InvalidInput(what, next_step=_advice(old, new))
    if isinstance(old, PrimitiveType) and old.kind in _SINCE_V3 and base.format_version < 3:
        raise InvalidInput(
            f"{what}: this promotion needs format version 3, the table has {base.format_version}",
            next_step="upgrade the table with upgrade_format_version(3)",
        )
    if old != types.DATE:
        return
    for spec in base.specs:
        for each in spec.fields:
            if field.id in (each.source_id, *each.more_source_ids) and str(each.transform) not in _SAME_OF_MIDNIGHT:
                raise InvalidInput(
                    f"{what}: the values of partition field {each.name} ({each.transform}) of spec {spec.spec_id} "
                    "would change",
                    next_step="add a column of the new type instead",
                )


def promoted_default(old: Type, new: Type, default: Any) -> Any:
    """The JSON form of a default value once its column is promoted."""
    if default is not None and old == types.DATE and new != types.DATE:
        return f"{default}T00:00:00"
    return default


def _advice(old: Type, new: Type) -> str:
    if isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType):
        return "int may become long, float double, a decimal one of more digits and equal scale; add a column otherwise"
    return "add, delete or update the fields inside of the column by their own paths"
