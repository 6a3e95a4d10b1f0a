"""A sample of `make fuzz-callers`: a caller of one namespace harms no other, on a real metastore."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_hms.local.metastore import LocalMetastore
from tests.security.two_callers import fuzz, on_metastore


@pytest.mark.slow
def test_a_caller_reaches_nothing_of_another_namespace(tmp_path: Path) -> None:
    with (
        # Of its own: what stands is compared, and other tests change theirs.
        LocalMetastore(tmp_path / "hms") as server,
        on_metastore(server, tmp_path, tmp_path / "hms" / "warehouse") as world,
    ):
        found = fuzz(world, 7, 300, 10, lambda _sent: None)
    assert found.did.total() > 0
    assert found.statuses["403"] > 0
