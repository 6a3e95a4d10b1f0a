"""The ZooKeeper session of a catalog, and how a test ends it: the one place that reaches for it."""

from __future__ import annotations

from typing import Any

from iceberg_hms.zookeeper.session import ZooKeeperSession


def session_of(catalog: Any) -> ZooKeeperSession:
    session: ZooKeeperSession = catalog.services.ports.lock._zookeeper._session
    return session


def expire(session: ZooKeeperSession) -> None:
    """End a session from outside, as a server ends that of a silent process: another client takes it over, which the
    servers allow, and closes it."""
    from kazoo.client import KazooClient

    thief = KazooClient(session.hosts, client_id=session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


def look_only_for(session: ZooKeeperSession, seconds: float) -> None:
    """From now on the session gives up looking for a server after so many seconds. As a setting it would bound the
    first connection too, to a server that has just started."""
    session._connect_seconds = seconds
