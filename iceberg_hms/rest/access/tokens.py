"""Bearer tokens (RFC 6750): one with all rights, or a file of named tokens with scopes.

    # name      scopes                          hash, as `iceberg-hms token` prints it
    etl         write[sales marketing_*]        sha256:9f86d081...
    dashboards  read[*]                         sha256:60303ae2...

A file that holds nothing but one word is that token itself, with all rights.

A hash is the token's SHA-256. Slow hashes are for passwords, which people choose and attackers guess; nobody guesses 32
random bytes, and each request would pay for the slowness. So short tokens are not hashed. Hashes are looked up in a
dictionary: how long that takes may show something of the hash of what was sent, which the sender knows, and from which
no other hash can be approached.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from iceberg_hms.clock import Clock
from iceberg_hms.errors import ConfigError, InvalidInput, NotAuthenticated
from iceberg_hms.rest.access.authorization import Access, ByScopes, RunOnThread
from iceberg_hms.rest.access.scopes import EVERYTHING, Caller, checked_name, parse_scopes
from iceberg_hms.thread_pool import ThreadPool

logger = logging.getLogger(__name__)

#: Random bytes of a new token: as many as a 256-bit key.
TOKEN_BYTES: Final = 32
#: The shortest token that is hashed: 128 random bits in base64 or hexadecimal, with some to spare.
TOKEN_CHARACTERS_MIN: Final = 32
TOKEN_CHARACTERS_MAX: Final = 16 * 1024
FILE_BYTES_MAX: Final = 1024 * 1024
#: How often the file's modification time is looked at.
CHECK_SECONDS: Final = 1.0
#: How long a request waits for that look, at most once in CHECK_SECONDS.
LOOK_SECONDS: Final = 1.0
#: How long the tokens of a file count that has become empty, unreadable or open to others: as long as a checked token
#: of an issuer. Mounted secrets and half-written files are whole again long before.
KEPT_SECONDS: Final = 300.0
#: How often at most such a file is logged.
ERROR_SECONDS: Final = 60.0
#: The caller's name where one token is for everybody, or none is needed.
UNNAMED: Final = ""
#: The caller there.
_ANYBODY: Final = Caller(UNNAMED, EVERYTHING)

_LINE: Final = re.compile(r"(?P<name>\S+)\s+(?P<scopes>\S.*?)\s+sha256:(?P<hash>[0-9a-f]{64})")
_COMMENT: Final = re.compile(r"(^|\s)#.*")
#: Group or others may read, write or execute.
_OTHERS: Final = 0o077
#: PostgreSQL's rule for a server key: a group may read what root owns. So does Kubernetes mount secrets for a process
#: that is not root.
_OTHERS_OF_ROOTS: Final = 0o037
_ROOT: Final = 0


def check_token(token: str) -> str:
    """Raises ConfigError for a token that protects nothing, or that no client can send."""
    if not (token and token.isascii() and token.isprintable() and token == token.strip()):
        raise ConfigError(
            "the REST token is empty, begins or ends with a blank, or has characters that a header cannot carry",
            next_step="give a token of random letters and digits, or none at all",
        )
    return token


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def token_line(name: str, scopes: str, token: str) -> str:
    """The line of a token file. Raises InvalidInput for a malformed name or scope, and for a token that can be guessed
    from its hash."""
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise InvalidInput(
            f"it can be guessed from its hash: the token has fewer than {TOKEN_CHARACTERS_MIN} characters",
            next_step="let `iceberg-hms token` make one",
        )
    groups = " ".join(f"{scope}" for scope in parse_scopes(scopes))
    return f"{checked_name(name)} {groups} sha256:{_digest(check_token(token)).hex()}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def not_authenticated() -> NotAuthenticated:
    """The refusal of a request without a known token."""
    return NotAuthenticated(
        "The request has no valid bearer token", next_step="set the client's `token` property to a token of this server"
    )


class Everyone(ByScopes):
    """Access without tokens: everyone may do everything."""

    async def identify(self, bearer: str | None, run: RunOnThread) -> Caller:  # noqa: ARG002 - the port's arguments
        """As the port says."""
        return _ANYBODY


class OneToken(ByScopes):
    """Access with one token, which has all rights. Raises ConfigError as `check_token`."""

    def __init__(self, token: str) -> None:
        self._callers = {_digest(check_token(token)): _ANYBODY}

    async def identify(self, bearer: str | None, run: RunOnThread) -> Caller:  # noqa: ARG002 - the port's arguments
        """As the port says."""
        return _known(self._callers, bearer)


class TokenFile(ByScopes):
    """Access by the tokens of a file, which is read again when it changed.

    Only the event loop calls `identify`. Where a file cannot be read or parsed any more, or its disk does not answer,
    its old tokens stay valid for KEPT_SECONDS: a half-written file must not shut everybody out, and who empties or
    withdraws it must get what they want. It has a thread of its own, so that nobody who keeps the others busy keeps a
    token that was withdrawn. Raises ConfigError for such a file at the start.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._callers = parse_tokens(read_token_file(path), path)
        self._next_look = clock.monotonic() + CHECK_SECONDS
        #: Since when the file is unusable; None while it is not.
        self._unusable_since: float | None = None
        self._next_error = 0.0
        self._thread = ThreadPool("iceberg-hms-tokens", 1)
        #: Since when a look at the file is under way; None while none is.
        self._looking_since: float | None = None

    async def identify(self, bearer: str | None, run: RunOnThread) -> Caller:  # noqa: ARG002 - the port's arguments
        """As the port says."""
        now = self._clock.monotonic()
        if now >= self._next_look and self._looking_since is None:
            self._next_look, self._looking_since = now + CHECK_SECONDS, now
            look = asyncio.wrap_future(self._thread.submit(self._look))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await asyncio.shield(look)
        known_until = (each + KEPT_SECONDS for each in (self._unusable_since, self._looking_since) if each is not None)
        return _known(self._callers if all(now < each for each in known_until) else {}, bearer)

    def _look(self) -> None:
        try:
            self._reload_if_changed()
        finally:
            self._looking_since = None

    def _reload_if_changed(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._stamp and self._unusable_since is None:
            return
        try:
            callers = parse_tokens(read_token_file(self._path), self._path)
        except ConfigError as error:
            self._keep(error)
            return
        self._stamp, self._callers, self._unusable_since = stamp, callers, None
        logger.info("read %d tokens from %s", len(callers), self._path)

    def _keep(self, error: ConfigError) -> None:
        now = self._clock.monotonic()
        if self._unusable_since is None:
            self._unusable_since = self._next_error = now
        if now >= self._next_error:
            self._next_error = now + ERROR_SECONDS
            left = max(0.0, self._unusable_since + KEPT_SECONDS - now)
            # No stack: the file is at fault.
            logger.error("the tokens of before are valid for another %.0f s: %s", left, error)


class FirstThatKnows(ByScopes):
    """Access by several ways: the first that knows the caller. Raises as the last."""

    def __init__(self, *ways: Access) -> None:
        self._ways = ways

    async def identify(self, bearer: str | None, run: RunOnThread) -> Caller:
        """As the port says."""
        *others, last = self._ways
        for way in others:
            with contextlib.suppress(NotAuthenticated):
                return await way.identify(bearer, run)
        return await last.identify(bearer, run)


def _known(callers: Mapping[bytes, Caller], bearer: str | None) -> Caller:
    caller = None if bearer is None or len(bearer) > TOKEN_CHARACTERS_MAX else callers.get(_digest(bearer))
    if caller is None:
        raise not_authenticated()
    return caller


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes with the file, its mode, and what a symbolic link points to."""
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)


def open_to_others(mode: int, owner: int) -> bool:
    """Whether a secret file with this mode and this owner's user id is open to more users than it may be."""
    return bool(mode & (_OTHERS_OF_ROOTS if owner == _ROOT else _OTHERS))


def read_token_file(path: Path) -> str:
    """The text of a token file. Raises ConfigError for one that others may read, that is too large, or no text."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the token file {path}: {error.strerror}", next_step="name a file that this user can read"
        ) from error
    mode = stat.S_IMODE(status.st_mode)
    if open_to_others(mode, status.st_uid) and os.name != "nt":
        raise ConfigError(
            f"the token file {path} is open to other users: its mode is {mode:04o}", next_step=f"chmod 600 {path}"
        )
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"the token file {path} has more than {FILE_BYTES_MAX} bytes", next_step="name another file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the token file {path} is not text", next_step="name another file") from error


def only_token(text: str) -> str | None:
    """The token of a file that holds nothing but one; None for other files."""
    words = text.split()
    return words[0] if len(words) == 1 and words[0].isascii() and words[0].isprintable() else None


def read_only_token(path: Path) -> str:
    """The token of a file that holds nothing but one, for a client. Raises ConfigError as `read_token_file`, and for
    other files: hashes do not say what to send."""
    token = only_token(read_token_file(path))
    if token is None:
        raise ConfigError(
            f"the token file {path} is not one token alone; lines of `iceberg-hms token` have a hash, which no client "
            "can send",
            next_step="write the token that `iceberg-hms token` showed into a file of its own, and name that",
        )
    return token


def parse_tokens(text: str, path: Path) -> dict[bytes, Caller]:
    """The callers of a token file by the hash of their token. Raises ConfigError that names a line, never its text."""
    token = only_token(text)
    if token is not None:
        return {_digest(token): Caller(UNNAMED, EVERYTHING)}
    callers: dict[bytes, Caller] = {}
    for number, line in _lines(text):
        found = _LINE.fullmatch(line)
        if found is None:
            raise _unusable(number, path)
        try:
            caller = Caller(checked_name(found["name"]), parse_scopes(found["scopes"]))
        except InvalidInput:
            # Without the error, which quotes the line: a misplaced token may be in it.
            raise _unusable(number, path) from None
        digest = bytes.fromhex(found["hash"])
        if digest in callers:
            raise ConfigError(
                f"line {number} of the token file {path} has the hash of another line",
                next_step="remove one of the two",
            )
        callers[digest] = caller
    if not callers:
        raise ConfigError(
            f"the token file {path} holds no usable token", next_step="add lines that `iceberg-hms token` prints"
        )
    return callers


def _unusable(number: int, path: Path) -> ConfigError:
    return ConfigError(
        f"line {number} of the token file {path} holds no usable token: "
        "it is not `name scope[namespace ...] sha256:hash`",
        next_step="correct it; `iceberg-hms token` prints such lines",
    )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        kept = _COMMENT.sub("", line).strip()
        if kept:
            yield number, kept
