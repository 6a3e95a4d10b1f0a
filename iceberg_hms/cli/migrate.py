"""`iceberg-hms migrate`: a Hive table becomes an Iceberg table where it lies, and becomes a Hive table again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from iceberg_hms.cli import common, output
from iceberg_hms.cli.common import ExitCode
from iceberg_hms.errors import CannotMigrate, ConfigError
from iceberg_hms.migration.report import MigrationReport

if TYPE_CHECKING:
    from iceberg_hms.catalog.catalog import Catalog

#: How many partitions and problems people are shown.
_SHOWN_MAX: Final = 20


class Recursive(StrEnum):
    """What becomes of files in folders below a partition's own."""

    TRUE = "true"
    FALSE = "false"
    FAIL = "fail"


def migrate(
    context: typer.Context,
    table: common.TableArgument,
    recursive_directory: Annotated[
        Recursive,
        typer.Option("--recursive-directory", help="Files in folders below a partition's: take, leave out, or refuse."),
    ] = Recursive.FAIL,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out files that cannot be taken over, and name them.")
    ] = False,
    ignore_key: Annotated[
        list[str] | None,
        typer.Option("--ignore-key", metavar="KEY", help="A key of the table's row that may refuse it no longer."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; say what is there.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Name files that came to a migrated table's folders after it was listed.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Make it the Hive table again that it was.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Give undo up: Iceberg may delete the old files then.")] = False,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Spark's master. Default: this machine's cores.")
    ] = None,
    metastore_uri: common.MetastoreUri = None,
    warehouse: common.Warehouse = None,
    config: common.ConfigFile = None,
    overrides: common.Overrides = None,
    as_json: common.AsJson = False,
) -> None:
    """Make an Iceberg table of a Hive table, in place: its files stay, and its metadata is made on Spark.

    Stop the table's writers first. A run that was interrupted goes on where it was.
    """
    if sum((dry_run, check, undo, keep)) > 1:
        raise ConfigError("--dry-run, --check, --undo and --keep exclude each other", next_step="give one of them")
    settings = common.load_settings(config, overrides, metastore_uri=metastore_uri, warehouse=warehouse)
    if not (undo or keep):
        common.require_extra("spark", "pyspark")
    with common.open_catalog(context, settings) as catalog:
        if undo or keep:
            _change_back(catalog, table, undo=undo, as_json=as_json)
            return
        if check:
            _check(catalog, table, master, as_json=as_json)
            return
        report = _migrate(
            catalog,
            table,
            master,
            recursive_directory=recursive_directory.value,
            skip_unreadable=skip_unreadable,
            dry_run=dry_run,
            ignore_keys=ignore_key or (),
        )
    if as_json:
        output.print_json(report.as_dict())
    else:
        _show(report)
    if report.outcome == "failed":
        raise typer.Exit(ExitCode.FAILED)


def _change_back(catalog: Catalog, table: str, *, undo: bool, as_json: bool) -> None:
    from iceberg_hms.migration import reversal

    if undo:
        reversal.undo(catalog, table)
        said = f"{table} is the Hive table again that it was"
    else:
        reversal.keep(catalog, table)
        said = f"{table} owns its files now, and can no longer be made a Hive table again"
    if as_json:
        output.print_json({"table": table, "outcome": "undone" if undo else "kept"})
    else:
        output.note(said)


def _check(catalog: Catalog, table: str, master: str | None, *, as_json: bool) -> None:
    """Ends with FAILED if there are late files."""
    from iceberg_hms import migration

    with migration.spark_session(master) as spark:
        late = migration.late_files(spark, table, catalog=catalog)
    if as_json:
        output.print_json({"table": table, "count": late.count, "files": late.files})
    else:
        output.note(f"{late.count} files are in the folders of {table}, and not in the Iceberg table")
        for each in late.files:
            typer.echo(each)
    if late.count:
        raise typer.Exit(ExitCode.FAILED)


def _migrate(catalog: Catalog, table: str, master: str | None, **options: Any) -> MigrationReport:
    """options: of `migration.migrate`."""
    from iceberg_hms import migration

    with migration.spark_session(master) as spark:
        try:
            return migration.migrate(spark, table, catalog=catalog, **options)
        except CannotMigrate as error:
            common.tell_error(error)
            report: MigrationReport = error.report
            return report


def _show(report: MigrationReport) -> None:
    console = output.console()
    facts = {
        "outcome": report.outcome,
        "files": report.files,
        "rows": report.records,
        "size": output.size(report.size),
        "partitions": len(report.partitions),
        "described before": report.reused_files,
        "problems": report.problem_count,
        "seconds": round(report.seconds, 1),
    }
    console.print(output.facts(report.table, facts))
    if report.outcome == "dry run":
        rows = [{"name": each.name, "files": each.files, "size": each.size} for each in report.partitions[:_SHOWN_MAX]]
        console.print(output.records("", rows, {"partition": "name", "files": "files", "bytes": "size"}))
    if report.problems:
        rows = [
            {"partition": each.partition, "location": each.location, "reason": each.reason}
            for each in report.problems[:_SHOWN_MAX]
        ]
        columns = {"partition": "partition", "file or folder": "location", "problem": "reason"}
        console.print(output.records("", rows, columns))
