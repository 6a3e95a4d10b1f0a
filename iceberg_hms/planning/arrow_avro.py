"""Manifests read by DataFusion (arrow-avro): forty times as quick as record by record, without the interpreter.

It is trusted with nothing but values. It gets a file in memory that is made anew of a manifest: the blocks, inflated
and checked by our own reader, as one block without a codec, so that it inflates nothing and any codec will do; the
schema with today's names, found by field id; and a last record whose content is known. If that does not come out last,
the entries before it do not fill the blocks exactly. A manifest that it cannot read, or reads as other types than
expected, is our own reader's.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.avro import avro_file
from iceberg_hms.format.manifests.manifest import StoredManifest
from iceberg_hms.planning import layout
from iceberg_hms.planning.flat_columns import PartitionColumn

_log = logging.getLogger(__name__)

#: What decoding takes, in times of the inflated blocks: these, the file made of them, what DataFusion reads of it,
#: nested and flat columns. Measured: nine times for entries with statistics of five columns.
_TIMES_INFLATED: Final = 10
#: Loading DataFusion takes as long as our own reader takes for so many entries, and 60 MB.
LOADED_FOR: Final = 10_000
#: The path in the last record; no file has it.
_TAIL_PATH: Final = "the record behind the last entry of a manifest"
#: The least values of Avro's types.
_LEAST: Final[Mapping[str, Callable[[], Any]]] = {
    "null": lambda: None,
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
}
#: What a program raises to end itself.
_ENDS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


def read(
    stored: StoredManifest, partition: Sequence[PartitionColumn], admit: Callable[[int], object]
) -> Mapping[str, pa.Array] | None:
    """The fields of entries, of their files and of their partition tuples, by name; without what the manifest lacks.
    None: our own reader must read it, and says what is wrong with it if anything is.

    admit: as for `decode_columns`. Raises CorruptFile and FileBeyondLimit for damaged blocks."""
    container = stored.container
    datafusion = _datafusion(container.record_count)
    layout_ = None if datafusion is None else _layout(orjson.dumps(stored.schema))
    if datafusion is None or layout_ is None:
        return None
    schema, tail = layout_
    blocks: list[bytes] = []
    size = 0
    for _, raw in container.raw_blocks():
        # Only a block of more bytes can have an entry of more.
        if len(raw) > container.bounds.record_bytes.value:
            return None
        size += len(raw)
        admit(_TIMES_INFLATED * size)
        blocks.append(raw)
    count = container.record_count
    file = avro_file.plain_file(schema, count + 1, [*blocks, tail])
    blocks.clear()
    found = _decoded(datafusion, file, count + 1)
    if found is None:
        return None
    nested = _fields(found, partition)
    if nested is None or nested[layout.FILE_PATH][count].as_py() != _TAIL_PATH:
        return None
    return {name: values.slice(0, count) for name, values in nested.items()}


class _Process:
    """What is true of this process."""

    #: Whether DataFusion's threads stayed behind in a parent: a forked child waits for them for ever.
    lost_threads = False
    #: How many entries our own reader read since DataFusion is not loaded; about.
    read_without = 0

    @classmethod
    def forked(cls) -> None:
        cls.lost_threads = cls.lost_threads or sys.modules.get("datafusion") is not None


os.register_at_fork(after_in_child=_Process.forked)


def _datafusion(entries: int) -> Any:
    """The library, for a manifest of so many entries; None if this process cannot use it, or has not enough to read."""
    if _Process.lost_threads:
        return None
    if "datafusion" not in sys.modules:
        _Process.read_without += entries
        if _Process.read_without < LOADED_FOR:
            return None
    try:
        import datafusion
    except ImportError:
        return None
    return datafusion


@lru_cache(maxsize=64)
def _layout(schema_text: bytes) -> tuple[Any, bytes] | None:
    """The schema for DataFusion, and the last record; None: our own reader must read it. Cached, since a table's
    manifests have few schemas."""
    schema = orjson.loads(schema_text)
    try:
        record = _least(schema, {})
        record["data_file"]["file_path"] = _TAIL_PATH
        return _without_empty(schema), avro_file.encode_record(avro_file.parsed_if_possible(schema), record)
    except (InvalidInput, LookupError, TypeError, ValueError, AttributeError):
        return None


def _least(schema: Any, named: dict[str, Any]) -> Any:
    """A value of a schema that takes few bytes. named: the types that were seen, by name."""
    if isinstance(schema, list):
        return None if "null" in schema else _least(schema[0], named)
    if isinstance(schema, str):
        return _LEAST[schema]() if schema in _LEAST else _least(named[schema], named)
    if "name" in schema:
        named[schema["name"]] = schema
    match kind := schema["type"]:
        case "record":
            return {each["name"]: _least(each["type"], named) for each in schema["fields"]}
        case "fixed":
            return bytes(schema["size"])
        case "array" | "map":
            return [] if kind == "array" else {}
        case "enum":
            return schema["symbols"][0]
        case _:
            return _least(kind, named)


def _without_empty(schema: Any) -> Any:
    """A schema without the fields of records that take no bytes: DataFusion refuses records without fields."""
    if isinstance(schema, list):
        return [_without_empty(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    new = {key: _without_empty(value) if key in ("type", "items") else value for key, value in schema.items()}
    if "fields" in schema:
        fields = [{**each, "type": _without_empty(each["type"])} for each in schema["fields"]]
        new["fields"] = [each for each in fields if not _is_empty(each["type"])]
    return new


def _is_empty(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, dict) and schema.get("fields") == [])


def _decoded(datafusion: Any, file: list[bytes], count: int) -> pa.StructArray | None:
    """The records of an Avro file, in parts, which are dropped; None if it was not read, or has not so many."""
    with _path_of(file) as (path, extension):
        try:
            # A context of its own for each file: what DataFusion remembers of files goes by their paths, and a path in
            # memory names another file the next time.
            config = datafusion.SessionConfig().with_target_partitions(1).with_batch_size(count)
            rows = datafusion.SessionContext(config).read_avro(path, file_extension=extension)
            # One batch is taken, and the stream never asked for another: arrow-avro 59 loops for ever where a block has
            # bytes left after its last record.
            batch = rows.execute_stream().next().to_pyarrow()
        except _ENDS:
            raise
        except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception; our own reader judges the file
            _log.debug("DataFusion did not read a manifest: %r", error)
            return None
    return batch.to_struct_array() if batch.num_rows == count else None


@contextmanager
def _path_of(file: list[bytes]) -> Iterator[tuple[str, str]]:
    """A path at which DataFusion finds a file, and how its name ends. file: in parts, which are dropped."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("manifest")
        try:
            with open(descriptor, "wb", buffering=0, closefd=False) as memory:
                memory.writelines(file)
            file.clear()
            yield f"/proc/self/fd/{descriptor}", ""
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(suffix=".avro") as temporary:
            temporary.writelines(file)
            temporary.flush()
            file.clear()
            yield temporary.name, ".avro"


def _fields(entries: pa.StructArray, partition: Sequence[PartitionColumn]) -> dict[str, pa.Array] | None:
    """The fields of entries and of what is in them; None if one has another type than expected."""
    found = dict(_children(entries))
    files = found.pop("data_file")
    found.update(_children(files))
    tuples = found.pop("partition", None)
    stored = {} if tuples is None else dict(_children(tuples))
    expected = {**layout.TYPES, **layout.MAPS}
    columns = {name: values for name, values in found.items() if name in expected}
    for field in partition:
        columns[field.label] = stored.get(field.label, pa.nulls(len(entries)))
        expected[field.label] = field.stored_type
    if all(_has_type(values.type, expected[name]) for name, values in columns.items()):
        return columns
    return None


def _children(struct: pa.StructArray) -> Iterator[tuple[str, pa.Array]]:
    return zip([each.name for each in struct.type], struct.flatten(), strict=True)


def _has_type(kind: pa.DataType, expected: pa.DataType) -> bool:
    """Whether types are equal, but for the names of items and which of them may be null."""
    if pa.types.is_list(kind) and pa.types.is_list(expected):
        return _has_type(kind.value_type, expected.value_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(expected):
        pairs = [(each.name, each.type) for each in kind], [(each.name, each.type) for each in expected]
        return pairs[0] == pairs[1]
    return bool(kind == expected)
