from __future__ import annotations

from iceberg_hms.format.metadata import metadata_file
from simulation.world.first_table import empty_table, first_metadata


def test_the_first_table_is_empty_and_the_same_every_time() -> None:
    location, data = first_metadata((("a", "b"),))
    metadata = metadata_file.decode(data, location)
    assert metadata.properties["a"] == "b"
    assert not metadata.snapshots
    assert first_metadata((("a", "b"),)) == (location, data)


def test_a_table_has_the_uuid_that_it_is_given() -> None:
    uuid = "11111111-1111-4111-8111-111111111111"
    assert empty_table(uuid, {}, 5).uuid == uuid
