"""What the server reads on its own behalf for a client's table: no more than the client may name."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.format.file_bounds import DEFAULT_BOUNDS, Limit
from iceberg_hms.format.manifests.manifest_list import ManifestFile, encode_list
from iceberg_hms.rest.app import create_app
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from tests.metastore.runtimes import Counted
from tests.rest.fakes import SCHEMA, Web
from tests.security.test_locations import add_snapshot

MIN_COUNT = "commit.manifest.min-count-to-merge"

TABLE = "/v1/namespaces/db/tables/t"


class Watched(MemoryFiles):
    """Notes which files are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def read(self, location: str, limit: Limit = DEFAULT_BOUNDS.metadata_bytes) -> bytes:
        self.opened.append(location)
        return super().read(location, limit)

    def open(self, location: str) -> Any:
        self.opened.append(location)
        return super().open(location)


class Server:
    """A server that merges manifests of db.t as soon as there are two. Its client names manifests in a folder."""

    def __init__(self, folder: str, *, free: bool = False) -> None:
        self.files, self.runtime = Watched(), Counted()
        self.catalog = memory_catalog(files=self.files, runtime=self.runtime)
        self.web = Web(create_app(self.catalog, free_locations=free))
        self.catalog.create_namespace("db")
        location = self.catalog.create_table("db.t", SCHEMA, properties={MIN_COUNT: "2"}).metadata.location
        counts = {f"{kind}_{what}_count": 0 for kind in ("existing", "deleted") for what in ("files", "rows")}
        counts |= {"added_files_count": 1, "added_rows_count": 1, "sequence_number": 1, "min_sequence_number": 1}
        self.named = [f"{folder}/{number}.avro" for number in range(6)]
        for each in self.named:
            self.files.write(each, b"hunter2")
        listed = [ManifestFile(each, 7, 0, 77, **counts) for each in self.named]
        self.files.write(f"{location}/metadata/l.avro", encode_list(2, 77, None, 1, None, listed)[0])
        head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 77}
        commit = {"requirements": [], "updates": [add_snapshot(f"{location}/metadata/l.avro"), head]}
        answer = self.web("POST", TABLE, commit)
        assert answer.status_code == 200, answer.text
        self.runtime.join()

    @property
    def read(self) -> set[str]:
        """What it opened of that."""
        return set(self.named) & set(self.files.opened)


@pytest.mark.parametrize("folder", ["file:/proc/self", "file:/warehouse2/db.db/t", "s3://bucket/x", "hdfs://nn:8020/x"])
def test_merging_and_purging_open_nothing_outside(folder: str) -> None:
    server = Server(folder)
    with server.catalog:
        assert server.read == set()
        assert server.web("DELETE", f"{TABLE}?purgeRequested=true").status_code == 204
        server.runtime.join()
        assert server.read == set()
        assert set(server.named) <= set(server.files.locations())


@pytest.mark.parametrize(("folder", "free"), [("file:/warehouse/db.db/t/more", False), ("file:/proc/self", True)])
def test_they_open_what_the_client_may_name(folder: str, free: bool) -> None:
    server = Server(folder, free=free)
    with server.catalog:
        assert server.read, "else this test shows nothing"
