from __future__ import annotations

import pytest

from iceberg_hms.errors import ScopeMissing
from iceberg_hms.rest.access.authorization import (
    CATALOG,
    EVERYWHERE,
    AccessTarget,
    Action,
    ByScopes,
    require,
    scope_name,
)
from iceberg_hms.rest.access.scopes import Caller, parse_scopes
from iceberg_hms.rest.access.tokens import Everyone

ACCESS = Everyone()


def test_the_error_names_the_caller_the_scope_and_the_action() -> None:
    caller = Caller("etl", parse_scopes("read[sales]"))
    require(ACCESS, caller, Action.LOAD_TABLE, AccessTarget("Sales", "orders"))
    with pytest.raises(ScopeMissing, match=r"etl lacks the scope write\[sales\], which commit needs"):
        require(ACCESS, caller, Action.COMMIT, AccessTarget("Sales", "orders"))
    with pytest.raises(ScopeMissing) as caught:
        require(ACCESS, caller, Action.COMMIT, AccessTarget("x" * 100_000))
    assert len(str(caught.value)) < 300


def test_the_catalog_as_a_whole_is_for_every_caller_and_everything_for_few() -> None:
    one, all_ = Caller("a", parse_scopes("admin[sales]")), Caller("b", parse_scopes("read[*]"))
    assert ByScopes().allow(one, Action.GET_CONFIG, CATALOG)
    assert not ByScopes().allow(one, Action.READ_ANY_FILE, AccessTarget(EVERYWHERE))
    assert ByScopes().allow(all_, Action.READ_ANY_FILE, AccessTarget(EVERYWHERE))


def test_names_are_compared_as_the_catalog_folds_them() -> None:
    assert scope_name("SALES") == "sales"
    assert scope_name("sales\x1forders") == "sales"
    assert str(AccessTarget("sales", "orders")) == "sales.orders"
