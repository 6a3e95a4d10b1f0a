"""Attacks through views: locations outside, files that are none of the client's, other spellings of a name, and
properties that decide how all writers lock a view."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of
from tests.security.callers import callers
from tests.security.shapes import view_version
from tests.security.test_locations import OUTSIDE, World
from tests.security.test_names import ALIASES, CONTROLS
from tests.security.test_protected_properties import CHANGED, JUNK, SCOPES

VIEWS = "/v1/namespaces/db/views"
VIEW = f"{VIEWS}/v"
REGISTER = "/v1/namespaces/db/register-view"
EVIL = "file:/etc/x"
VERSION = {**view_version(1), "timestamp-ms": 1_000}


@pytest.fixture
def world() -> World:
    world = World()
    world.catalog.views.create("db.v", SCHEMA, VERSION)
    return world


def new_view(name: str = "new", **more: Any) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, "view-version": VERSION, "properties": {}, **more}


def commit(*updates: dict[str, Any]) -> dict[str, Any]:
    return {"requirements": [], "updates": list(updates)}


def setting(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_view_lies_and_moves_inside_and_its_files_are_read_there(world: World, location: str) -> None:
    world.refuses("POST", VIEWS, new_view(location=location))
    world.refuses("POST", VIEWS, new_view(properties={"write.metadata.path": location}))
    world.refuses("POST", VIEW, commit({"action": "set-location", "location": location}))
    world.refuses("POST", VIEW, commit(setting(**{"write.metadata.path": location})))
    world.refuses("POST", REGISTER, {"name": "new", "metadata-location": location})


@pytest.mark.parametrize("changes", [{"location": EVIL}, {"properties": {"write.metadata.path": EVIL}}])
def test_a_registered_file_names_nothing_outside(world: World, changes: dict[str, Any]) -> None:
    loaded = world.catalog.views.load("db.v")
    world.files.write("file:/warehouse/crafted.metadata.json", orjson.dumps({**loaded.metadata.raw, **changes}))
    world.refuses("POST", REGISTER, {"name": "new", "metadata-location": "file:/warehouse/crafted.metadata.json"})


def test_register_does_not_show_what_is_in_a_file(world: World) -> None:
    world.files.write("file:/warehouse/app.json", b'{"format-version": "hunter2", "location": "hunter2"}')
    world.files.write("file:/warehouse/cut", b'{"password": hunter2')
    before = world.state
    for name in ("app.json", "cut", "none"):
        response = world.web("POST", REGISTER, {"name": "new", "metadata-location": f"file:/warehouse/{name}"})
        assert 400 <= response.status_code < 500
        assert "hunter2" not in response.text
    assert world.state == before


@pytest.mark.parametrize(
    "name", [*(alias.format("v") for alias in ALIASES), *CONTROLS, "v" * 300, "", "v/../v", "\u017fv"]
)
def test_no_other_spelling_is_a_view_or_becomes_one(world: World, name: str) -> None:
    before = world.state
    for path, body in ((VIEWS, new_view(name)), (REGISTER, {"name": name, "metadata-location": EVIL})):
        assert world.web("POST", path, body).status_code in (400, 403)
    rename = {"source": {"namespace": ["db"], "name": "v"}, "destination": {"namespace": ["db"], "name": name}}
    assert world.web("POST", "/v1/views/rename", rename).status_code == 400
    assert world.state == before


def web_of(catalog: ScriptedCatalog, tmp_path: Path, caller: str) -> Web:
    return callers(catalog, tmp_path, SCOPES)(caller)


@pytest.mark.parametrize("key", CHANGED)
def test_how_a_view_is_locked_is_an_administrators_to_say(tmp_path: Path, key: str) -> None:
    catalog = ScriptedCatalog()
    catalog.create_namespace("db")
    view = catalog.views.create("db.v", SCHEMA, VERSION)
    metadata = view.metadata.raw | {"location": "file:/warehouse/again", "properties": {key: CHANGED[key]}}
    catalog.files.write("file:/warehouse/crafted.metadata.json", orjson.dumps(metadata))
    requests: list[tuple[str, Any]] = [
        (VIEW, commit(setting(**{key: CHANGED[key]}))),
        (VIEWS, new_view(properties={key: CHANGED[key]})),
        (REGISTER, {"name": "again", "metadata-location": "file:/warehouse/crafted.metadata.json"}),
    ]
    for path, body in requests:
        status, kind, message = error_of(web_of(catalog, tmp_path, "writer")("POST", path, body))
        assert (status, kind, key in message) == (403, "ForbiddenException", True), path
    assert catalog.views.load("db.v").metadata_location == view.metadata_location
    assert [each.name for each in catalog.views.list("db")] == ["v"]
    for path, body in requests:
        assert web_of(catalog, tmp_path, "admin")("POST", path, body).status_code == 200, path


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in JUNK.items() for value in values])
def test_a_value_that_means_nothing_is_refused(tmp_path: Path, key: str, value: str) -> None:
    catalog = ScriptedCatalog()
    catalog.create_namespace("db")
    catalog.views.create("db.v", SCHEMA, VERSION)
    web = web_of(catalog, tmp_path, "admin")
    for path, body in ((VIEW, commit(setting(**{key: value}))), (VIEWS, new_view(properties={key: value}))):
        assert error_of(web("POST", path, body))[0] == 400


def test_an_inflating_file_is_not_registered() -> None:
    """A few kilobytes that take the server's memory once they are inflated."""
    world = World(**{"storage.max-metadata-bytes": 100_000})
    made = world.catalog.views.create("db.v", SCHEMA, VERSION).metadata
    big = made.raw | {"properties": {"a": "0" * 1_000_000}}
    location = "file:/warehouse/bomb.gz.metadata.json"
    world.files.write(location, gzip.compress(orjson.dumps(big)))
    assert error_of(world.web("POST", REGISTER, {"name": "new", "metadata-location": location}))[0] == 400
