"""`iceberg-hms spark-conf`: the settings that make a Spark session use a running server."""

from __future__ import annotations

import os
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from iceberg_hms.cli import common, output
from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.access.tokens import read_only_token
from iceberg_hms.spark.configuration import SECRETS, WAREHOUSE, defaults_file, session_configuration
from iceberg_hms.spark.s3 import is_on_s3
from iceberg_hms.spark.user_settings import SparkFiles


class Form(StrEnum):
    """How the settings are printed: spark-defaults.conf, arguments for spark-submit and spark-sql, or JSON."""

    DEFAULTS = "defaults"
    ARGUMENTS = "arguments"
    JSON = "json"


_SECRETS_APART = """\
No secret is among the arguments, since every user of the machine can read command lines. Put
    {lines}
into a file that only you can read, and add
    --properties-file FILE --load-spark-defaults"""


_WITHOUT_HADOOP_AWS = (
    f"Without hadoop-aws spark-sql does not start with a {WAREHOUSE} on S3: name a local folder there, and give",
    "each new database a LOCATION.",
)


def spark_conf(
    server_uri: Annotated[
        str | None, typer.Option(metavar="URI", help="Of the running server. Default: rest.host and rest.port.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with nothing but the token that Spark sends.")
    ] = None,
    form: Annotated[Form, typer.Option("--form", help="How to print the settings.")] = Form.DEFAULTS,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --form json.")] = False,
) -> None:
    """Print Spark's settings for a session catalog served by `iceberg-hms serve`.

    Needs the metastore and the warehouse of the server, unless Spark's own files name them, and a token unless the
    server runs with --no-auth.
    """
    settings, server = common.load_all_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    _require_the_rest_of_spark(settings)
    if token_file is None:
        output.note("no --token-file: this is for a server with --no-auth")
    values = session_configuration(
        server_uri=server_uri or f"http://{server.rest_host}:{server.rest_port}",
        token=None if token_file is None else read_only_token(token_file),
        metastore_uri=settings.metastore_uri or None,
        warehouse=settings.warehouse or None,
        library=settings,
    )
    match Form.JSON if as_json else form:
        case Form.JSON:
            output.print_json(values)
        case Form.ARGUMENTS:
            shown = {key: value for key, value in values.items() if key not in SECRETS}
            arguments = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in shown.items()]
            typer.echo(" \\\n  ".join(arguments))
            if apart := [f"{key} VALUE" for key in values if key in SECRETS]:
                typer.echo(_SECRETS_APART.format(lines="\n    ".join(apart)), err=True)
        case Form.DEFAULTS:
            heading = ["Spark's session catalog on iceberg-hms: `iceberg-hms serve` must run at the uri below."]
            if is_on_s3(settings.warehouse):
                heading += _WITHOUT_HADOOP_AWS
            typer.echo(defaults_file(values, heading), nl=False)


def _require_the_rest_of_spark(settings: Settings) -> None:
    """Raises ConfigError if neither `settings` nor Spark's own files name a metastore and a warehouse."""
    files = SparkFiles(os.environ)
    of_spark = files.user_settings({}).settings
    if not settings.metastore_uri and files.metastore(of_spark) is None:
        raise ConfigError(
            "no metastore is named, neither here nor in Spark's own files; Spark would silently make one in a folder",
            next_step="give --metastore-uri thrift://host:9083, or set ICEBERG_HMS_URI",
        )
    if not settings.warehouse and files.warehouse(of_spark) is None:
        raise ConfigError(
            "no warehouse is named, neither here nor in Spark's own files; Spark would put new databases below the "
            "folder that it starts in",
            next_step="give --warehouse, as to the server, or set ICEBERG_HMS_WAREHOUSE",
        )
