"""The settings of the REST server: `rest.*`. `config.Settings` has them among its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from iceberg_hms.setting import DAY_MS, MIB, flag, number, text


class PurgePolicy(StrEnum):
    """What the REST server does when a client drops a table with purge (`rest.purge`)."""

    DELETE = "delete"
    KEEP = "keep"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """Settings of the REST server. Durations are milliseconds where the name ends in `_ms`."""

    rest_host: str = text("rest.host", "Address on which `serve` listens.", "127.0.0.1")
    rest_port: int = number("rest.port", 8_181, 0, 65_535, "Port on which `serve` listens; 0: any free one.")
    rest_threads: int = number("rest.threads", 16, 1, 4_096, "REST reads to serve at the same time.")
    rest_commit_threads: int = number(
        "rest.commit-threads",
        128,
        1,
        4_096,
        "REST requests with locks to serve at the same time. Commits that wait in a queue take no thread.",
    )
    rest_commit_wait_ms: int = number(
        "rest.commit-wait-ms", 30_000, 1, DAY_MS, "How long a REST commit waits for its group and its lock."
    )
    rest_keep_alive_seconds: int = number(
        "rest.keep-alive-seconds", 120, 1, 86_400, "How long an idle REST connection stays open, in seconds."
    )
    rest_max_body_bytes: int = number("rest.max-body-bytes", 64 * MIB, 1_024, 2**40, "Largest REST request body.")
    rest_purge: str = text(
        "rest.purge",
        "What a drop with purge does over REST: drop the table and delete its own files, drop it and keep its files, or"
        " answer 403. Trino purges with every drop, DuckDB by default.",
        PurgePolicy.DELETE.value,
        choices=tuple(each.value for each in PurgePolicy),
    )
    rest_compress_loopback: bool = flag(
        "rest.compress-loopback",
        "Compress responses to this machine too, for a proxy on it that forwards them to others.",
    )
