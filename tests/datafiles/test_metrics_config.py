"""Which metrics are kept: the table properties of Java's MetricsConfig."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_hms.datafiles.metrics_config import COUNTS, FULL, NONE, TRUNCATE_16, MetricsConfig, Mode
from tests.catalog.parquet import table_for

TWO = pa.schema([("a", pa.string()), ("s", pa.struct([("b", pa.string())]))])
DEFAULT = "write.metadata.metrics.default"
COLUMN = "write.metadata.metrics.column."
MAX_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"


def config(
    properties: dict[str, str] | None = None, *, arrow: pa.Schema = TWO, order: list[str] | None = None
) -> MetricsConfig:
    return MetricsConfig(table_for(arrow, order=order, properties=properties))


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("none", NONE),
        ("counts", COUNTS),
        ("full", FULL),
        ("FULL", FULL),
        ("truncate(16)", TRUNCATE_16),
        ("truncate(3)", Mode(counts=True, bounds=True, length=3)),
    ],
)
def test_modes_are_read_for_all_columns_and_for_one(text: str, mode: Mode) -> None:
    assert config({DEFAULT: text}).mode(1) == mode
    one = config({COLUMN + "s.b": text})
    assert (one.mode(3), one.mode(1)) == (mode, TRUNCATE_16)


@pytest.mark.parametrize("text", ["truncate(0)", "truncate", "truncate(-1)", "everything", ""])
def test_an_invalid_mode_is_ignored_with_a_warning_as_in_java(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert MetricsConfig(table_for(TWO).replace(properties={DEFAULT: text})).mode(1) == TRUNCATE_16
    assert DEFAULT in caplog.text


def test_a_missing_column_is_ignored() -> None:
    metadata = table_for(TWO).replace(properties={COLUMN + "gone": "none"})
    assert MetricsConfig(metadata).mode(1) == TRUNCATE_16


def test_wide_tables_keep_metrics_of_their_first_columns() -> None:
    wide = pa.schema(
        [("s", pa.struct([("inner", pa.int64())])), *((f"c{number}", pa.int64()) for number in range(100))]
    )
    ours = config(arrow=wide)
    modes = [ours.mode(field_id) for field_id in range(2, 102)]
    assert modes == [TRUNCATE_16] * 100
    assert ours.mode(102) == NONE, "what is inside of structs comes after the columns"
    assert config({DEFAULT: "counts"}, arrow=wide).mode(102) == COUNTS, "a mode that is set is for all columns"


def test_the_limit_can_be_set() -> None:
    limited = config({MAX_INFERRED: "1"}, arrow=pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    assert (limited.mode(1), limited.mode(2)) == (TRUNCATE_16, NONE)


@pytest.mark.parametrize("text", ["-1", "many"])
def test_an_invalid_limit_is_ignored_with_a_warning(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert MetricsConfig(table_for(TWO).replace(properties={MAX_INFERRED: text})).mode(1) == TRUNCATE_16
    assert MAX_INFERRED in caplog.text


def test_sort_columns_have_bounds_unless_a_property_says_otherwise() -> None:
    ordered = config({DEFAULT: "none"}, order=["a"])
    assert (ordered.mode(1), ordered.mode(3)) == (TRUNCATE_16, NONE)
    assert config({DEFAULT: "none"}, order=["bucket(4, a)"]).mode(1) == NONE
    assert config({DEFAULT: "none", COLUMN + "a": "counts"}, order=["a"]).mode(1) == COUNTS
    assert config({DEFAULT: "full"}, order=["a"]).mode(1) == FULL
