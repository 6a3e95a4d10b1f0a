"""The `iceberg-hms` program: its commands, its exit codes, and the place where every error ends.

Exit codes: 0 done; 1 failed or not found; 2 wrong usage or setting; 3 no metastore answers; 4 the outcome of a commit
is not known; 130 interrupted. Errors are two lines on stderr, what happened and what to do next; `--debug` adds the
stack trace.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from iceberg_hms.cli import (
    common,
    demo,
    doctor,
    history,
    inspect,
    local,
    locks,
    migrate,
    serve,
    spark_conf,
    tables,
    token,
    watch,
)
from iceberg_hms.cli.common import Environment, ExitCode
from iceberg_hms.errors import IcebergHmsError

_debug: ContextVar[bool] = ContextVar("debug", default=False)

app = typer.Typer(
    name="iceberg-hms",
    help="The Hive Metastore as a commit coordinator for Apache Iceberg tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that it prints errors instead of stack traces, and ends with the exit code of the error."""

    @functools.wraps(command)
    def run_command(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - the last place
            if common.interrupted(error):
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            known = error if isinstance(error, IcebergHmsError) else _unexpected(error)
            _tell(known)
            raise typer.Exit(common.exit_code_of(known)) from None

    return run_command


def _unexpected(error: BaseException) -> IcebergHmsError:
    return IcebergHmsError(
        f"unexpected {type(error).__name__}: {error}",
        next_step="run it again with `iceberg-hms --debug ...` and report what it prints",
    )


def _tell(error: IcebergHmsError) -> None:
    if _debug.get():
        typer.echo(traceback.format_exc(), err=True, nl=False)
    common.tell_error(error)


def _group(commands: Mapping[str, Callable[..., None]], about: str) -> typer.Typer:
    """Commands below one name."""
    group = typer.Typer(help=about, no_args_is_help=True)
    for name, command in commands.items():
        group.command(name)(guarded(command))
    return group


def _print_version(wanted: bool) -> None:
    if wanted:
        import iceberg_hms

        typer.echo(f"iceberg-hms {iceberg_hms.__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show stack traces and debug logs.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    _debug.set(debug)
    context.ensure_object(Environment).debug = debug
    common.log_to_stderr(debug=debug)


app.command("local")(guarded(local.local))
app.command("serve")(guarded(serve.serve))
app.command("token")(guarded(token.token))
app.command("tables")(guarded(tables.tables))
app.command("inspect")(guarded(inspect.inspect))
app.command("history")(guarded(history.history))
app.command("watch")(guarded(watch.watch))
app.add_typer(_group(locks.COMMANDS, "Who holds which lock, and which lock a table takes."), name="locks")
app.command("migrate")(guarded(migrate.migrate))
app.command("spark-conf")(guarded(spark_conf.spark_conf))
app.command("doctor")(guarded(doctor.doctor))
app.command("demo")(guarded(demo.demo))


def run() -> None:
    """Entry point of the console script."""
    app()
