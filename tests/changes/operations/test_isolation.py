"""Isolation levels have two names."""

from __future__ import annotations

import pytest

from iceberg_hms.changes.operations.isolation import check_isolation
from iceberg_hms.errors import InvalidInput


def test_other_levels_are_refused() -> None:
    check_isolation("serializable")
    check_isolation("snapshot")
    with pytest.raises(InvalidInput, match=r"isolation must be .* but is 'none'"):
        check_isolation("none")
