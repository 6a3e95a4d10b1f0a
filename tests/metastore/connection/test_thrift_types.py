from __future__ import annotations

import itertools
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

from iceberg_hms.metastore.connection import thrift_types
from iceberg_hms.metastore.connection.thrift_types import (
    CreationMetadata,
    Database,
    FieldSchema,
    SerDeInfo,
    Table,
    messages,
)

PROTOCOLS = (TBinaryProtocol, TBinaryProtocolAccelerated)
_numbers = itertools.count(1)


def encode(value: Any, protocol: Any = TBinaryProtocol) -> bytes:
    buffer = TMemoryBuffer()
    value.write(protocol(buffer))
    return buffer.getvalue()


def decode(kind: Any, data: bytes, protocol: Any = TBinaryProtocol) -> Any:
    value = kind()
    value.read(protocol(TMemoryBuffer(data)))
    return value


def sample(kind: int, parts: Any, depth: int = 0) -> Any:
    """A value other than any default for a field of a Thrift spec."""
    number = next(_numbers)
    match kind:
        case TType.STRING:
            return f"text {number} \u00e9\u4e2d"
        case TType.BOOL:
            return True
        case TType.BYTE:
            return number % 100 + 1
        case TType.I32 | TType.I64:
            return number
        case TType.STRUCT:
            return filled(parts[0], depth + 1)
        case TType.LIST:
            return [sample(parts[0], parts[1], depth + 1)]
        case TType.SET:
            return {sample(parts[0], parts[1], depth + 1)}
        case TType.MAP:
            return {sample_key(parts): sample(parts[2], parts[3], depth + 1)}
    raise AssertionError(kind)


def sample_key(parts: Any) -> Any:
    return sample(parts[0], parts[1])


def filled(kind: Any, depth: int = 0) -> Any:
    fields = [field for field in kind.thrift_spec if field is not None]
    # A map whose key is a list has no Python form; the server writes it empty for tables without skew.
    plain = [field for field in fields if field[2] != "skewedColValueLocationMaps"]
    return kind(**{field[2]: sample(field[1], field[3], depth) for field in plain})


@pytest.mark.parametrize("reader", PROTOCOLS)
@pytest.mark.parametrize("writer", PROTOCOLS)
@pytest.mark.parametrize("kind", [Table, Database, SerDeInfo, CreationMetadata])
def test_every_field_survives_being_read_and_written_byte_for_byte(kind: Any, reader: Any, writer: Any) -> None:
    data = encode(filled(kind), writer)
    assert encode(decode(kind, data, reader), writer) == data


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_server_did_not_send_is_not_sent_back(protocol: Any) -> None:
    data = encode(Table(tableName="t"), protocol)
    table = decode(Table, data, protocol)
    assert table.temporary is None
    assert table.ownerType is None
    assert encode(table, protocol) == data


def test_the_structures_of_hive_2_would_lose_what_hive_4_sends() -> None:
    data = encode(Table(tableName="t", catName="hive", writeId=7))
    assert len(encode(decode(ttypes.Table, data))) < len(data)
    assert decode(Table, data).catName == "hive"


def test_fields_newer_than_ours_are_skipped() -> None:
    class Newer(thrift_types.Struct):
        thrift_spec = (*Table.thrift_spec, (29, TType.STRING, "unheardOf", "UTF8", None))

    table = decode(Table, encode(Newer(tableName="t", unheardOf="x", txnId=3)))
    assert (table.tableName, table.txnId) == ("t", 3)


def test_messages_carry_the_extended_structures() -> None:
    arguments, result = messages("alter_table_with_environment_context")
    assert issubclass(arguments.thrift_spec[3][3][0], Table)
    assert result.thrift_spec[1][3][0] is ttypes.InvalidOperationException
    _, answer = messages("get_table_req")
    assert answer.thrift_spec[0][3][0].thrift_spec[1][3][0] is Table


def test_calls_of_the_base_service_are_found_and_others_are_not() -> None:
    assert messages("getName")[1].thrift_spec[0][2] == "success"
    for unknown in ("no_such_call", "shutdown"):
        with pytest.raises(AttributeError, match=unknown):
            messages(unknown)


def test_an_unknown_field_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="colour"):
        FieldSchema(name="a", colour="red")


def test_structures_are_equal_by_their_fields() -> None:
    assert FieldSchema(name="a", type="int") == FieldSchema(name="a", type="int")
    assert FieldSchema(name="a", type="int") != FieldSchema(name="a", type="int", comment="")
    assert isinstance(FieldSchema(name="a"), ttypes.FieldSchema)
    assert repr(FieldSchema(name="a")) == "FieldSchema(name='a')"
