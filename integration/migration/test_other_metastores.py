"""Hive tables on metastores 3.1.3 and 4.1.0, made by Spark with a client that each release understands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from integration.migration.program import migrate_elsewhere
from integration.old_metastores import HMS_3_1_3, HMS_4_1_0, OldMetastore
from integration.servers import make_namespace

# The first test of a release may wait for its download.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

RELEASES = [HMS_3_1_3, HMS_4_1_0]


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.version)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    with OldMetastore(tmp_path_factory.mktemp("hms"), request.param) as server:
        yield server


def client_of(server: OldMetastore) -> Mapping[str, str]:
    """How Spark's session gets Hive's client: its own speaks to 3.1.3, and to no Hive 4, whose calls have new names."""
    release = server.release
    if release.version.startswith("3."):
        return {}
    jars = ",".join(f"file:{release.unpacked()}/{each.removesuffix('*')}*.jar" for each in release.classes)
    return {
        "spark.sql.hive.metastore.version": release.version,
        "spark.sql.hive.metastore.jars": "path",
        "spark.sql.hive.metastore.jars.path": jars,
    }


@pytest.mark.parametrize("stored_as", ["PARQUET", "ORC"])
def test_a_table_is_migrated_read_and_undone(
    server: OldMetastore, request: pytest.FixtureRequest, tmp_path: Path, stored_as: str
) -> None:
    namespace = make_namespace(server, request)
    table = f"{namespace}.t"
    kind = "EXTERNAL " if stored_as == "ORC" else ""
    place = f" LOCATION 'file:{tmp_path}/elsewhere'" if kind else ""
    columns = "(id INT, name STRING) PARTITIONED BY (month INT, p STRING)"
    values = "(1, 'one', 1, 'a/b'), (2, NULL, 1, NULL), (3, 'three', 2, 'c')"
    statements = [
        f"CREATE {kind}TABLE {table} {columns} STORED AS {stored_as}{place}",
        f"INSERT INTO {table} PARTITION (month, p) VALUES {values}",
    ]
    found = migrate_elsewhere(server, tmp_path, table, statements=statements, settings=client_of(server))
    rows = [["1", "one", "1", "a/b"], ["2", None, "1", None], ["3", "three", "2", "c"]]
    assert (found["outcome"], found["records"], len(found["files"])) == ("done", 3, 3)
    assert found["before"] == found["iceberg"] == found["after"] == rows
