from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.format.views.apply import new_view_metadata
from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.metastore.connection.storable import VALUE_MAX
from iceberg_hms.metastore.tables.view_text import expanded_sql, row_sql, set_spark_parameters
from tests.format.views import samples

SCHEMA = samples.schema(0, samples.column(1, "one"), samples.column(2, "t`wo"))
#: As Spark 4.1 writes them for a view of its own, made after `USE other`.
OF_SPARK = {
    "view.catalogAndNamespace.numParts": "2",
    "view.catalogAndNamespace.part.0": "spark_catalog",
    "view.catalogAndNamespace.part.1": "other",
}


def view(*dialects: str, columns: str | None = "a,b`c", **version: Any) -> ViewMetadata:
    texts = [samples.sql_text(f"of {dialect}", dialect) for dialect in dialects]
    raw = {
        **samples.version(1, "x"),
        "default-catalog": None,
        "default-namespace": ["other"],
        "representations": texts,
        **version,
    }
    properties = {} if columns is None else {"spark.query-column-names": columns}
    return new_view_metadata("0" * 8, "file:/w/v", properties, SCHEMA, raw, now_ms=1_000)


def parameters(metadata: ViewMetadata, **current: str) -> dict[str, str]:
    found = dict(current)
    set_spark_parameters(found, metadata)
    return found


@pytest.mark.parametrize("catalog", [{}, {"default-catalog": "spark_catalog"}])
def test_spark_finds_the_namespace_as_in_views_of_its_own(catalog: dict[str, str]) -> None:
    assert parameters(view("trino", "spark", **catalog)) == OF_SPARK


def test_the_catalog_of_the_version_is_kept() -> None:
    assert parameters(view("spark", **{"default-catalog": "prod"}))["view.catalogAndNamespace.part.0"] == "prod"


@pytest.mark.parametrize(
    "metadata",
    [
        view("trino"),
        view("spark", **{"default-namespace": []}),
        view("spark", **{"default-namespace": ["n" * 40_000]}),
        view("spark", **{"default-namespace": ["n"] * 1_000}),
    ],
)
def test_without_a_namespace_for_spark_that_of_older_sql_goes(metadata: ViewMetadata) -> None:
    assert VALUE_MAX < 40_000
    older = {**OF_SPARK, "view.catalogAndNamespace.part.2": "more"}
    assert parameters(metadata, comment="c", **older) == {"comment": "c"}


def test_a_view_that_names_its_columns_names_them_in_the_expanded_sql() -> None:
    metadata = view("spark", "trino")
    assert row_sql(metadata) == "of spark"
    assert expanded_sql(metadata) == "SELECT `a` AS `one`, `b``c` AS `t``wo` FROM (\nof spark\n) AS `view`"


@pytest.mark.parametrize("columns", [None, "", "a", "a,b,c", "a,A", "one,t`wo"])
def test_columns_that_are_the_same_or_that_no_one_can_match_leave_the_sql_as_it_is(columns: str | None) -> None:
    assert expanded_sql(view("spark", columns=columns)) == "of spark"


@pytest.mark.parametrize("dialects", [("spark", "HIVE"), ("trino", "spark")])
def test_sql_of_others_is_left_as_it_is(dialects: tuple[str, ...]) -> None:
    metadata = view(*dialects)
    assert expanded_sql(metadata) == row_sql(metadata) != "of spark"


def test_without_sql_there_is_none() -> None:
    raw = view("spark").raw
    metadata = ViewMetadata({**raw, "versions": [{**raw["versions"][0], "representations": [{"type": "other"}]}]})
    assert expanded_sql(metadata) is None
