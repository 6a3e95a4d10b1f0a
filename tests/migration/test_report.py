"""What a migration did, as values."""

from __future__ import annotations

import json

from iceberg_hms.migration.report import MigrationReport
from iceberg_hms.migration.work import PartitionFiles, Problem


def test_a_report_is_plain_values_for_json() -> None:
    report = MigrationReport(
        "nyc.flights",
        "done",
        partitions=(PartitionFiles("month=1", 2, 30),),
        files=2,
        records=9,
        size=30,
        reused_files=1,
        problems=[Problem("month=2", "file:/bad", "it is damaged", "mend it")],
        problem_count=4,
        metadata_location="file:/m.json",
        snapshot_id=7,
        seconds=1.23456,
        error="",
    )
    assert json.loads(json.dumps(report.as_dict())) == {
        "table": "nyc.flights",
        "outcome": "done",
        "files": 2,
        "records": 9,
        "size": 30,
        "reused_files": 1,
        "partitions": [{"name": "month=1", "files": 2, "size": 30}],
        "problems": [
            {"partition": "month=2", "location": "file:/bad", "reason": "it is damaged", "next_step": "mend it"}
        ],
        "problem_count": 4,
        "metadata_location": "file:/m.json",
        "snapshot_id": 7,
        "seconds": 1.235,
        "error": "",
    }


def test_a_report_has_each_of_its_fields_as_a_value() -> None:
    assert MigrationReport("t", "done").as_dict().keys() == set(MigrationReport.__slots__)


def test_a_table_of_which_nothing_is_known_has_its_error() -> None:
    report = MigrationReport.failed("nyc.flights", ValueError("no"))
    assert (report.table, report.outcome, report.error, report.files) == ("nyc.flights", "failed", "no", 0)
