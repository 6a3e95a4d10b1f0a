"""A sample of the fuzzer with two callers, and that it finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_hms.coordinator.files.own_files import OwnFiles
from iceberg_hms.coordinator.locations.placement import Placement
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.rest.access.scopes import Caller
from tests.security.fuzz import Broken
from tests.security.honest_caller import HonestCaller
from tests.security.hostile_caller import HostileCaller
from tests.security.neighbours import Neighbours
from tests.security.two_callers import Operator, fuzz, in_memory

SEED = 7
REQUESTS = 400
#: A planted defect is found after a tenth of these, as a rule.
PLANTED_REQUESTS = 5_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Neighbours]:
    with in_memory(tmp_path) as made:
        yield made


@pytest.fixture
def honest(world: Neighbours) -> Iterator[HonestCaller]:
    made = HonestCaller(world, 0, SEED)
    yield made
    made.close()


def run(world: Neighbours, requests: int) -> Any:
    return fuzz(world, SEED, requests, 5, lambda _sent: None)


def test_a_sample_of_both_callers_leaves_all_in_order(world: Neighbours) -> None:
    found = run(world, REQUESTS)
    assert found.requests >= REQUESTS
    assert found.looks > 0
    assert found.did.total() > 20, "B got on"
    assert found.statuses["200"] > 0, "A did what it may"
    assert found.statuses["403"] > 0, "A did what it may not"


@pytest.mark.parametrize(
    ("owner", "method"),
    [(OwnFiles, "__contains__"), (Placement, "allows"), (Caller, "may")],
    ids=["every file is a table's own", "all may be put everywhere", "every scope covers everything"],
)
def test_a_planted_defect_is_found(
    world: Neighbours, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    monkeypatch.setattr(owner, method, lambda *_: True)
    with pytest.raises(Broken):
        run(world, PLANTED_REQUESTS)


def delete_file(world: Neighbours) -> None:
    (world.folder("b") / "hive" / "000000_0").unlink()


def write_file(world: Neighbours) -> None:
    (world.folder("c") / "still" / "new").touch()


def change_file(world: Neighbours) -> None:
    (world.elsewhere / "c" / "000000_0").write_bytes(b"other")


def change_row(world: Neighbours) -> None:
    world.metastore.forget_owner(TableName("default", "still"))


def add_row(world: Neighbours) -> None:
    world.metastore.add_hive_table(TableName("b", "new"), "file:/x", "MANAGED_TABLE")


def drop_row(world: Neighbours) -> None:
    world.operator.drop_table("c.still")


def move_pointer(world: Neighbours) -> None:
    world.operator.load_table("b.foreign").set_properties({"a": "b"})


def change_namespace(world: Neighbours) -> None:
    world.operator.update_namespace_properties("b", updates={"a": "b"})


@pytest.mark.parametrize(
    "damage",
    [delete_file, write_file, change_file, change_row, add_row, drop_row, move_pointer, change_namespace],
    ids=lambda damage: damage.__name__,
)
def test_damage_to_what_stands_is_seen(world: Neighbours, damage: Callable[[Neighbours], None]) -> None:
    assert world.changes() == []
    damage(world)
    assert world.changes()


def with_table(honest: HonestCaller) -> TableName:
    while not honest.tables:
        honest.step()
    return honest.tables[0].name


def test_an_honest_caller_sees_that_a_file_of_its_own_is_gone(honest: HonestCaller) -> None:
    with_table(honest)
    Path("/" + honest.tables[0].metadata_location.removeprefix("file:").lstrip("/")).unlink()
    with pytest.raises(Broken, match="files changed after"):
        honest.step()


def test_an_honest_caller_sees_that_a_table_of_its_own_moved(world: Neighbours, honest: HonestCaller) -> None:
    name = with_table(honest)
    world.operator.load_table(name).set_properties({"a": "b"})
    with pytest.raises(Broken):
        honest.step()


def test_an_honest_caller_sees_a_refusal(honest: HonestCaller) -> None:
    with pytest.raises(Broken, match="403"):
        honest.ask("DELETE", "/v1/namespaces/a/tables/t0")


def test_the_operator_sees_a_table_in_the_folder_of_another(world: Neighbours) -> None:
    operator = Operator(world, SEED)
    for namespace in ("b", "c", "default"):
        for table in ("still", "foreign"):
            folder = world.folder(namespace) / table / "deeper"
            world.metastore.add_hive_table(TableName("a", f"{namespace}_{table}"), f"file:{folder}", "MANAGED_TABLE")

    def work() -> None:
        for _ in range(100):
            operator.step()

    with pytest.raises(Broken, match="no orphans of"):
        work()


def test_the_requests_of_both_come_of_the_seed(world: Neighbours, honest: HonestCaller) -> None:
    """As far as the world is the same."""
    with_table(honest)
    callers = [HostileCaller(world, 0, SEED, [honest]) for _ in range(2)]
    for each in callers:
        each.step()
    first, again = (each.last[0].partition("?")[0] for each in callers)
    assert first == again
