"""What the adapter takes for granted of the pinned PyIceberg, read from its source: a release that changes it fails
here, before it loses anybody's rows."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg
import pytest
from pyiceberg import catalog as catalog_module
from pyiceberg import table as table_module
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import ViewVersion

import iceberg_hms
from iceberg_hms.pyiceberg import HmsCatalog, upstream

PYICEBERG = Path(pyiceberg.__file__).parent
OURS = Path(iceberg_hms.__file__).parent / "pyiceberg"

#: Private names of PyIceberg that our modules call, and where they are.
CALLED = {
    "_convert_schema_if_needed": MetastoreCatalog,
    "_load_file_io": Catalog,
    "_snapshot_producers": None,
}
#: Those that PyIceberg calls, and that we override.
OVERRIDDEN = {"_create_staged_table", "_delete_old_metadata"}

#: What PyIceberg has beside the catalogs that others use, and the drivers of stores.
NOT_USED = ("catalog/bigquery", "catalog/dynamodb", "catalog/glue", "catalog/hive", "catalog/memory", "catalog/noop")
NOT_USED += ("catalog/rest/", "catalog/sql", "io/", "cli/")

#: Whatever deletes files.
DELETES = {
    "catalog/__init__.py: delete_files",
    "catalog/__init__.py: delete_data_files",
    "catalog/__init__.py: Catalog._delete_old_metadata",
    "catalog/__init__.py: MetastoreCatalog.purge_table",
    "table/update/snapshot.py: _SnapshotProducer._cleanup_uncommitted",
    "table/update/snapshot.py: _SnapshotProducer._clean_all_uncommitted",
}

#: What chooses folders, writes metadata or changes a table without the coordinator.
PAST_THE_COORDINATOR = {
    "_resolve_table_location",
    "_get_default_warehouse_location",
    "_get_hive_style_warehouse_location",
    "_write_metadata",
    "_update_and_stage_table",
    "_empty_table_metadata",
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Each function with its qualified name; what is in a function counts as of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")
        else:
            yield from functions(child, prefix)


def calls(node: ast.AST) -> list[str]:
    """What is called in a node, as it is spelled, in the order of the lines."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    return [ast.unparse(each.func) for each in sorted(found, key=lambda call: (call.lineno, call.col_offset))]


def methods(kind: type) -> dict[str, Any]:
    """Those that a class itself defines."""
    return {name: value for name, value in vars(kind).items() if inspect.isroutine(value)}


def function(module: Any, name: str) -> ast.FunctionDef:
    return dict(functions(tree_of(Path(str(module.__file__)))))[name]


def test_the_private_names_in_use_are_these_and_pyiceberg_has_them() -> None:
    own = {name for path in OURS.glob("*.py") for name in _defined(tree_of(path))}
    used = {
        node.attr
        for path in OURS.glob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    }
    assert used - own == CALLED.keys()
    assert all(kind is None or hasattr(kind, name) for name, kind in CALLED.items())
    private = {name for name in methods(HmsCatalog) if name.startswith("_") and not name.startswith("__")}
    assert {name for name in private if hasattr(MetastoreCatalog, name)} == OVERRIDDEN


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_all_that_deletes_files_is_known() -> None:
    found = set()
    for path in PYICEBERG.rglob("*.py"):
        file = path.relative_to(PYICEBERG).as_posix()
        if file.startswith(NOT_USED):
            continue
        for name, body in functions(tree_of(path)):
            named = calls(body)
            if any(call.endswith("io.delete") or call in ("delete_files", "delete_data_files") for call in named):
                found.add(f"{file}: {name}")
    assert found == DELETES


def test_what_deletes_of_a_catalog_is_ours() -> None:
    in_catalogs = {name.rpartition(".")[2] for name in DELETES if "Catalog." in name}
    assert in_catalogs == {"_delete_old_metadata", "purge_table"}
    assert in_catalogs <= methods(HmsCatalog).keys()
    assert calls(function_of(HmsCatalog, "_delete_old_metadata")) == []


def function_of(kind: type, name: str) -> ast.FunctionDef:
    path = Path(inspect.getfile(kind))
    return dict(functions(tree_of(path)))[f"{kind.__name__}.{name}"]


def test_a_transaction_deletes_what_it_wrote_only_after_an_error_that_is_proof() -> None:
    """Or where it sent nothing."""
    commit = function(table_module, "Transaction.commit_transaction")
    proofs = []
    for tried in [node for node in ast.walk(commit) if isinstance(node, ast.Try)]:
        for handler in tried.handlers:
            if any(call.endswith("._clean_all_uncommitted") for call in calls(handler)):
                assert handler.type is not None
                sends = any(call.endswith("._do_commit") for statement in tried.body for call in calls(statement))
                proofs.append((sends, ast.unparse(handler.type)))
    assert proofs == [(True, "(CommitFailedException, ValidationException)"), (False, "Exception")]
    elsewhere = [name for name, body in functions(tree_of(PYICEBERG / "table/__init__.py")) if _cleans(body)]
    assert elsewhere == ["Transaction.commit_transaction"]


def _cleans(body: ast.FunctionDef) -> bool:
    return any(call.endswith("._clean_all_uncommitted") for call in calls(body))


def test_a_table_commits_through_the_catalog_and_then_lets_it_delete_old_metadata() -> None:
    called = [call for call in calls(function(table_module, "Table._do_commit")) if call.startswith("self.catalog.")]
    assert called == ["self.catalog.commit_table", "self.catalog._delete_old_metadata"]
    for kind in ("Transaction", "CreateTableTransaction"):
        assert "self._table._do_commit" in calls(function(table_module, f"{kind}.commit_transaction"))


def test_a_transaction_keeps_its_snapshot_operations_for_a_retry() -> None:
    register = function(table_module, "Transaction._register_snapshot_producer")
    assert calls(register) == ["self._snapshot_producers.append"]
    from_source = dict(functions(tree_of(PYICEBERG / "table/update/snapshot.py")))
    assert "self._transaction._register_snapshot_producer" in calls(from_source["_SnapshotProducer.commit"])


#: Verbs that make a plain transaction: none of them appends.
SINGLE_STEPS = {"manage_snapshots", "update_schema", "update_sort_order", "update_spec", "update_statistics"}


def test_every_verb_that_writes_rows_goes_through_the_transaction_of_its_table() -> None:
    """So that `HmsTable.transaction` is enough."""
    makers = {
        name.removeprefix("Table.")
        for name, body in functions(tree_of(PYICEBERG / "table/__init__.py"))
        if name.startswith("Table.") and any(call in ("Transaction", "CreateTableTransaction") for call in calls(body))
    }
    assert makers - {"transaction"} == SINGLE_STEPS


def test_nothing_that_is_inherited_goes_past_the_coordinator() -> None:
    """Which private methods of PyIceberg's catalogs the inherited ones, and ours, reach."""
    inherited = {
        name.partition(".")[2]: {call.removeprefix("self.") for call in calls(body) if call.startswith("self.")}
        for name, body in functions(tree_of(Path(catalog_module.__file__)))
        if name.startswith(("Catalog.", "MetastoreCatalog."))
    }
    ours = methods(HmsCatalog).keys()
    reached = {name for name in inherited if not name.startswith("_")} - ours
    reached |= {
        call.removeprefix("self.")
        for name in ours
        for call in calls(function_of(HmsCatalog, name))
        if call.startswith("self.")
    } & (inherited.keys() - ours)
    waiting = list(reached)
    while waiting:
        further = (inherited[waiting.pop()] & inherited.keys()) - ours - reached
        reached |= further
        waiting += further
    assert {"_load_file_io", "create_table_transaction", "create_table_if_not_exists"} <= reached
    assert inherited.keys() >= PAST_THE_COORDINATOR
    assert not reached & PAST_THE_COORDINATOR


def test_every_method_has_the_parameters_of_pyiceberg_s() -> None:
    theirs = methods(Catalog) | methods(MetastoreCatalog)
    both = methods(HmsCatalog).keys() & theirs.keys() - {"__init__"}
    assert len(both) > 20
    for name in both:
        assert parameters(getattr(HmsCatalog, name)) == parameters(theirs[name]), name


def parameters(method: Any) -> list[tuple[str, Any, Any]]:
    plain = method.__func__ if isinstance(method, staticmethod) else method
    return [(each.name, each.kind, each.default) for each in inspect.signature(plain).parameters.values()]


def test_nothing_of_a_catalog_is_left_out() -> None:
    assert not HmsCatalog.__abstractmethods__
    refusing = {name for name, body in theirs_by_name() if "raise NotImplementedError" in ast.unparse(body)}
    assert refusing <= methods(HmsCatalog).keys()


def theirs_by_name() -> Iterator[tuple[str, ast.FunctionDef]]:
    for name, body in functions(tree_of(Path(catalog_module.__file__))):
        if name.startswith(("Catalog.", "MetastoreCatalog.")):
            yield name.partition(".")[2], body


SCHEMA = Schema(
    NestedField(7, "id", LongType(), required=True),
    NestedField(9, "name", StringType(), required=False),
    identifier_field_ids=[7],
)


def test_a_new_table_is_asked_for_with_ids_of_its_own() -> None:
    spec = PartitionSpec(PartitionField(7, 1007, BucketTransform(4), "bucket"))
    order = SortOrder(SortField(9))
    body = upstream.create_table_request("t", SCHEMA, "file:/w/t/", spec, order, {"number": 7})
    assert (body["name"], body["location"], body["properties"]) == ("t", "file:/w/t", {"number": "7"})
    assert [(field["id"], field["name"]) for field in body["schema"]["fields"]] == [(1, "id"), (2, "name")]
    assert body["schema"]["identifier-field-ids"] == [1]
    (partition,) = body["partition-spec"]["fields"]
    assert (partition["source-id"], partition["field-id"], partition["transform"]) == (1, 1000, "bucket[4]")
    assert body["write-order"]["fields"][0]["source-id"] == 2


def test_a_new_table_may_have_a_schema_of_arrow() -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
    body = upstream.create_table_request("t", schema, None, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, {})
    assert [(field["id"], field["type"]) for field in body["schema"]["fields"]] == [(1, "long"), (2, "timestamp")]
    assert body.get("location") is None


def test_nanoseconds_are_for_tables_of_version_3() -> None:
    schema = pa.schema([("at", pa.timestamp("ns"))])
    parts = (None, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER)
    body = upstream.create_table_request("t", schema, *parts, {"format-version": "3"})
    assert body["schema"]["fields"][0]["type"] == "timestamp_ns"
    with pytest.raises(UnsupportedPyArrowTypeException, match="ns"):
        upstream.create_table_request("t", schema, *parts, {})


@pytest.mark.parametrize(("schema", "properties"), [("no schema", {}), (SCHEMA, {"key": None})])
def test_what_is_malformed_is_a_value_error(schema: Any, properties: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Schema|None"):
        upstream.create_table_request("t", schema, None, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, properties)


def test_a_property_without_a_value_is_a_value_error() -> None:
    assert upstream.texts({"number": 7, "flag": True, "text": "a"}) == {"number": "7", "flag": "true", "text": "a"}
    with pytest.raises(ValueError, match="None"):
        upstream.texts({"key": None})


def test_a_new_view_is_asked_for_with_ids_of_its_own() -> None:
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {"engine": "test"},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": ["db"],
    }
    body = upstream.create_view_request("v", SCHEMA, ViewVersion.model_validate(version), None, {})
    assert body["name"] == "v"
    assert [field["id"] for field in body["schema"]["fields"]] == [1, 2]
    assert body["view-version"] == version


def test_a_commit_says_what_it_assumes_and_changes_as_over_rest() -> None:
    requirement = AssertRefSnapshotId(ref="main", snapshot_id=None)
    body = upstream.commit_table_request(("db", "t"), (requirement,), (SetPropertiesUpdate(updates={"a": "b"}),))
    assert body["identifier"] == {"namespace": ["db"], "name": "t"}
    assert body["updates"] == [{"action": "set-properties", "updates": {"a": "b"}}]
    # Without a snapshot it means that the ref must not be there: `null` is said.
    assert body["requirements"] == [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]
