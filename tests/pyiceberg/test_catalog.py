"""PyIceberg's Catalog interface over fakes of the metastore, with files on this disk. The same on a real metastore:
integration/pyiceberg/."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    ValidationException,
    ViewAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField
from pyiceberg.view.metadata import ViewVersion

from iceberg_hms import pyiceberg as adapter
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.pyiceberg import HmsCatalog
from iceberg_hms.pyiceberg import catalog as module
from iceberg_hms.pyiceberg.tables import HmsTable
from iceberg_hms.storage.files import RoutedFiles
from iceberg_hms.testing.memory_catalog import memory_catalog
from iceberg_hms.testing.memory_pointer import MemoryTablePointer, ScriptedAnswer
from tests.polling import eventually

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "level": ["a", "b", "b"]})
NESTED = ("a", "b", "c")
VERSION = ViewVersion.model_validate(
    {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_600_000_000_000,
        "summary": {"engine": "test"},
        "representations": [{"type": "sql", "sql": "SELECT id FROM t", "dialect": "spark"}],
        "default-namespace": ["db"],
    }
)
VIEW_SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


@pytest.fixture
def pointer() -> MemoryTablePointer:
    return MemoryTablePointer(namespaces=())


@pytest.fixture
def catalog(pointer: MemoryTablePointer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HmsCatalog]:
    def assemble(settings: Settings) -> Any:
        return memory_catalog(
            files=RoutedFiles(fsync=False),
            pointer=pointer,
            warehouse=settings.warehouse,
            status_check_num_retries=1,
            status_check_min_wait_ms=1,
            status_check_max_wait_ms=1,
        )

    monkeypatch.setattr(module, "assemble", assemble)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with HmsCatalog("lake", uri="thrift://nowhere:1", warehouse=tmp_path.as_uri()) as made:
        made.create_namespace("db")
        yield made


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def files_of(table: Any) -> set[str]:
    """The names of the files in a table's folder, without their folders."""
    folder = Path(table.location().removeprefix("file://"))
    return {path.name for path in folder.rglob("*") if path.is_file()}


def metadata_files(table: Any) -> int:
    return sum(name.endswith(".metadata.json") for name in files_of(table))


# Namespaces


def test_a_namespace_has_properties_and_goes_when_it_is_empty(catalog: HmsCatalog) -> None:
    catalog.create_namespace("Sales", {"number": 7, "flag": True})
    assert catalog.list_namespaces() == [("db",), ("sales",)]
    assert catalog.load_namespace_properties("sales")["number"] == "7"
    done = catalog.update_namespace_properties("sales", {"number", "missing"}, {"more": 1.5})
    assert (done.removed, done.updated, done.missing) == (["number"], ["more"], ["missing"])
    found = catalog.load_namespace_properties("sales")
    assert (found["more"], found["flag"]) == ("1.5", "true")
    assert "number" not in found
    catalog.create_table("sales.t", ROWS.schema)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("sales")
    catalog.drop_table("sales.t")
    catalog.drop_namespace("sales")
    assert not catalog.namespace_exists("sales")


def test_namespaces_have_one_level(catalog: HmsCatalog) -> None:
    assert catalog.list_namespaces("db") == []
    assert not catalog.namespace_exists(("db", "inner"))
    with pytest.raises(ValueError, match="hierarchical"):
        catalog.create_namespace(("db", "inner"))
    with pytest.raises(ValueError, match="hierarchical"):
        catalog.create_table(NESTED, ROWS.schema)
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_namespaces(("db", "inner"))
    for ask in (catalog.load_namespace_properties, catalog.drop_namespace, catalog.list_tables, catalog.list_views):
        with pytest.raises(NoSuchNamespaceError):
            ask(("db", "inner"))


def test_what_is_wrong_with_a_namespace_is_said_in_pyiceberg_s_words(catalog: HmsCatalog) -> None:
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("DB")
    catalog.create_namespace_if_not_exists("db")
    with pytest.raises(ValueError, match="not a valid name"):
        catalog.create_namespace("not valid")
    with pytest.raises(ValueError, match="None"):
        catalog.create_namespace("more", {"key": None})
    with pytest.raises(ValueError, match="set and removed at once"):
        catalog.update_namespace_properties("db", {"a"}, {"a": "b"})
    for ask in (
        catalog.load_namespace_properties,
        catalog.drop_namespace,
        catalog.list_tables,
        catalog.list_views,
        catalog.list_namespaces,
        catalog.update_namespace_properties,
    ):
        with pytest.raises(NoSuchNamespaceError):
            ask("nowhere")


# Tables


def test_a_table_is_created_as_it_is_asked_for(catalog: HmsCatalog, tmp_path: Path) -> None:
    schema = Schema(NestedField(5, "id", LongType(), required=True), NestedField(8, "level", IntegerType()))
    made = catalog.create_table(
        ("db", "Events"),
        schema,
        partition_spec=PartitionSpec(PartitionField(8, 1, IdentityTransform(), "level")),
        sort_order=SortOrder(SortField(5)),
        properties={"number": 7, "format-version": "1"},
    )
    assert isinstance(made, HmsTable)
    assert made == catalog.load_table("db.Events")
    assert [(field.field_id, field.name, field.required) for field in made.schema().fields] == [
        (1, "id", True),
        (2, "level", False),
    ]
    assert [(field.source_id, field.field_id) for field in made.spec().fields] == [(2, 1000)]
    assert [field.source_id for field in made.sort_order().fields] == [1]
    assert (made.properties["number"], made.format_version) == ("7", 1)
    assert made.location() == f"{tmp_path.as_uri()}/db.db/events"
    assert catalog.list_tables("db") == [("db", "events")]


def test_a_table_takes_no_folder_in_which_files_of_another_are(catalog: HmsCatalog) -> None:
    """PyIceberg's catalogs take it, so that a purge of the one deletes the other's files."""
    first = catalog.create_table("db.t", ROWS.schema)
    first.append(ROWS)
    catalog.drop_table("db.t")
    assert catalog.create_table("db.t", ROWS.schema).location() != first.location()
    staged = catalog.create_table_transaction("db.u", ROWS.schema, location=f"{first.location()}_of_ours/")
    assert staged.table_metadata.location == f"{first.location()}_of_ours"


def test_what_is_wrong_with_a_table_is_said_in_pyiceberg_s_words(
    catalog: HmsCatalog, pointer: MemoryTablePointer
) -> None:
    made = catalog.create_table("db.t", ROWS.schema)
    pointer.add_hive_table(TableName("db", "hive"))
    catalog.create_view("db.v", VIEW_SCHEMA, VERSION)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.t", ROWS.schema)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.v", ROWS.schema)
    assert catalog.create_table_if_not_exists("db.t", ROWS.schema) == made
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("nowhere.t", ROWS.schema)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table_transaction("nowhere.t", ROWS.schema)
    with pytest.raises(ValueError, match="not a valid name"):
        catalog.create_table(("db", "not valid"), ROWS.schema)
    for ask in (catalog.load_table, catalog.drop_table, catalog.purge_table):
        for name in ("db.missing", NESTED, ("db", "v")):
            with pytest.raises(NoSuchTableError):
                ask(name)
        with pytest.raises(NoSuchIcebergTableError):
            ask("db.hive")
    assert catalog.list_tables("db") == [("db", "t")]
    exist = [catalog.table_exists(name) for name in ("db.t", "db.missing", "db.hive", "db.v", NESTED)]
    assert exist == [True, False, False, False, False]


def test_a_table_whose_metadata_is_gone_is_no_missing_table(catalog: HmsCatalog) -> None:
    made = catalog.create_table("db.t", ROWS.schema)
    Path(made.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(FileNotFoundError):
        catalog.load_table("db.t")
    assert catalog.table_exists("db.t")


def test_a_metastore_that_does_not_answer_is_unavailable_and_loads_wait_for_it(
    catalog: HmsCatalog, pointer: MemoryTablePointer
) -> None:
    made = catalog.create_table("db.t", ROWS.schema)
    pointer.load_errors.append(MetastoreUnavailable("gone"))
    with pytest.raises(ServiceUnavailableError, match="gone"):
        catalog.drop_table("db.t")
    for ask in (catalog.load_table, catalog.table_exists):
        pointer.load_errors.append(MetastoreUnavailable("gone"))
        assert ask("db.t") in (made, True)
        assert not pointer.load_errors


def test_rename_moves_a_table_and_its_files_stay(catalog: HmsCatalog) -> None:
    catalog.create_namespace("other")
    catalog.create_table("db.taken", ROWS.schema)
    made = catalog.create_table("db.t", ROWS.schema)
    made.append(ROWS)
    renamed = catalog.rename_table("db.t", "other.u")
    assert (renamed.name(), renamed.location(), ids(renamed)) == (("other", "u"), made.location(), [1, 2, 3])
    with pytest.raises(NoSuchTableError):
        made.append(ROWS)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("other.u", "db.taken")
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table("other.u", "nowhere.u")
    with pytest.raises(NoSuchTableError):
        catalog.rename_table("db.t", "db.v")
    with pytest.raises(NoSuchTableError):
        catalog.rename_table(NESTED, "db.v")


def test_register_makes_a_table_of_a_metadata_file(catalog: HmsCatalog) -> None:
    made = catalog.create_table("db.t", ROWS.schema)
    made.append(ROWS)
    earlier = made.metadata_location
    catalog.drop_table("db.t")
    assert Path(earlier.removeprefix("file://")).is_file()
    registered = catalog.register_table("db.u", earlier)
    assert (registered.metadata_location, ids(registered)) == (earlier, [1, 2, 3])
    registered.append(ROWS)
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("db.u", earlier)
    assert ids(catalog.register_table("db.u", earlier, overwrite=True)) == [1, 2, 3]
    with pytest.raises(FileNotFoundError):
        catalog.register_table("db.v", f"{made.location()}/metadata/00000-missing.metadata.json")
    with pytest.raises(NoSuchNamespaceError):
        catalog.register_table("nowhere.u", earlier)


def test_drop_keeps_files_and_purge_deletes_what_is_the_table_s_own(catalog: HmsCatalog, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(ROWS, foreign)
    for name in ("kept", "purged"):
        table = catalog.create_table(f"db.{name}", ROWS.schema)
        table.append(ROWS)
        table.add_files([foreign.as_uri()])
        table.delete("id = 1")
    kept, purged = catalog.load_table("db.kept"), catalog.load_table("db.purged")
    before = files_of(kept)
    catalog.drop_table("db.kept")
    catalog.purge_table("db.purged")
    assert files_of(kept) == before
    assert not files_of(purged)
    assert foreign.is_file()
    assert catalog.list_tables("db") == []


# Commits


def test_rows_go_in_and_out(catalog: HmsCatalog) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.overwrite(ROWS.slice(0, 1), "level = 'b'")
    assert table.upsert(pa.table({"id": pa.array([7, 9], pa.int64()), "level": ["a", "z"]}), ["level"]).rows_inserted
    table.refresh()
    assert ids(table) == [7, 7, 9]
    assert table.metadata == catalog.load_table("db.t").metadata


def test_a_change_of_what_another_changed_fails_and_is_tried_again_by_no_one(catalog: HmsCatalog) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    update = table.update_schema().add_column("late", IntegerType())
    catalog.load_table("db.t").update_schema().add_column("soon", IntegerType()).commit()
    with pytest.raises(CommitFailedException):
        update.commit()
    assert catalog.load_table("db.t").schema().column_names == ["id", "level", "soon"]


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@pytest.mark.parametrize("atomic", [True, False])
def test_an_append_to_a_table_that_moved_lands_at_once_and_an_overwrite_is_for_pyiceberg_to_try_again(
    catalog: HmsCatalog, pointer: MemoryTablePointer, atomic: bool
) -> None:
    """whether the metastore compares and swaps or not"""
    pointer.atomic = atomic
    table = catalog.create_table("db.t", ROWS.schema, properties={"commit.retry.num-retries": "0"})
    stale, staler = catalog.load_table("db.t"), catalog.load_table("db.t")
    table.append(ROWS)
    stale.append(ROWS)
    assert len(ids(stale)) == 6
    with pytest.raises(CommitFailedException):
        staler.overwrite(ROWS)
    assert stale.metadata == catalog.load_table("db.t").metadata


def test_a_commit_that_breaks_the_table_s_rules_is_refused_before_anything_changes(catalog: HmsCatalog) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    unknown = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=7)
    with pytest.raises((ValidationException, CommitFailedException)):
        catalog.commit_table(table, (), (unknown,))
    with pytest.raises(CommitFailedException, match="Requirement failed"):
        catalog.commit_table(table, (AssertRefSnapshotId(ref="main", snapshot_id=7),), ())
    catalog.drop_table("db.t")
    with pytest.raises(NoSuchTableError):
        catalog.commit_table(table, (), ())


def test_of_a_commit_whose_end_is_unknown_no_file_is_deleted(catalog: HmsCatalog, pointer: MemoryTablePointer) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    # Where swaps are not atomic no other swap can settle it.
    pointer.atomic = False
    pointer.answers.append(ScriptedAnswer.DELAYED)
    with pytest.raises(CommitStateUnknownException):
        table.append(ROWS)
    pointer.deliver_delayed()
    assert len(ids(catalog.load_table("db.t"))) == 6


def test_of_a_commit_that_the_metastore_refused_pyiceberg_deletes_its_own_files(
    catalog: HmsCatalog, pointer: MemoryTablePointer
) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    before = {name for name in files_of(table) if name.endswith(".avro")}
    pointer.answers.extend([ScriptedAnswer.REFUSED] * 20)
    with pytest.raises(ValidationException, match="refused"):
        table.append(ROWS)
    assert {name for name in files_of(table) if name.endswith(".avro")} == before
    assert ids(catalog.load_table("db.t")) == [1, 2, 3]


def test_a_commit_whose_answer_is_lost_is_found(catalog: HmsCatalog, pointer: MemoryTablePointer) -> None:
    table = catalog.create_table("db.t", ROWS.schema)
    pointer.answers.append(ScriptedAnswer.REPLY_LOST)
    table.append(ROWS)
    assert ids(table) == [1, 2, 3]


@pytest.mark.parametrize("deletes", ["true", "false"])
def test_old_metadata_goes_where_the_table_says_so(catalog: HmsCatalog, deletes: str) -> None:
    """The coordinator deletes it; PyIceberg, which would too, deletes nothing."""
    properties = {"write.metadata.delete-after-commit.enabled": deletes, "write.metadata.previous-versions-max": "1"}
    table = catalog.create_table("db.t", ROWS.schema, properties=properties)
    for _ in range(3):
        table.append(ROWS)
    # It deletes behind the answer.
    assert eventually(lambda: metadata_files(table) == (2 if deletes == "true" else 4))
    assert len(ids(catalog.load_table("db.t"))) == 9


# Transactions that create a table


def test_a_table_that_a_transaction_creates_is_there_when_it_commits(catalog: HmsCatalog) -> None:
    with catalog.create_table_transaction("db.t", ROWS.schema, properties={"a": "b"}) as transaction:
        transaction.append(ROWS)
        assert not catalog.table_exists("db.t")
    table = catalog.load_table("db.t")
    assert ids(table) == [1, 2, 3]
    assert {"a": "b"}.items() <= table.properties.items()
    assert not [name for name in table.properties if name.startswith("iceberg-hms.")]
    catalog.purge_table("db.t")
    assert not files_of(table)


def test_a_transaction_loses_its_name_to_who_creates_it_first(catalog: HmsCatalog) -> None:
    late = catalog.create_table_transaction("db.t", ROWS.schema)
    late.append(ROWS)
    catalog.create_table("db.t", ROWS.schema).append(ROWS.slice(0, 1))
    with pytest.raises(CommitFailedException):
        late.commit_transaction()
    assert ids(catalog.load_table("db.t")) == [1]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table_transaction("db.t", ROWS.schema)


def test_a_staged_table_is_no_table_yet(catalog: HmsCatalog) -> None:
    transaction = catalog.create_table_transaction("db.t", ROWS.schema)
    transaction.append(ROWS)
    table = transaction.commit_transaction()
    assert isinstance(table, StagedTable)
    with pytest.raises(ValueError, match="staged table"):
        table.scan()


# Views


def test_a_view_is_created_loaded_listed_and_dropped(catalog: HmsCatalog) -> None:
    made = catalog.create_view("db.V", VIEW_SCHEMA, VERSION, properties={"comment": "c"})
    assert made.name() == ("db", "V")
    loaded = catalog.load_view("db.v")
    assert loaded.current_version().representations == VERSION.representations
    assert loaded.schema() == VIEW_SCHEMA
    assert loaded.metadata.properties["comment"] == "c"
    assert catalog.list_views("db") == [("db", "v")]
    assert catalog.list_tables("db") == []
    catalog.drop_view("db.v")
    assert not catalog.view_exists("db.v")


def test_a_view_is_registered_from_its_metadata(catalog: HmsCatalog) -> None:
    made = catalog.create_view("db.v", pa.schema([("id", pa.int64())]), VERSION)
    folder = Path(made.metadata.location.removeprefix("file://"))
    (metadata,) = folder.rglob("*.metadata.json")
    catalog.drop_view("db.v")
    registered = catalog.register_view("db.w", metadata.as_uri())
    assert registered.metadata.view_uuid == made.metadata.view_uuid
    with pytest.raises(ViewAlreadyExistsError):
        catalog.register_view("db.w", metadata.as_uri())
    with pytest.raises(FileNotFoundError):
        catalog.register_view("db.x", f"{folder.as_uri()}/metadata/missing.metadata.json")


def test_what_is_wrong_with_a_view_is_said_in_pyiceberg_s_words(catalog: HmsCatalog) -> None:
    catalog.create_table("db.t", ROWS.schema)
    catalog.create_view("db.v", VIEW_SCHEMA, VERSION)
    for taken in ("db.v", "db.t"):
        with pytest.raises(ViewAlreadyExistsError):
            catalog.create_view(taken, VIEW_SCHEMA, VERSION)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_view("nowhere.v", VIEW_SCHEMA, VERSION)
    for ask in (catalog.load_view, catalog.drop_view):
        for name in ("db.missing", "db.t", NESTED):
            with pytest.raises(NoSuchViewError):
                ask(name)
    assert [catalog.view_exists(name) for name in ("db.v", "db.missing", "db.t", NESTED)] == [True, False, False, False]


# The package


def test_the_other_api_is_the_same_catalog(catalog: HmsCatalog) -> None:
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    assert len(catalog.hms.load_table("db.t").metadata.snapshots) == 1


class Closing:
    """A catalog of our own API that counts how often it is closed, and the threads that it starts."""

    def __init__(self) -> None:
        self.closed = self.spawned = 0
        self.services = SimpleNamespace(ports=SimpleNamespace(runtime=self))

    def close(self) -> None:
        self.closed += 1

    def spawn(self, _name: str, function: Callable[[], None], *, background: bool) -> None:
        self.spawned += background
        function()


@pytest.fixture
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[HmsCatalog, Closing]]:
    def make() -> tuple[HmsCatalog, Closing]:
        below = Closing()
        monkeypatch.setattr(module, "assemble", lambda _settings: below)
        return HmsCatalog("lake", uri="thrift://nowhere:1", warehouse=tmp_path.as_uri()), below

    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    return make


def test_a_catalog_that_a_program_forgets_closes_itself(forgetful: Any) -> None:
    catalog, below = forgetful()
    again = [catalog]
    del catalog
    assert below.closed == 0
    again.clear()
    gc.collect()
    assert (below.closed, below.spawned) == (1, 1)


def test_a_catalog_is_closed_once_and_not_while_our_own_api_is_in_use(forgetful: Any) -> None:
    for use, times in ((HmsCatalog.close, 1), (lambda catalog: catalog.hms, 0)):
        catalog, below = forgetful()
        use(catalog)
        forgotten = weakref.ref(catalog)
        del catalog
        gc.collect()
        assert forgotten() is None
        assert (below.closed, below.spawned) == (times, 0)


def test_a_forked_child_closes_nothing_of_its_parent(forgetful: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, below = forgetful()
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    del catalog
    gc.collect()
    assert below.closed == 0


def test_the_package_has_the_catalog_and_nothing_else_by_accident() -> None:
    assert "HmsCatalog" in dir(adapter)
    with pytest.raises(AttributeError, match="HiveCatalog"):
        _ = adapter.HiveCatalog


def test_without_pyiceberg_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pyiceberg'] = None\n"
        "from iceberg_hms.errors import EngineError\n"
        "import iceberg_hms.pyiceberg\n"
        "try: iceberg_hms.pyiceberg.HmsCatalog\n"
        "except EngineError as error: sys.exit(str(error))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "pip install 'iceberg-hms[pyiceberg]'" in ended.stderr
