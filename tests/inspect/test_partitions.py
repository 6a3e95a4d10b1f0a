"""The partition values in manifests, as people read them."""

from __future__ import annotations

import struct

from iceberg_hms.format.manifests.manifest_list import FieldSummary
from iceberg_hms.inspect.partitions import partition_ranges
from tests.inspect import samples


def test_ranges_are_readable() -> None:
    metadata = samples.metadata()
    day, odd = partition_ranges(metadata, metadata.spec, samples.MANIFEST.partitions or ())
    assert tuple(day.values()) == ("event_time_day", "day", False, None, "2021-04-01", "2021-04-02")
    assert odd == dict(zip(day, ("gone_odd", "odd[2]", True, True, "\x01", None), strict=True))


def test_bounds_that_cannot_be_read_are_shown_as_bytes() -> None:
    metadata = samples.metadata()
    (day,) = partition_ranges(metadata, metadata.spec, (FieldSummary(False, None, b"\x01\x02", struct.pack("<i", 0)),))
    assert (day["lower"], day["upper"]) == ("0x0102", "1970-01-01")
