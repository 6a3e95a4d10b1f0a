"""The tables of the random test: format versions, partition specs, how they evolve, what is in their rows and how their
files are named."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: Field ids of the columns that every table begins with. A catalog gives a new table's columns their numbers in order.
ID, DAY, LEVEL, PRICE, AT, KEY, COUNT = range(1, 8)
#: As the specification's JSON has them.
COLUMNS: Final[Sequence[Mapping[str, Any]]] = (
    {"id": ID, "name": "id", "required": True, "type": "long"},
    {"id": DAY, "name": "day", "required": False, "type": "date"},
    {"id": LEVEL, "name": "level", "required": False, "type": "string"},
    {"id": PRICE, "name": "price", "required": False, "type": "double"},
    {"id": AT, "name": "at", "required": False, "type": "timestamp"},
    {"id": KEY, "name": "key", "required": False, "type": "uuid"},
    {"id": COUNT, "name": "count", "required": False, "type": "int"},
)
_DAYS: Final = (18_000, 18_001, 18_040)
_LEVELS: Final = ("error", "info", "warn")
_PRICES: Final = (0.5, -3.25, 100.0)
#: Versions of Java order these differently: some by signed halves.
_KEYS: Final = tuple(uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF ^ (high << 124)) for high in (0, 7, 8, 15))
_DAY_MICROS: Final = 86_400_000_000

#: What all local locations begin with, and those of objects.
_SPELLINGS: Final = ("file:/", "file:///", "/")
_BUCKET_SPELLINGS: Final = ("s3a://", "s3://", "s3n://")
#: What has another meaning where names are parts of a URL.
_ODD_FOLDER: Final = "50% a%20b"

Values = dict[int, Any]


@dataclass(frozen=True)
class Shape:
    """spec: pairs of transform and column. nulls: whether columns have nulls, and floats NaN. upgrades: whether the
    format version goes up in between, evolves_schema and evolves_spec: whether those change. has_field_ids: of data
    files. spellings, bucket_spellings: what local locations and those of objects begin with; the table's own is the
    first. bucket_folder: below which it lies in a bucket."""

    name: str
    version: int
    spec: tuple[tuple[str, str], ...] = ()
    nulls: bool = False
    upgrades: bool = False
    evolves_schema: bool = False
    evolves_spec: bool = False
    has_field_ids: bool = True
    spellings: tuple[str, ...] = ("file:/",)
    bucket_spellings: tuple[str, ...] = ("s3://",)
    bucket_folder: str = "warehouse"

    def partition_spec(self) -> dict[str, Any]:
        """The specification's JSON."""
        ids = {each["name"]: each["id"] for each in COLUMNS}
        fields = [
            {"source-id": ids[column], "field-id": 1000 + at, "name": f"{column}_part_{at}", "transform": transform}
            for at, (transform, column) in enumerate(self.spec)
        ]
        return {"spec-id": 0, "fields": fields}

    def cell(self, choose: random.Random) -> Values:
        """Values that the rows of one file share, so that they are in one partition by most specs."""

        def one(options: tuple[Any, ...]) -> Any:
            return None if self.nulls and choose.random() < 0.25 else choose.choice(options)

        prices = (*_PRICES, float("nan")) if self.nulls else _PRICES
        start = one(_DAYS)
        return {
            DAY: choose.choice(_DAYS),
            LEVEL: one(_LEVELS),
            PRICE: one(prices),
            AT: None if start is None else start * _DAY_MICROS,
            KEY: one(_KEYS),
        }

    def row(self, id_: int, cell: Values) -> Values:
        """One row. cell: what it shares with others."""
        at = cell[AT]
        return {ID: id_, **cell, AT: None if at is None else at + id_ % 1000, COUNT: id_ % 7}


SHAPES: Final = (
    Shape("v1-unpartitioned", 1),
    Shape("v1-identity-evolving-spec", 1, (("identity", "level"),), evolves_spec=True),
    Shape("v1-day-upgraded", 1, (("day", "at"),), upgrades=True, evolves_schema=True, bucket_spellings=("s3a://",)),
    Shape("v2-unpartitioned", 2),
    Shape("v2-identity", 2, (("identity", "level"),), bucket_folder=_ODD_FOLDER),
    Shape("v2-bucket-truncate", 2, (("bucket[2]", "id"), ("truncate[1]", "level")), bucket_spellings=("s3a://",)),
    Shape("v2-day-month", 2, (("day", "at"), ("month", "day"))),
    Shape("v2-evolving-spec", 2, (("identity", "level"),), evolves_spec=True),
    Shape("v2-evolving-schema", 2, (("identity", "day"),), evolves_schema=True),
    Shape("v2-nulls-and-nan", 2, (("identity", "level"),), nulls=True),
    Shape("v2-partitioned-by-nan", 2, (("identity", "price"),), nulls=True),
    Shape("v2-uuid", 2, (("identity", "key"),)),
    Shape("v2-name-mapping", 2, (("identity", "day"),), has_field_ids=False, evolves_schema=True),
    Shape("v2-spellings", 2, (("identity", "level"),), spellings=_SPELLINGS, bucket_spellings=_BUCKET_SPELLINGS),
    Shape("v2-upgraded", 2, (("identity", "level"),), upgrades=True),
    Shape("v3-unpartitioned", 3),
    Shape("v3-identity-nulls", 3, (("identity", "level"),), nulls=True),
    Shape(
        "v3-bucket-day",
        3,
        (("bucket[2]", "id"), ("day", "at")),
        bucket_spellings=("s3a://",),
        bucket_folder=_ODD_FOLDER,
    ),
    Shape("v3-evolving", 3, (("truncate[2]", "level"),), evolves_schema=True, evolves_spec=True),
    Shape("v3-spellings", 3, (("identity", "day"),), spellings=_SPELLINGS, bucket_spellings=_BUCKET_SPELLINGS),
)


def by_name(name: str) -> Shape:
    """Raises KeyError for a name that no shape has."""
    return {each.name: each for each in SHAPES}[name]
