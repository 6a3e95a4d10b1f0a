"""Rows to swap, and what a test looks at afterwards."""

from __future__ import annotations

import copy
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import MetaException

from iceberg_hms.coordinator.ports import Pointer, SwapAnswer, TableName, Unanswered
from iceberg_hms.metastore.compare_and_swap.row_write import PROBE_KEY
from iceberg_hms.testing.contracts.table_pointer import table_metadata
from tests.metastore.fake_hms import FakeHms

ALTER = "alter_table_with_environment_context"
NAME = TableName("db", "t")
METADATA = table_metadata("file:/w/t")
BROKEN_SQL = MetaException('Error executing SQL query "update "TABLE_PARAMS" set ...", 42818')

#: What the true swap of a table at m0 expects, and what the probe before it expects.
TRUE = ("metadata_location", "m0")
PROBE = (PROBE_KEY, "absent")


def moved_to(base: Pointer, location: str) -> Any:
    table = copy.copy(base.table)
    table.parameters = {**base.parameters, "metadata_location": location}
    return table


def pointer_at(base: Pointer, location: str) -> Pointer:
    return Pointer(base.name, location, None, {**base.parameters, "metadata_location": location}, base.table)


def location(hms: FakeHms) -> str:
    found: str = hms.rows[NAME].parameters["metadata_location"]
    return found


def is_unanswered(answer: SwapAnswer, *, atomic: bool) -> bool:
    return isinstance(answer, Unanswered) and answer.atomic is atomic
