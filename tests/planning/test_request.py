"""What a scan may ask for."""

from __future__ import annotations

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.planning.request import ScanRequest


def test_a_scan_of_appends_names_its_last_snapshot() -> None:
    ScanRequest(snapshot_id=2, start_snapshot_id=1)
    with pytest.raises(InvalidInput, match="names its last snapshot"):
        ScanRequest(start_snapshot_id=1)


def test_nobody_asks_for_less_than_no_rows() -> None:
    ScanRequest(min_rows=0)
    with pytest.raises(InvalidInput, match="cannot ask for -1 rows"):
        ScanRequest(min_rows=-1)
