"""Attacks by locations: a client names a file or folder that is none of its business. The text of a refusal names the
settings and no path, and nothing is read, written or asked of the metastore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.manifests.manifest_list import ManifestFile, encode_list
from iceberg_hms.rest.app import create_app
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_files import MemoryFiles
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.rest.fakes import SCHEMA, Web, divided, error_of

TABLES = "/v1/namespaces/db/tables"
TABLE = f"{TABLES}/t"
REGISTER = "/v1/namespaces/db/register"

#: None of them is in the warehouse, file:/warehouse, however it is spelled.
OUTSIDE = [
    "file:/etc/t",
    "/etc/t",
    "file:///etc/t",
    "FILE:/etc/t",
    "file:////etc/t",
    "file:/warehouse/../etc/t",
    "file:/warehouse/db/../../etc/t",
    "file:/warehouse/./../etc/t",
    "file:/warehouse/..",
    "file:/warehouse2/t",
    "file:/warehouse%2F..%2Fetc/t",
    "file:/warehouse/%2e%2E/etc/t",
    "file:/warehouse/%252e%252e/etc/t",
    "file:/warehouse/a\\..\\..\\etc",
    "file:/warehouse/t\nx",
    "file:/warehouse/t\x85x",
    "file:/warehouse/t?user=root",
    "file:/warehouse/t#fragment",
    "file:/warehouse/t;type=a",
    "file://elsewhere/warehouse/t",
    "file:warehouse/t",
    "warehouse/t",
    "s3://warehouse/t",
    "s3a://file:/warehouse/t",
    "hdfs://nn:8020/warehouse/t",
    "hdfs://nn:8020?user=hdfs&kerb_ticket=/tmp/krb5cc_0&any.key=v/warehouse/t",
    "hdfs://hdfs@nn:8020/warehouse/t",
    "hdfs:///warehouse/t",
]


class World:
    """A REST server over a catalog in memory, with the namespace db and the table db.t, and the warehouse
    file:/warehouse."""

    def __init__(self, **settings: Any) -> None:
        self.files = MemoryFiles()
        self.metastore = MemoryTablePointer(namespaces=())
        library, server = divided(settings)
        self.catalog = memory_catalog(files=self.files, pointer=self.metastore, **library)
        self.web = Web(create_app(self.catalog, token=None, settings=server))
        self.catalog.create_namespace("db")
        self.create("db.t")

    def create(self, name: str, **properties: str) -> None:
        """Create a table and commit to it, so that no commit of an earlier process can be on its way."""
        self.catalog.create_table(name, SCHEMA, properties=properties)
        self.catalog.commit(name, [], [{"action": "set-properties", "updates": {"created": "yes"}}])

    @property
    def state(self) -> object:
        rows = dict(self.metastore.rows)
        namespaces = {name: self.catalog.load_namespace_properties(name) for name in self.catalog.list_namespaces()}
        return self.files.locations(), rows, namespaces

    def refuses(self, method: str, path: str, body: object) -> None:
        """The request is forbidden, and changes nothing."""
        before = self.state
        expect_forbidden(self.web(method, path, content=orjson.dumps(body)))
        assert self.state == before

    def commit(self, *updates: dict[str, Any]) -> httpx.Response:
        return self.web("POST", TABLE, content=orjson.dumps({"requirements": [], "updates": list(updates)}))

    def refuses_commit(self, *updates: dict[str, Any]) -> None:
        self.refuses("POST", TABLE, {"requirements": [], "updates": list(updates)})


def expect_forbidden(response: httpx.Response) -> None:
    status, kind, message = error_of(response)
    assert (status, kind) == (403, "ForbiddenException")
    assert "rest.allowed-locations" in message
    assert "/" not in message


@pytest.fixture
def world() -> World:
    return World()


def new_table(**more: Any) -> dict[str, Any]:
    return {"name": "new", "schema": SCHEMA, **more}


def snapshot(list_: str, id_: int = 77, **more: Any) -> dict[str, Any]:
    summary = {"operation": "append", "added-data-files": "0"}
    sequence = {"snapshot-id": id_, "sequence-number": 1, "timestamp-ms": SYSTEM_CLOCK.now_ms()}
    return {**sequence, "summary": summary, "manifest-list": list_, "schema-id": 0, **more}


def add_snapshot(list_: str, **more: Any) -> dict[str, Any]:
    return {"action": "add-snapshot", "snapshot": snapshot(list_, **more)}


def statistics(action: str, path: str) -> dict[str, Any]:
    """The update `set-statistics` or `set-partition-statistics`."""
    file = {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1}
    blobs = {"file-footer-size-in-bytes": 1, "blob-metadata": []} if action == "set-statistics" else {}
    return {"action": action, action.removeprefix("set-"): {**file, **blobs}}


PROPERTIES = ["write.metadata.path", "write.data.path", "write.object-storage.path", "write.folder-storage.path"]


@pytest.mark.parametrize("location", OUTSIDE)
@pytest.mark.parametrize("stage", [True, False])
def test_a_table_is_not_created_outside(world: World, location: str, stage: bool) -> None:
    world.refuses("POST", TABLES, new_table(location=location, **{"stage-create": stage}))


@pytest.mark.parametrize("key", PROPERTIES)
@pytest.mark.parametrize("stage", [True, False])
def test_a_new_table_does_not_keep_its_files_outside(world: World, key: str, stage: bool) -> None:
    world.refuses("POST", TABLES, new_table(properties={key: "file:/etc"}, **{"stage-create": stage}))


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_table_is_not_moved_outside(world: World, location: str) -> None:
    world.refuses_commit({"action": "set-location", "location": location})


@pytest.mark.parametrize("key", PROPERTIES)
@pytest.mark.parametrize("location", ["file:/etc", "file:/warehouse/../etc", "hdfs://nn:8020?user=hdfs/x"])
def test_a_table_does_not_get_a_folder_outside(world: World, key: str, location: str) -> None:
    world.refuses_commit({"action": "set-properties", "updates": {key: location}})


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_manifest_list_is_not_outside(world: World, location: str) -> None:
    world.refuses_commit(add_snapshot(location))


def test_a_snapshot_of_version_1_has_no_manifests_outside() -> None:
    world = World()
    world.create("db.old", **{"format-version": "1"})
    old = snapshot("file:/x", manifests=["file:/etc/m.avro"])
    del old["manifest-list"], old["sequence-number"]
    world.refuses(
        "POST", f"{TABLES}/old", {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": old}]}
    )


@pytest.mark.parametrize("action", ["set-statistics", "set-partition-statistics"])
@pytest.mark.parametrize("path", ["file:/etc/passwd", "file:/warehouse/../etc/passwd", "hdfs://nn?user=hdfs/x"])
def test_statistics_are_not_outside(world: World, action: str, path: str) -> None:
    world.refuses_commit(statistics(action, path))


def test_one_bad_update_among_good_ones_refuses_the_commit(world: World) -> None:
    good = {"action": "set-properties", "updates": {"colour": "red"}}
    world.refuses_commit(good, {"action": "set-location", "location": "file:/etc"}, good)


def test_a_staged_table_is_not_committed_outside(world: World) -> None:
    staged = world.web("POST", TABLES, new_table(**{"stage-create": True})).json()["metadata"]
    for bad in (
        {"action": "set-location", "location": "file:/etc/t"},
        {"action": "set-properties", "updates": {"write.metadata.path": "file:/etc"}},
    ):
        updates = [
            {"action": "assign-uuid", "uuid": staged["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": staged["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": staged["location"]},
        ]
        world.refuses(
            "POST", f"{TABLES}/new", {"requirements": [{"type": "assert-create"}], "updates": [*updates, bad]}
        )
        made = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert world.web("POST", f"{TABLES}/new", made).status_code == 200


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_namespace_is_not_outside(world: World, location: str) -> None:
    world.refuses("POST", "/v1/namespaces", {"namespace": ["new"], "properties": {"location": location}})
    world.refuses("POST", "/v1/namespaces/db/properties", {"updates": {"location": location}, "removals": []})


def test_a_namespace_that_is_outside_keeps_its_location(world: World) -> None:
    world.catalog.create_namespace("far", {"location": "file:/far"})
    same = {"updates": {"location": "file:/far", "colour": "red"}, "removals": []}
    assert world.web("POST", "/v1/namespaces/far/properties", same).status_code == 200


@pytest.mark.parametrize("location", OUTSIDE)
def test_register_opens_nothing_outside(world: World, location: str) -> None:
    world.refuses("POST", REGISTER, {"name": "new", "metadata-location": location})


@pytest.mark.parametrize("overwrite", [True, False])
def test_register_does_not_tell_what_is_outside(tmp_path: Path, overwrite: bool) -> None:
    """A missing file, a folder, a file that nobody may read, JSON and real metadata: one answer for all."""
    lake = Lake(tmp_path)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "unreadable").write_bytes(b"x")
    (secret / "unreadable").chmod(0)
    (secret / "json").write_bytes(b'{"password": "hunter2"}')
    lake.catalog.create_table("db.other", SCHEMA, location=f"file:{secret}/t")
    real = lake.catalog.load_table("db.other").metadata_location
    names = [f"file:{secret}/{name}" for name in ("none", "unreadable", "json", "")]
    answers = {
        lake.web("POST", REGISTER, {"name": "t", "metadata-location": name, "overwrite": overwrite}).content
        for name in [*names, f"file:{secret}", real]
    }
    assert len(answers) == 1
    assert b"403" in answers.pop()


def test_register_does_not_show_what_is_in_a_file(world: World) -> None:
    world.files.write("file:/warehouse/app.json", b'{"format-version": "hunter2", "location": "hunter2"}')
    world.files.write("file:/warehouse/cut", b'{"password": hunter2')
    world.files.write("file:/warehouse/list", b'["hunter2"]')
    for name in ("app.json", "cut", "list", "none"):
        response = world.web("POST", REGISTER, {"name": "new", "metadata-location": f"file:/warehouse/{name}"})
        assert 400 <= response.status_code < 500
        assert "hunter2" not in response.text


def crafted(world: World, **changes: Any) -> str:
    """The location of a metadata file in the warehouse, made from that of db.t."""
    raw = orjson.loads(world.files.read(world.catalog.load_table("db.t").metadata_location))
    location = "file:/warehouse/crafted.metadata.json"
    world.files.replace(location, orjson.dumps({**raw, **changes}))
    return location


EVIL = "file:/etc/x"
CRAFTED: list[dict[str, Any]] = [
    {"location": EVIL},
    {"location": "file:/warehouse/../etc"},
    *({"properties": {key: EVIL}} for key in PROPERTIES),
    {"snapshots": [snapshot(EVIL)], "last-sequence-number": 1},
    {"metadata-log": [{"timestamp-ms": 1, "metadata-file": EVIL}]},
    {"statistics": [statistics("set-statistics", EVIL)["statistics"]]},
    {"partition-statistics": [statistics("set-partition-statistics", EVIL)["partition-statistics"]]},
]


@pytest.mark.parametrize("changes", CRAFTED, ids=lambda changes: next(iter(changes)))
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_registered_file_names_nothing_outside(world: World, changes: dict[str, Any], overwrite: bool) -> None:
    location = crafted(world, **changes)
    name = "t" if overwrite else "new"
    world.refuses("POST", REGISTER, {"name": name, "metadata-location": location, "overwrite": overwrite})


def test_a_registered_file_that_names_the_warehouse_alone_is_taken(world: World) -> None:
    log = [{"timestamp-ms": 1, "metadata-file": "file:/warehouse/x.json"}]
    location = crafted(world, location="file:/warehouse/db.db/new", **{"metadata-log": log})
    assert world.web("POST", REGISTER, {"name": "new", "metadata-location": location}).status_code == 200


class Lake:
    """The same on real files below a folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.warehouse = folder / "lake"
        self.warehouse.mkdir()
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.metastore = MemoryTablePointer(namespaces=())
        self.catalog: Catalog = memory_catalog(
            files=RoutedFiles(fsync=False),
            pointer=self.metastore,
            **{"warehouse": f"file:{self.warehouse}", **settings},
        )
        self.web = Web(create_app(self.catalog))
        self.catalog.create_namespace("db")
        self.catalog.create_table("db.t", SCHEMA)

    @property
    def files_outside(self) -> list[Path]:
        return sorted(self.outside.rglob("*"))


def test_a_link_does_not_lead_out_of_the_warehouse(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    (lake.warehouse / "link").symlink_to(lake.outside)
    location = f"file:{lake.warehouse}/link/t"
    expect_forbidden(lake.web("POST", TABLES, new_table(location=location)))
    expect_forbidden(lake.web("POST", REGISTER, {"name": "x", "metadata-location": f"{location}/m.json"}))
    move = {"requirements": [], "updates": [{"action": "set-location", "location": location}]}
    expect_forbidden(lake.web("POST", TABLE, move))
    assert lake.files_outside == []


def test_a_linked_file_is_not_registered(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    (lake.outside / "json").write_bytes(b'{"password": "hunter2"}')
    (lake.warehouse / "m.metadata.json").symlink_to(lake.outside / "json")
    body = {"name": "x", "metadata-location": f"file:{lake.warehouse}/m.metadata.json"}
    expect_forbidden(lake.web("POST", REGISTER, body))


def test_a_folder_that_became_a_link_gets_no_file(tmp_path: Path) -> None:
    """A client that shares the disk replaces its table's folder by a link, between two commits."""
    lake = Lake(tmp_path)
    folder = Path(lake.catalog.load_table("db.t").metadata.location.removeprefix("file:")) / "metadata"
    folder.rename(lake.warehouse / "moved")
    for name in (lake.warehouse / "moved").iterdir():
        (lake.outside / name.name).write_bytes(name.read_bytes())
    before = lake.files_outside
    folder.symlink_to(lake.outside)
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"colour": "red"}}]}
    expect_forbidden(lake.web("POST", TABLE, change))
    assert lake.files_outside == before


def test_a_warehouse_that_is_a_link_itself_is_served(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "warehouse").symlink_to(tmp_path / "disk")
    lake = Lake(tmp_path, warehouse=f"file:{tmp_path}/warehouse")
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"colour": "red"}}]}
    assert lake.web("POST", TABLE, change).status_code == 200
    assert lake.web("POST", TABLES, new_table()).status_code == 200


def test_manifests_that_a_clients_list_names_are_not_read_outside(world: World) -> None:
    """The list is in the table's folder; what it names is not checked before it is opened."""
    world.files.write("file:/etc/secret", b"hunter2")
    folder = "file:/warehouse/db.db/t/metadata"
    for id_, parent, number in ((1, None, 1), (2, 1, 9)):
        world.files.write(f"{folder}/{id_}.avro", encode_list(2, id_, parent, number, None, [])[0])
        numbers = {"snapshot-id": id_, "parent-snapshot-id": parent, "sequence-number": number}
        assert world.commit(add_snapshot(f"{folder}/{id_}.avro", **numbers)).status_code == 200
    # Its number is stale, and the manifest says that some of its files have numbers of their own.
    counts = {f"{kind}_{what}_count": 0 for kind in ("added", "existing", "deleted") for what in ("files", "rows")}
    counts |= {"added_files_count": 1, "sequence_number": 4, "min_sequence_number": 2}
    evil = ManifestFile("file:/etc/secret", 7, 0, 77, **counts)
    world.files.write(f"{folder}/evil.avro", encode_list(2, 77, 1, 4, None, [evil])[0])
    world.refuses_commit(add_snapshot(f"{folder}/evil.avro", **{"sequence-number": 4, "parent-snapshot-id": 1}))


def test_tables_that_lie_elsewhere_are_served(world: World) -> None:
    """Somebody points us at a metastore whose tables are where they are."""
    world.catalog.create_namespace("far", {"location": "file:/far/far.db"})
    world.catalog.create_table("far.t", SCHEMA, properties={"write.metadata.path": "file:/meta data#1/t"})
    world.catalog.create_table("far.odd", SCHEMA, location="file:/odd;place/t?")
    for name, lists in (("t", "file:/meta data#1/t"), ("odd", "file:/odd;place/t?/metadata")):
        path = f"/v1/namespaces/far/tables/{name}"
        assert world.web("GET", path).status_code == 200
        world.files.write(f"{lists}/l.avro", encode_list(2, 77, None, 1, None, [])[0])
        for _ in range(2):
            # The second one is built on what the first one left.
            colour = {"action": "set-properties", "updates": {"colour": f"{len(world.files.locations())}"}}
            commit = {"requirements": [], "updates": [colour]}
            assert world.web("POST", path, commit).status_code == 200
        appended = {"requirements": [], "updates": [add_snapshot(f"{lists}/l.avro")]}
        assert world.web("POST", path, appended).status_code == 200
    assert world.web("POST", "/v1/namespaces/far/tables", new_table()).status_code == 200
    outside = {"requirements": [], "updates": [{"action": "set-location", "location": "file:/farther"}]}
    world.refuses("POST", "/v1/namespaces/far/tables/t", outside)


def test_a_strict_server_serves_only_the_allowed_folders() -> None:
    world = World(rest_locations="strict", rest_allowed_locations="file:/more, s3://bucket/lake")
    world.catalog.create_namespace("far", {"location": "file:/far/far.db"})
    world.catalog.create_table("far.t", SCHEMA)
    path = "/v1/namespaces/far/tables"
    expect_forbidden(world.web("GET", f"{path}/t"))
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"colour": "red"}}]}
    world.refuses("POST", f"{path}/t", change)
    world.refuses("POST", path, new_table())
    assert world.web("POST", path, new_table(location="file:/more/new")).status_code == 200
    assert world.commit(change["updates"][0]).status_code == 200


def test_configured_folders_are_allowed() -> None:
    world = World(rest_allowed_locations="file:/more/, s3a://bucket/lake")
    assert world.web("POST", TABLES, new_table(location="file:///more//x/")).status_code == 200
    move = {"action": "set-properties", "updates": {"write.data.path": "s3://bucket/lake/x"}}
    assert world.commit(move).status_code == 200
    for near in (
        "file:/moreover",
        "s3://bucket/lake2",
        "s3://bucket2/lake",
        "s3://bucket/lake/../x",
        "s3://bucket//lake",
    ):
        world.refuses_commit({"action": "set-properties", "updates": {"write.data.path": near}})


def test_metadata_that_was_overwritten_does_not_lead_elsewhere(world: World) -> None:
    """A client that may write to the store changes the table's location in its metadata file; the metastore's row still
    names the old one."""
    table = world.catalog.load_table("db.t")
    raw = orjson.loads(world.files.read(table.metadata_location))
    world.files.replace(table.metadata_location, orjson.dumps({**raw, "location": "file:/etc"}))
    again = memory_catalog(files=world.files, pointer=world.metastore)
    again.services.namespaces.update = lambda *_: None  # type: ignore[method-assign]
    web = Web(create_app(again))
    before = world.files.locations()
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"colour": "red"}}]}
    expect_forbidden(web("POST", TABLE, change))
    assert world.files.locations() == before


def test_a_server_whose_clients_have_the_rights_of_the_process_is_free(world: World) -> None:
    """The one that is embedded in Spark."""
    free = Web(create_app(world.catalog, free_locations=True))
    assert free("POST", TABLES, new_table(location="file:/anywhere")).status_code == 200
    expect_forbidden(world.web("POST", TABLES, {**new_table(location="file:/anywhere"), "name": "other"}))


def test_the_python_api_stays_free(world: World) -> None:
    """Its caller has the rights of the process."""
    made = world.catalog.create_table("db.free", SCHEMA, location="file:/anywhere/free")
    assert made.metadata.location == "file:/anywhere/free"
    assert TableName("db", "free") in world.metastore.rows


@pytest.mark.parametrize(
    "location",
    [
        "hdfs://nn:8020?user=hdfs&kerb_ticket=/tmp/krb5cc_0/x",
        "hdfs://nn:8020?any.key=v/x",
        "hdfs://hdfs@nn:8020/x",
        "hdfs://hdfs:secret@nn:8020/x",
        "viewfs://a?user=hdfs/x",
        "hdfs://nn#x/x",
        "hdfs://nn;x/x",
        "s3://key:secret@bucket/x",
        "s3://bucket?endpoint_override=evil/x",
        "gs://a?b/x",
    ],
)
def test_no_option_of_a_store_comes_in_by_a_location(location: str) -> None:
    """Not even for callers of the Python API: a table's own files name such locations too."""
    files = RoutedFiles()
    for call in (files.read, files.length, files.delete, files.open, lambda where: files.write(where, b"")):
        with pytest.raises(InvalidInput, match="plain"):
            call(location)
