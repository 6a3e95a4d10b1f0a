"""hmsclient's Thrift structures, extended by the fields that Hive 3 and 4 added.

hmsclient's IDL is Hive 2's. Its structures skip what they do not know, so a Table read from a newer metastore and
written back would lose its catalog, owner type and the rest. Here every structure gets the fields of
`hive_metastore.thrift` of Hive 4.2 that a read without special flags answers; column statistics and file metadata are
answered on demand alone, and we never ask for them.

A field that the server did not send is None and is not sent back, so that reading and writing keeps the bytes.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import CReadableTransport

Spec = tuple[Any, ...]

_STRING_LIST = (TType.STRING, "UTF8", False)


def _text(number: int, name: str) -> Spec:
    return (number, TType.STRING, name, "UTF8", None)


def _plain(number: int, name: str, kind: int) -> Spec:
    return (number, kind, name, None, None)


def _texts(number: int, name: str, kind: int = TType.LIST) -> Spec:
    return (number, kind, name, _STRING_LIST, None)


_CREATION_METADATA: Spec = (
    _text(1, "catName"),
    _text(2, "dbName"),
    _text(3, "tblName"),
    _texts(4, "tablesUsed", TType.SET),
    _text(5, "validTxnList"),
    _plain(6, "materializationTime", TType.I64),
)


class Struct:
    """Reads and writes by `thrift_spec` alone; the generated methods behind it know only old fields."""

    thrift_spec: Spec = ()
    _absent: ClassVar[dict[str, None]] = {}

    def __init_subclass__(cls) -> None:
        cls._absent = {field[2]: None for field in cls.thrift_spec if field is not None}

    def __init__(self, **fields: Any) -> None:
        if unknown := fields.keys() - self._absent:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        self.__dict__.update(self._absent)
        self.__dict__.update(fields)

    def read(self, protocol: Any) -> None:
        if protocol._fast_decode is not None and isinstance(protocol.trans, CReadableTransport):
            protocol._fast_decode(self, protocol, [type(self), self.thrift_spec])
        else:
            protocol.readStruct(self, self.thrift_spec)

    def write(self, protocol: Any) -> None:
        if protocol._fast_encode is not None:
            protocol.trans.write(protocol._fast_encode(self, [type(self), self.thrift_spec]))
        else:
            protocol.writeStruct(self, self.thrift_spec)

    def validate(self) -> None:
        """What generated code calls; the server checks for itself."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # fields change

    def __repr__(self) -> str:
        fields = (f"{name}={value!r}" for name, value in self.__dict__.items() if value is not None)
        return f"{type(self).__name__}({', '.join(fields)})"


def _numbered(fields: tuple[Spec, ...]) -> Spec:
    # Thrift's C code looks a field up by its number as an index.
    by_number = {field[0]: field for field in fields}
    return tuple(by_number.get(number) for number in range(max(by_number, default=-1) + 1))


class CreationMetadata(Struct):
    """What a materialized view was made of (Hive 3 and later)."""

    thrift_spec = _numbered(_CREATION_METADATA)


_ADDED: dict[str, tuple[Spec, ...]] = {
    "Table": (
        (16, TType.STRUCT, "creationMetadata", [CreationMetadata, CreationMetadata.thrift_spec], None),
        _text(17, "catName"),
        _plain(18, "ownerType", TType.I32),
        _plain(19, "writeId", TType.I64),
        _plain(20, "isStatsCompliant", TType.BOOL),
        _plain(22, "accessType", TType.BYTE),
        _texts(23, "requiredReadCapabilities"),
        _texts(24, "requiredWriteCapabilities"),
        _plain(25, "id", TType.I64),
        _plain(28, "txnId", TType.I64),
    ),
    "SerDeInfo": (
        _text(4, "description"),
        _text(5, "serializerClass"),
        _text(6, "deserializerClass"),
        _plain(7, "serdeType", TType.I32),
    ),
    "Database": (
        _text(8, "catalogName"),
        _plain(9, "createTime", TType.I32),
        _text(10, "managedLocationUri"),
        _plain(11, "type", TType.I32),
        _text(12, "connector_name"),
        _text(13, "remote_dbname"),
    ),
    "GetTableRequest": (_text(4, "catName"),),
    "GetTablesRequest": (_text(4, "catName"),),
}

_extended: dict[type, type[Struct]] = {}


def extended(generated: type) -> Any:
    """The extended form of a generated structure, with extended structures inside. A subclass of the generated one."""
    known = _extended.get(generated)
    if known is None:
        spec: Spec = generated.thrift_spec  # type: ignore[attr-defined]
        # Without defaults: see above.
        fields = [(*field[:3], _extended_parts(field[3]), None) for field in spec if field is not None]
        known = type(
            generated.__name__,
            (Struct, generated),
            {"thrift_spec": _numbered((*fields, *_ADDED.get(generated.__name__, ()))), "__module__": __name__},
        )
        _extended[generated] = known
    return known


def _extended_parts(parts: Any) -> Any:
    """Structures are `[class, spec]` in Thrift's specs, and nest in the tuples of lists, sets and maps."""
    if isinstance(parts, list):
        structure = parts[0]
        if issubclass(structure, TException):
            return parts
        larger = extended(structure)
        return [larger, larger.thrift_spec]
    if isinstance(parts, tuple):
        return tuple(_extended_parts(part) for part in parts)
    return parts


def messages(method: str) -> tuple[Any, Any]:
    """The arguments and result structures of a metastore call, by its name in the IDL.

    Raises AttributeError for a call that is not in hmsclient's IDL, or that has no reply: a mistake in our code.
    """
    for service in inspect.getmro(ThriftHiveMetastore.Client):
        module = inspect.getmodule(service)
        arguments, result = getattr(module, f"{method}_args", None), getattr(module, f"{method}_result", None)
        if arguments is not None and result is not None:
            return extended(arguments), extended(result)
    raise AttributeError(f"no call {method} in the metastore's IDL")


Table = extended(ttypes.Table)
StorageDescriptor = extended(ttypes.StorageDescriptor)
SerDeInfo = extended(ttypes.SerDeInfo)
FieldSchema = extended(ttypes.FieldSchema)
Database = extended(ttypes.Database)
GetTableRequest = extended(ttypes.GetTableRequest)
GetTablesRequest = extended(ttypes.GetTablesRequest)
EnvironmentContext = extended(ttypes.EnvironmentContext)
LockComponent = extended(ttypes.LockComponent)
LockRequest = extended(ttypes.LockRequest)
CheckLockRequest = extended(ttypes.CheckLockRequest)
HeartbeatRequest = extended(ttypes.HeartbeatRequest)
UnlockRequest = extended(ttypes.UnlockRequest)
ShowLocksRequest = extended(ttypes.ShowLocksRequest)
OpenTxnRequest = extended(ttypes.OpenTxnRequest)
AbortTxnRequest = extended(ttypes.AbortTxnRequest)

LockType = ttypes.LockType
LockLevel = ttypes.LockLevel
LockState = ttypes.LockState
DataOperationType = ttypes.DataOperationType
PrincipalType = ttypes.PrincipalType
