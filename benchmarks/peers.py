"""Who commits side by side to one table: clients of our server, Java's HiveCatalog and PyIceberg's, at their defaults
and at the best settings that were found for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from iceberg_hms.changes.blind_append import ISOLATION_LEVELS


class Kind(StrEnum):
    """What a peer's writers are."""

    REST = "Java RESTCatalog"
    HIVE = "Java HiveCatalog"
    PYICEBERG = "PyIceberg HiveCatalog"


@dataclass(frozen=True)
class Peer:
    """One way to commit.

    table: properties of the table. settings: of the writers' Hadoop configuration, or of PyIceberg's catalog.
    once: whether it takes part in the first round alone, because a block of it takes all of its time.
    """

    name: str
    title: str
    kind: Kind
    table: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    once: bool = False


#: Nobody gives up, and nobody waits long before it tries again.
_RETRIES = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "10",
    "commit.retry.max-wait-ms": "200",
}
#: The metastore is asked often whether the lock is free: by default Java waits up to 5 s between two questions.
_JAVA_LOCK = {
    "iceberg.hive.lock-check-min-wait-ms": "10",
    "iceberg.hive.lock-check-max-wait-ms": "50",
    "iceberg.hive.lock-creation-min-wait-ms": "10",
    "iceberg.hive.lock-creation-max-wait-ms": "50",
}
#: By default PyIceberg waits 2, 4 and 8 s for a lock, and then gives up.
_PYICEBERG_LOCK = {
    "lock-check-min-wait-time": "0.02",
    "lock-check-max-wait-time": "0.1",
    "lock-check-retries": "10000",
}
#: Nobody validates an append to such a table, so a plain one is put on the new head.
_SNAPSHOT_ISOLATION = dict.fromkeys(ISOLATION_LEVELS, "snapshot")

SERVER_ALL = "server-all"
SERVER_PLAIN = "server-plain"
JAVA_HIVE = "java-hive"
#: Each a claim to be Java's best; which of them is, the figures say.
JAVA_HIVE_BEST = ("java-hive-tuned", "java-hive-cas")

PEERS = (
    Peer(
        SERVER_ALL,
        "iceberg-hms, Java REST, rebase all",
        Kind.REST,
        table={"iceberg-hms.rebase-appends": "all"},
    ),
    Peer(SERVER_PLAIN, "iceberg-hms, Java REST, snapshot isolation", Kind.REST, table=_SNAPSHOT_ISOLATION),
    Peer(JAVA_HIVE, "Java HiveCatalog, defaults", Kind.HIVE),
    Peer(JAVA_HIVE_BEST[0], "Java HiveCatalog, lock and retries tuned", Kind.HIVE, table=_RETRIES, settings=_JAVA_LOCK),
    Peer(
        JAVA_HIVE_BEST[1],
        "Java HiveCatalog, no lock, retries tuned",
        Kind.HIVE,
        table={**_RETRIES, "engine.hive.lock-enabled": "false"},
    ),
    Peer("pyiceberg-hive", "PyIceberg HiveCatalog, defaults", Kind.PYICEBERG, once=True),
    Peer(
        "pyiceberg-hive-tuned",
        "PyIceberg HiveCatalog, lock and retries tuned",
        Kind.PYICEBERG,
        table=_RETRIES,
        settings=_PYICEBERG_LOCK,
        once=True,
    ),
)
