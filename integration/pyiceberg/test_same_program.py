"""One program by PyIceberg over REST, by PyIceberg's HiveCatalog and by our adapter: the same after each step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

import iceberg_hms
from iceberg_hms.local.metastore import LocalMetastore
from iceberg_hms.rest.server import RestServer
from integration.old_metastores import HMS_3_1_3, HMS_4_1_0, OldMetastore, Release
from integration.pyiceberg.program import STEPS, Run, state
from integration.rest_clients import TOKEN
from integration.stores.minio import ObjectStore

#: Step -> catalog -> what it says instead.
DIFFERENT: dict[str, dict[str, Any]] = {
    # Java's rule, which is ours: the first of two snapshots that one commit adds to a branch was never current. Six
    # commits of the program are of that kind.
    "history": {"hive": 20},
    "views": {"hive": "no views"},
    "purge": {"hive": "no purge"},
}
#: What the adapter says where HiveCatalog can say nothing.
EXPECTED = {
    "views": (True, "SELECT id FROM events", True, False),
    "purge": "what was the table's is gone",
}
#: Release -> who cannot do it there. Hive 4.1 has no `get_table_objects_by_name`, by which HiveCatalog lists tables.
UNABLE = {HMS_4_1_0: ("hive",)}
#: What PyIceberg's HiveCatalog does not write into a table that a transaction creates.
CODEC = {"write.parquet.compression-codec": "zstd"}


def catalogs(stack: ExitStack, ours: Any, metastore: Any, stores: Mapping[str, str]) -> dict[str, Catalog]:
    """The three catalogs. stores: PyIceberg's properties for them."""
    server = stack.enter_context(RestServer(ours, host="127.0.0.1", port=0, token=TOKEN))
    properties = {"uri": metastore.uri, "warehouse": metastore.warehouse, **stores}
    made = {
        "adapter": load_catalog("adapter", **properties, **{"py-catalog-impl": "iceberg_hms.pyiceberg.HmsCatalog"}),
        "rest": load_catalog("rest", type="rest", uri=server.uri, token=TOKEN, **stores),
        "hive": load_catalog("hive", type="hive", **properties),
    }
    for catalog in made.values():
        stack.enter_context(catalog)
    return made


def check(
    metastore: Any, settings: Mapping[str, Any], stores: Mapping[str, str], *, left_out: Collection[str] = ()
) -> None:
    """Run the program on all catalogs, a step at a time. settings: ours for the stores. left_out: catalogs."""
    with ExitStack() as stack:
        ours = stack.enter_context(
            iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse, **settings)
        )
        runs = {
            name: Run(
                catalog,
                f"same_program_{name}",
                f"{metastore.warehouse}/same_program_{name}.db",
                ours.services.ports.files,
            )
            for name, catalog in catalogs(stack, ours, metastore, stores).items()
            if name not in left_out
        }
        for step in STEPS:
            said = {name: step(run) for name, run in runs.items()}
            seen = {name: state(run) for name, run in runs.items()}
            differences = DIFFERENT.get(step.__name__, {})
            assert said["adapter"] == EXPECTED.get(step.__name__, said["adapter"])
            assert said == {name: differences.get(name, said["adapter"]) for name in runs}, step.__name__
            for table in seen.get("hive", {}).values():
                table["properties"] = {**CODEC, **table["properties"]}
            for name in runs:
                assert seen[name] == seen["adapter"], (step.__name__, name)


def test_a_program_does_the_same_on_each_catalog(metastore: Any) -> None:
    check(metastore, {}, {})


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first test of a release may wait for its download
@pytest.mark.parametrize("release", [HMS_3_1_3, HMS_4_1_0], ids=lambda release: release.version)
def test_it_does_so_on_other_releases(release: Release, tmp_path: Path) -> None:
    with OldMetastore(tmp_path / "hms", release) as metastore:
        check(metastore, {}, {}, left_out=UNABLE.get(release, ()))


@pytest.mark.slow
def test_it_does_so_in_a_bucket(object_store: ObjectStore, bucket: str, tmp_path: Path) -> None:
    """The adapter knows the store by PyIceberg's properties alone."""
    stores = {
        "s3.endpoint": object_store.endpoint,
        "s3.region": object_store.region,
        "s3.access-key-id": object_store.access_key,
        "s3.secret-access-key": object_store.secret_key,
    }
    with LocalMetastore(tmp_path / "hms", warehouse=f"s3://{bucket}/warehouse") as metastore:
        check(metastore, object_store.settings(), stores)
