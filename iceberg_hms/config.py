"""Every setting of the library: one place, with its name, default, bounds and meaning. The REST server has more, which
`rest/settings.py` lists.

Settings that Java's HiveCatalog also has keep its names and defaults, unless a comment says why not. Properties of a
table (`write.*`, `commit.manifest.*`, `engine.hive.lock-enabled`) are not settings: they live in the table.

    Settings.load({"metastore_uri": "thrift://h:9083", "commit.retry.num-retries": 10})

Keyword arguments win over the environment, the environment over a TOML file. Every source takes a setting by its key
(`commit.retry.num-retries`) or by its attribute name (`commit_retry_num_retries`); the environment spells it
ICEBERG_HMS_COMMIT_RETRY_NUM_RETRIES. ICEBERG_HMS_CONFIG names the TOML file when none is given. The environment and the
file may have the server's settings too: their names begin with `rest.`, and only the server reads and checks them.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iceberg_hms.errors import ConfigError
from iceberg_hms.setting import (
    DAY_MS,
    MIB,
    SettingsGroup,
    check_metastore,
    described,
    flag,
    found_text,
    gathered,
    is_of_server,
    number,
    secret,
    text,
)

#: What Java's HiveCatalog waits for a lock.
JAVAS_LOCK_TIMEOUT_MS: Final = 180_000
#: A dead writer's lock ends with its lease; a caller that waits this much longer outlives it.
LEASE_MARGIN_MS: Final = 10_000

_MANY: Final = 1_000_000


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # Containers often run under a user id without a name.
        return f"uid-{os.getuid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SettingsGroup):
    """The library's settings, checked: types, bounds, and those that must agree with each other.

    Raises ConfigError, also when built directly. Durations are milliseconds where the name ends in `_ms`.
    """

    metastore_uri: str = text("uri", "Metastore servers, thrift://host:port, separated by commas; tried in this order.")
    warehouse: str = text("warehouse", "Root folder for databases without a location of their own.")
    zookeeper: str = text(
        "zookeeper.hosts", "ZooKeeper servers, host:port separated by commas, with an optional /path at the end."
    )
    zookeeper_session_timeout_ms: int = number(
        "zookeeper.session-timeout-ms",
        30_000,
        1_000,
        DAY_MS,
        "How long ZooKeeper keeps the lock of a silent process; ZooKeeper servers bound this value.",
    )
    lock: str = text("lock", "Which lock protects a swap.", "hms", ("hms", "zookeeper", "none"))
    clients: int = number(
        "clients", 2, 1, 1024, "Connections to the metastore that stay open; heartbeats and unlocks have one more."
    )
    user: str = found_text(
        "user", _os_user, "The user name for the metastore, which owns new tables. Default: the OS user."
    )
    list_all_tables: bool = flag("list-all-tables", "List every table of a namespace, Iceberg or not.")
    unique_table_location: bool = flag("unique-table-location", "Add a random suffix to the location of new tables.")

    connect_timeout_ms: int = number(
        "metastore.connect-timeout-ms", 10_000, 1, DAY_MS, "How long connecting to one metastore may take."
    )
    socket_timeout_ms: int = number(
        "metastore.socket-timeout-ms",
        60_000,
        1,
        DAY_MS,
        "How long one metastore call may take, until the last byte of its answer.",
    )
    max_reply_bytes: int = number(
        "metastore.max-reply-bytes",
        100 * MIB,
        MIB,
        2**31 - 1,
        "Largest answer to one metastore call; a larger one counts as no answer.",
    )
    # Java: hive.metastore.client.socket.timeout, for every call.
    unanswered_swap_timeout_ms: int = number(
        "metastore.unanswered-swap-timeout-ms",
        600_000,
        1,
        DAY_MS,
        "How long to wait, holding the lock, for the answer to a swap, rename or drop that only the lock "
        "keeps from taking effect over later commits. The caller gets CommitStateUnknown after "
        "`metastore.socket-timeout-ms`.",
    )

    lock_creation_timeout_ms: int = number(
        "iceberg.hive.lock-creation-timeout-ms", 180_000, 1, DAY_MS, "How long to retry the request for a lock."
    )
    lock_creation_min_wait_ms: int = number(
        "iceberg.hive.lock-creation-min-wait-ms", 50, 1, DAY_MS, "First wait between requests for a lock."
    )
    lock_creation_max_wait_ms: int = number(
        "iceberg.hive.lock-creation-max-wait-ms", 5_000, 1, DAY_MS, "Longest wait between requests for a lock."
    )
    # Java: 180,000.
    lock_timeout_ms: int = number(
        "iceberg.hive.lock-timeout-ms",
        0,
        0,
        DAY_MS,
        "How long a commit in process waits for its group and its lock, unless its `wait_seconds` says so. 0: 180 s, "
        "as in Java, or 10 s longer than `lock.lease-default-ms` if that is longer, to outlive a dead writer's lock.",
    )
    lock_check_min_wait_ms: int = number(
        "iceberg.hive.lock-check-min-wait-ms", 50, 1, DAY_MS, "First wait between checks of a waiting lock."
    )
    # Java: 5,000. The metastore grants a waiting lock only when its owner asks, so oversleeping delays every later
    # waiter. This bounds the delay where the queue is not visible or locks are held longer than before.
    lock_check_max_wait_ms: int = number(
        "iceberg.hive.lock-check-max-wait-ms",
        500,
        1,
        DAY_MS,
        "Longest wait between checks of a waiting lock (Java: 5000).",
    )
    lock_max_checks_per_second: int = number(
        "lock.max-checks-per-second",
        100,
        1,
        _MANY,
        "Checks of waiting locks per second in this process; the more locks wait, the less often each is checked.",
    )
    lock_heartbeat_interval_ms: int = number(
        "iceberg.hive.lock-heartbeat-interval-ms",
        240_000,
        1,
        DAY_MS,
        "Longest time between heartbeats of a held lock; a tenth of the lease, or 5 s, if that is shorter.",
    )
    lock_lease_default_ms: int = number(
        "lock.lease-default-ms", 300_000, 1_000, DAY_MS, "The lease to assume if the server does not report its own."
    )
    lock_short_lease_ms: int = number(
        "lock.short-lease-ms",
        15_000,
        0,
        DAY_MS,
        "The lease of a lock under which only compare-and-swaps are sent: after so long without a heartbeat other "
        "iceberg-hms writers remove it. 0: the server's lease.",
    )
    lock_stale_check_interval_ms: int = number(
        "lock.stale-check-interval-ms",
        2_000,
        0,
        DAY_MS,
        "How often a writer that waits for a lock looks for dead writers' locks and removes them; 0: never.",
    )

    commit_retry_num_retries: int = number(
        "commit.retry.num-retries", 4, 0, _MANY, "How often to replay a commit on a table that moved."
    )
    commit_retry_min_wait_ms: int = number(
        "commit.retry.min-wait-ms", 100, 1, DAY_MS, "First wait between replays without a lock."
    )
    commit_retry_max_wait_ms: int = number(
        "commit.retry.max-wait-ms", 60_000, 1, DAY_MS, "Longest wait between replays without a lock."
    )
    commit_retry_total_timeout_ms: int = number(
        "commit.retry.total-timeout-ms",
        1_800_000,
        1,
        DAY_MS,
        "After this time no further replay without a lock starts.",
    )
    status_check_num_retries: int = number(
        "commit.status-check.num-retries",
        3,
        0,
        _MANY,
        "How often to repeat the status check of an unanswered swap.",
    )
    status_check_min_wait_ms: int = number(
        "commit.status-check.min-wait-ms", 1_000, 1, DAY_MS, "First wait between status checks."
    )
    status_check_max_wait_ms: int = number(
        "commit.status-check.max-wait-ms", 60_000, 1, DAY_MS, "Longest wait between status checks."
    )
    status_check_total_timeout_ms: int = number(
        "commit.status-check.total-timeout-ms",
        1_800_000,
        1,
        DAY_MS,
        "After this time the commit status is reported as unknown.",
    )
    uuid_lookup_total_timeout_ms: int = number(
        "commit.uuid-lookup.total-timeout-ms",
        10_000,
        0,
        DAY_MS,
        "How long to search all databases for a table's UUID before a caller gets CommitStateUnknown; 0: no search.",
    )
    queue_max_changes: int = number(
        "commit.queue.max-changes",
        1_024,
        1,
        _MANY,
        "Changes that may wait for one table; further ones are refused at once.",
    )
    queue_max_bytes: int = number(
        "commit.queue.max-bytes", 64 * MIB, 1, 2**40, "Memory of the changes that may wait for one table."
    )
    commit_threads: int = number(
        "commit.threads",
        256,
        1,
        4_096,
        "Tables that commit at once, each on a thread of its own, including its wait for the lock; further "
        "tables wait.",
    )
    group_max_changes: int = number(
        "commit.group.max-changes", 64, 1, _MANY, "Changes that share one lock, one metadata file and one swap."
    )
    refusal_max_swaps: int = number(
        "commit.refusal.max-swaps",
        16,
        0,
        _MANY,
        "Swaps with parts of a group, to find the changes that the metastore refuses; callers retry the rest.",
    )
    # Clients send an update for each snapshot that expires: a year of commits each five minutes is half of this.
    max_updates: int = number(
        "commit.max-updates",
        200_000,
        1,
        2**31 - 1,
        "Requirements and updates that one commit may have together; more are refused.",
    )
    batching_window_ms: int = number(
        "commit.group.batching-window-ms",
        40,
        0,
        1_000,
        "How long a group waits for callers of the last group to send their next change.",
    )

    table_property_max_size: int = number(
        "iceberg.hive.table-property-max-size",
        32_672,
        0,
        2**31 - 1,
        "Longest value of an HMS parameter, in bytes; longer ones are left out. 0: no table metadata.",
    )
    metadata_refresh_max_retries: int = number(
        "iceberg.hive.metadata-refresh-max-retries",
        2,
        0,
        _MANY,
        "How often to retry reading a metadata file or manifest.",
    )
    metadata_cache_max_bytes: int = number(
        "cache.metadata.max-bytes",
        256 * MIB,
        0,
        2**40,
        "Memory for cached table metadata, in bytes, counted as five times its JSON; 0: no cache.",
    )
    manifest_cache_max_bytes: int = number(
        "cache.manifest-list.max-bytes",
        64 * MIB,
        0,
        2**40,
        "Memory for cached manifest lists, in bytes; 0: no cache.",
    )
    file_filter_cache_max_bytes: int = number(
        "cache.file-filter.max-bytes",
        64 * MIB,
        0,
        2**40,
        "Memory for the filters that tell whether a table already has a data file, in bytes, 8 for each file; "
        "0: no cache.",
    )
    planning_cache_dir: str = text(
        "planning.cache-dir",
        "Folder of this machine for the decoded manifests of tables that are scanned, which processes of the same user "
        "may share; made if it is missing. Empty: none are kept.",
    )
    planning_cache_max_bytes: int = number(
        "planning.cache-max-bytes",
        4_096 * MIB,
        MIB,
        2**50,
        "How much of the disk they may take, in bytes; the least recently used are removed first.",
    )
    io_threads: int = number("io.threads", 64, 1, 1_024, "Files that one operation reads or writes at the same time.")
    storage_fsync: bool = flag(
        "storage.fsync",
        "Flush local files and their folders to disk before a commit names them, so that the commit survives "
        "a power failure.",
        default=True,
    )

    # The names of PyIceberg's FileIO, or of Java's S3FileIO where PyIceberg has none.
    s3_endpoint: str = text("s3.endpoint", "Address of the S3 service, such as `http://minio:9000`; empty: AWS.")
    s3_region: str = text("s3.region", "Region of the buckets; empty: as the AWS tools find it, or us-east-1.")
    s3_access_key_id: str = text(
        "s3.access-key-id", "Access key for S3; empty: credentials as the AWS tools find them on this machine."
    )
    s3_secret_access_key: str = secret("s3.secret-access-key", "Its secret.")
    s3_session_token: str = secret("s3.session-token", "Session token of temporary credentials.")
    s3_role_arn: str = text("s3.role-arn", "Role to assume with these credentials (STS AssumeRole); empty: none.")
    s3_role_session_name: str = text(
        "s3.role-session-name", "Name of the role's sessions, in audit logs.", "iceberg-hms"
    )
    s3_anonymous: bool = flag("s3.anonymous", "Send unsigned requests, as to public buckets.")
    s3_path_style_access: str = text(
        "s3.path-style-access",
        "Whether requests name the bucket in the path, not in the host; `auto`: if `s3.endpoint` is set.",
        "auto",
        ("auto", "true", "false"),
    )
    s3_connect_timeout: int = number(
        "s3.connect-timeout", 5, 1, 3_600, "How long connecting to S3 may take, in seconds."
    )
    s3_request_timeout: int = number(
        "s3.request-timeout",
        20,
        1,
        3_600,
        "How long one request to S3 may take, in seconds. No retry begins later than twice that after the first one.",
    )
    s3_retry_num_retries: int = number("s3.retry.num-retries", 5, 0, 100, "How often to retry a request to S3.")
    # Java: 2,000 and 20,000. A table's lock is held meanwhile, and waits have jitter.
    s3_retry_min_wait_ms: int = number("s3.retry.min-wait-ms", 100, 1, DAY_MS, "First wait between such retries.")
    s3_retry_max_wait_ms: int = number("s3.retry.max-wait-ms", 5_000, 1, DAY_MS, "Longest wait between them.")
    hdfs_host: str = text("hdfs.host", "Name node, or name service, of locations that name none (`hdfs:///path`).")
    hdfs_port: int = number("hdfs.port", 8_020, 1, 65_535, "Its port; a name service has none.")
    hdfs_user: str = text("hdfs.user", "User name for HDFS without Kerberos; empty: the OS user.")
    hdfs_config_dir: str = text(
        "hdfs.config-dir", "Folder with core-site.xml and hdfs-site.xml; empty: HADOOP_CONF_DIR, if set."
    )

    max_metadata_bytes: int = number(
        "storage.max-metadata-bytes",
        64 * MIB,
        1,
        2**40,
        "Largest metadata file, and its JSON when it is compressed. Parsed it may take four times as much memory, "
        "counted as its bytes and 80 for each value.",
    )
    max_manifest_bytes: int = number(
        "storage.max-manifest-bytes",
        256 * MIB,
        1,
        2**40,
        "Largest manifest list or manifest, and largest block of one when it is inflated.",
    )
    # Of legal files a thousand schemas of 500 columns each shrink most, 134-fold; manifests shrink 20-fold.
    max_inflate_ratio: int = number(
        "storage.max-inflate-ratio",
        250,
        1,
        _MANY,
        "How many times its size a metadata file or a manifest may inflate to; 16 MiB are always allowed.",
    )
    max_manifests: int = number(
        "storage.max-manifests", _MANY, 1, 2**31 - 1, "Manifests that one manifest list may have."
    )
    max_manifest_entries: int = number(
        "storage.max-manifest-entries", 10 * _MANY, 1, 2**31 - 1, "Entries that one manifest may have."
    )
    max_manifest_record_bytes: int = number(
        "storage.max-manifest-record-bytes",
        4 * MIB,
        1,
        2**31 - 1,
        "Largest entry of a manifest list or a manifest, in bytes, that is read or written. One whose values have a "
        "few bytes each takes fifty times as much memory.",
    )

    rebase_appends: str = text(
        "rebase-appends",
        "Which appends of other engines to rebase on a head that they have not seen, if neither the table nor "
        "its namespace sets `iceberg-hms.rebase-appends`.",
        "plain",
        ("plain", "all", "none"),
    )
    rebase_appends_max_age_ms: int = number(
        "rebase-appends-max-age-ms",
        5_000,
        0,
        600_000,
        "How long to cache a namespace's `iceberg-hms.rebase-appends`; 0: read it each time.",
    )
    replaced_list_age_ms: int = number(
        "commit.replaced-list-age-ms",
        600_000,
        0,
        DAY_MS,
        "The age at which to delete clients' manifest lists that the server replaced with its own; 0: never.",
    )
    retry_priority_max_wait_ms: int = number(
        "commit.retry-priority.max-wait-ms",
        2_000,
        0,
        DAY_MS,
        "How long other commits wait for a commit that lost a conflict on its branch, from when its client "
        "learns of the conflict; 0: not at all.",
    )
    retry_priority_max_hold_ms: int = number(
        "commit.retry-priority.max-hold-ms",
        20_000,
        0,
        DAY_MS,
        "How long to delay the answer to a commit that lost a conflict on its branch, while earlier losers "
        "retry; 0: no delay.",
    )
    retry_priority_max_share_percent: int = number(
        "commit.retry-priority.max-share-percent",
        50,
        1,
        90,
        "Share of all time in which other commits may wait for retried ones, in percent.",
    )
    foreign_writer_check_interval_ms: int = number(
        "commit.foreign-writer-backoff.check-interval-ms",
        200,
        1,
        DAY_MS,
        "How often to check for external writers waiting on a busy table's lock; after every group if one "
        "waited in the last 30 s.",
    )
    foreign_writer_max_wait_ms: int = number(
        "commit.foreign-writer-backoff.max-wait-ms",
        1_000,
        0,
        DAY_MS,
        "Longest pause of a table's commits for such a writer; 0: no pauses.",
    )
    foreign_writer_max_share_percent: int = number(
        "commit.foreign-writer-backoff.max-share-percent",
        50,
        1,
        90,
        "Share of all time that a table's commits may pause, in percent.",
    )

    def __post_init__(self) -> None:
        SettingsGroup.__post_init__(self)
        for uri in self.metastore_uris:
            check_metastore(uri)
        for low, high in _ORDERED:
            if getattr(self, low) > getattr(self, high):
                smaller, larger = (s.key for s in described(Settings) if s.attribute in (low, high))
                raise ConfigError(
                    f"`{smaller}` ({getattr(self, low)}) is larger than `{larger}` ({getattr(self, high)})"
                )
        if bool(self.s3_access_key_id) != bool(self.s3_secret_access_key):
            raise ConfigError(
                "`s3.access-key-id` and `s3.secret-access-key` go together, and one of them is not set",
                next_step="set both, or none to use the credentials that the AWS tools find",
            )
        if self.lock == "zookeeper" and not self.zookeeper:
            raise ConfigError(
                "`lock` is zookeeper, but `zookeeper.hosts` is not set", next_step="set `zookeeper.hosts`"
            )

    @property
    def lock_timeout_seconds(self) -> float:
        """How long to wait for a lock that another writer holds."""
        return (self.lock_timeout_ms or JAVAS_LOCK_TIMEOUT_MS) / 1000

    @property
    def commit_wait_seconds(self) -> float:
        """How long a commit in process waits if its caller does not say."""
        if self.lock_timeout_ms:
            return self.lock_timeout_seconds
        return max(JAVAS_LOCK_TIMEOUT_MS, self.lock_lease_default_ms + LEASE_MARGIN_MS) / 1000

    @property
    def s3_uses_path_style(self) -> bool | None:
        """Whether requests to S3 name the bucket in the path; None: as AWS's libraries choose."""
        if self.s3_path_style_access == "auto":
            return True if self.s3_endpoint else None
        return self.s3_path_style_access == "true"

    @property
    def metastore_uris(self) -> tuple[str, ...]:
        """The servers of `metastore_uri`, one by one; empty when it is unset."""
        return tuple(part.strip() for part in self.metastore_uri.split(",") if part.strip())

    @classmethod
    def load(
        cls, keywords: Mapping[str, object], *, environ: Mapping[str, str] | None = None, file: Path | None = None
    ) -> Settings:
        """Settings from keywords, over the environment, over a TOML file.

        keywords: keys or attribute names; a value of None counts as not given.
        environ: `os.environ` when None. file: the TOML file; when None, ICEBERG_HMS_CONFIG names it, if set.
        Raises ConfigError that names the key, where it came from, and the nearest known key.
        """
        environ = os.environ if environ is None else environ
        chosen: dict[str, Any] = gathered(described(cls), keywords, environ, file, is_of_server)
        return cls(**chosen)


#: Pairs of attributes of which the first, which is also listed first, must not be larger than the second.
_ORDERED: Final = (
    ("lock_creation_min_wait_ms", "lock_creation_max_wait_ms"),
    ("lock_check_min_wait_ms", "lock_check_max_wait_ms"),
    ("commit_retry_min_wait_ms", "commit_retry_max_wait_ms"),
    ("s3_retry_min_wait_ms", "s3_retry_max_wait_ms"),
    ("status_check_min_wait_ms", "status_check_max_wait_ms"),
)
