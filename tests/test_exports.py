"""What `import iceberg_hms` gives, and what it must not cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import iceberg_hms
from iceberg_hms import errors

#: The public names. Adding one is a decision; renaming or removing one breaks somebody's program.
PUBLIC = {
    "Append",
    "Catalog",
    "ChangeKind",
    "CommitReport",
    "DataFile",
    "FileChange",
    "Settings",
    "Snapshot",
    "Table",
    "TableChange",
    "TableMetadata",
    "TableName",
    "col",
    "connect",
}
#: Heavy or optional: imported on use alone.
NOT_ON_IMPORT = (
    "pyspark",
    "py4j",
    "kazoo",
    "starlette",
    "uvicorn",
    "pyiceberg",
    "pyarrow",
    "thrift",
    "pandas",
    "datafusion",
)


def error_names() -> set[str]:
    return {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}


def public_names() -> set[str]:
    """What dir() shows of the public names."""
    return {name for name in dir(iceberg_hms) if not name.startswith("_") and name in iceberg_hms.PUBLIC_NAMES}


def test_public_names_are_the_listed_ones_and_every_error() -> None:
    assert public_names() == PUBLIC | error_names()


@pytest.mark.parametrize("name", sorted(PUBLIC | error_names() | {"__version__"}))
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(iceberg_hms, name)


def test_type_checkers_see_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse(Path(iceberg_hms.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("iceberg_hms.")
        for alias in node.names
    }
    assert seen == iceberg_hms.PUBLIC_NAMES


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = iceberg_hms.conect


def test_the_package_is_marked_as_typed() -> None:
    assert Path(iceberg_hms.__file__).with_name("py.typed").exists()


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = f"import sys, iceberg_hms; print(sorted(set({NOT_ON_IMPORT!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "[]"
