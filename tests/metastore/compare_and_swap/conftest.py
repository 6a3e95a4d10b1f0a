"""A metastore that records what each alter expects, and a table in it whose metadata is at m0."""

from __future__ import annotations

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Pointer, Swapped
from iceberg_hms.metastore.compare_and_swap.swap import SwapSender
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.tables.table_pointer import HmsTablePointer
from tests.metastore.compare_and_swap.swaps import METADATA, NAME
from tests.metastore.recording_hms import Recording


@pytest.fixture
def hms() -> Recording:
    return Recording()


@pytest.fixture
def swaps(pool: ClientPool) -> SwapSender:
    return SwapSender(pool)


@pytest.fixture
def base(pool: ClientPool) -> Pointer:
    pointer = HmsTablePointer(pool, Settings.load({}, environ={}))
    assert pointer.create(NAME, "m0", METADATA, None) == Swapped()
    return pointer.load(NAME)
