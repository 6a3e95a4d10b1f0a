"""Filters judged on columns: the answers of `FileFilter`, for all files at once."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_hms.expressions import Expression
from iceberg_hms.expressions.binding import bind
from iceberg_hms.expressions.file_filter import FileFilter
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.format.schema.partition_spec import PartitionSpec
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.planning.column_filter import ColumnFilter
from tests.planning.batches import batch_of_files
from tests.planning.drawn import SCHEMA, drawn_files, drawn_filters, drawn_specs


def answers(where: Expression, files: Sequence[DataFile], spec: PartitionSpec, schema: Schema) -> list[bool]:
    judged = ColumnFilter(where, schema, {spec.spec_id: spec})
    found = judged.matching(batch_of_files(files, spec, schema), spec.spec_id)
    return [True] * len(files) if found is None else found.to_pylist()


def expected(where: Expression, files: Sequence[DataFile], spec: PartitionSpec, schema: Schema) -> list[bool]:
    judged = FileFilter(bind(where, schema), {spec.spec_id: spec}, "the filter")
    return [judged.may_match(each) for each in files]


@given(st.data())
@settings(max_examples=200)
def test_a_column_of_files_is_judged_as_each_file_is(data: st.DataObject) -> None:
    where = data.draw(drawn_filters())
    spec = data.draw(drawn_specs(where))
    files = data.draw(drawn_files(spec, where))
    assert answers(where, files, spec, SCHEMA) == expected(where, files, spec, SCHEMA)
