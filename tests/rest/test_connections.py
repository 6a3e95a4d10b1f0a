from __future__ import annotations

import asyncio
import logging

import pytest

from iceberg_hms.rest.connections import OTHER_FILES, ConnectionLimits, Connections, peer_of
from iceberg_hms.rest.counters import Counters
from iceberg_hms.rest.settings import RestSettings


class Fake:
    """A connection that notes what is asked of it."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.gave_way = False
        self.checked = asyncio.Event()

    def give_way(self) -> None:
        self.gave_way = True

    def close_if_overdue(self, now: float) -> None:
        self.checked.set()


def limits(connections: int, per_peer: int) -> ConnectionLimits:
    settings = RestSettings(rest_max_connections=connections, rest_max_connections_per_peer=per_peer)
    return ConnectionLimits.of(settings, 1_000_000)


def test_the_limits_are_those_of_the_settings_in_seconds() -> None:
    found = ConnectionLimits.of(RestSettings(), 1_000_000)
    assert found == ConnectionLimits(4_096, 1_024, 65_536, 16 * 1024 * 1024, 10.0, 120, 300.0)


@pytest.mark.parametrize(("open_files", "connections"), [(1_024, 1_024 - OTHER_FILES), (100, 1), (20_000, 4_096)])
def test_connections_leave_open_files_to_everything_else(open_files: int, connections: int) -> None:
    assert ConnectionLimits.of(RestSettings(), open_files).connections == connections


def test_a_peer_at_its_limit_loses_its_own_idle_connections_alone() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        all_ = Connections(limits(10, 2), Counters())
        other, first, second, third, fourth = Fake("b"), Fake("a"), Fake("a"), Fake("a"), Fake("a")
        assert all(all_.admit(each, loop) for each in (other, first, second))
        all_.busy(first)
        assert all_.admit(third, loop)
        assert (other.gave_way, first.gave_way, second.gave_way) == (False, False, True)
        all_.busy(third)
        assert not all_.admit(fourth, loop)
        all_.idle(first)
        assert all_.admit(fourth, loop)
        assert first.gave_way

    asyncio.run(scene())


def test_what_was_removed_or_refused_counts_no_more() -> None:
    async def scene() -> None:
        loop, counters = asyncio.get_running_loop(), Counters()
        all_ = Connections(limits(1, 1), counters)
        first, refused, second = Fake("a"), Fake("a"), Fake("a")
        assert all_.admit(first, loop)
        all_.busy(first)
        assert not all_.admit(refused, loop)
        for each in (refused, first, first):
            all_.remove(each)
            all_.idle(each)
        assert "rest_connections 0" in counters.render()
        assert all_.admit(second, loop)

    asyncio.run(scene())


def test_the_sweep_asks_every_connection_as_long_as_there_are_some() -> None:
    async def scene() -> None:
        all_ = Connections(ConnectionLimits.of(RestSettings(rest_header_timeout_ms=1), 1_000_000), Counters())
        first, second = Fake("a"), Fake("b")
        for each in (first, second):
            all_.admit(each, asyncio.get_running_loop())
        for _ in range(2):
            async with asyncio.timeout(30):
                await first.checked.wait()
                await second.checked.wait()
            first.checked.clear()
            second.checked.clear()
        all_.remove(first)
        all_.remove(second)
        all_.admit(first, asyncio.get_running_loop())
        async with asyncio.timeout(30):
            await first.checked.wait()

    asyncio.run(scene())


def test_each_reason_is_logged_once_in_a_while_with_what_was_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iceberg_hms.rest.connections.LOG_SECONDS", 0.01)

    async def scene() -> None:
        loop, all_ = asyncio.get_running_loop(), Connections(limits(1, 1), Counters())
        for reason, peer in (("idle", "10.0.0.1"), ("idle", "10.0.0.2"), ("malformed HTTP", "10.0.0.3")):
            all_.closed(reason, peer, loop)
        async with asyncio.timeout(30):
            while len(caplog.messages) < 3:
                await asyncio.sleep(0)

    asyncio.run(scene())
    assert caplog.messages == [
        "closed a connection of 10.0.0.1: idle",
        "closed a connection of 10.0.0.3: malformed HTTP",
        "closed 1 more connection(s): idle",
    ]


def test_fewer_connections_than_the_setting_says_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ConnectionLimits.of(RestSettings(), 1_024)
    assert "768 connections at most: the process may open 1024 files" in caplog.text


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        (None, "local"),
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_a_peer_is_an_address_or_a_network_of_ipv6(host: str | None, peer: str) -> None:
    assert peer_of(host) == peer
