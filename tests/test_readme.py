"""The calls that README and docs/from-pyiceberg.md list exist, and take the arguments that they are given there."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyiceberg.catalog
import pyiceberg.table
import pytest
from pyiceberg.table.inspect import InspectTable
from pyiceberg.table.maintenance import MaintenanceTable
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots
from pyiceberg.table.update.sorting import UpdateSortOrder
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.table.update.statistics import UpdateStatistics

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.transaction import Transaction

ROOT = Path(__file__).parent.parent
KNOWN = {"catalog": Catalog, "table": Table, "tx": Transaction}
#: PyIceberg's, whose annotations are texts.
THEIRS = {"catalog": pyiceberg.catalog.Catalog, "table": pyiceberg.table.Table}
THEIR_NAMES = {
    each.__name__: each
    for each in (
        pyiceberg.table.DataScan,
        pyiceberg.table.Transaction,
        ExpireSnapshots,
        InspectTable,
        MaintenanceTable,
        ManageSnapshots,
        UpdateSchema,
        UpdateSortOrder,
        UpdateSpec,
        UpdateStatistics,
    )
}


def wrong_calls(code: str, known: Mapping[str, type] = KNOWN) -> list[str]:
    """The calls of methods of a catalog, a table or a transaction, and the uses of their properties, that fail before
    they run. An argument `...` stands
    for any. known: whose they are."""
    wrong = []
    nodes = list(ast.walk(ast.parse(code)))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Call | ast.Attribute) and node not in called:
            try:
                _returned(node, known)
            except (AttributeError, TypeError) as error:
                wrong.append(f"{ast.unparse(node)}: {error}")
    return wrong


def _returned(node: ast.expr, known: Mapping[str, type]) -> Any:
    """The class of an expression's value; None if that is not known. Raises AttributeError, TypeError."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    named = node.func if isinstance(node, ast.Call) else node
    owner = _returned(named.value, known) if isinstance(named, ast.Attribute) else None
    if owner is None or not isinstance(named, ast.Attribute):
        return None
    if any(named.attr in vars(each).get("__annotations__", ()) for each in owner.__mro__):
        return None
    method, found = getattr(owner, named.attr), inspect.getattr_static(owner, named.attr)
    if isinstance(node, ast.Attribute):
        return _result(found.fget, owner) if isinstance(found, property) else None
    if isinstance(found, property):
        raise TypeError("it is a property")
    if not any(isinstance(argument, ast.Constant) and argument.value is ... for argument in node.args):
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        inspect.signature(method).bind(None, *node.args, **keywords)
    return _result(method, owner)


def _result(function: Any, owner: type) -> Any:
    annotated = inspect.signature(function).return_annotation
    if owner.__module__.startswith("pyiceberg."):
        return THEIR_NAMES.get(annotated)
    result = typing.get_type_hints(function).get("return")
    result = owner if result is typing.Self else typing.get_origin(result) or result
    return result if isinstance(result, type) else None


def test_the_listed_calls_exist() -> None:
    text = (
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .partition("## The Python API in one place")[2]
        .partition("\n## ")[0]
    )
    listed = [call for row in re.findall(r"^\|.*\|$", text, re.MULTILINE) for call in re.findall(r"`(.*?)`", row)]
    code = "\n".join([*listed, *re.findall(r"```python\n(.*?)```", text, re.DOTALL)])
    assert len([node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]) >= 30
    assert wrong_calls(code) == []


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("table.unmake()", "has no attribute 'unmake'"),
        ("table.append(files, brunch='audit')", "unexpected keyword argument 'brunch'"),
        ("table.fast_forward()", "missing a required argument"),
        ("table.update_schema().add_colum('host', 'string')", "has no attribute 'add_colum'"),
        ("table.update_schema().add_column('host', 'string').comit()", "has no attribute 'comit'"),
        ("catalog.load_table('a.b').unmake()", "has no attribute 'unmake'"),
    ],
)
def test_a_call_that_cannot_run_is_found(code: str, problem: str) -> None:
    assert len(wrong := wrong_calls(code)) == 1
    assert problem in wrong[0]


def test_the_idioms_of_pyiceberg_exist_there_and_what_we_have_instead_here() -> None:
    text = (ROOT / "docs" / "from-pyiceberg.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.+) \| (.+) \|$", text.partition("## Its idioms, and ours")[2].partition("\n## ")[0], re.MULTILINE
    )
    idioms = 0
    for theirs, ours in rows:
        calls = re.findall(r"`(.*?)`", theirs)
        idioms += len(calls)
        assert wrong_calls("\n".join(calls), THEIRS) == []
        if ours.startswith("same"):
            assert wrong_calls("\n".join(calls)) == []
        assert wrong_calls("\n".join(re.findall(r"`(.*?)`", ours))) == []
    assert idioms >= 60
