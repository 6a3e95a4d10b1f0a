"""Who may ask: one bearer token for the whole server (RFC 6750), or nobody is asked for one."""

from __future__ import annotations

import hmac
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.errors import error_response


def check_token(token: str | None) -> None:
    """Refuse a token that looks like a lock and is none, or that no client can send. Raises ConfigError."""
    if token is not None and not (token and token.isascii() and token.isprintable() and token == token.strip()):
        raise ConfigError(
            "the REST token is empty, begins or ends with a blank, or has characters that a header cannot carry",
            next_step="give a token of random letters and digits, or none at all",
        )


class BearerToken:
    """ASGI middleware: answers 401 NotAuthorizedException to requests without `Authorization: Bearer <token>`.

    token: None asks nobody; others pass `check_token`.
    open_paths: answered without a token, for health checks and scrapers.
    """

    def __init__(self, app: ASGIApp, token: str | None, open_paths: Collection[str] = ()) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._open_paths or self._admits(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        refusal = HTTPException(
            401,
            "The request has no valid bearer token; set the client's `token` property to the server's token",
            {"WWW-Authenticate": 'Bearer realm="iceberg-hms"'},
        )
        await error_response(refusal)(scope, receive, send)

    def _admits(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Constant time: how long a wrong token takes must not tell how much of it is right.
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._token)
