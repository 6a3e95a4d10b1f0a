"""Schemas of pyarrow become Iceberg schemas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_hms.datafiles.arrow_schemas import from_arrow
from iceberg_hms.errors import InvalidInput


@pytest.mark.parametrize(
    ("arrow", "ours"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "int"),
        (pa.int16(), "int"),
        (pa.int32(), "int"),
        (pa.uint8(), "int"),
        (pa.uint16(), "int"),
        (pa.uint32(), "long"),
        (pa.int64(), "long"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(9, 2), "decimal(9, 2)"),
        (pa.decimal256(38, 10), "decimal(38, 10)"),
        (pa.date32(), "date"),
        (pa.time64("us"), "time"),
        (pa.time32("ms"), "time"),
        (pa.timestamp("s"), "timestamp"),
        (pa.timestamp("us"), "timestamp"),
        (pa.timestamp("us", tz="UTC"), "timestamptz"),
        (pa.timestamp("ms", tz="Europe/Berlin"), "timestamptz"),
        (pa.timestamp("ns"), "timestamp_ns"),
        (pa.timestamp("ns", tz="UTC"), "timestamptz_ns"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.uuid(), "uuid"),
        (pa.binary(16), "fixed[16]"),
        (pa.binary(), "binary"),
        (pa.large_binary(), "binary"),
        (pa.null(), "unknown"),
    ],
    ids=str,
)
def test_pyarrows_types_become_icebergs(arrow: pa.DataType, ours: str) -> None:
    assert str(from_arrow(pa.schema([("c", arrow)])).fields[0].type) == ours


@pytest.mark.parametrize(
    "arrow",
    [pa.uint64(), pa.float16(), pa.date64(), pa.time64("ns"), pa.decimal256(50, 2), pa.duration("us")],
    ids=str,
)
def test_a_type_that_iceberg_lacks_is_refused_with_the_columns_name(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match=r"a\.element\.b") as caught:
        from_arrow(pa.schema([("a", pa.list_(pa.struct([("b", arrow)])))]))
    assert caught.value.next_step


def test_ids_are_given_a_level_at_a_time_as_java_does() -> None:
    schema = from_arrow(
        pa.schema(
            [
                ("p", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())]))),
                ("m", pa.map_(pa.string(), pa.int64())),
                ("z", pa.int32()),
            ]
        )
    )
    names = ["p", "m", "z", "p.element", "p.element.x", "p.element.y", "m.key", "m.value"]
    assert [schema.find(name).id for name in names] == list(range(1, 9))  # type: ignore[union-attr]


def test_required_and_docs_are_kept() -> None:
    (field,) = from_arrow(pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"doc": "who"})])).fields
    assert (field.required, field.doc) == (True, "who")
