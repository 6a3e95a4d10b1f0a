"""What pyarrow does not tell of the schema in a Parquet footer (parquet.thrift, in Thrift's compact protocol)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from iceberg_hms.errors import CorruptFile

#: Numbers of fields, of FileMetaData and of SchemaElement.
_SCHEMA: Final = 2
_REPETITION, _NAME, _CONVERTED_TYPE = 3, 4, 6
#: Of ConvertedType and FieldRepetitionType.
_MAP_KEY_VALUE: Final = 2
_REPEATED: Final = 2

#: The fields num_children, which is 1, and converted_type of such a map: files without them need not be parsed.
_OLD_MAP: Final = b"\x15\x02\x15\x04"
#: Kinds of values.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS: Final = (4, 5, 6)
#: In the head of a list: its size follows.
_LONG_LIST: Final = 15


def maps_of_old_form(location: str, footer: bytes) -> frozenset[str]:
    """The names of the maps that are annotated with MAP_KEY_VALUE instead of MAP. pyarrow takes the two for one, and
    Java takes only the latter for a map. footer: FileMetaData, as the file has it. Raises CorruptFile."""
    if _OLD_MAP not in footer:
        return frozenset()
    try:
        for field, value in _Reader(footer).struct():
            if field == _SCHEMA:
                return frozenset(_old_map(each) for each in value if _is_old_map(each))
    except (IndexError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(location, f"its Parquet footer cannot be read: {error}") from error
    return frozenset()


def _is_old_map(element: dict[int, Any]) -> bool:
    # The repeated group in a map may have it too, and nobody minds.
    return element.get(_CONVERTED_TYPE) == _MAP_KEY_VALUE and element.get(_REPETITION) != _REPEATED


def _old_map(element: dict[int, Any]) -> str:
    return str(element[_NAME], "utf-8")


@dataclass
class _Reader:
    data: bytes
    at: int = 0

    def struct(self) -> Iterator[tuple[int, Any]]:
        """The fields in order, by number."""
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            yield field, self._value(head & 15)

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4
            count = self._varint() if count == _LONG_LIST else count
            # An item takes a byte at least, so a count beyond the data ends at its end.
            return [self._item(head & 15) for _ in range(count)]
        if kind == _STRUCT:
            return dict(self.struct())
        raise ValueError(f"a field of kind {kind}")

    def _item(self, kind: int) -> Any:
        return self._byte() == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
