"""Two tables of a database never share a folder by accident."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.rest.app import create_app
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, creation_of, error_of
from tests.security.shapes import view_version

TABLES = "/v1/namespaces/db/tables"
ROOT = "file:///warehouse/db.db"
BAD = (400, "BadRequestException")


@pytest.fixture
def catalog() -> Iterator[ScriptedCatalog]:
    with ScriptedCatalog(rest_allowed_locations="file:/elsewhere, s3://warehouse") as made:
        made.create_namespace("db")
        yield made


@pytest.fixture
def web(catalog: ScriptedCatalog) -> Web:
    return Web(create_app(catalog, token=None, settings=catalog.rest_settings))


def create(web: Web, name: str, **more: Any) -> str:
    """Create a table; returns its location."""
    answer = web("POST", TABLES, {"name": name, "schema": SCHEMA, **more})
    assert answer.status_code == 200, answer.text
    location: str = answer.json()["metadata"]["location"]
    return location


def rename(web: Web, name: str, to: str) -> None:
    names = [{"namespace": ["db"], "name": each} for each in (name, to)]
    answer = web("POST", "/v1/tables/rename", {"source": names[0], "destination": names[1]})
    assert answer.status_code == 204, answer.text


def staged_commit(web: Web, name: str, location: str, uuid: str) -> Any:
    return web("POST", f"{TABLES}/{name}", creation_of(location, uuid))


def test_a_name_that_a_renamed_table_had_gets_another_folder(web: Web) -> None:
    assert create(web, "t") == f"{ROOT}/t"
    rename(web, "t", "u")
    second = create(web, "t")
    assert second.startswith(f"{ROOT}/t-")
    assert len(second) == len(f"{ROOT}/t-") + 32
    rename(web, "t", "v")
    assert create(web, "t") not in (f"{ROOT}/t", second)


def test_a_name_that_is_dropped_or_taken_keeps_its_folder(web: Web) -> None:
    create(web, "t")
    assert error_of(web("POST", TABLES, {"name": "t", "schema": SCHEMA}))[:2] == (409, "AlreadyExistsException")
    assert web("DELETE", f"{TABLES}/t?purgeRequested=true").status_code == 204
    assert create(web, "t") == f"{ROOT}/t"


def test_a_name_that_is_dropped_without_its_files_leaves_them_alone(web: Web) -> None:
    create(web, "t")
    assert web("DELETE", f"{TABLES}/t").status_code == 204
    assert create(web, "t").startswith(f"{ROOT}/t-")


@pytest.mark.parametrize(
    "location",
    [
        f"{ROOT}/t",
        f"{ROOT}/t/",
        "/warehouse/db.db/t",
        "file:///warehouse//db.db/t",
        f"{ROOT}/t/data",
        f"{ROOT}/t/metadata",
        ROOT,
        "file:/warehouse",
    ],
)
@pytest.mark.parametrize("stage", [False, True], ids=["create", "stage"])
def test_a_named_location_that_another_table_has_is_refused(web: Web, location: str, stage: bool) -> None:
    create(web, "t")
    body = {"name": "u", "schema": SCHEMA, "location": location, "stage-create": stage}
    answer = web("POST", TABLES, body)
    # Not 409: Spark and PyIceberg take that for the table, and IF NOT EXISTS would succeed.
    assert error_of(answer)[:2] == BAD
    assert "db.t" in answer.json()["error"]["message"]
    assert error_of(staged_commit(web, "u", location, "7b2c7b6a-6f0e-4a7b-8a51-5f8ad0a44a11"))[:2] == BAD
    assert web("HEAD", f"{TABLES}/u").status_code == 404


@pytest.mark.parametrize("location", [f"{ROOT}/t2", f"{ROOT}/T", "file:/elsewhere/t", "s3://warehouse/db.db/t"])
def test_a_named_location_of_its_own_is_taken(web: Web, location: str) -> None:
    create(web, "t")
    assert create(web, "u", location=location) == location


def test_a_table_around_its_database_does_not_keep_others_from_being_made(web: Web) -> None:
    assert create(web, "wide", location=ROOT) == ROOT
    assert create(web, "t") == f"{ROOT}/t"
    assert create(web, "u", location=f"{ROOT}/named") == f"{ROOT}/named"


def test_a_staged_table_is_created_where_the_server_staged_it(web: Web) -> None:
    """As Trino and DuckDB do, which give the location back with the commit."""
    create(web, "t")
    rename(web, "t", "u")
    staged = web("POST", TABLES, {"name": "t", "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    assert staged["location"].startswith(f"{ROOT}/t-")
    answer = staged_commit(web, "t", staged["location"], staged["table-uuid"])
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["location"] == staged["location"]


def test_a_staged_folder_that_was_taken_meanwhile_is_refused_at_the_commit(web: Web) -> None:
    staged = web("POST", TABLES, {"name": "t", "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    create(web, "u", location=staged["location"])
    assert error_of(staged_commit(web, "t", staged["location"], staged["table-uuid"]))[:2] == BAD


def test_a_creation_that_is_sent_again_is_no_other_table(web: Web) -> None:
    """Its answer was lost; then another writer renamed the table. A 400 would make the client delete its files."""
    staged = web("POST", TABLES, {"name": "t", "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    assert staged_commit(web, "t", staged["location"], staged["table-uuid"]).status_code == 200
    rename(web, "t", "u")
    again = staged_commit(web, "t", staged["location"], staged["table-uuid"])
    assert again.status_code == 200
    assert again.json()["metadata"]["table-uuid"] == staged["table-uuid"]
    assert web("HEAD", f"{TABLES}/t").status_code == 404, "it made no second table of the same files"


def test_spark_migrates_a_hive_table_whose_backup_has_the_folder(web: Web, catalog: ScriptedCatalog) -> None:
    """MigrateTableSparkAction renames the Hive table, and stages an Iceberg table of its name in its folder."""
    catalog.metastore.add_hive_table(TableName("db", "t_backup_"))
    body = {"name": "t", "schema": SCHEMA, "location": f"{ROOT}/t", "stage-create": True}
    staged = web("POST", TABLES, body).json()["metadata"]
    assert staged["location"] == f"{ROOT}/t"
    assert staged_commit(web, "t", staged["location"], staged["table-uuid"]).status_code == 200


def test_a_table_moves_into_no_folder_of_another(web: Web) -> None:
    create(web, "t")
    create(web, "u")

    def moved(location: str) -> Any:
        update = {"action": "set-location", "location": location}
        return web("POST", f"{TABLES}/u", {"requirements": [], "updates": [update]})

    for location in (f"{ROOT}/t", f"{ROOT}/t/data", ROOT):
        assert error_of(moved(location))[:2] == BAD
    assert moved(f"{ROOT}/u").status_code == 200
    assert moved(f"{ROOT}/free").status_code == 200
    assert web("GET", f"{TABLES}/u").json()["metadata"]["location"] == f"{ROOT}/free"


def test_a_commit_that_leaves_the_location_asks_the_metastore_for_no_neighbours(
    web: Web, catalog: ScriptedCatalog
) -> None:
    location = create(web, "t")
    catalog.metastore.calls.clear()
    same = {"action": "set-location", "location": location}
    other = {"action": "set-properties", "updates": {"a": "b"}}
    assert web("POST", f"{TABLES}/t", {"requirements": [], "updates": [same, other]}).status_code == 200
    assert "find_by_folder" not in [method for method, _ in catalog.metastore.calls]


def other_table(catalog: ScriptedCatalog, location: str) -> None:
    """Another writer makes the table `u` while the metastore is about to insert a row."""
    catalog.metastore.before_moves.append(lambda: catalog.create_table(("db", "u"), SCHEMA, location=location))


def test_of_two_creations_that_saw_nobody_one_is_taken_back(web: Web, catalog: ScriptedCatalog) -> None:
    other_table(catalog, "file:/elsewhere/x/y")
    answer = web("POST", TABLES, {"name": "t", "schema": SCHEMA, "location": "file:/elsewhere/x"})
    assert error_of(answer)[:2] == BAD
    assert "db.u" in answer.json()["error"]["message"]
    assert (web("HEAD", f"{TABLES}/t").status_code, web("HEAD", f"{TABLES}/u").status_code) == (404, 204)
    assert any("/x/metadata/" in each for each in catalog.files.locations()), "no file is deleted that was sent"


def test_a_commit_that_creates_a_table_looks_again(web: Web, catalog: ScriptedCatalog) -> None:
    staged = web("POST", TABLES, {"name": "t", "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    other_table(catalog, f"{staged['location']}/data")
    assert error_of(staged_commit(web, "t", staged["location"], staged["table-uuid"]))[:2] == BAD
    assert web("HEAD", f"{TABLES}/t").status_code == 404


def test_a_table_that_has_a_commit_is_not_taken_back(
    web: Web, catalog: ScriptedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer's rows would be lost. Nothing is deleted for a table that shares its folder."""
    metastore, name = catalog.metastore, TableName("db", "t")
    find = metastore.find_by_folder

    def find_after_a_commit(*arguments: Any, **keywords: Any) -> Any:
        if name in metastore.rows:
            metastore.point(name, f"{ROOT}/elsewhere/v2.metadata.json")
        return find(*arguments, **keywords)

    monkeypatch.setattr(metastore, "find_by_folder", find_after_a_commit)
    other_table(catalog, "file:/elsewhere/x/y")
    body = {"name": "t", "schema": SCHEMA, "location": "file:/elsewhere/x"}
    assert web("POST", TABLES, body).status_code == 200
    assert metastore.rows.keys() == {name, TableName("db", "u")}


def test_a_creation_that_may_not_have_been_taken_back_is_unknown(web: Web, catalog: ScriptedCatalog) -> None:
    other_table(catalog, "file:/elsewhere/x/y")
    catalog.metastore.answers.extend([ScriptedAnswer.TRUE, ScriptedAnswer.TRUE, ScriptedAnswer.REPLY_LOST])
    answer = web("POST", TABLES, {"name": "t", "schema": SCHEMA, "location": "file:/elsewhere/x"})
    assert answer.status_code == 500


def test_a_creation_that_was_made_twice_is_no_neighbour_of_itself(web: Web, catalog: ScriptedCatalog) -> None:
    """The metastore makes the row, another writer renames it, and the metastore, which retries inside, makes it again:
    a refusal would make the client delete the files of the renamed table."""
    metastore = catalog.metastore
    insert = metastore.create

    def made_twice(name: TableName, *arguments: Any, **keywords: Any) -> Any:
        insert(name, *arguments, **keywords)
        catalog.rename_table(("db", "t"), ("db", "u"))
        return insert(name, *arguments, **keywords)

    staged = web("POST", TABLES, {"name": "t", "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metastore, "create", made_twice)
        assert staged_commit(web, "t", staged["location"], staged["table-uuid"]).status_code == 200
    assert metastore.rows.keys() == {TableName("db", "u")}


def test_a_creation_that_was_renamed_and_renamed_back_is_no_neighbour_of_itself(
    web: Web, catalog: ScriptedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore = catalog.metastore
    find, insert = metastore.find_by_folder, metastore.create

    def find_while_renamed(*arguments: Any, **keywords: Any) -> Any:
        catalog.rename_table(("db", "t"), ("db", "u"))
        monkeypatch.setattr(metastore, "find_by_folder", find)
        found = find(*arguments, **keywords)
        catalog.rename_table(("db", "u"), ("db", "t"))
        return found

    def make(*arguments: Any, **keywords: Any) -> Any:
        monkeypatch.setattr(metastore, "find_by_folder", find_while_renamed)
        return insert(*arguments, **keywords)

    monkeypatch.setattr(metastore, "create", make)
    body = {"name": "t", "schema": SCHEMA, "location": "file:/elsewhere/x"}
    assert web("POST", TABLES, body).status_code == 200
    assert metastore.rows.keys() == {TableName("db", "t")}


def test_of_two_registrations_that_saw_nobody_one_is_taken_back(web: Web, catalog: ScriptedCatalog) -> None:
    create(web, "t")
    [file] = [each for each in catalog.files.locations() if each.endswith(".metadata.json")]
    assert web("DELETE", f"{TABLES}/t").status_code == 204
    catalog.metastore.before_moves.append(lambda: catalog.register_table(("db", "u"), file))
    body = {"name": "t", "metadata-location": file}
    # Not a refusal: `u` may be the table that this request made, under another name.
    assert web("POST", "/v1/namespaces/db/register", body).status_code == 500
    assert (web("HEAD", f"{TABLES}/t").status_code, web("HEAD", f"{TABLES}/u").status_code) == (404, 204)
    assert file in catalog.files.locations()


def test_a_view_has_no_folder_of_a_table_or_another_view(web: Web, catalog: ScriptedCatalog) -> None:
    """Nothing would be deleted for the table any more."""
    table = create(web, "t")
    catalog.metastore.folders["db"] = [ROOT]
    catalog.metastore.add_hive_table(TableName("db", "h"), f"{ROOT}/h")
    views = "/v1/namespaces/db/views"

    def new_view(name: str, location: str) -> Any:
        version = {**view_version(1), "timestamp-ms": 1_000}
        return web("POST", views, {"name": name, "schema": SCHEMA, "view-version": version, "location": location})

    def moved(location: str) -> Any:
        update = {"action": "set-location", "location": location}
        return web("POST", f"{views}/v", {"requirements": [], "updates": [update]})

    assert new_view("v", f"{ROOT}/v").status_code == 200
    for location in (table, f"{table}/metadata", f"{ROOT}/h", f"{ROOT}/v"):
        assert error_of(new_view("w", location))[:2] == BAD
    for location in (table, f"{ROOT}/h/deeper", "file:///warehouse"):
        assert error_of(moved(location))[:2] == BAD
    assert moved(f"{ROOT}/v/deeper").status_code == 200, "its own folder is no neighbour"
    file = catalog.views.load("db.v").metadata_location
    body = {"name": "w", "metadata-location": file}
    assert error_of(web("POST", "/v1/namespaces/db/register-view", body))[:2] == BAD
    assert web("DELETE", f"{views}/v").status_code == 204
    assert web("POST", "/v1/namespaces/db/register-view", body).status_code == 200
