"""The only module that reads Thrift's exceptions and the metastore's messages.

The metastore reports most things as a MetaException or InvalidOperationException: only the message says what happened,
and it differs little between 2.3 and 4.2. `classify` turns an answer into a `Fault`; drivers look at faults only.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.Thrift import TApplicationException, TException

from iceberg_hms.errors import AccessDenied, MetastoreError, MetastoreRefused, MetastoreUnavailable

_MESSAGE_MAX = 400


class Fault(Enum):
    """What an error that the server answered means."""

    NO_SUCH_OBJECT = auto()
    NO_SUCH_DATABASE = auto()
    ALREADY_EXISTS = auto()
    #: The compare-and-swap value is not what the row has (HIVE-26882).
    TABLE_MODIFIED = auto()
    #: The row that was sent lacks the parameter that is compared: only a server with atomic compare-and-swap says so.
    EXPECTED_KEY_MISSING = auto()
    #: The server knows the compare-and-swap keys and cannot carry it out on its database.
    SWAP_BROKEN = auto()
    #: The partition keys of the row that was sent are not those of the table, which cannot be changed.
    PARTITION_KEYS_CHANGED = auto()
    #: The server reads and writes through a cache that has no compare-and-swap (CachedStore), and may be outdated.
    CACHED_STORE = auto()
    #: hive.metastore.disallow.incompatible.col.type.changes stands in the way of the new columns.
    INCOMPATIBLE_COLUMNS = auto()
    #: The server's database cannot compare the values of parameters, so that tables cannot be found by them.
    NOT_COMPARABLE = auto()
    #: hive.metastore.limit.partition.request allows fewer partitions in one request.
    TOO_MANY_PARTITIONS = auto()
    #: The server's database has no room for a parameter or another value of this length.
    VALUE_TOO_LONG = auto()
    NOT_EMPTY = auto()
    NO_SUCH_LOCK = auto()
    ACCESS_DENIED = auto()
    INVALID = auto()
    #: The server does not have the call.
    UNKNOWN_METHOD = auto()
    #: The server had an internal error, and gives no details.
    INTERNAL = auto()
    #: The handler of this connection lost its store, or its own connection to another server. It answers every call
    #: with this error from now on, and the outcome of this one is unknown.
    HANDLER_BROKEN = auto()
    OTHER = auto()


#: The answers to an alter whose columns the server does not take. Hive 4 reads all partitions if columns change.
COLUMNS_REFUSED = frozenset({Fault.INCOMPATIBLE_COLUMNS, Fault.TOO_MANY_PARTITIONS})
#: The answers to a call on a database that does not exist.
NO_DATABASE = frozenset({Fault.NO_SUCH_OBJECT, Fault.NO_SUCH_DATABASE})


#: Refusals of a write before the database is asked to make it, or instead of that. Every other error may hide a COMMIT
#: whose answer the metastore lost: the database may then make the write after its caller gave up.
_FINAL = frozenset(
    {
        Fault.NO_SUCH_OBJECT,
        Fault.NO_SUCH_DATABASE,
        Fault.ALREADY_EXISTS,
        Fault.TABLE_MODIFIED,
        Fault.EXPECTED_KEY_MISSING,
        Fault.CACHED_STORE,
        Fault.INCOMPATIBLE_COLUMNS,
        Fault.TOO_MANY_PARTITIONS,
        Fault.VALUE_TOO_LONG,
        Fault.NOT_EMPTY,
        Fault.NO_SUCH_LOCK,
        Fault.ACCESS_DENIED,
        Fault.INVALID,
        Fault.UNKNOWN_METHOD,
    }
)


class ServerFault(MetastoreRefused):
    """The metastore answered a call with an error. fault: what it means. detail: the server's own text. final: nothing
    of the call is carried out later."""

    def __init__(self, fault: Fault, detail: str, method: str) -> None:
        self.fault = fault
        self.detail = detail
        self.final = fault in _FINAL
        super().__init__(f"The metastore refused {method}: {detail}", next_step=_NEXT_STEPS.get(fault))


class AccessFault(ServerFault, AccessDenied):
    """The metastore's authorisation refused the call."""


class NotSent(MetastoreUnavailable):
    """The server never had the whole call."""


class NoAnswer(MetastoreError):
    """The call was sent, and no readable answer came that tells its outcome: the server may have carried it out, or may
    do so later.

    is_over: the server said that it no longer works on the call."""

    is_over = False


_NEXT_STEPS = {
    Fault.INCOMPATIBLE_COLUMNS: "set hive.metastore.disallow.incompatible.col.type.changes=false on the metastore",
    Fault.TOO_MANY_PARTITIONS: "raise hive.metastore.limit.partition.request on the metastore",
    Fault.CACHED_STORE: "set metastore.rawstore.impl=org.apache.hadoop.hive.metastore.ObjectStore on the metastore",
    Fault.ACCESS_DENIED: AccessDenied.default_next_step,
    Fault.INTERNAL: "look into the metastore's log",
}

_BY_TYPE: tuple[tuple[type[Exception], Fault], ...] = (
    (ttypes.NoSuchObjectException, Fault.NO_SUCH_OBJECT),
    (ttypes.UnknownDBException, Fault.NO_SUCH_DATABASE),
    (ttypes.UnknownTableException, Fault.NO_SUCH_OBJECT),
    (ttypes.AlreadyExistsException, Fault.ALREADY_EXISTS),
    (ttypes.NoSuchLockException, Fault.NO_SUCH_LOCK),
    (ttypes.NoSuchTxnException, Fault.NO_SUCH_LOCK),
    (ttypes.TxnAbortedException, Fault.NO_SUCH_LOCK),
    (ttypes.ConfigValSecurityException, Fault.ACCESS_DENIED),
)

# The first that matches wins: authorisers and SQL errors quote table names, so the exact sentences come first.
_BY_MESSAGE: tuple[tuple[re.Pattern[str], Fault], ...] = (
    (re.compile(r"The table has been modified"), Fault.TABLE_MODIFIED),
    (re.compile(r"New value for expected key"), Fault.EXPECTED_KEY_MISSING),
    (re.compile(r"This Store doesn't support updating table parameter"), Fault.CACHED_STORE),
    (re.compile(r"Cannot update parameter with JDO"), Fault.SWAP_BROKEN),
    (re.compile(r"(?s)Error executing SQL query.*TABLE_PARAMS"), Fault.SWAP_BROKEN),
    (re.compile(r"types incompatible with the existing columns"), Fault.INCOMPATIBLE_COLUMNS),
    (re.compile(r"partition keys can ?not be changed"), Fault.PARTITION_KEYS_CHANGED),
    (re.compile(r"Number of partitions scanned .* exceeds limit"), Fault.TOO_MANY_PARTITIONS),
    (re.compile(r"is not empty"), Fault.NOT_EMPTY),
    (re.compile(r"(?i)\bpermission denied|access ?denied|not allowed to perform|no privilege"), Fault.ACCESS_DENIED),
    (re.compile(r"AccessControlException|AuthorizationException|HiveAccessControl"), Fault.ACCESS_DENIED),
    (re.compile(r"(?i)\balready exists"), Fault.ALREADY_EXISTS),
    (re.compile(r"NoSuchObject"), Fault.NO_SUCH_OBJECT),
    (re.compile(r"is not a valid object name|Invalid (column|partition)|Invalid type|cannot be null"), Fault.INVALID),
    # A location that this server can never open: it parses locations before it asks its database for anything.
    (re.compile(r"No FileSystem for scheme|URISyntaxException"), Fault.INVALID),
)

# Below the query that failed, which is the first line: Derby's and Oracle's words for columns of long text.
_NOT_COMPARABLE = re.compile(r"Comparisons between 'CLOB|ORA-00932")

# Java's RetryingMetaStoreClient and HiveClientPool connect anew for these words, anywhere in a MetaException.
_HANDLER_BROKEN = re.compile(r"(JDO[a-zA-Z]{0,60}|TProtocol|TTransport)Exception")
# JDO's word for a statement that the database refused, which every other handler would be refused as well.
_REFUSED_STATEMENT = re.compile(r"(?i)SQLIntegrityConstraintViolationException|when executing query")
# Its own database denies the metastore something, not us: the user or the node that a lost connection came back to.
_DATABASE_DENIES = re.compile(r"(JDO|SQL)[a-zA-Z]{0,60}Exception|(?i:access denied for user)")
_TOO_LONG = re.compile(r"(?i)\btoo (long|large)\b|truncation error")

# What is missing, in the words of an InvalidOperationException or InvalidObjectException. In a MetaException the same
# words speak of a class that the server lacks, or of its own database: taking those for "no such table" would
# report a drop that was not made.
_MISSING: tuple[tuple[re.Pattern[str], Fault], ...] = (
    (re.compile(r"(?i)\b(database|db) \S+ (does(n't| not) exist|not found)"), Fault.NO_SUCH_DATABASE),
    (re.compile(r"(?i)does(n't| not) exist|\bnot found\b"), Fault.NO_SUCH_OBJECT),
)
_OF_A_REQUEST = (ttypes.InvalidOperationException, ttypes.InvalidObjectException)


def reason_of(error: MetastoreError) -> str:
    """The server's own text, if it sent one; else the error's message."""
    return error.detail if isinstance(error, ServerFault) else error.message


def classify(error: TException, method: str) -> ServerFault:
    """The fault that an answered error means. `error` came out of a reply that was read whole."""
    detail = _words(error)
    fault = _fault(error, detail)
    kind = AccessFault if fault is Fault.ACCESS_DENIED else ServerFault
    answer = kind(fault, detail, method)
    # Errors of these types are about the request, whatever their text.
    answer.final |= isinstance(error, _OF_A_REQUEST)
    return answer


def _fault(error: TException, detail: str) -> Fault:
    if isinstance(error, TApplicationException):
        if error.type == TApplicationException.UNKNOWN_METHOD or "Invalid method name" in detail:
            return Fault.UNKNOWN_METHOD
        return Fault.INTERNAL if error.type == TApplicationException.INTERNAL_ERROR else Fault.OTHER
    for kind, fault in _BY_TYPE:
        if isinstance(error, kind):
            return fault
    text = str(getattr(error, "message", None))
    for pattern, fault in _BY_MESSAGE + (_MISSING if isinstance(error, _OF_A_REQUEST) else ()):
        if pattern.search(detail) and not (fault is Fault.ACCESS_DENIED and _DATABASE_DENIES.search(text)):
            return fault
    if _NOT_COMPARABLE.search(text):
        return Fault.NOT_COMPARABLE
    if isinstance(error, ttypes.MetaException) and _TOO_LONG.search(text):
        return Fault.VALUE_TOO_LONG
    if isinstance(error, ttypes.MetaException) and _HANDLER_BROKEN.search(text) and not _REFUSED_STATEMENT.search(text):
        return Fault.HANDLER_BROKEN
    return Fault.INVALID if isinstance(error, ttypes.InvalidObjectException) else Fault.OTHER


def _words(error: TException) -> str:
    text = str(getattr(error, "message", None) or error).strip() or type(error).__name__
    # Some servers put a whole stack trace into the message.
    first = text.splitlines()[0]
    return first if len(first) <= _MESSAGE_MAX else first[:_MESSAGE_MAX] + "..."
