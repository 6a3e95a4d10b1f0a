"""What Java's generic reader makes of a table of one file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from iceberg_hms.format.schema.name_mapping import NAME_MAPPING
from integration.file_matrix.judging import Filter, column_of, judged
from integration.file_matrix.moments import days_of, literal, nanos_of
from integration.file_matrix.tables import MadeTable
from tests.file_matrix.shapes import PLACES, SELECTED, Case, Place


def read_by_java(jvm: Any, table: MadeTable) -> dict[Place, str]:
    iceberg = jvm.org.apache.iceberg
    io = iceberg.hadoop.HadoopFileIO(jvm.org.apache.hadoop.conf.Configuration())
    loaded = iceberg.BaseTable(iceberg.StaticTableOperations(table.metadata, io), table.name)
    return {
        place: judged(table.case, place, partial(_by_java, jvm, loaded, table.case, place))
        for place in PLACES[table.case.layout]
    }


def _by_java(jvm: Any, table: Any, case: Case, place: Place, given: Filter | None) -> dict[int, Any]:
    """As IcebergGenerics reads, with the table's name mapping, which that leaves out."""
    iceberg = jvm.org.apache.iceberg
    scan = table.newScan()
    if given is not None:
        scan = scan.filter(_java_filter(jvm, case, place, given))
    columns = jvm.java.util.ArrayList()
    columns.add("id")
    columns.add(SELECTED[place])
    read_schema = table.schema().select(columns)
    mapping = iceberg.mapping.NameMappingParser.fromJson(table.properties()[NAME_MAPPING])
    loader = read_schema.getClass().getClassLoader()
    record = jvm.java.lang.Class.forName("org.apache.iceberg.data.Record", True, loader)
    found: dict[int, Any] = {}
    tasks = scan.planFiles()
    for task in _each(tasks.iterator()):
        residual, of = task.residual(), read_schema.asStruct()
        evaluator = iceberg.expressions.Evaluator(of, residual, True)
        wrapper = iceberg.data.InternalRecordWrapper(of)
        builder = iceberg.formats.FormatModelRegistry.readBuilder(
            task.file().format(), record, table.io().newInputFile(task.file().location())
        )
        builder = builder.project(read_schema).withNameMapping(mapping).split(task.start(), task.length())
        rows = builder.filter(residual).build()
        # Not by a Java iterator: py4j takes what that throws for its end.
        for row in iceberg.relocated.com.google.common.collect.Lists.newArrayList(rows):
            if evaluator.eval(wrapper.wrap(row)):
                found[row.get(0)] = _of_java(jvm, row.get(1), case.type, place)
        rows.close()
    tasks.close()
    if given is not None and given.value is not None:
        # Java's Evaluator takes null for the least value, in files of any shape.
        found.pop(2, None)
    return found


def _java_filter(jvm: Any, case: Case, place: Place, given: Filter) -> Any:
    make, name = getattr(jvm.org.apache.iceberg.expressions.Expressions, given.name), column_of(place)
    if given.value is None:
        return make(name)
    value = literal(case.type, given.value)
    if isinstance(value, uuid.UUID):
        value = jvm.java.util.UUID.fromString(str(value))
    elif isinstance(value, bytes):
        value = jvm.java.nio.ByteBuffer.wrap(value)
    return make(name, value)


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _of_java(jvm: Any, value: Any, type_: str, place: Place) -> Any:
    match place:
        case "struct":
            value = None if value is None else value.get(0)
        case "list":
            value = value.get(0)
        case "map":
            value = value.get("k")
    return _plain(jvm, value, type_)


def _plain(jvm: Any, value: Any, type_: str) -> Any:
    if type_.startswith(("list", "map", "struct")) and value is not None:
        return _nested(value)
    if (
        value is None
        or isinstance(value, bool | int | float | Decimal | bytes | bytearray)
        or (isinstance(value, str) and type_ == "string")
    ):
        return bytes(value) if isinstance(value, bytearray) else value
    if isinstance(value, str):
        return value
    if type_.startswith(("binary", "geo")):
        return bytes(jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(value))
    text = value.toString()
    try:
        return uuid.UUID(text) if type_ == "uuid" else days_of(text) if type_ == "date" else nanos_of(text)
    except ValueError:
        return text


def _nested(value: Any) -> Any:
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, Mapping):
        return {key: _nested(value[key]) for key in value}
    if isinstance(value, Sequence):
        return [_nested(each) for each in value]
    return {each.name(): _nested(value.getField(each.name())) for each in value.struct().fields()}
