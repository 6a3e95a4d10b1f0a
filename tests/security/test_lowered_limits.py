"""Limits that an operator lowers: a commit that landed before is never refused when its client sends it again."""

from __future__ import annotations

from dataclasses import replace

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.rest.app import create_app
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web
from tests.security.avro_blocks import LIST, container
from tests.security.raw import TABLE
from tests.security.test_refusals_memory import append


class World:
    """A table in a catalog, and the same catalog with a lower `commit.max-updates` than an append has."""

    def __init__(self) -> None:
        catalog = ScriptedCatalog()
        catalog.create_namespace("logging")
        self.folder = f"{catalog.create_table('logging.events', SCHEMA).metadata.location}/metadata"
        self.catalog = catalog
        settings = replace(catalog.settings, max_updates=2)
        lowered = Catalog(lambda: replace(catalog.services, settings=settings))
        self.web = Web(create_app(catalog))
        self.lowered = Web(create_app(lowered))

    def append(self, snapshot_id: int) -> bytes:
        """An append on the snapshot with the id before."""
        location = f"{self.folder}/{snapshot_id}.avro"
        if location not in self.catalog.files.locations():
            self.catalog.files.write(location, container(LIST, [], "null"))
        return append(snapshot_id, location, snapshot_id - 1 or None, snapshot_id)


def test_a_commit_beyond_the_limit_is_refused() -> None:
    world = World()
    refused = world.lowered("POST", TABLE, content=world.append(1))
    assert (refused.status_code, "commit of 3 requirements and updates is too large" in refused.text) == (400, True)


def test_a_commit_that_landed_before_the_limit_was_lowered_is_acknowledged_again() -> None:
    world = World()
    assert world.web("POST", TABLE, content=world.append(1)).status_code == 200
    assert world.lowered("POST", TABLE, content=world.append(1)).status_code == 200
    assert len(world.catalog.load("logging.events").metadata.snapshots) == 1


def test_a_commit_that_landed_and_has_expired_since_is_not_called_refused() -> None:
    """A 400 would make its client delete files that the table names."""
    world = World()
    for snapshot_id in (1, 2, 3):
        assert world.web("POST", TABLE, content=world.append(snapshot_id)).status_code == 200
    world.catalog.commit("logging.events", [], [{"action": "remove-snapshots", "snapshot-ids": [1]}])
    assert world.lowered("POST", TABLE, content=world.append(1)).status_code == 500
