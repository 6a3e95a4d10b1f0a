"""Spark statements that name a folder outside of the warehouse: `serve` refuses them and says what would allow them,
and takes them once its operator has done so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.spark.configuration import session_configuration
from integration.servers import make_namespace
from integration.spark_fixtures import run_elsewhere
from integration.spark_statements import Outcome
from integration.test_server_restarts import Serving
from tests.security.callers import write_tokens

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETUP = """
CREATE TABLE DB.plain (id BIGINT) USING parquet LOCATION 'OUT/plain'
INSERT INTO DB.plain VALUES (1), (2)
CREATE TABLE DB.moved (id BIGINT) USING iceberg
INSERT INTO DB.moved VALUES (1)
"""
OUTSIDE = """
CREATE TABLE DB.made (id BIGINT) USING iceberg LOCATION 'OUT/made'
CREATE TABLE DB.selected USING iceberg LOCATION 'OUT/selected' AS SELECT 1L AS id
ALTER TABLE DB.moved SET LOCATION 'OUT/moved'
CALL spark_catalog.system.snapshot(source_table => 'DB.plain', table => 'DB.shot', location => 'OUT/shot')
CALL spark_catalog.system.migrate('DB.plain')
"""
#: After them: each table takes a row, and has so many.
ROWS = {"made": 1, "selected": 2, "moved": 2, "shot": 3, "plain": 3}


def test_a_granted_folder_takes_what_was_refused_before(
    metastore: Any, namespace: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The callers may write in their own namespaces alone. The folder is for one of them."""
    other = make_namespace(metastore, request)
    config, outside = tmp_path / "hms.toml", tmp_path / "outside"
    where = f'uri = "{metastore.uri}"\nwarehouse = "{metastore.warehouse}"\nrest.port = 0\n'
    config.write_text(where)
    tokens = write_tokens(tmp_path / "tokens", {"one": f"write[{namespace}]", "other": f"write[{other}]"})
    arguments = ["--config", str(config), "--token-file", str(tmp_path / "tokens")]
    with ExitStack() as stack:
        server = Serving(stack, arguments, tmp_path / "serve.log")

        def run(caller: str, database: str, *texts: str) -> Sequence[Outcome]:
            own = session_configuration(
                server_uri=server.uri,
                token=tokens[caller],
                metastore_uri=metastore.uri,
                warehouse=metastore.warehouse,
            )
            lines = [line for text in texts for line in text.strip().splitlines()]
            statements = [line.replace("DB", database).replace("OUT", f"file:{outside}") for line in lines]
            return run_elsewhere(metastore, "stock", statements, tmp_path, own)

        found = run("one", namespace, SETUP, OUTSIDE, "SELECT count(*) FROM DB.plain")
        assert [each for each in found[:4] if each.error] == []
        check_refused(found[4:9])
        assert found[9].rows == ["(2,)"], "the Hive table is as it was"
        config.write_text(f'{where}rest.allowed-locations = "file:{outside}[{namespace}]"\n')
        server.restart_in_place(lambda: None)
        more = "\n".join(f"INSERT INTO DB.{table} VALUES (7)\nSELECT count(*) FROM DB.{table}" for table in ROWS)
        found = run("one", namespace, OUTSIDE, more)
        assert [each for each in found if each.error] == []
        assert [each.rows for each in found[6::2]] == [[f"({count},)"] for count in ROWS.values()]
        check_refused(
            run("other", other, SETUP.replace("OUT", f"OUT/{other}"), OUTSIDE.replace("OUT", f"OUT/{other}"))[4:]
        )
        server.end()


def check_refused(outcomes: Sequence[Outcome]) -> None:
    """403, and the setting that would allow it."""
    assert len(outcomes) == 5
    for each in outcomes:
        assert "ForbiddenException" in each.message, each
        assert "add it to `rest.allowed-locations` as `<folder>[<namespace>]`" in each.message, each
