"""File scan tasks and delete files in the JSON of the REST protocol (schemas `FileScanTask`, `DeleteFile`), column by
column: a plan has tens of thousands of them.

Where stock clients read something else than the schemas say, this is what they read:

- Bounds are the hexadecimal texts of their binary form, not typed values: Java's client reads and writes nothing else
  (ContentFileParser), and PyIceberg ignores them.
- Each task has a residual, `true` as well: without one Java's client fails on a partitioned table, and PyIceberg
  filters nothing.
- Delete files have bounds of the paths of their data files, and `referenced-data-file`: writers look at both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_hms.changes.operations.manifests.delete_index import PATH_COLUMN
from iceberg_hms.expressions.expression import Expression
from iceberg_hms.expressions.json_form import to_json
from iceberg_hms.format.manifests.manifest import DataFile, FileContent, ManifestEntry
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.format.schema.types import StructType, Type
from iceberg_hms.planning import layout
from iceberg_hms.planning.planner import DELETES, RESIDUAL, PlannedFiles
from iceberg_hms.planning.single_values import value_json

#: Characters that a JSON text cannot have as they are.
_ESCAPED: Final = r'["\\\x00-\x1f]'
#: Columns that are numbers which not each file has, by the protocol's names.
_NUMBERS: Final = {
    "sort-order-id": layout.SORT_ORDER_ID,
    "first-row-id": layout.FIRST_ROW_ID,
}
_BOUNDS: Final = (layout.LOWER_BOUND, layout.UPPER_BOUND)
_NULL: Final = pa.scalar(None, pa.string())


class Plan(Protocol):
    """What planned files refer to (`planner.ScanPlanner`). Both lists grow while it plans."""

    @property
    def delete_files(self) -> Sequence[ManifestEntry]: ...

    @property
    def residuals(self) -> Sequence[Expression]: ...


class TasksJson:
    """The file scan tasks of one answer. metadata: of the table. stats: ids of the columns whose statistics the client
    wants. has_residuals: False: all residuals are `true`, for a client that must read whole files."""

    def __init__(
        self, metadata: TableMetadata, stats: Iterable[int], plan: Plan, *, has_residuals: bool = True
    ) -> None:
        self._metadata = metadata
        self._stats = sorted(set(stats))
        self._plan = plan
        self._has_residuals = has_residuals
        self._parts: list[bytes] = []
        #: Where the answer has a delete file, by its place in `delete_files`.
        self._places: dict[int, int] = {}
        self._types: dict[int, StructType] = {}
        self._residual_texts: list[str] = []
        self.count = 0
        #: Bytes so far.
        self.size = 0

    def add(self, planned: PlannedFiles) -> None:
        """The files of a manifest. Raises InvalidInput for a partition value that has no form in JSON."""
        columns = planned.columns
        if not columns.num_rows:
            return
        more = [*self._more_fields(columns), *self._statistics(columns)]
        file = _concat('"data-file":', _object(self._file_fields(planned.spec_id, columns), more))
        tasks = _object(file, [*self._references(columns), self._residual(columns)])
        self._parts.append(_lines(tasks))
        self.count += columns.num_rows
        self.size += len(self._parts[-1])

    def fields(self) -> bytes:
        """`"delete-files"` and `"file-scan-tasks"`, to be put into a JSON object. Clients refuse delete files without
        tasks."""
        tasks = b'"file-scan-tasks":[' + b",".join(self._parts) + b"]"
        if not self._places:
            return tasks
        files = b",".join(self._delete_file(self._plan.delete_files[at].data_file) for at in self._places)
        return b'"delete-files":[' + files + b"]," + tasks

    def _file_fields(self, spec_id: int, columns: pa.RecordBatch) -> pa.Array:
        """Those that each file has."""
        return _concat(
            f'"spec-id":{spec_id},"content":"data","file-path":"',
            _escaped(columns.column(layout.FILE_PATH)),
            '","file-format":"',
            _escaped(pc.utf8_lower(columns.column(layout.FILE_FORMAT))),
            '","partition":[',
            self._partition(spec_id, columns),
            '],"file-size-in-bytes":',
            columns.column(layout.FILE_SIZE).cast(pa.string()),
            ',"record-count":',
            columns.column(layout.RECORD_COUNT).cast(pa.string()),
        )

    def _more_fields(self, columns: pa.RecordBatch) -> list[pa.Array]:
        fields = []
        for name, source in _NUMBERS.items():
            if (values := layout.column(columns, source)) is not None:
                fields.append(_concat(f'"{name}":', values.cast(pa.string())))
        if (offsets := layout.column(columns, layout.SPLIT_OFFSETS)) is not None:
            fields.append(_list('"split-offsets":[', offsets))
        if (key := layout.column(columns, layout.KEY_METADATA)) is not None:
            fields.append(_concat('"key-metadata":"', _hex(key), '"'))
        return fields

    def _partition_type(self, spec_id: int) -> StructType:
        found = self._types.get(spec_id)
        if found is None:
            spec = self._metadata.specs_by_id[spec_id]
            found = self._types[spec_id] = spec.partition_type(self._metadata.schema)
        return found

    def _partition(self, spec_id: int, columns: pa.RecordBatch) -> pa.Array | pa.Scalar | str:
        texts: list[pa.Array | str] = []
        for field in self._partition_type(spec_id).fields:
            values = layout.column(columns, layout.partition(field.id))
            texts.append("null" if values is None else _by_distinct(values, field.type))
        return pc.binary_join_element_wise(*texts, ",") if texts else ""

    def _statistics(self, columns: pa.RecordBatch) -> list[pa.Array]:
        found = []
        for name, map_name in layout.STATISTICS.items() if self._stats else ():
            keys, values = [], []
            for column_id in self._stats:
                column = layout.column(columns, layout.statistic(name, column_id))
                if column is None or column.null_count == len(column):
                    continue
                text = _concat('"', _hex(column), '"') if name in _BOUNDS else column.cast(pa.string())
                keys.append(pc.if_else(text.is_valid(), pa.scalar(str(column_id)), _NULL))
                values.append(text)
            if keys:
                label = map_name.replace("_", "-")
                text = _concat(f'"{label}":{{"keys":[', _joined(keys), '],"values":[', _joined(values), "]}")
                # A map that no column of a file has is left out.
                is_empty = pc.equal(pc.binary_length(_joined(keys)), 0)
                found.append(pc.if_else(is_empty, _NULL, text))
        return found

    def _references(self, columns: pa.RecordBatch) -> list[pa.Array]:
        deletes = columns.column(DELETES)
        flat = pc.list_flatten(deletes)
        if not len(flat):
            return []
        encoded = flat.dictionary_encode()
        places = [self._places.setdefault(at, len(self._places)) for at in encoded.dictionary.to_pylist()]
        texts = pa.array(map(str, places), pa.string()).take(encoded.indices)
        return [_list('"delete-file-references":[', deletes, texts)]

    def _residual(self, columns: pa.RecordBatch) -> pa.Array:
        for each in self._plan.residuals[len(self._residual_texts) :]:
            text = orjson.dumps(to_json(each)).decode() if self._has_residuals else "true"
            self._residual_texts.append(f'"residual-filter":{text}')
        return pa.array(self._residual_texts, pa.string()).take(columns.column(RESIDUAL))

    def _delete_file(self, file: DataFile) -> bytes:
        fields = self._partition_type(file.spec_id).fields
        partition = ",".join(value_json(each.type, file.partition.get(each.name)) for each in fields)
        bounds = {
            name: {"keys": [PATH_COLUMN], "values": [values[PATH_COLUMN].hex().upper()]}
            for name, values in (("lower-bounds", file.lower_bounds), ("upper-bounds", file.upper_bounds))
            if values is not None and PATH_COLUMN in values and file.content == FileContent.POSITION_DELETES
        }
        key, offsets, ids = file.key_metadata, file.split_offsets, file.equality_ids
        body: Mapping[str, Any] = {
            "spec-id": file.spec_id,
            "content": layout.CONTENTS[file.content],
            "file-path": file.file_path,
            "file-format": file.file_format.lower(),
            "partition": orjson.Fragment(f"[{partition}]"),
            "file-size-in-bytes": file.file_size_in_bytes,
            "record-count": file.record_count,
            **bounds,
            "key-metadata": None if key is None else key.hex().upper(),
            "split-offsets": list(offsets) if offsets else None,
            "equality-ids": list(ids) if ids else None,
            "sort-order-id": file.sort_order_id,
            "referenced-data-file": file.referenced_data_file,
            "content-offset": file.content_offset,
            "content-size-in-bytes": file.content_size_in_bytes,
        }
        return orjson.dumps({name: value for name, value in body.items() if value is not None})


def _concat(*parts: pa.Array | pa.Scalar | str) -> Any:
    """Texts side by side; null where one is."""
    return pc.binary_join_element_wise(*parts, "")


def _object(first: pa.Array, more: Sequence[pa.Array]) -> pa.Array:
    """The fields of a JSON object. first: those that are never null; more: left out where they are null."""
    marked = [_concat(",", each) for each in more]
    return pc.binary_join_element_wise("{", first, *marked, "}", "", null_handling="replace", null_replacement="")


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Texts with commas between them, without those that are null; an empty text where all are."""
    # Not with null_handling="skip", which drops the rows in which all are null.
    marked = [_concat(",", each) for each in parts]
    whole = pc.binary_join_element_wise(*marked, "", null_handling="replace", null_replacement="")
    return pc.utf8_slice_codeunits(whole, 1)


def _lines(texts: pa.Array) -> bytes:
    """All texts with commas between them."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(whole, ",")[0].as_buffer().to_pybytes()
    return joined


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts as they stand between the quotes of JSON."""
    if not pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return texts
    return pa.array([orjson.dumps(each).decode()[1:-1] for each in texts.to_pylist()], pa.string())


def _hex(values: pa.Array) -> pa.Array:
    found = [None if each is None else each.hex().upper() for each in values.to_pylist()]
    return pa.array(found, pa.string())


def _by_distinct(values: pa.Array, of: Type) -> pa.Array:
    """The JSON of values, of which most are there many times; null where one is null."""
    encoded = values.dictionary_encode()
    texts = [value_json(of, each) for each in encoded.dictionary.to_pylist()]
    return pc.fill_null(pa.array(texts, pa.string()).take(encoded.indices), "null")


def _list(opening: str, lists: pa.Array, texts: pa.Array | None = None) -> pa.Array:
    """Lists of numbers as a field of a JSON object; null for those that are null or empty. texts: for the values of all
    lists, in order."""
    found = pc.list_flatten(lists).cast(pa.string()) if texts is None else texts
    joined = pc.binary_join(pa.ListArray.from_arrays(layout.offsets_of(lists), found), ",")
    field = _concat(opening, joined, "]")
    return pc.if_else(pc.greater(pc.fill_null(pc.list_value_length(lists), 0), 0), field, _NULL)
