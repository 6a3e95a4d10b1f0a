"""What is refused of a session that runs. That its end ends the server is tested on real Spark."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.spark.configuration import METASTORE_URIS, SQL_EXTENSIONS, WAREHOUSE, session_configuration
from iceberg_hms.spark.running_session import refuse_other

ASKED: dict[str, Any] = {
    "server_uri": "http://127.0.0.1:1",
    "token": "a",
    "metastore_uri": "thrift://h:1",
    "warehouse": "file:/wh",
}
RUNNING = {**session_configuration(**ASKED), "spark.master": "local"}


def test_a_session_of_the_same_settings_is_not_refused() -> None:
    refuse_other(RUNNING, session_configuration(**ASKED))
    # Spark writes the warehouse in its own way, and the user's extensions stay.
    written = {WAREHOUSE: "file:///wh/", SQL_EXTENSIONS: f"org.x.Y,{RUNNING[SQL_EXTENSIONS]}"}
    refuse_other({**RUNNING, **written}, session_configuration(**ASKED))


def test_a_session_whose_metastore_is_in_hive_site_is_not_refused() -> None:
    running = {key: value for key, value in RUNNING.items() if key not in (METASTORE_URIS, WAREHOUSE)}
    refuse_other(running, session_configuration(**ASKED))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"metastore_uri": "thrift://h:2"}, "on the metastore 'thrift://h:1'; this one would be on 'thrift://h:2'"),
        # Another metastore has another embedded server, too.
        ({"metastore_uri": "thrift://h:2", "server_uri": "http://127.0.0.1:2"}, "on the metastore 'thrift://h:1'"),
        ({"warehouse": "file:/x"}, "with the warehouse 'file:/wh'; this one would have 'file:/x'"),
        ({"extensions": False}, r"with Iceberg's SQL extensions \(extensions=True\)"),
        ({"server_uri": "http://127.0.0.1:2"}, "with another server, or with other settings of the embedded server"),
        ({"token": "b"}, "with another token"),
        (
            {"library": Settings(s3_endpoint="http://s:1", s3_access_key_id="a", s3_secret_access_key="hidden")},
            r"with other values of [a-z._]*\.s3\.endpoint, [^']*secret-access-key ",
        ),
    ],
)
def test_a_session_that_differs_is_refused_with_the_difference(other: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=rf"runs already, {why}.*stop it first"):
        refuse_other(RUNNING, session_configuration(**{**ASKED, **other}))


def test_a_session_without_extensions_is_refused_where_they_are_wanted() -> None:
    running = session_configuration(**ASKED, extensions=False)
    with pytest.raises(ConfigError, match=r"without Iceberg's SQL extensions \(extensions=False\)"):
        refuse_other(running, session_configuration(**ASKED))


@pytest.mark.parametrize("catalog", [None, "org.apache.spark.sql.delta.catalog.DeltaCatalog"])
def test_a_session_of_another_catalog_is_refused(catalog: str | None) -> None:
    running = {"spark.master": "local"}
    if catalog is not None:
        running["spark.sql.catalog.spark_catalog"] = catalog
    with pytest.raises(ConfigError, match=r"runs already, without this session catalog.*stop it first"):
        refuse_other(running, session_configuration(**ASKED))
