"""HMS parameters as rows."""

from __future__ import annotations

from iceberg_hms.inspect.pointer import parameter_rows
from tests.inspect import samples


def test_every_parameter_is_a_row_and_the_pointer_comes_first() -> None:
    rows = parameter_rows(samples.pointer(), samples.metadata().properties)
    assert {row["parameter"]: row["value"] for row in rows} == samples.PARAMETERS
    assert [row["parameter"] for row in rows] == [
        "table_type",
        "EXTERNAL",
        "metadata_location",
        "previous_metadata_location",
        "current-snapshot-id",
        "owner",
        "trino_version",
        "write.parquet.compression-codec",
    ]


def test_copies_of_table_properties_are_distinguished_from_other_tools_parameters() -> None:
    rows = parameter_rows(samples.pointer(), samples.metadata().properties)
    meaning = {row["parameter"]: row["meaning"] for row in rows}
    assert meaning["owner"] == "copy of the table property"
    assert meaning["trino_version"] == "set by another tool"
    assert meaning["write.parquet.compression-codec"] == "differs from the table property, which is 'zstd'"
    assert "a commit swaps" in meaning["metadata_location"]


def test_a_row_without_parameters_has_no_rows() -> None:
    assert parameter_rows(samples.pointer(parameters={}), {}) == []
