"""The port that decides who calls and what they may do, and the actions that endpoints declare.

`dispatch` asks it before it reads a request's body: by the action that the endpoint declares, and the namespace and
table of the path. Handlers ask it again, by `RestRequest.require`, for names that only the body has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, Self, TypeVar

from iceberg_hms.coordinator.locations.placement import EVERYWHERE as EVERYWHERE
from iceberg_hms.errors import ScopeMissing
from iceberg_hms.rest.access.scopes import Caller, Level
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE

Result = TypeVar("Result")

#: How much of a client's name an error repeats.
_SHOWN: Final = 128


class RunOnThread(Protocol):
    """Calls a function on a thread, as `RequestThreads.run` does. May raise QueueFull without calling it."""

    def __call__(self, function: Callable[[], Result]) -> Awaitable[Result]: ...


class Action(StrEnum):
    """What a request does to its target. level: that its caller needs."""

    level: Level

    def __new__(cls, name: str, level: Level) -> Self:
        action = str.__new__(cls, name)
        action._value_ = name
        action.level = level
        return action

    GET_CONFIG = ("get-config", Level.READ)
    LIST_NAMESPACES = ("list-namespaces", Level.READ)
    LOAD_NAMESPACE = ("load-namespace", Level.READ)
    CREATE_NAMESPACE = ("create-namespace", Level.ADMIN)
    UPDATE_NAMESPACE = ("update-namespace", Level.WRITE)
    DROP_NAMESPACE = ("drop-namespace", Level.ADMIN)
    LIST_TABLES = ("list-tables", Level.READ)
    LOAD_TABLE = ("load-table", Level.READ)
    REPORT_METRICS = ("report-metrics", Level.READ)
    STAGE_TABLE = ("stage-table", Level.WRITE)
    CREATE_TABLE = ("create-table", Level.WRITE)
    COMMIT = ("commit", Level.WRITE)
    DROP_TABLE = ("drop-table", Level.WRITE)
    RENAME_TABLE = ("rename-table", Level.WRITE)
    REGISTER_TABLE = ("register-table", Level.WRITE)
    LIST_VIEWS = ("list-views", Level.READ)
    LOAD_VIEW = ("load-view", Level.READ)
    CREATE_VIEW = ("create-view", Level.WRITE)
    COMMIT_VIEW = ("commit-view", Level.WRITE)
    DROP_VIEW = ("drop-view", Level.WRITE)
    RENAME_VIEW = ("rename-view", Level.WRITE)
    REGISTER_VIEW = ("register-view", Level.WRITE)
    #: To read a metadata file by its location: it may be that of any table or view.
    READ_ANY_FILE = ("read-any-file", Level.READ)
    SET_PROTECTED_PROPERTY = ("set-protected-property", Level.ADMIN)


class AccessTarget(NamedTuple):
    """What an action is about, as the client spells it. namespace None: the warehouse as a whole; what it lists is
    asked for name by name. table: or a view; None: the namespace itself."""

    namespace: str | None = None
    table: str | None = None
    warehouse: str = DEFAULT_WAREHOUSE

    @property
    def names(self) -> tuple[str, ...]:
        """The namespace and the table, as far as there are."""
        return tuple([part for part in (self.namespace, self.table) if part is not None])

    def __str__(self) -> str:
        return ".".join(self.names)


CATALOG: Final = AccessTarget()


class Access(Protocol):
    """Who calls, and what they may do. The event loop calls both methods, so neither may block it."""

    async def identify(self, bearer: str | None, run: RunOnThread) -> Caller:
        """The caller who sends this bearer token; None: the request has none. What blocks goes to `run`.
        Raises NotAuthenticated, IssuerUnavailable, QueueFull."""
        ...

    def allow(self, caller: Caller, action: Action, target: AccessTarget) -> bool:
        """Whether the caller may do this. Answers from memory, within microseconds."""
        ...


class ByScopes:
    """The half of Access that all drivers share: the caller's scopes decide."""

    def allow(self, caller: Caller, action: Action, target: AccessTarget) -> bool:
        """As the port says."""
        if target.namespace is None:
            return caller.may_enter(target.warehouse)
        return caller.may(action.level, scope_name(target.namespace), target.warehouse)


def scope_name(namespace: str) -> str:
    """The name that patterns are compared with. As the catalog folds it; of a name with several parts, which Spark
    writes for `namespace.table.files`, the first."""
    return namespace.partition("\x1f")[0].lower()


def require(access: Access, caller: Caller, action: Action, target: AccessTarget) -> None:
    """Raises ScopeMissing, which names the scope, unless the caller may do this."""
    if access.allow(caller, action, target):
        return
    name = scope_name(target.namespace or EVERYWHERE)[:_SHOWN]
    if target.warehouse != DEFAULT_WAREHOUSE:
        name = f"{target.warehouse}/{name}"
    raise ScopeMissing(caller.name, f"{action.level}[{name}]", action)
