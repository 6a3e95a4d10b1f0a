"""The operations' random test on tables in a bucket. `make outcomes-s3` runs as many steps as one likes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.stores.minio import ObjectStore
from tests.random_operations import data_plans, table_plans
from tests.random_operations.independent_reader import Missing
from tests.random_operations.places import Bucket, BucketFolder
from tests.random_operations.plans import Planner
from tests.random_operations.runs import Run, outcome
from tests.random_operations.shapes import SHAPES, by_name
from tests.random_operations.tested_table import TestedTable

SEED, STEPS, TRIALS = 1, 15, 3
NAMES = [shape.name for shape in SHAPES]


@pytest.fixture
def store(object_store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket of this test; its keys are in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", object_store.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", object_store.secret_key)
    yield f"{object_store.endpoint}/{bucket}"
    client = object_store.client()
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0, "a run leaves objects"
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_state_is_what_the_operations_mean(store: str, name: str) -> None:
    found = outcome(Run(name, SEED, STEPS, store=store))
    assert found.failure is None, found.failure
    assert found.counts.total() == STEPS
    assert found.last is not None
    assert found.last.location.startswith(by_name(name).bucket_spellings[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES[1::4])
def test_three_operations_at_once_leave_what_some_order_of_them_would(store: str, name: str) -> None:
    found = outcome(Run(name, SEED, TRIALS, trials=True, store=store))
    assert found.failure is None, found.failure
    assert found.counts["trials"] == TRIALS


def test_an_object_that_is_deleted_after_it_was_read_is_missing(store: str, tmp_path: Path) -> None:
    shape = by_name("v2-identity")
    place = BucketFolder(Bucket.of_environment(store), tmp_path, shape)
    table = TestedTable(shape, SEED, place)
    try:
        table.run(data_plans.append(Planner(table.bench, table.now.state)), table.now)
        gone = next(iter(table.model.files("main")))
        place.file_of(gone)
        assert place.files.delete(gone)
        place.look_again()
        with pytest.raises(Missing, match="does not exist"):
            place.file_of(gone)
        with pytest.raises(Missing, match="does not exist"):
            table.run(table_plans.set_properties(Planner(table.bench, table.now.state)), table.now)
    finally:
        table.close()
