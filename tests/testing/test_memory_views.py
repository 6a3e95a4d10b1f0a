from __future__ import annotations

import pytest

from iceberg_hms.coordinator.ports import Sending, TableName, Unanswered
from iceberg_hms.errors import CompareAndSwapUnproven, MetastoreUnavailable
from iceberg_hms.testing.contracts.table_pointer import Place
from iceberg_hms.testing.contracts.view_pointer import CHECKS, Check, made, view_metadata
from iceberg_hms.testing.memory_pointer import MemoryTablePointer, ScriptedAnswer
from iceberg_hms.testing.memory_views import MemoryViewPointer

NAME = TableName("db", "v")
METADATA = view_metadata("memory:/v")


@pytest.fixture
def tables() -> MemoryTablePointer:
    return MemoryTablePointer({"db", "other"})


def place_of(tables: MemoryTablePointer) -> Place:
    return Place("db", "other", "memory:/v", tables.add_hive_table)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_memory_views_keep_the_contract(check: Check, tables: MemoryTablePointer) -> None:
    check(MemoryViewPointer(tables), tables, place_of(tables))


def test_a_script_of_the_tables_holds_for_views(tables: MemoryTablePointer) -> None:
    views = MemoryViewPointer(tables)
    base = made(views, place_of(tables))
    tables.answers.append(ScriptedAnswer.REPLY_LOST)
    answer = views.swap(base, "memory:/1", METADATA, METADATA, Sending())
    assert isinstance(answer, Unanswered)
    assert views.load(NAME).metadata_location == "memory:/1"
    tables.load_errors.append(MetastoreUnavailable("down"))
    with pytest.raises(MetastoreUnavailable):
        views.load(NAME)


def test_nothing_is_sent_to_a_server_that_must_be_atomic_and_is_not(tables: MemoryTablePointer) -> None:
    views = MemoryViewPointer(tables)
    base = made(views, place_of(tables))
    tables.atomic = False
    with pytest.raises(CompareAndSwapUnproven):
        views.swap(base, "memory:/1", METADATA, METADATA, Sending(require_cas=True))
    with pytest.raises(CompareAndSwapUnproven):
        views.rename(base, TableName("db", "w"), Sending(require_cas=True))
    assert views.load(NAME) == base


def test_a_row_keeps_the_sql_for_hive(tables: MemoryTablePointer) -> None:
    views = MemoryViewPointer(tables)
    made(views, place_of(tables), texts=(("spark", "s"), ("HIVE", "h")))
    assert tables.rows[NAME].sql == "h"
