from __future__ import annotations

import pytest

from iceberg_hms.errors import CorruptFile
from iceberg_hms.format.metadata import metadata_file
from simulation.world.decoding import remembered
from simulation.world.first_table import first_metadata


def test_within_equal_bytes_are_one_object_and_after_it_all_is_as_before() -> None:
    before = metadata_file.decode
    location, data = first_metadata(())
    with remembered():
        first = metadata_file.decode(data, location)
        assert metadata_file.decode(bytes(data), location) is first
        assert metadata_file.decode(data, "file:/elsewhere") is not first
        for _ in range(2):
            with pytest.raises(CorruptFile):
                metadata_file.decode(b"{", location)
    assert metadata_file.decode is before
    assert first.to_bytes() == metadata_file.decode(data, location).to_bytes()
