"""The settings of the REST server: `rest.*`. It loads the library's with them, from the same sources."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.setting import (
    DAY_MS,
    MIB,
    Setting,
    SettingsGroup,
    Value,
    described,
    flag,
    gathered,
    is_of_server,
    number,
    parsed_properties,
    properties,
    text,
)

#: The settings of a REST server in which its warehouses may differ. It has the others only once.
OF_ONE_WAREHOUSE: Final = frozenset(
    {
        "rest.allowed-locations",
        "rest.caller-in-summary",
        "rest.client-defaults",
        "rest.client-overrides",
        "rest.commit-threads",
        "rest.commit-wait-ms",
        "rest.locations",
        "rest.max-page-size",
        "rest.namespace-separator",
        "rest.planning-max-files",
        "rest.planning-processes",
        "rest.planning-wait-ms",
        "rest.purge",
        "rest.read-only",
        "rest.scan-planning",
        "rest.table-config",
        "rest.threads",
        "rest.vended-credentials",
        "rest.vended-duration-seconds",
        "rest.vended-role-arn",
    }
)

#: Bytes of the shortest key that a file may have.
_KEY_MIN: Final = 32
_DECIDED: Final = frozenset({"namespace-separator", "prefix"})
#: The property of clients that says who plans scans.
PLANNING_MODE: Final = "scan-planning-mode"


class PurgePolicy(StrEnum):
    """What the REST server does when a client drops a table with purge (`rest.purge`)."""

    DELETE = "delete"
    KEEP = "keep"
    REFUSE = "refuse"


class VendedCredentials(StrEnum):
    """What makes credentials for clients (`rest.vended-credentials`)."""

    NONE = "none"
    STS = "sts"


class ScanPlanning(StrEnum):
    """Whether the server plans scans (`rest.scan-planning`)."""

    OFF = "off"
    OFFERED = "offered"
    PREFERRED = "preferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings(SettingsGroup):
    """Settings of the REST server, checked. Durations are milliseconds where the name ends in `_ms`."""

    rest_host: str = text("rest.host", "Address on which `serve` listens.", "127.0.0.1")
    rest_port: int = number("rest.port", 8_181, 0, 65_535, "Port on which `serve` listens; 0: any free one.")
    rest_allowed_locations: str = text(
        "rest.allowed-locations",
        "Folders outside of the warehouse in which REST clients may have tables, namespaces and metadata files, "
        "separated by commas. A folder is for every namespace, or for those that stand behind it: "
        "`s3://lake/sales[sales marketing_*]`.",
    )
    rest_locations: str = text(
        "rest.locations",
        "Whether the folders that databases and tables have in the metastore are allowed too (`known`), or only the "
        "warehouse and `rest.allowed-locations` (`strict`).",
        "known",
        ("known", "strict"),
    )
    rest_signing_key_file: str = text(
        "rest.signing-key-file",
        "File with a secret of 32 bytes or more that several servers of one metastore share: each accepts what another "
        "one staged, and answers tasks of its plans. Empty: a key of the process's own.",
    )
    rest_threads: int = number("rest.threads", 16, 1, 4_096, "REST reads to serve at the same time.")
    rest_commit_threads: int = number(
        "rest.commit-threads",
        128,
        1,
        4_096,
        "REST requests with locks to serve at the same time. Commits that wait in a queue take no thread.",
    )
    rest_commit_wait_ms: int = number(
        "rest.commit-wait-ms",
        30_000,
        1,
        DAY_MS,
        "How long a REST commit waits for its group and its lock, and a commit or a load of a table for a metastore "
        "that is away.",
    )
    rest_drain_ms: int = number(
        "rest.drain-ms",
        5_000,
        0,
        DAY_MS,
        "How long `serve` goes on after SIGTERM while it answers that it is not ready, so that balancers notice; it "
        "does not if nobody has asked for a minute.",
    )
    rest_keep_alive_seconds: int = number(
        "rest.keep-alive-seconds", 120, 1, 86_400, "How long an idle REST connection stays open, in seconds."
    )
    rest_max_body_bytes: int = number("rest.max-body-bytes", 16 * MIB, 1_024, 2**40, "Largest REST request body.")
    rest_max_body_values: int = number(
        "rest.max-body-values",
        500_000,
        1_000,
        10**9,
        "Most values in the JSON of a REST request, counted as its brackets, braces, commas and colons.",
    )
    rest_memory_max_bytes: int = number(
        "rest.memory.max-bytes",
        1_024 * MIB,
        2 * MIB,
        2**40,
        "Memory for what REST requests hold: their bodies, metadata files that are read for them or cached, manifests "
        "while they are read (twice their length), delete files of plans, and their responses. One caller gets half of "
        "it. At least fourteen times `storage.max-metadata-bytes`.",
    )
    rest_body_timeout_ms: int = number(
        "rest.body-timeout-ms", 60_000, 1, DAY_MS, "How long a client may take to send the body of a request."
    )
    rest_max_header_bytes: int = number(
        "rest.max-header-bytes", 65_536, 1_024, 2**30, "Largest header of a REST request, its first line included."
    )
    rest_header_timeout_ms: int = number(
        "rest.header-timeout-ms",
        10_000,
        1,
        DAY_MS,
        "How long a client may take to send the header of a request, of its first one since it connected.",
    )
    rest_send_timeout_ms: int = number(
        "rest.send-timeout-ms", 300_000, 1, DAY_MS, "How long a client may take to receive a response."
    )
    rest_max_connections: int = number(
        "rest.max-connections",
        4_096,
        1,
        1_000_000,
        "REST connections in all; one more closes the one that is idle for longest, or is refused.",
    )
    rest_max_connections_per_peer: int = number(
        "rest.max-connections-per-peer",
        1_024,
        1,
        1_000_000,
        "REST connections of one address, of IPv6 of one /64 network. Behind a proxy: as many as in all.",
    )
    rest_max_requests_per_caller: int = number(
        "rest.max-requests-per-caller",
        512,
        1,
        1_000_000,
        "REST requests of one caller without a response so far; further ones get status 429.",
    )
    rest_max_page_size: int = number(
        "rest.max-page-size",
        10_000,
        1,
        1_000_000,
        "Names in one page of a list, for clients that can read further pages: those that send `pageToken`.",
    )
    rest_max_open_files: int = number(
        "rest.max-open-files",
        65_536,
        0,
        2**30,
        "`serve` raises its limit of open files to this, as far as it may; 0: it leaves the limit alone.",
    )
    rest_read_only: bool = flag(
        "rest.read-only", "Change nothing: every change gets status 403. Reads and metrics reports go on."
    )
    rest_purge: str = text(
        "rest.purge",
        "What a drop with purge does over REST: drop the table and delete its own files, drop it and keep its files, or"
        " answer 403. Trino purges with every drop, DuckDB with `ATTACH ... (PURGE_REQUESTED true)`.",
        PurgePolicy.DELETE.value,
        choices=tuple(each.value for each in PurgePolicy),
    )
    rest_oidc_issuer: str = text(
        "rest.oidc.issuer",
        "OpenID Connect issuer whose tokens `serve` accepts, by its https address; empty: none.",
    )
    rest_oidc_audience: str = text("rest.oidc.audience", "The audience that tokens of the issuer must name.")
    rest_oidc_scopes_claim: str = text(
        "rest.oidc.scopes-claim",
        "Claim with the caller's scopes, such as `iceberg-hms:write:sales_*`: a list, or a text with blanks.",
        "scope",
    )
    rest_oidc_name_claim: str = text("rest.oidc.name-claim", "Claim with the caller's name.", "sub")
    rest_oidc_token_types: str = text(
        "rest.oidc.token-types",
        "What the header field `typ` of a token may be, separated by commas, such as `at+jwt` where the issuer follows "
        "RFC 9068; empty: anything, but no ID token.",
    )
    rest_oidc_clock_skew_seconds: int = number(
        "rest.oidc.clock-skew-seconds", 30, 0, 600, "How far the issuer's clock may be off, in seconds."
    )
    rest_client_defaults: str = properties(
        "rest.client-defaults",
        "Properties that the server gives to clients, which may set them otherwise: `name=value`, separated by commas, "
        "or one a line. Each caller may read them.",
    )
    rest_client_overrides: str = properties(
        "rest.client-overrides", "The same, for properties that win over what clients set."
    )
    rest_table_config: str = properties(
        "rest.table-config",
        "Properties that clients get with each table that they load, create or register, for its files: "
        "`name=value`, separated by commas, or one a line.",
    )
    rest_vended_credentials: str = text(
        "rest.vended-credentials",
        "What clients that ask for it (`X-Iceberg-Access-Delegation: vended-credentials`) get for a table's files: "
        "nothing (`none`), or short-lived credentials for its folders alone, made by AssumeRole of the store's token "
        "service (`sts`), to read or to write as the caller's scopes say.",
        VendedCredentials.NONE.value,
        choices=tuple(each.value for each in VendedCredentials),
    )
    rest_vended_role_arn: str = text(
        "rest.vended-role-arn",
        "Role that the server assumes for clients, with its own credentials for S3; empty: that of `s3.role-arn`. AWS "
        "and Ceph need one, MinIO looks at none.",
    )
    rest_vended_duration_seconds: int = number(
        "rest.vended-duration-seconds",
        3_600,
        900,
        43_200,
        "How long such credentials live, in seconds. Each client gets at least a third of it. A role bounds it, to an "
        "hour where the server's own credentials are those of a role.",
    )
    rest_scan_planning: str = text(
        "rest.scan-planning",
        "Whether the server plans scans for clients: never (`off`), for those that ask for it with "
        "`scan-planning-mode=server` (`offered`), or for all that do not set it otherwise (`preferred`).",
        ScanPlanning.OFFERED.value,
        choices=tuple(each.value for each in ScanPlanning),
    )
    rest_planning_wait_ms: int = number(
        "rest.planning-wait-ms",
        10_000,
        100,
        DAY_MS,
        "After so long an answer to a client that plans a scan has the tasks that were found, and names the rest to be "
        "asked for.",
    )
    rest_planning_max_files: int = number(
        "rest.planning-max-files",
        20_000,
        1,
        1_000_000,
        "Files in one such answer: it ends with the manifest by which it has as many, and has so many of a manifest "
        "with more. Fewer if the client wants statistics of columns.",
    )
    rest_planning_processes: int = number(
        "rest.planning-processes",
        1,
        0,
        256,
        "Processes that plan scans of large tables, so that commits do not wait for them. They start when there is "
        "something to plan. On a machine with more than two processors that plans much, half as many as it has. 0: "
        "threads of the server plan all.",
    )
    rest_namespace_separator: str = text(
        "rest.namespace-separator",
        "What joins the parts of a namespace in paths, percent-encoded. `%2E` is for proxies that refuse `%1F`, which "
        "the server accepts all the same.",
        "%1F",
        ("%1F", "%2E"),
    )
    rest_caller_in_summary: bool = flag(
        "rest.caller-in-summary", "Put the caller's name into the summary of its snapshots, as `iceberg-hms.caller`."
    )
    rest_audit_log: str = text(
        "rest.audit-log",
        "File for the audit trail, a line of JSON for each change and each refusal; empty: with the log.",
    )
    rest_access_log: bool = flag(
        "rest.access-log",
        "Log every request, a line of JSON for each one. Changes, refusals, conflicts and failures have lines without"
        " it.",
    )
    rest_metrics_access: str = text(
        "rest.metrics-access",
        "Who may read `/metrics`: everybody who reaches the server (`open`), or every caller with a token (`callers`).",
        "open",
        choices=("open", "callers"),
    )
    rest_metrics_tables: int = number(
        "rest.metrics-tables",
        0,
        0,
        10_000,
        "Tables with a label of their own in `/metrics`, the first ones that are committed to; others share one. Who "
        "may read the metrics (`rest.metrics-access`) reads their names. 0: no names.",
    )
    rest_lock_metrics_interval_ms: int = number(
        "rest.lock-metrics-interval-ms",
        60_000,
        0,
        DAY_MS,
        "How often at most to list all locks for `/metrics`; 0: never.",
    )
    rest_log_metrics_reports: bool = flag(
        "rest.log-metrics-reports",
        "Ask clients to report their scans and commits, and log a line of JSON for each report. A client of Java waits "
        "10 ms for each; otherwise only those report that set `rest-metrics-reporting-enabled=true`.",
    )
    rest_ssl_certfile: str = text(
        "rest.ssl-certfile", "PEM file of the server's certificate chain: the server speaks TLS. Read again on change."
    )
    rest_ssl_keyfile: str = text("rest.ssl-keyfile", "PEM file of its key, if the certificate's file has none.")
    rest_ssl_ca_certs: str = text(
        "rest.ssl-ca-certs", "PEM file of the authorities whose certificates clients must show; empty: they need none."
    )
    rest_allowed_hosts: str = text(
        "rest.allowed-hosts",
        "Host names by which browsers may call a server without tokens, separated by commas, besides `rest.host`.",
    )
    rest_merge_manifests: bool = flag(
        "rest.merge-manifests",
        "Merge the small manifests that clients' appends leave, in snapshots of the server's own, for tables that have "
        "`commit.manifest-merge.enabled` (the default).",
        True,
    )
    rest_compress_loopback: bool = flag(
        "rest.compress-loopback",
        "Compress responses to this machine too, for a proxy on it that forwards them to others.",
    )

    def __post_init__(self) -> None:
        SettingsGroup.__post_init__(self)
        for key, pairs in (
            ("rest.client-defaults", self.client_defaults),
            ("rest.client-overrides", self.client_overrides),
            ("rest.table-config", self.table_config),
        ):
            # What the server itself decides, or what it would promise and not do.
            for name in sorted(_DECIDED & pairs.keys()):
                raise ConfigError(f"`{key}` sets {name}, which the server itself decides", next_step="leave it out")
            if self.rest_scan_planning == ScanPlanning.OFF and pairs.get(PLANNING_MODE, "client").lower() != "client":
                raise ConfigError(
                    f"`{key}` sets {PLANNING_MODE}, but the server plans no scans",
                    next_step="leave it out, or set `rest.scan-planning`",
                )

    def signing_key(self) -> bytes | None:
        """The key in `rest.signing-key-file`; None if none is named. Raises ConfigError for a file that cannot be read
        or that holds less than 32 bytes."""
        if not self.rest_signing_key_file:
            return None
        try:
            key = Path(self.rest_signing_key_file).read_bytes().strip()
        except OSError as error:
            raise ConfigError(f"`rest.signing-key-file` cannot be read: {error}") from error
        if len(key) < _KEY_MIN:
            raise ConfigError(
                f"the key in `rest.signing-key-file` has {len(key)} bytes",
                next_step=f"write at least {_KEY_MIN} random ones, such as `openssl rand -hex 32` prints",
            )
        return key

    @property
    def client_defaults(self) -> Mapping[str, str]:
        """The pairs of `rest.client-defaults`."""
        return parsed_properties("rest.client-defaults", self.rest_client_defaults)

    @property
    def client_overrides(self) -> Mapping[str, str]:
        """The pairs of `rest.client-overrides`."""
        return parsed_properties("rest.client-overrides", self.rest_client_overrides)

    @property
    def table_config(self) -> Mapping[str, str]:
        """The pairs of `rest.table-config`."""
        return parsed_properties("rest.table-config", self.rest_table_config)


def all_settings() -> tuple[Setting, ...]:
    """Those of the library, and those of the server."""
    return described(Settings) + described(RestSettings)


def load(
    keywords: Mapping[str, object], *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> tuple[Settings, RestSettings]:
    """The settings of the library and those of the server, as `Settings.load`: a name that neither has is refused."""
    library, server = divided(gathered(all_settings(), keywords, os.environ if environ is None else environ, file))
    return Settings(**library), RestSettings(**server)


def divided(values: Mapping[str, Value]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values by attribute: those of the library, and those of the server."""
    library = {name: value for name, value in values.items() if not is_of_server(name)}
    return library, {name: value for name, value in values.items() if is_of_server(name)}
