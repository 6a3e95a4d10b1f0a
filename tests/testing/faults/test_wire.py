from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from iceberg_hms.errors import InvalidInput
from iceberg_hms.testing.faults.wire import DEPTH_MAX, MessageKind, read_message

HEADER = struct.pack("!Ii", 0x8001_0001, 1) + b"m" + struct.pack("!i", 7)


def written(method: str, message: object, kind: int = TMessageType.CALL, sequence: int = 5) -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(method, kind, sequence)
    message.write(protocol)  # type: ignore[attr-defined]
    protocol.writeMessageEnd()
    value: bytes = buffer.getvalue()
    return value


def stream(data: bytes, piece: int = 1_000_000) -> Callable[[int], bytes]:
    file = io.BytesIO(data)
    return lambda count: file.read(min(count, piece))


def a_table() -> Table:
    serde = SerDeInfo(name="s", parameters={"a": "b"})
    sd = StorageDescriptor(cols=[FieldSchema("id", "bigint", "")], compressed=False, numBuckets=-1, serdeInfo=serde)
    return Table(tableName="t", dbName="db", sd=sd, parameters={"k" * 300: "v"}, createTime=3, partitionKeys=[])


@pytest.mark.parametrize("piece", [1, 3, 1_000_000])
def test_a_message_ends_where_the_next_begins(piece: int) -> None:
    first = written("get_table", ThriftHiveMetastore.get_table_args(dbname="db", tbl_name="t"))
    second = written("get_table", ThriftHiveMetastore.get_table_result(success=a_table()), TMessageType.REPLY, 6)
    receive = stream(first + second, piece)
    found = [read_message(receive), read_message(receive), read_message(receive)]
    assert found[2] is None
    assert [(each.method, each.kind, each.sequence) for each in found if each] == [
        ("get_table", MessageKind.CALL, 5),
        ("get_table", MessageKind.REPLY, 6),
    ]
    assert b"".join(each.data for each in found if each) == first + second


def test_a_call_without_arguments_is_a_message() -> None:
    data = written("get_all_databases", ThriftHiveMetastore.get_all_databases_args())
    message = read_message(stream(data))
    assert message is not None
    assert message.data == data


@given(st.integers(min_value=1))
def test_a_message_that_is_cut_off_anywhere_is_no_message(cut: int) -> None:
    data = written("alter_table", ThriftHiveMetastore.alter_table_args(dbname="db", tbl_name="t", new_tbl=a_table()))
    with pytest.raises(EOFError):
        read_message(stream(data[: 1 + cut % (len(data) - 1)]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "strict binary"),
        (b"\x80\x02\x00\x01" + b"\0" * 20, "strict binary"),
        (struct.pack("!Ii", 0x8001_0001, -1), "a length of -1"),
        (struct.pack("!Ii", 0x8001_0009, 1) + b"m" + b"\0" * 4, "no known type: 9"),
        (HEADER + b"\x63\x00\x01", "no known type: 99"),
        (struct.pack("!Ii", 0x8001_0001, 2**31 - 1), "refused as noise"),
        (HEADER + b"\x0c\x00\x01" * (DEPTH_MAX + 2), "deeper"),
    ],
)
def test_noise_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_message(stream(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_noise_or_cut_off(data: bytes) -> None:
    try:
        message = read_message(stream(HEADER + data))
    except (EOFError, InvalidInput):
        return
    assert message is not None
    assert (HEADER + data).startswith(message.data)
