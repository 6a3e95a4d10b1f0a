"""Spark's settings for a session whose session catalog is iceberg-hms. Pure: no pyspark, no JVM, no server.

The session catalog `spark_catalog` holds Hive tables and Iceberg tables side by side: Iceberg's SparkSessionCatalog
asks our REST server first. If the server does not have a table, it asks Spark's own Hive catalog on the same metastore.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.spark.s3 import AWS_BUNDLE, SECRET_PROPERTIES, is_on_s3, s3_properties

#: The stock runtime, for Spark 4.1 (Scala 2.13). We ship no jar of our own.
ICEBERG_RUNTIME: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SESSION_CATALOG: Final = "org.apache.iceberg.spark.SparkSessionCatalog"

JARS: Final = "spark.jars"
PACKAGES: Final = "spark.jars.packages"
SQL_EXTENSIONS: Final = "spark.sql.extensions"
CATALOG: Final = "spark.sql.catalog.spark_catalog"
CATALOG_URI: Final = f"{CATALOG}.uri"
CATALOG_TOKEN: Final = f"{CATALOG}.token"
METASTORE_URIS: Final = "spark.hadoop.hive.metastore.uris"
WAREHOUSE: Final = "spark.sql.warehouse.dir"

#: Values that nobody may see. Spark's own redaction (`spark.redaction.regex`) hides them in its UI and event log.
SECRETS: Final = frozenset({CATALOG_TOKEN, *(f"{CATALOG}.{name}" for name in SECRET_PROPERTIES)})

#: Settings with comma-separated values: `merge` adds ours to the user's.
_LISTS: Final = (PACKAGES, SQL_EXTENSIONS)
#: Spark reads Hive's settings under these prefixes too.
_METASTORE_KEYS: Final = (METASTORE_URIS, "spark.hive.metastore.uris")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def session_configuration(
    *,
    server_uri: str,
    token: str | None = None,
    metastore_uri: str | None = None,
    warehouse: str | None = None,
    extensions: bool = True,
    library: Settings | None = None,
) -> dict[str, str]:
    """The settings of a Spark session on a server that listens at `server_uri`, in a stable order.

    server_uri: http://host:port of the embedded server or of `iceberg-hms serve`.
    token: the server's token; None for a server without one.
    metastore_uri, warehouse: for Spark's Hive catalog; the same metastore and the same folder that the server uses.
        None leaves them to hive-site.xml and spark-defaults.conf.
    extensions: False leaves out Iceberg's SQL extensions (partition fields, branches and tags, write order). With them
        every CREATE, DROP and SHOW VIEW in spark_catalog means an Iceberg view; without them they mean Hive views, as
        in plain Spark. Hive views that are there are read and altered either way; temporary views always work.
        docs/spark-views.md has the differences.
    library: settings of the library, of which `s3.*` hold for Spark too. If they name anything, or the warehouse is on
        S3, Spark gets AWS's library, with which Iceberg's REST client reads and writes s3, s3a and s3n.
    Raises ConfigError for a server_uri that is no HTTP address, and as `s3_properties`.
    """
    if not re.match(r"https?://[^/\s]+", server_uri):
        raise ConfigError(
            f"server_uri is {server_uri!r}, which is not http://host:port",
            next_step="give the uri that `iceberg-hms serve` printed",
        )
    server_uri = server_uri.rstrip("/")
    settings = {
        PACKAGES: ICEBERG_RUNTIME,
        SQL_EXTENSIONS: EXTENSIONS,
        "spark.sql.catalogImplementation": "hive",
        CATALOG: SESSION_CATALOG,
        f"{CATALOG}.type": "rest",
        CATALOG_URI: server_uri,
        # A session must see what other writers commit, and what its own v1 commands drop, so each reference asks the
        # server, which answers from memory. Iceberg's cache would never refresh a table that is read often.
        f"{CATALOG}.cache-enabled": "false",
    }
    if not extensions:
        del settings[SQL_EXTENSIONS]
    if token is not None:
        settings |= {
            f"{CATALOG}.rest.auth.type": "oauth2",
            CATALOG_TOKEN: token,
            # The token is a plain secret that never expires. Without these the client takes it for an OAuth2 token of
            # one hour, tries to exchange it, and warns that it has no place to do so.
            f"{CATALOG}.token-refresh-enabled": "false",
            f"{CATALOG}.oauth2-server-uri": f"{server_uri}/v1/oauth/tokens",
        }
    if metastore_uri:
        settings[METASTORE_URIS] = metastore_uri
    if warehouse:
        settings[WAREHOUSE] = warehouse_location(warehouse)
    of_s3 = {} if library is None else s3_properties(library)
    if of_s3 or is_on_s3(warehouse):
        settings[PACKAGES] = f"{ICEBERG_RUNTIME},{AWS_BUNDLE}"
    return settings | {f"{CATALOG}.{name}": value for name, value in of_s3.items()}


def warehouse_location(warehouse: str) -> str:
    """A location with a scheme: `/data/wh` and `wh` become `file:/...`; a location with a scheme stays as it is."""
    return warehouse if _SCHEME.match(warehouse) else f"file:{Path(warehouse).expanduser().absolute()}"


def merge(
    present: Mapping[str, object], wanted: Mapping[str, str], origin: Callable[[str], str] = lambda _: "the builder"
) -> dict[str, object]:
    """The user's settings together with ours: joins comma-separated values, and keeps the user's other settings.

    origin: where the user set the setting of a key.
    Raises ConfigError when the user's settings contradict ours, and never overwrites them: another session catalog, no
    Hive support, another metastore.
    """
    merged = dict(present)
    for key in _METASTORE_KEYS:
        if (named := present.get(key)) and named != wanted.get(METASTORE_URIS, named):
            raise ConfigError(
                f"{key} names the metastore {named!r}, iceberg-hms needs {wanted[METASTORE_URIS]!r}",
                next_step=f"name one metastore for both; {origin(key)} sets {key}",
            )
    for key, value in wanted.items():
        had = present.get(key)
        if key in _LISTS:
            merged[key] = _join_lists(str(had or ""), value)
        elif had is not None and not is_same(key, str(had), value):
            raise ConfigError(
                f"Spark's setting {key} is already {_shown(key, had)!r}, iceberg-hms needs {_shown(key, value)!r}",
                next_step=f"remove {key} from {origin(key)}",
            )
        else:
            merged[key] = value
    return merged


def is_same(key: str, had: str, value: str) -> bool:
    """Whether two values of a setting of Spark mean the same."""
    if key == WAREHOUSE:
        return _normal(warehouse_location(had)) == _normal(value)
    return had == value


def metastore_of(present: Mapping[str, object]) -> str | None:
    """The metastore that the user's own Spark settings name, if any."""
    return next((str(present[key]) for key in _METASTORE_KEYS if present.get(key)), None)


def defaults_file(settings: Mapping[str, str], heading: Iterable[str] = ()) -> str:
    """`settings` as the text of a spark-defaults.conf. heading: lines for the comment at its top.

    Values hold spaces and backslashes as they are: Spark reads the file with java.util.Properties.
    """
    width = max((len(key) for key in settings), default=0) + 2
    lines = [f"# {line}".rstrip() for line in heading]
    lines += [f"{key:<{width}}{_escape(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def log4j_option(file: Path) -> str:
    """The JVM option that makes Spark log as `file` says. The path goes in as a URI, so that it may have spaces."""
    return f"-Dlog4j2.configurationFile={file.absolute().as_uri()}"


def _join_lists(present: str, ours: str) -> str:
    parts = [part.strip() for part in present.split(",") if part.strip()]
    return ",".join(dict.fromkeys([*parts, *ours.split(",")]))


def _normal(location: str) -> str:
    """As Spark writes the warehouse of a running session."""
    return re.sub(r"^file:/+", "file:/", location).rstrip("/")


def _shown(key: str, value: object) -> object:
    return "(secret)" if key in SECRETS else value


def _escape(value: str) -> str:
    escaped = value.replace("\\", "\\\\")
    # A first = or : would separate key and value.
    return f"\\{escaped}" if escaped.startswith(("=", ":")) else escaped
