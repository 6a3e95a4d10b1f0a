"""A job is all that it does to the table."""

from __future__ import annotations

from dataclasses import replace

from iceberg_hms.changes.change import Job
from iceberg_hms.format.manifests.manifest import DataFile, FileContent

A, B = "file:/data/a.parquet", "file:/data/b.parquet"
DELETES = [
    DataFile(f"file:/data/{name}.parquet", "PARQUET", 1, 10, content=FileContent.POSITION_DELETES) for name in "xy"
]
VECTORS = [replace(DELETES[0], file_format="PUFFIN", content_offset=offset) for offset in (0, 40)]


def test_files_count_in_any_order_and_spelling_given_by_name_or_as_records() -> None:
    assert Job.of("append", added=[A, B]) == Job.of("append", added=[DataFile("/data//b.parquet", "PARQUET", 1, 1), A])
    assert Job.of("append", added=[A]).added == {"file:///data/a.parquet"}
    assert Job.of("append", added=[A, B]).digest != Job.of("append", added=[A]).digest


def test_jobs_differ_by_each_delete_file_and_its_offset() -> None:
    digests = {
        Job.of("row_delta", **{kind: deletes}).digest
        for kind in ("added_deletes", "removed_deletes")
        for deletes in ((), DELETES, DELETES[:1], DELETES[1:], VECTORS, VECTORS[:1], VECTORS[1:])
    }
    assert len(digests) == 13
    assert Job.of("row_delta", added_deletes=DELETES) == Job.of("row_delta", added_deletes=DELETES[::-1])


def test_a_digest_is_the_same_in_each_release() -> None:
    whole = Job.of(
        "rewrite", added=[A], removed=[B], added_deletes=VECTORS, removed_deletes=DELETES, scope="level = 'ERROR'"
    )
    assert whole.digest == "4e4f73826728887f8e02da31a343d9237bebbae5efdc9905732024927955937f"
