"""What a client can make the server delete: files of its own table in that table's folder, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet
import pytest

from iceberg_hms.rest.app import create_app
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer
from tests.rest.fakes import SCHEMA, Web, divided, error_of

TABLES = "/v1/namespaces/db/tables"


class Server:
    """A server over real files, with the table `victim` that holds a row and was committed to twice. The attacker has
    the table `evil`, and speaks REST. home: the attacker's database; the victim's is `db`."""

    def __init__(self, folder: Path, home: str = "db", **settings: Any) -> None:
        self.root = folder
        self.home = home
        self.metastore = MemoryTablePointer(namespaces=())
        library, server = divided(settings)
        self.catalog = memory_catalog(
            files=RoutedFiles(fsync=False),  # type: ignore[arg-type]
            pointer=self.metastore,
            warehouse=f"file:{folder}/wh",
            **library,
        )
        # What clients may not name any more may be in a table from earlier days.
        self.web = Web(create_app(self.catalog, free_locations=True, settings=server))
        for database in dict.fromkeys(("db", home)):
            self.catalog.create_namespace(database)
        self.fill("victim")
        self.create("evil")
        self.kept = self.files("victim")
        assert len(self.kept) == 6, "three metadata files, a list, a manifest and a data file"

    def database(self, name: str) -> str:
        """That of a table."""
        return self.home if name == "evil" else "db"

    def tables(self, name: str) -> str:
        """The path of requests for a table and those beside it."""
        return f"/v1/namespaces/{self.database(name)}/tables"

    def folder(self, name: str) -> Path:
        """That of a table which was created without a location."""
        return self.root / "wh" / f"{self.database(name)}.db" / name

    def create(self, name: str, **more: Any) -> dict[str, Any]:
        return self.asked("POST", self.tables(name), {"name": name, "schema": SCHEMA, **more})

    def fill(self, name: str) -> None:
        """A table with a row in its own folder."""
        location = self.create(name)["metadata"]["location"]
        data = Path(location.removeprefix("file:")) / "data" / "1.parquet"
        data.parent.mkdir()
        pa.parquet.write_table(pa.table({"level": ["a"], "message": ["b"]}), data)
        self.catalog.load_table(f"db.{name}").append([f"file:{data}"])
        self.commit(name, {"action": "set-properties", "updates": {"n": "1"}})

    def asked(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.web(method, path, body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def commit(self, name: str, *updates: dict[str, Any], requirements: Any = ()) -> Any:
        return self.asked(
            "POST", f"{self.tables(name)}/{name}", {"requirements": list(requirements), "updates": list(updates)}
        )

    def purge(self, name: str = "evil") -> None:
        self.asked("DELETE", f"{self.tables(name)}/{name}?purgeRequested=true")

    def files(self, name: str) -> list[str]:
        """The files in a table's folder, as locations."""
        found = self.folder(name).rglob("*")
        return sorted(f"file:{path}" for path in found if path.is_file())

    def live(self) -> str:
        """The victim's current metadata file."""
        return self.catalog.load_table("db.victim").metadata_location

    def names_statistics(self, *paths: str) -> None:
        """Let `evil` name files as its statistics, each of a snapshot of its own."""
        for number, path in enumerate(paths, 1):
            self.commit("evil", statistics(path, number))


def statistics(path: str, number: int = 1, kind: str = "set-partition-statistics") -> dict[str, Any]:
    file: dict[str, Any] = {"snapshot-id": number, "statistics-path": path, "file-size-in-bytes": 1}
    if kind == "set-statistics":
        file |= {"file-footer-size-in-bytes": 1, "blob-metadata": []}
        return {"action": kind, "snapshot-id": number, "statistics": file}
    return {"action": kind, "partition-statistics": file}


def snapshot(list_: str, id_: int, parent: int | None = None, number: int = 1) -> dict[str, Any]:
    raw = {
        "snapshot-id": id_,
        "sequence-number": number,
        "timestamp-ms": 1_700_000_000_000 + number,
        "manifest-list": list_,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return {"action": "add-snapshot", "snapshot": raw if parent is None else {**raw, "parent-snapshot-id": parent}}


def set_ref(id_: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id_}


def assert_main(id_: int) -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": id_}


@pytest.fixture(params=["db", "other"], ids=["beside", "in another database"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(tmp_path, request.param)
    with made.catalog:
        yield made


def by_statistics(server: Server) -> None:
    for number, path in enumerate(server.kept, 1):
        server.commit("evil", statistics(path, number, "set-statistics"))


def by_partition_statistics(server: Server) -> None:
    server.names_statistics(*server.kept)


def by_dots(server: Server) -> None:
    dots = f"{server.folder('evil')}/data/../../../db.db/victim/"
    server.names_statistics(*(path.replace(f"{server.folder('victim')}/", dots) for path in server.kept))


def by_a_link(server: Server) -> None:
    """A folder of the attacker's table that an operator has put elsewhere, or one that another program made."""
    link = server.folder("evil") / "link"
    link.symlink_to(server.folder("victim"))
    server.names_statistics(*(path.replace(f"{server.folder('victim')}", str(link)) for path in server.kept))


def by_a_manifest_list(server: Server) -> None:
    seen = server.catalog.load_table("db.victim").metadata.current_snapshot
    assert seen is not None
    server.commit("evil", snapshot(str(seen.manifest_list), seen.snapshot_id), set_ref(seen.snapshot_id))


def by_its_metadata(server: Server) -> None:
    """The registration is refused: the folder is another table's."""
    server.purge()
    body = {"name": "evil", "metadata-location": server.live()}
    answer = server.web("POST", f"/v1/namespaces/{server.home}/register", body)
    assert error_of(answer)[:2] == (400, "BadRequestException")
    server.create("evil")


def _moved(place: str, server: Server) -> None:
    server.names_statistics(*server.kept)
    # Whether the server takes the location is not the point: another writer may set any.
    name = next(name for name in server.metastore.rows if name.name == "evil")
    row = server.metastore.rows[name]
    server.metastore.rows[name] = type(row)(row.parameters, row.owner, f"file:{server.root}/wh/{place}")


def by_its_folder(server: Server) -> None:
    _moved("db.db/victim", server)


def by_a_folder_in_its_folder(server: Server) -> None:
    _moved("db.db/victim/metadata", server)


def by_a_folder_around_its_folder(server: Server) -> None:
    _moved("db.db", server)


def by_a_link_to_its_folder(server: Server) -> None:
    (server.root / "wh/link").symlink_to(server.root / "wh/db.db")
    _moved("link/victim", server)


ATTACKS = [
    by_statistics,
    by_partition_statistics,
    by_dots,
    by_a_link,
    by_a_manifest_list,
    by_its_metadata,
    by_its_folder,
    by_a_folder_in_its_folder,
    by_a_folder_around_its_folder,
    by_a_link_to_its_folder,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_purge_keeps_every_file_of_another_table(server: Server, attack: Callable[[Server], None]) -> None:
    attack(server)
    server.purge()
    assert set(server.kept) <= set(server.files("victim"))


def test_a_purge_keeps_files_outside_the_tables_folder(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    secret = server.root / "secret"
    secret.write_text("kept")
    server.names_statistics(f"file:{secret}", str(secret), f"file:///{secret}")
    with caplog.at_level(logging.WARNING):
        server.purge()
    assert secret.exists()
    assert f"files of {server.home}.evil are kept, such as file:{secret}" in caplog.text


def test_a_purge_of_an_ordinary_table_leaves_no_file(server: Server) -> None:
    server.purge("victim")
    assert server.files("victim") == []


def test_a_moved_tables_purge_leaves_what_it_had_before(server: Server) -> None:
    server.commit("victim", {"action": "set-location", "location": f"file:{server.root}/wh/db.db/moved"})
    server.commit("victim", {"action": "set-properties", "updates": {"n": "2"}})
    assert len(server.files("moved")) == 2
    server.purge("victim")
    assert server.files("moved") == []
    assert server.files("victim") == server.kept


def _crafted(server: Server, log: list[str], location: str) -> dict[str, Any]:
    """The request that registers a metadata file over `evil` with a log and a location of the attacker's."""
    raw = dict(server.catalog.load_table(f"{server.home}.evil").metadata.raw)
    raw["location"] = location
    raw["properties"] = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    raw["metadata-log"] = [
        {"timestamp-ms": raw["last-updated-ms"] - len(log) + number, "metadata-file": each}
        for number, each in enumerate(log)
    ]
    crafted = server.root / "crafted.metadata.json"
    crafted.write_bytes(orjson.dumps(raw))
    return {"name": "evil", "metadata-location": f"file:{crafted}", "overwrite": True}


def test_old_metadata_files_of_another_table_survive_a_commit(server: Server) -> None:
    log = [path for path in server.kept if path.endswith(".json")]
    raw = server.catalog.load_table(f"{server.home}.evil").metadata.raw
    server.asked("POST", f"/v1/namespaces/{server.home}/register", _crafted(server, log, raw["location"]))
    for number in range(3):
        # The next commit waits until the one before has deleted its files.
        server.commit("evil", {"action": "set-properties", "updates": {"n": str(number)}})
    assert set(server.kept) <= set(server.files("victim"))


@pytest.mark.parametrize("place", ["victim", "victim/metadata", "."])
def test_a_registration_over_a_table_leads_into_no_folder_of_another(server: Server, place: str) -> None:
    body = _crafted(server, [], f"file:{server.root}/wh/db.db/{place}")
    assert server.web("POST", f"/v1/namespaces/{server.home}/register", body).status_code == 400


@pytest.mark.parametrize("policy", ["delete", "keep"])
def test_a_purge_of_clients_that_always_ask_for_one_drops_the_table(
    tmp_path: Path, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As Trino sends every DROP TABLE."""
    server = Server(tmp_path, rest_purge=policy)
    with server.catalog, caplog.at_level(logging.INFO):
        server.purge("victim")
        assert server.web("HEAD", f"{TABLES}/victim").status_code == 404
    assert server.files("victim") == ([] if policy == "delete" else server.kept)
    said = "db.victim was dropped and its files are kept: rest.purge is keep"
    assert (said in caplog.text) == (policy == "keep")


def test_a_refused_purge_changes_nothing_and_names_the_setting(tmp_path: Path) -> None:
    server = Server(tmp_path, rest_purge="refuse")
    with server.catalog:
        answer = server.web("DELETE", f"{TABLES}/victim?purgeRequested=true")
        assert error_of(answer)[:2] == (403, "ForbiddenException")
        assert "rest.purge" in answer.json()["error"]["message"]
        assert server.web("HEAD", f"{TABLES}/victim").status_code == 204
        # Spark looks for a Hive table then.
        assert error_of(server.web("DELETE", f"{TABLES}/none?purgeRequested=true"))[:2] == (404, "NoSuchTableException")
        assert server.web("DELETE", f"{TABLES}/victim?purgeRequested=false").status_code == 204
    assert server.files("victim") == server.kept
