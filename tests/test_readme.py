"""The calls that README lists exist, and take the arguments that it gives them."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.transaction import Transaction

README = Path(__file__).parent.parent / "README.md"
KNOWN = {"catalog": Catalog, "table": Table, "tx": Transaction}


def wrong_calls(code: str) -> list[str]:
    """The calls of methods of a catalog, a table or a transaction that fail before they run. An argument `...` stands
    for any."""
    wrong = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            try:
                _returned(node)
            except (AttributeError, TypeError) as error:
                wrong.append(f"{ast.unparse(node)}: {error}")
    return wrong


def _returned(node: ast.expr) -> Any:
    """The class of an expression's value; None if that is not known. Raises AttributeError, TypeError."""
    if isinstance(node, ast.Name):
        return KNOWN.get(node.id)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    owner = _returned(node.func.value)
    if owner is None:
        return None
    method = getattr(owner, node.func.attr)
    if not any(isinstance(argument, ast.Constant) and argument.value is ... for argument in node.args):
        named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        inspect.signature(method).bind(None, *node.args, **named)
    result = typing.get_type_hints(method).get("return")
    result = owner if result is typing.Self else typing.get_origin(result) or result
    return result if isinstance(result, type) else None


def test_the_listed_calls_exist() -> None:
    text = README.read_text(encoding="utf-8").partition("## The Python API in one place")[2].partition("\n## ")[0]
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
