"""Every error that iceberg-hms raises, in one tree below IcebergHmsError; `help(iceberg_hms.errors)` draws it.

A type exists only where the caller does something different; the message carries the rest. `next_step` is one sentence
that says what to do; it is part of `str(error)`. Whether an attempt's files may be deleted is a matter of the type
(`proved_failed`), never of a message.
"""

from __future__ import annotations

import traceback
from typing import Any, ClassVar, TypeVar

ErrorType = TypeVar("ErrorType", bound=Exception)


class IcebergHmsError(Exception):
    """Base of all. `message` says what happened, `next_step` what the caller does now."""

    default_next_step: ClassVar[str] = ""
    #: True only if it is proved that no change reached the table: then the attempt's own files may be deleted. Some
    #: types always prove it; where the coordinator has the proof for another type it raises a `proved` error.
    proved_failed: ClassVar[bool] = False

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        self.message = message
        self.next_step = self.default_next_step if next_step is None else next_step
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message} ({self.next_step})" if self.next_step else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (a pool of writers), and subclasses are not made from `args` alone.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[ErrorType], args: tuple[Any, ...], state: dict[str, Any]) -> ErrorType:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(IcebergHmsError):
    """A setting is unknown, malformed, or contradicts another. Nothing was started."""

    default_next_step = "correct the setting; `iceberg-hms doctor` prints what is in force"


class InvalidInput(IcebergHmsError, ValueError):
    """The request cannot succeed, however often the caller sends it. Nothing was changed."""

    proved_failed = True


class UnsupportedFormat(InvalidInput):
    """Valid Iceberg that iceberg-hms refuses to touch: format-version 4 and later, encrypted tables."""

    default_next_step = "use a table of format version 1, 2 or 3 without encryption"


class DoesNotFit(InvalidInput):
    """A change is well formed, and does not fit the table as it is: it names what the table lacks, say. A commit that
    was made on an older state of the table gets RequirementFailed instead, since another writer may be the cause."""


class CannotMigrate(InvalidInput):
    """Files of a Hive table cannot become those of an Iceberg table. Nothing was changed.

    report: names them, as a `migration.MigrationReport`."""

    default_next_step = "mend or remove the files, or leave them out with skip_unreadable; nothing was changed"

    def __init__(self, message: str, *, next_step: str | None = None, report: Any) -> None:
        super().__init__(message, next_step=next_step)
        self.report = report


class InvalidView(InvalidInput):
    """A request is well formed, and the view that it asks for would break the rules of views."""

    default_next_step = "correct the view's versions, schemas or properties; nothing was changed"


class LocationNotAllowed(IcebergHmsError):
    """A REST client named a file or folder outside of those that it may name, or a place in which it may put nothing.
    Nothing was opened or changed. The message says the rule and no path: the location may come from a file that the
    client cannot read."""

    proved_failed = True
    default_next_step = (
        "name a folder below that of the namespace, or ask the server's operator to add it to `rest.allowed-locations` "
        "as `<folder>[<namespace>]` and to restart the server"
    )

    def __init__(
        self,
        what: str,
        rule: str = "is outside of what the server's settings `warehouse`, `rest.allowed-locations` and "
        "`rest.locations` allow",
    ) -> None:
        super().__init__(f"Not allowed: {what} {rule}")


class ReadOnly(IcebergHmsError):
    """The REST server changes nothing (`rest.read-only`); it did nothing of the request."""

    proved_failed = True
    default_next_step = "ask the operator of the server, or send the change to another one"

    def __init__(self) -> None:
        super().__init__("This server is read-only: it changes no table, view or namespace")


class NotFound(IcebergHmsError):
    """Something that the caller named does not exist. Nothing was changed."""

    proved_failed = True


class NoSuchNamespace(NotFound):
    """No such database in the metastore."""

    default_next_step = "create it with create_namespace, or list_namespaces()"

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        super().__init__(f"Namespace does not exist: {namespace}")


class NoSuchWarehouse(NotFound):
    """The server serves no warehouse of this name. Proves nothing of a commit: its client may have sent it before, when
    there was such a warehouse."""

    proved_failed = False
    default_next_step = "set the client's `warehouse` to one that it serves"

    def __init__(self, warehouse: str) -> None:
        self.warehouse = warehouse
        super().__init__(f"Warehouse does not exist: {warehouse[:128]}")


class NoSuchTable(NotFound):
    """The metastore has no table of this name."""

    default_next_step = "list_tables() shows the tables that exist"

    def __init__(self, table: object, *, message: str | None = None, next_step: str | None = None) -> None:
        self.table = table
        super().__init__(message or f"Table does not exist: {table}", next_step=next_step)


class NotAnIcebergTable(NoSuchTable):
    """The name belongs to a Hive table, a view, or another format. iceberg-hms never touches those as tables.

    is_view: an Iceberg view has the name.
    """

    def __init__(self, table: object, found: str, *, is_view: bool = False) -> None:
        self.found = found
        self.is_view = is_view
        super().__init__(
            table,
            message=f"Table does not exist: {table}" if is_view else f"Not an iceberg table: {table} (found {found})",
            next_step="load it as a view" if is_view else "read it through Hive or Spark, or migrate it",
        )


class NoSuchView(NotFound):
    """The metastore has no Iceberg view of this name."""

    default_next_step = "views.list() shows the views that exist"

    def __init__(self, view: object, *, message: str | None = None, next_step: str | None = None) -> None:
        self.view = view
        super().__init__(message or f"View does not exist: {view}", next_step=next_step)


class NotAnIcebergView(NoSuchView):
    """The name belongs to a table, a Hive view, or another format. iceberg-hms never touches those as views.

    is_table: an Iceberg table has the name.
    """

    def __init__(self, view: object, found: str, *, is_table: bool = False) -> None:
        self.found = found
        self.is_table = is_table
        super().__init__(
            view,
            message=f"View does not exist: {view}" if is_table else f"Not an iceberg view: {view} (found {found})",
            next_step="load it as a table" if is_table else "read it through Hive or Spark",
        )


class NoSuchPlanId(NotFound):
    """No plan of a scan has this id: it is damaged, of another table or of another server's key, or what it was made of
    is gone."""

    default_next_step = "plan the scan again"

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"The plan does not exist: {why}")


class NoSuchPlanTask(NotFound):
    """A plan of a scan has no such task: it is damaged, of another table or of another server's key, or what it was
    made of is gone."""

    default_next_step = "plan the scan again"

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"The plan task does not exist: {why}")


class MissingFile(NotFound):
    """A file that the caller or a table's metadata names does not exist."""

    default_next_step = "check the path and the storage settings; a table whose metadata is gone needs repair"

    def __init__(self, location: str) -> None:
        self.location = location
        super().__init__(f"Failed to open input stream for file: {location}")


class AlreadyExists(IcebergHmsError):
    """The name is taken. Nothing was changed."""

    proved_failed = True
    default_next_step = "choose another name, or load what is there"


class AlreadyIceberg(AlreadyExists):
    """A Hive table was asked for, and the name is an Iceberg table's. Nothing was changed.

    hive_table: where the row is kept that it had as a Hive table, if it was turned into an Iceberg table in place and
    can be turned back."""

    default_next_step = "use it as it is"

    def __init__(self, table: object, hive_table: str | None) -> None:
        self.table = table
        self.hive_table = hive_table
        can = "" if hive_table is None else ", and `iceberg-hms migrate --undo` can make it a Hive table again"
        super().__init__(f"{table} is an Iceberg table already{can}")


class FileAlreadyExists(AlreadyExists):
    """There is a file under the name of a new one; it stays as it is."""

    default_next_step = "choose another name; nothing was written"

    def __init__(self, location: str) -> None:
        self.location = location
        super().__init__(f"File already exists: {location}")


class NamespaceNotEmpty(IcebergHmsError):
    """A namespace with tables or views in it is not dropped."""

    proved_failed = True

    def __init__(self, namespace: str) -> None:
        super().__init__(f"Namespace {namespace} is not empty", next_step="drop or move its tables first")


class HiveTableKept(IcebergHmsError):
    """A Hive table was not dropped: the drop would delete its files, and it is not proved that no Iceberg table reads
    them. Nothing was changed."""

    def __init__(self, table: object, folder: str, why: str) -> None:
        super().__init__(
            f"{table} was not dropped, because an Iceberg table may read the files in {folder}: {why}",
            next_step="try again; or drop it with PURGE if you know that none does",
        )


class CommitFailed(IcebergHmsError):
    """PROVED: no swap that carried this change took effect. The attempt's own files may be deleted."""

    proved_failed = True
    default_next_step = "reload the table and try again"


class RequirementFailed(CommitFailed):
    """The table is no longer what the change assumed.

    name: the assumption, as Iceberg's REST protocol names it (`assert-ref-snapshot-id`) or as the operation does.
    what: how the table differs from the assumption.
    rests_on: the snapshots that break it, where they are known.
    """

    default_next_step = "reload the table, look at what changed, and decide again"

    def __init__(
        self,
        name: str,
        message: str,
        *,
        expected: object = None,
        found: object = None,
        next_step: str | None = None,
        rests_on: frozenset[int] = frozenset(),
    ) -> None:
        self.name = name
        self.what = message
        self.expected = expected
        self.found = found
        self.rests_on = rests_on
        super().__init__(f"Requirement failed: {message}", next_step=next_step)


class LockNotAcquired(CommitFailed):
    """Waiting for the lock timed out, so we sent no swap."""

    default_next_step = (
        "try again; `iceberg-hms locks list` shows who holds the lock, and `iceberg-hms locks break ID --yes` takes it "
        "from a holder that is gone"
    )


class CommitConflict(CommitFailed):
    """Other writers moved the table more often than `commit.retry.num-retries` allows; or the metastore refused a swap
    with this change and others, and there was no time to try it alone."""


class InvariantViolated(CommitFailed):
    """The staged metadata would have broken the table, so we did not publish it. A defect of the change or of ours."""

    default_next_step = "report it with the message; nothing was changed"


class CommitStateUnknown(IcebergHmsError):
    """The swap may have happened. Delete nothing: files of this attempt may be part of the table."""

    default_next_step = "delete nothing; reload the table and look for the snapshot id before you try again"


class QueueFull(IcebergHmsError):
    """The table's queue is full; nothing of this change was done."""

    proved_failed = True
    default_next_step = "wait, then send the change again"


class NotAuthenticated(IcebergHmsError):
    """The request carries no credentials that the server knows; nothing of it was done."""

    proved_failed = True


class ScopeMissing(IcebergHmsError):
    """The caller lacks the scope that the request needs; nothing of it was done."""

    proved_failed = True

    def __init__(self, caller: str, scope: str, action: str) -> None:
        self.scope = scope
        super().__init__(
            f"The caller {caller} lacks the scope {scope}, which {action} needs",
            next_step="ask the operator of the server for it",
        )


class IssuerUnavailable(IcebergHmsError):
    """The issuer of tokens does not answer, so the server cannot check who calls; nothing of the request was done."""

    proved_failed = True
    default_next_step = "send the request again"


class CredentialsUnavailable(IcebergHmsError):
    """The store gave the server no short-lived credentials for a client. Nothing was changed, and nothing else of the
    request was done."""

    proved_failed = True
    default_next_step = (
        "send the request again; if it goes on, the server's operator sees to `rest.vended-role-arn`, the server's own "
        "credentials for S3 and the store's token service (STS)"
    )


class PlanUnavailable(IcebergHmsError):
    """The server did not plan a scan: it took too long, or the process that planned it ended."""

    proved_failed = True
    default_next_step = "send the request again, ask for fewer files, or plan in the client: scan-planning-mode=client"


class MetastoreError(IcebergHmsError):
    """Base of what goes wrong between us and the Hive Metastore."""


class MetastoreUnavailable(MetastoreError):
    """No server of the list answered."""

    default_next_step = "check that the metastore runs and that metastore_uri names its host and port"


class CompareAndSwapUnproven(MetastoreUnavailable):
    """The server is not proven to compare and swap atomically, and the call needs that. We did not send it."""


class MetastoreRefused(MetastoreError):
    """The metastore answered the call with an error of its own."""


class AccessDenied(MetastoreRefused):
    """The metastore's authorisation refused the call."""

    default_next_step = "ask the owner of the table or database for the permission"


class LockUnavailable(MetastoreError):
    """The lock API is missing or broken on this metastore."""

    default_next_step = "create its transaction tables (schematool), or use ZooKeeper locks"


class LockLost(MetastoreError):
    """The lock was held and is no longer ours."""


class StorageError(IcebergHmsError):
    """A file could not be read or written."""

    default_next_step = "check the path, the permissions and the free space"


class StorageRefused(StorageError):
    """A store answered that it will not do this, and that trying again does not help: no permission, no such bucket."""

    default_next_step = "check the store's settings and the permissions of its credentials"


class ResourceExhausted(StorageError):
    """This process has no memory left for a metadata file, or no open file. It passes: the caller tries again."""

    default_next_step = "wait, then try again; the operator raises `rest.memory.max-bytes`, or the limit of open files"


class CorruptFile(StorageError):
    """A file was read and is not what it should be: truncated, another format, or damaged."""

    default_next_step = (
        "restore the file from a copy of it; nothing was changed, and an older metadata file lacks the commits since"
    )

    #: What the message says of the file.
    verdict: ClassVar[str] = "is damaged"

    def __init__(self, location: str, why: str, *, next_step: str | None = None) -> None:
        self.location = location
        super().__init__(f"{location} {self.verdict}: {why}", next_step=next_step)


class FileBeyondLimit(CorruptFile):
    """A file has, or inflates to, more than a setting allows; it may be as it should be."""

    default_next_step = (
        "restore nothing before the file is known to be damaged: if it is as it should be, the operator raises the "
        "limit (`storage.max-*`)"
    )
    verdict: ClassVar[str] = "is beyond a limit"


class EngineError(IcebergHmsError):
    """Java, Spark or a local server could not be found or started."""


class ProvedFailure(IcebergHmsError):
    """PROVED: nothing was changed, although the error's other type does not say so by itself (see `proved`)."""

    proved_failed = True

    def __reduce__(self) -> tuple[Any, ...]:
        if type(self) is ProvedFailure:
            return super().__reduce__()
        # The mixed type has no name that a pickle could find it by.
        return _restored_as_proved, (type(self).__bases__[-1], self.args, self.__dict__)


def own_copy(error: ErrorType) -> ErrorType:
    """A copy of an error for one caller to raise, with the original's traceback and cause: callers that raise one
    object in several threads would mix their tracebacks in it.

    Returns the error itself if a copy would say something else. Some errors that are not of this tree keep what they
    say outside their attributes (OSError its file, UnicodeDecodeError all)."""
    if isinstance(error, IcebergHmsError):
        return _copied(error, type(error))
    try:
        copied = _copied(error, type(error))
        return copied if str(copied) == str(error) else error
    except Exception:  # noqa: BLE001 - a class may ask for anything; what it says matters more than whose object it is
        return error


def release_frames(error: BaseException) -> None:
    """Release what the ended frames of an error hold, and those of its causes: what a file inflated to, say. Call it
    when the error is answered. An error and its frames often hold each other, so that only the garbage collector would
    free them, and that comes late. The traceback stays readable."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            waiting += [each.__cause__, each.__context__]


def proved(error: Exception) -> Exception:
    """A copy of an error for one caller to raise, where it is proved that nothing was changed. It has the error's type,
    and that of ProvedFailure too if the type does not prove it by itself.

    CommitStateUnknown is never proved, and an error that is not of this tree carries no proof: both are only copied.
    """
    if not isinstance(error, IcebergHmsError) or error.proved_failed or isinstance(error, CommitStateUnknown):
        return own_copy(error)
    return _copied(error, _proved_type(type(error)))


_PROVED_TYPES: dict[type[IcebergHmsError], type[IcebergHmsError]] = {}


def _proved_type(kind: type[IcebergHmsError]) -> type[IcebergHmsError]:
    if kind not in _PROVED_TYPES:
        # Under the name of its kind, which counters and logs print and callers can import.
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
        mixed = type(kind.__name__, (ProvedFailure, kind), names)
        # Another thread may have made one meanwhile.
        _PROVED_TYPES.setdefault(kind, mixed)
    return _PROVED_TYPES[kind]


def _restored_as_proved(kind: type[IcebergHmsError], args: tuple[Any, ...], state: dict[str, Any]) -> IcebergHmsError:
    return _restored(_proved_type(kind), args, state)


def _copied(error: Exception, kind: type[ErrorType]) -> ErrorType:
    copied = _restored(kind, error.args, error.__dict__)
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__
    return copied.with_traceback(error.__traceback__)
