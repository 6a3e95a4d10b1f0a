"""Which promotions a table allows."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.schema_promotion import check_promotion, promoted_default
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.types import parse_type
from tests.changes.operations.columns import column, wide_table


def check(old: str, new: str, *, version: int = 3, transform: str | None = None, old_spec: bool = False) -> None:
    spec = {"spec-id": 0, "fields": []}
    if transform is not None:
        spec["fields"] = [{"source-id": 1, "field-id": 1000, "transform": transform, "name": "part"}]
    specs = [spec, {"spec-id": 1, "fields": []}]
    base = wide_table(
        version,
        columns=[column(1, "c", old)],
        partition_specs=specs,
        default_spec_id=1 if old_spec else 0,
        last_partition_id=1000,
    )
    check_promotion(base, "c", base.schema.fields[0], parse_type(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [("int", "long"), ("float", "double"), ("decimal(9,2)", "decimal(10,2)"), ("string", "string")],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_widens_numbers(old: str, new: str, version: int) -> None:
    check(old, new, version=version)


@pytest.mark.parametrize(("old", "new"), [("date", "timestamp"), ("date", "timestamp_ns"), ("unknown", "string")])
def test_version_three_promotes_more(old: str, new: str) -> None:
    check(old, new)
    with pytest.raises(InvalidInput, match=f"c: {old} -> {new}: this promotion needs format version 3"):
        check(old, new, version=2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "int"),
        ("double", "float"),
        ("decimal(9,2)", "decimal(8,2)"),
        ("decimal(9,2)", "decimal(10,3)"),
        ("date", "timestamptz"),
        ("date", "timestamptz_ns"),
        ("timestamp", "timestamp_ns"),
        ("int", "string"),
        ("string", "binary"),
        ("int", "unknown"),
    ],
)
def test_the_spec_has_no_other_promotion(old: str, new: str) -> None:
    with pytest.raises(InvalidInput, match="Cannot change column type: c: "):
        check(old, new)


@pytest.mark.parametrize("transform", ["identity", "bucket[4]"])
@pytest.mark.parametrize("old_spec", [False, True])
def test_a_date_whose_partition_values_would_change_stays(transform: str, old_spec: bool) -> None:
    with pytest.raises(InvalidInput, match=r"partition field part .* of spec 0 would change"):
        check("date", "timestamp", transform=transform, old_spec=old_spec)


@pytest.mark.parametrize("transform", ["year", "month", "day", "void"])
def test_a_date_whose_partition_values_stay_is_promoted(transform: str) -> None:
    check("date", "timestamp", transform=transform)


def test_numbers_keep_their_partition_values() -> None:
    check("int", "long", transform="bucket[4]")
    check("int", "long", transform="truncate[4]")
    check("decimal(9,2)", "decimal(12,2)", transform="bucket[4]")


def test_only_a_dates_default_changes_its_form() -> None:
    assert promoted_default(types.DATE, types.TIMESTAMP_NS, "2021-04-01") == "2021-04-01T00:00:00"
    assert promoted_default(types.DATE, types.TIMESTAMP, None) is None
    assert promoted_default(types.INT, types.LONG, 5) == 5
