"""What a client may send, and Java: what is stored, Java's parsers read, as Java's own builder would have stored it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from iceberg_hms.format.schema.new_schemas import new_table_schema
from tests.format import sent_fields, test_updates, test_views
from tests.format.schema.defaults import REFUSED, SENT
from tests.format.sent_fields import MISSING, Changed

pytestmark = pytest.mark.slow

#: Where ours is another than Java's on purpose: the fields that both tables then differ in do not count.
#: - Java takes `first-row-id` ahead of the table's, and gives the ids between it and the next one twice.
#: - It leaves a partition field without an id the id that an equal field has; ours is the next free one, which is new.
OTHER_THAN_JAVA = {("add-snapshot", "snapshot.first-row-id"), ("add-spec", "spec.fields.0.field-id")}
#: PySpark makes exceptions of its own of some of Java's.
JAVAS = (Py4JJavaError, PySparkException)


class Java:
    """Java's parsers. jvm: py4j's view of a JVM that has Iceberg."""

    def __init__(self, jvm: Any) -> None:
        self._iceberg = jvm.org.apache.iceberg

    def table(self, text: str) -> dict[str, Any]:
        """A table's metadata, as Java reads and writes it."""
        parser = self._iceberg.TableMetadataParser
        return _without_time(parser.toJson(parser.fromJson("file:/w/t/metadata/1.metadata.json", text)))

    def updated(self, text: str, update: dict[str, Any]) -> dict[str, Any] | None:
        """That after an update, by Java's own builder; None if Java refuses the update."""
        parser = self._iceberg.TableMetadataParser
        try:
            builder = self._iceberg.TableMetadata.buildFrom(parser.fromJson(None, text))
            self._iceberg.MetadataUpdateParser.fromJson(json.dumps(update)).applyTo(builder)
            return _without_time(parser.toJson(builder.build()))
        except JAVAS:
            return None

    def view(self, text: str) -> None:
        """Raises one of JAVAS for a view's metadata that Java does not read."""
        self._iceberg.view.ViewMetadataParser.fromJson(text)

    def takes_schema(self, raw: dict[str, Any]) -> bool:
        try:
            self._iceberg.SchemaParser.fromJson(json.dumps(raw))
        except JAVAS:
            return False
        return True


@pytest.fixture(scope="module")
def java(spark: Any) -> Java:
    return Java(spark._jvm)


def _without_time(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    del found["last-updated-ms"]
    return found


def _fault(java: Java, base: str, text: str, each: Changed) -> str | None:
    name = f"{each.update['action']} {each.path} {each.value!r}"
    try:
        found = java.table(text)
    except JAVAS as error:
        return f"{name}: {error}"
    if (each.update["action"], each.path) in OTHER_THAN_JAVA:
        return None
    javas = java.updated(base, each.update)
    return None if javas in (None, found) else f"{name}: other than Java's"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_reads_each_table_that_an_update_makes(java: Java, version: int) -> None:
    base, faults = sent_fields.table(version), []
    text = base.to_bytes().decode()
    for update in sent_fields.of_tables(version):
        for each in [Changed("", MISSING, update), *sent_fields.changed(update)]:
            try:
                stored = test_updates.stored(base, [each.update])
            except test_updates.REFUSALS:
                continue
            if (fault := _fault(java, text, stored, each)) is not None:
                faults.append(fault)
    assert faults == []


def test_java_reads_each_view_that_an_update_makes(java: Java) -> None:
    for updates in sent_fields.of_views():
        for place, update in enumerate(updates):
            for each in sent_fields.changed(update):
                try:
                    stored = test_views.stored([*updates[:place], each.update, *updates[place + 1 :]])
                except test_updates.REFUSALS:
                    continue
                java.view(stored)


def test_java_takes_the_recorded_defaults_and_reads_what_is_stored(java: Java) -> None:
    def schema(kind: Any, value: Any) -> dict[str, Any]:
        both = {"initial-default": value, "write-default": value}
        return {"type": "struct", "fields": [{"id": 99, "name": "c", "required": False, "type": kind, **both}]}

    for sent in SENT:
        assert java.takes_schema(schema(sent.kind, sent.value)) == sent.java, sent
        if sent.stored is not REFUSED:
            assert java.takes_schema(new_table_schema(schema(sent.kind, sent.value), 3).raw), sent
