"""Each step of an update of a schema, on each kind of path, beside Java's SchemaUpdate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from iceberg_hms.changes.operations.schema.schema_draft import SchemaDraft
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.schema import types
from iceberg_hms.format.schema.schema import Schema
from tests.changes.operations.columns import wide_table

pytestmark = pytest.mark.slow

#: The columns and the identifier fields that a step makes; None: it is refused.
Outcome = tuple[Any, Any] | None


class Verb(NamedTuple):
    """A step on a path, here and in Java, whose function gets the update, Java's types and the path."""

    ours: Callable[[SchemaDraft, str], Any]
    java: Callable[[Any, Any, str], Any]


def added(name: str) -> Verb:
    """A field in a column."""
    return Verb(
        lambda draft, path: draft.add_column(f"{path}.{name}", types.LONG),
        lambda update, of, path: update.addColumn(path, name, of.Types.LongType.get()),
    )


VERBS: Final = {
    "doc": Verb(
        lambda draft, path: draft.update_column(path, doc="d"),
        lambda update, _, path: update.updateColumnDoc(path, "d"),
    ),
    "rename": Verb(
        lambda draft, path: draft.rename_column(path, "new"), lambda update, _, path: update.renameColumn(path, "new")
    ),
    "delete": Verb(lambda draft, path: draft.delete_column(path), lambda update, _, path: update.deleteColumn(path)),
    "promote": Verb(
        lambda draft, path: draft.update_column(path, types.LONG),
        lambda update, of, path: update.updateColumn(path, of.Types.LongType.get()),
    ),
    "require": Verb(
        lambda draft, path: draft.update_column(path, required=True), lambda update, _, path: update.requireColumn(path)
    ),
    "make optional": Verb(
        lambda draft, path: draft.update_column(path, required=False),
        lambda update, _, path: update.makeColumnOptional(path),
    ),
    "move first": Verb(lambda draft, path: draft.move(path), lambda update, _, path: update.moveFirst(path)),
    "move after id": Verb(
        lambda draft, path: draft.move(path, after="id"), lambda update, _, path: update.moveAfter(path, "id")
    ),
    "move before itself": Verb(
        lambda draft, path: draft.move(path, before=path), lambda update, _, path: update.moveBefore(path, path)
    ),
    **{f"add {name}": added(name) for name in ("new", "x", "v", "k", "element", "key", "value")},
}
#: Java takes what the format has no place for, and its schema stays as it was; here the caller hears of it.
WITHOUT_EFFECT: Final = {
    *((verb, path) for verb in ("doc", "rename") for path in ("points.element", "scores.value", "tags.element")),
    ("require", "scores.key"),
    ("make optional", "scores.key.k"),
    ("move first", "scores.key.k"),
}
#: Java makes a struct without fields of it, which no engine can write.
REFUSED: Final = {("delete", "scores.v"), ("delete", "scores.value.v")}


@pytest.fixture
def of_java(spark: Any, tmp_path: Path) -> Any:
    """A table with columns of all kinds, by Java's API."""
    iceberg, java = spark._jvm.org.apache.iceberg, spark._jvm.java
    properties = java.util.HashMap()
    properties.put("format-version", "3")
    schema = iceberg.SchemaParser.fromJson(json.dumps(wide_table(3).schema.raw))
    tables = iceberg.hadoop.HadoopTables(spark._jvm.org.apache.hadoop.conf.Configuration())
    return tables.create(schema, iceberg.PartitionSpec.unpartitioned(), properties, str(tmp_path / "table"))


def test_steps_are_taken_and_refused_as_in_java(spark: Any, of_java: Any) -> None:
    iceberg = spark._jvm.org.apache.iceberg
    before = json.loads(iceberg.SchemaParser.toJson(of_java.schema()))
    base = wide_table(3, columns=before["fields"])
    differ: dict[tuple[str, str], tuple[Outcome, Outcome]] = {}
    for path in sorted({*base.schema.names(), "points.x", "scores.v", "none", "points.none", "day.none"}):
        for name, verb in VERBS.items():
            here, there = ours(base, verb, path), javas(of_java, iceberg, verb, path)
            if here != there:
                differ[name, path] = (here, there)
    assert set(differ) == WITHOUT_EFFECT | REFUSED
    assert not [key for key, (here, _) in differ.items() if here is not None]
    unchanged = (before["fields"], None)
    assert {key for key, (_, there) in differ.items() if there == unchanged} == WITHOUT_EFFECT


def ours(base: Any, verb: Verb, path: str) -> Outcome:
    draft = SchemaDraft(base)
    try:
        verb.ours(draft, path)
        return outcome(draft.finish().raw)
    except InvalidInput:
        return None


def javas(table: Any, iceberg: Any, verb: Verb, path: str) -> Outcome:
    update = table.updateSchema()
    try:
        verb.java(update, iceberg.types, path)
        return outcome(json.loads(iceberg.SchemaParser.toJson(update.apply())))
    except (Py4JJavaError, PySparkException):
        return None


def outcome(raw: dict[str, Any]) -> Outcome:
    """Each schema in the same words."""
    return Schema.parse(raw).as_struct().to_json()["fields"], raw.get("identifier-field-ids")
