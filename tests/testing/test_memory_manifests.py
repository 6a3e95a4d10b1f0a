"""The in-memory Manifests keep the contract of the port."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iceberg_hms.testing.contracts.manifests import CHECKS, Open, sample_metadata, sample_snapshot
from iceberg_hms.testing.memory_manifests import MemoryManifestStore


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_memory_manifests_keep_the_contract(check: Callable[[Open, str], None]) -> None:
    check(MemoryManifestStore().open, "file:/w")


def test_the_store_shows_flushed_lists() -> None:
    store = MemoryManifestStore()
    group = store.open()
    location = group.stage_list(sample_metadata("file:/w"), sample_snapshot(1, 1), [])
    assert store.lists == {}
    group.flush()
    assert store.lists == {location: ()}
