"""A metastore in memory that records what each alter of a table expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.metastore.fake_hms import FakeHms


class Recording(FakeHms):
    """expected: key and value that each alter of a table carried, None for an alter without them. Scratch rows are
    left out. before_alter: called before each of these."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[tuple[str, str] | None] = []
        self.before_alter: Callable[[str], None] = lambda _table: None

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        properties = environment_context.properties
        if tbl_name.startswith("iceberg_hms_probe_"):
            pass
        elif "expected_parameter_key" in properties:
            self.expected.append((properties["expected_parameter_key"], properties["expected_parameter_value"]))
        else:
            self.expected.append(None)
        self.before_alter(tbl_name)
        super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)
