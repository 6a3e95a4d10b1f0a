"""`iceberg-hms token`: a new token, and its line for the file that `serve --token-file` reads."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from iceberg_hms.cli import output
from iceberg_hms.rest.access.tokens import TOKEN_CHARACTERS_MAX, new_token, token_line

#: The backslashes keep rich from taking brackets for its styles, which it leaves out.
_SCOPE_HELP = r"'read\[*]', 'write\[sales dev_*]' or 'admin\[dev]'; the brackets name the namespaces."


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets it: the audit trail names its callers so.")],
    scopes: Annotated[list[str], typer.Argument(metavar="SCOPE", help=_SCOPE_HELP)],
    from_stdin: Annotated[
        bool, typer.Option("--from-stdin", help="Take the token from standard input instead of making one.")
    ] = False,
) -> None:
    """Make a token.

    Prints its line for the token file on stdout and the token itself on stderr. The file has only the token's hash, so
    this is the only time that the token is shown. The server reads the file again when it changes.
    """
    given = sys.stdin.read(TOKEN_CHARACTERS_MAX + 1).strip() if from_stdin else new_token()
    typer.echo(token_line(name, " ".join(scopes), given))
    if not from_stdin:
        output.note(f"token: {given}")
