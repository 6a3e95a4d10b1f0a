"""Iceberg's REST compatibility kit passes on `iceberg-hms serve` in front of real metastores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration import compatibility_kit
from integration.command_line import running
from integration.engines.postgresql import postgresql
from integration.old_metastores import HMS_4_1_0, STOCK_COLUMNS, OldMetastore

#: Of the kit of Iceberg 1.11. It assumes some away: nested and empty namespaces, and dots and slashes in
#: names, which a metastore does not have; and a configuration for each test, which no server outside its JVM has.
TESTS, ASSUMED_AWAY = 145, 12


@pytest.fixture(scope="module")
def hms_4_1_0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    folder = tmp_path_factory.mktemp("hms 4 on postgresql")
    with (
        postgresql() as database,
        OldMetastore(folder, HMS_4_1_0, database="postgres", conf={**database.conf, **STOCK_COLUMNS}) as server,
    ):
        yield server


def check(metastore: Any, folder: Path) -> None:
    # The kit makes URIs of locations as they are, so a test's folder with a space would not do.
    warehouse = f"file:{folder}/warehouse"
    command = ["serve", "--port", "0", "--metastore-uri", metastore.uri, "--warehouse", warehouse]
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        (folder / "log").open("w") as log,
        running(*command, "--set", f"rest.allowed-locations={compatibility_kit.LOCATIONS}", stderr=log) as (_, server),
    ):
        results = compatibility_kit.run(server["uri"], server["token"], Path(scratch))
    assert not results.failed, f"{len(results.failed)} of the kit's tests failed:\n{results}"
    assert (len(results.passed), len(results.assumed_away)) == (TESTS, ASSUMED_AWAY)


@pytest.mark.timeout(900)
def test_it_passes_on_the_embedded_metastore(metastore: Any, tmp_path: Path) -> None:
    check(metastore, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_passes_on_4_1_0_with_postgresql(hms_4_1_0: OldMetastore, tmp_path: Path) -> None:
    check(hms_4_1_0, tmp_path)
