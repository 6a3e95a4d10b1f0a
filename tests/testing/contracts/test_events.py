"""A suite that cannot fail proves nothing: broken events are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from iceberg_hms.catalog.events import LoggedEvents
from iceberg_hms.testing.contracts import events as contract


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_the_events_of_a_catalog_keep_the_contract(check: contract.Check) -> None:
    events = LoggedEvents()
    check(events, events.subscribe)


class Fragile(LoggedEvents):
    def publish(self, event: Mapping[str, Any]) -> None:
        for listener in self._listeners:
            listener(event)


class Deaf(LoggedEvents):
    def publish(self, event: Mapping[str, Any]) -> None:
        return


def test_broken_events_are_found() -> None:
    fragile, deaf = Fragile(), Deaf()
    with pytest.raises(ZeroDivisionError):
        contract.a_broken_listener_harms_no_other(fragile, fragile.subscribe)
    with pytest.raises(AssertionError, match="events that the listener got"):
        contract.listeners_get_events_in_order(deaf, deaf.subscribe)
