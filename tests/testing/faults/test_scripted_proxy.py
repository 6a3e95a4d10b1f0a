"""What both proxies share: a target, a script, and its end."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.script import FREEZE, PASS, Action, ProxiedCall, ScriptedFault
from iceberg_hms.testing.faults.scripted_proxy import ScriptedProxy
from iceberg_hms.testing.faults.tcp import Connection


class Proxy(ScriptedProxy[ScriptedFault]):
    """Takes no connections."""

    def add(self, method: str, action: Action, nth: int = 1) -> ScriptedFault:
        return self._add(ScriptedFault(method, action, nth))

    def hitting(self, method: str, number: int = 1) -> ScriptedFault | None:
        with self._changed:
            return self._hitting(ProxiedCall(1, method, number), b"")

    def _connect(self, number: int, client: socket.socket) -> Connection:
        raise NotImplementedError


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy("plain://127.0.0.1:1", "plain")
    yield made
    made.close()


@pytest.mark.parametrize("target", ["other://host:1", "plain://host", "plain://:1", "host:1", ""])
def test_a_target_is_a_host_and_a_port_of_the_scheme(target: str) -> None:
    with pytest.raises(InvalidInput, match="is not plain://host:port"):
        Proxy(target, "plain")


def test_the_first_line_that_hits_decides_and_the_others_count(proxy: Proxy) -> None:
    first, other, second = proxy.add("get", PASS), proxy.add("put", PASS), proxy.add("get", PASS, nth=2)
    assert [proxy.hitting("get", number) for number in (1, 2, 3)] == [first, second, None]
    assert proxy.hitting("put") is other


def test_a_script_that_is_cleared_hits_nothing_and_holds_nobody(proxy: Proxy) -> None:
    held = proxy.add("get", FREEZE)
    proxy.clear()
    assert proxy.hitting("get") is None
    assert held.hold(), "it is dropped"


def test_the_end_drops_what_is_held_and_pauses_no_more(proxy: Proxy) -> None:
    held = proxy.add("get", FREEZE)
    proxy.close()
    proxy.close()
    assert not held.hold()
    proxy.pause(60)
