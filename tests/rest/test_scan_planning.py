"""The four endpoints of scan planning, over a catalog in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.metadata.gzip_parts import GzipStart
from iceberg_hms.format.metadata.snapshot import Snapshot
from iceberg_hms.planning.answers import PlanAnswer
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.planning import Planning
from tests.rest.fakes import ScriptedCatalog, Web, error_of

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "day", "required": False, "type": "date"},
        {"id": 2, "name": "Level", "required": False, "type": "string"},
        {"id": 3, "name": "size", "required": False, "type": "long"},
    ],
}
SPEC = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "day", "transform": "identity"}]}
PATH = "/v1/namespaces/default/tables/t"


def data_file(name: str, day: int | None = 0, **more: Any) -> DataFile:
    return DataFile(
        file_path=f"file:/warehouse/default.db/t/data/{name}.parquet",
        file_format="PARQUET",
        record_count=10,
        file_size_in_bytes=1_000,
        partition={"day": day},
        **more,
    )


class Planned:
    """A table behind an application, and what it answers."""

    def __init__(self, **settings: Any) -> None:
        self.catalog = ScriptedCatalog(**settings)
        self.table = self.catalog.create_table(("default", "t"), SCHEMA, partition_spec=SPEC)
        self.web = self.again()

    def again(self) -> Web:
        """Another server over the same tables."""
        return Web(create_app(self.catalog, settings=self.catalog.rest_settings))

    def append(self, *files: DataFile) -> int:
        self.table = self.catalog.load_table(("default", "t"))
        self.table.append(files)
        snapshot = self.catalog.load_table(("default", "t")).metadata.current_snapshot_id
        assert snapshot is not None
        return snapshot

    def plan(self, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        response = self.web("POST", f"{PATH}/plan", dict(body or {}))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        assert found["status"] == "completed"
        return found

    def all_tasks(self, body: Mapping[str, Any] | None = None, web: Web | None = None) -> list[dict[str, Any]]:
        """Those of the plan and of all its plan tasks."""
        answer = self.plan(body)
        tasks, waiting = list(answer["file-scan-tasks"]), list(answer.get("plan-tasks", ()))
        while waiting:
            response = (web or self.web)("POST", f"{PATH}/tasks", {"plan-task": waiting.pop()})
            assert response.status_code == 200, response.text
            tasks += response.json()["file-scan-tasks"]
            waiting += response.json().get("plan-tasks", ())
        return tasks


def names(tasks: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(each["data-file"]["file-path"].rpartition("/")[2].removesuffix(".parquet") for each in tasks)


@pytest.fixture
def planned() -> Planned:
    return Planned()


def test_a_plan_has_a_task_for_each_file(planned: Planned) -> None:
    planned.append(data_file("a", 0, split_offsets=(4, 500), sort_order_id=0), data_file("b", None))
    answer = planned.plan()
    assert answer["file-scan-tasks"][0] == {
        "data-file": {
            "spec-id": 0,
            "content": "data",
            "file-path": "file:/warehouse/default.db/t/data/a.parquet",
            "file-format": "parquet",
            "partition": ["1970-01-01"],
            "file-size-in-bytes": 1_000,
            "record-count": 10,
            "sort-order-id": 0,
            "split-offsets": [4, 500],
        },
        "residual-filter": True,
    }
    assert answer["file-scan-tasks"][1]["data-file"]["partition"] == [None]
    assert answer.keys() == {"status", "plan-id", "file-scan-tasks"}


def test_what_a_process_has_compressed_is_sent_to_clients_that_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Planned(**{"rest.merge-manifests": "false", "rest.planning-max-files": 5})
    everything = many(planned)
    found = planned.plan()
    asked: list[bool] = []
    plan = Planning.answer

    def by_a_process(*given: Any, takes_gzip: bool) -> PlanAnswer:
        asked.append(takes_gzip)
        answer = plan(*given, takes_gzip=takes_gzip)
        assert isinstance(answer.tasks, bytes)
        return replace(answer, tasks=GzipStart.of(b"{" + answer.tasks)) if takes_gzip else answer

    monkeypatch.setattr(Planning, "answer", by_a_process)
    packed, plain = (
        planned.web("POST", f"{PATH}/plan", {}, headers={"accept-encoding": each}) for each in ("gzip", "identity")
    )
    assert (packed.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
    assert asked == [True, False]
    assert packed.json() == plain.json() == found
    assert names(planned.all_tasks()) == everything


def test_an_empty_table_has_no_tasks(planned: Planned) -> None:
    assert planned.plan()["file-scan-tasks"] == []


def test_a_filter_leaves_out_files_and_is_left_as_a_residual(planned: Planned) -> None:
    planned.append(*(data_file(f"d{day}", day) for day in range(5)))
    on_day = {"type": "eq", "term": "day", "value": "1970-01-03"}
    (task,) = planned.plan({"filter": on_day})["file-scan-tasks"]
    assert (names([task]), task["residual-filter"]) == (["d2"], True)
    of_size = {"type": "gt", "term": "size", "value": 7}
    (task,) = planned.plan({"filter": {"type": "and", "left": on_day, "right": of_size}})["file-scan-tasks"]
    assert task["residual-filter"] == of_size


def test_a_number_as_text_filters_as_the_client_meant_it(planned: Planned) -> None:
    planned.append(data_file("a"))
    assert names(planned.all_tasks({"filter": {"type": "is-null", "term": "Level"}})) == ["a"]
    status, kind, text = error_of(
        planned.web("POST", f"{PATH}/plan", {"filter": {"type": "eq", "term": "size", "value": "big"}})
    )
    assert (status, kind) == (400, "BadRequestException")
    assert "size" in text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"filter": {"type": "eq", "term": "nowhere", "value": 1}}, "nowhere"),
        ({"filter": {"type": "wrong", "term": "day"}}, "wrong"),
        ({"filter": None}, "filter"),
        ({"filter": "day = 1"}, "filter"),
        ({"filter": {"type": "eq", "term": "level", "value": "x"}}, "level"),
        ({"select": "day"}, "select"),
        ({"stats-fields": ["nowhere"]}, "nowhere"),
        ({"snapshot-id": 7}, "snapshot 7"),
        ({"snapshot-id": "7"}, "snapshot-id"),
        ({"snapshot-id": True}, "snapshot-id"),
        ({"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 1}, "not both"),
        ({"start-snapshot-id": 1}, "both"),
        ({"end-snapshot-id": 1}, "both"),
        ({"start-snapshot-id": 7, "end-snapshot-id": 8}, "snapshot 8"),
        ({"min-rows-requested": -1}, "rows"),
        ({"case-sensitive": "yes"}, "case-sensitive"),
        ({"use-snapshot-schema": 1}, "use-snapshot-schema"),
    ],
)
def test_a_request_that_fits_no_table_is_refused(planned: Planned, body: Any, text: str) -> None:
    planned.append(data_file("a"))
    status, kind, message = error_of(planned.web("POST", f"{PATH}/plan", body))
    assert (status, kind) == (400, "BadRequestException")
    assert text in message


def test_names_are_found_without_their_case_if_the_client_says_so(planned: Planned) -> None:
    planned.append(data_file("a"))
    body = {"filter": {"type": "not-null", "term": "LEVEL"}, "select": ["SIZE"], "case-sensitive": False}
    (task,) = planned.plan(body)["file-scan-tasks"]
    assert task["residual-filter"] == {"type": "not-null", "term": "LEVEL"}


def test_a_plan_is_of_the_snapshot_that_it_names(planned: Planned) -> None:
    first = planned.append(data_file("a"))
    second = planned.append(data_file("b"))
    third = planned.append(data_file("c"))
    assert names(planned.all_tasks()) == ["a", "b", "c"]
    assert names(planned.all_tasks({"snapshot-id": first})) == ["a"]
    assert names(planned.all_tasks({"start-snapshot-id": first, "end-snapshot-id": second})) == ["b"]
    assert names(planned.all_tasks({"start-snapshot-id": first, "end-snapshot-id": third})) == ["b", "c"]
    assert names(planned.all_tasks({"start-snapshot-id": third, "end-snapshot-id": third})) == []


def test_statistics_are_sent_for_the_columns_that_the_client_names(planned: Planned) -> None:
    statistics: dict[str, Any] = {
        "value_counts": {1: 10, 3: 10},
        "null_value_counts": {3: 0},
        "lower_bounds": {1: b"\0\0\0\0", 3: b"\x01\0\0\0\0\0\0\0"},
        "upper_bounds": {3: b"\xff\0\0\0\0\0\0\0"},
    }
    planned.append(data_file("a", **statistics), data_file("b"))
    (a, b) = (each["data-file"] for each in planned.plan({"stats-fields": ["size", "Level"]})["file-scan-tasks"])
    assert a["value-counts"] == {"keys": [3], "values": [10]}
    assert a["null-value-counts"] == {"keys": [3], "values": [0]}
    assert a["lower-bounds"] == {"keys": [3], "values": ["0100000000000000"]}
    assert a["upper-bounds"] == {"keys": [3], "values": ["FF00000000000000"]}
    assert "nan-value-counts" not in a
    assert "lower-bounds" not in b
    (a, _) = (each["data-file"] for each in planned.plan({"stats-fields": []})["file-scan-tasks"])
    assert "value-counts" not in a


def test_delete_files_are_named_once_by_the_tasks_that_they_apply_to(planned: Planned) -> None:
    planned.append(data_file("a", 0), data_file("b", 0), data_file("c", 1))
    planned.table = planned.catalog.load_table(("default", "t"))
    delete = data_file("x", 0, content=FileContent.POSITION_DELETES, key_metadata=b"\xab")
    planned.table.row_delta(deletes=[delete])
    answer = planned.plan()
    (file,) = answer["delete-files"]
    assert file == {
        "spec-id": 0,
        "content": "position-deletes",
        "file-path": delete.file_path,
        "file-format": "parquet",
        "partition": ["1970-01-01"],
        "file-size-in-bytes": 1_000,
        "record-count": 10,
        "key-metadata": "AB",
    }
    by_name = {names([each])[0]: each.get("delete-file-references") for each in answer["file-scan-tasks"]}
    assert by_name == {"a": [0], "b": [0], "c": None}
    assert "delete-files" not in planned.plan({"filter": {"type": "eq", "term": "day", "value": "1970-01-02"}})


def many(planned: Planned) -> list[str]:
    """Twelve files in four manifests."""
    for number in range(4):
        planned.append(*(data_file(f"f{number}-{at}", at) for at in range(3)))
    return sorted(f"f{number}-{at}" for number in range(4) for at in range(3))


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 7, 12])
def test_a_large_plan_is_divided_into_tasks_that_have_each_file_once(most: int) -> None:
    planned = Planned(**{"rest.planning-max-files": most, "rest.merge-manifests": "false"})
    everything = many(planned)
    answer = planned.plan()
    assert len(answer["file-scan-tasks"]) <= max(most + 2, 3)
    assert ("plan-tasks" in answer) == (most < 12)
    assert names(planned.all_tasks()) == everything
    filtered = {"filter": {"type": "eq", "term": "day", "value": "1970-01-02"}}
    assert names(planned.all_tasks(filtered)) == [f"f{number}-1" for number in range(4)]


def test_what_no_time_is_left_for_is_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Planned(**{"rest.merge-manifests": "false"})
    everything = many(planned)
    ticks = iter(range(0, 10_000_000, 60))
    planned.web = Web(create_app(planned.catalog, settings=planned.catalog.rest_settings, clock=_Hurried(ticks)))
    answer = planned.plan()
    assert len(answer["file-scan-tasks"]) == 3
    assert names(planned.all_tasks()) == everything


class _Hurried:
    """A clock on which a minute passes between two looks."""

    def __init__(self, ticks: Any) -> None:
        self._ticks = ticks
        self._real = SYSTEM_CLOCK

    def monotonic(self) -> float:
        return float(next(self._ticks))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_min_rows_ends_a_plan_once_files_that_are_read_whole_have_as_many(planned: Planned) -> None:
    planned = Planned(**{"rest.merge-manifests": "false"})
    many(planned)
    assert len(planned.all_tasks({"min-rows-requested": 25})) == 3
    assert len(planned.all_tasks({"min-rows-requested": 31})) == 6
    # A residual may leave no row of any file.
    body = {"min-rows-requested": 25, "filter": {"type": "gt", "term": "size", "value": 1}}
    assert len(planned.all_tasks(body)) == 12


def test_servers_with_one_key_answer_each_other_s_tasks(tmp_path: Any) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    planned = Planned(**{"rest.planning-max-files": 1, "rest.signing-key-file": str(key)})
    everything = many(planned)
    assert names(planned.all_tasks(web=planned.again())) == everything
    answer = planned.plan()
    again = planned.again()("GET", f"{PATH}/plan/{answer['plan-id']}")
    assert again.json() == answer


def test_a_task_of_another_key_is_unknown() -> None:
    planned = Planned(**{"rest.planning-max-files": 1})
    many(planned)
    answer = planned.plan()
    other = planned.again()
    response = other("POST", f"{PATH}/tasks", {"plan-task": answer["plan-tasks"][0]})
    assert error_of(response)[:2] == (404, "NoSuchPlanTaskException")
    assert error_of(other("GET", f"{PATH}/plan/{answer['plan-id']}"))[:2] == (404, "NoSuchPlanIdException")
    assert error_of(other("DELETE", f"{PATH}/plan/{answer['plan-id']}"))[:2] == (404, "NoSuchPlanIdException")


@pytest.mark.parametrize("damage", ["", "x", "%%", "AAAA", "é"])
def test_what_is_no_task_is_unknown(planned: Planned, damage: str) -> None:
    planned.append(data_file("a"))
    response = planned.web("POST", f"{PATH}/tasks", {"plan-task": damage})
    assert response.status_code == (404 if damage else 400)
    plan_id = planned.plan()["plan-id"]
    changed = plan_id[:-3] + ("A" if plan_id[-3] != "A" else "B") + plan_id[-2:]
    assert error_of(planned.web("GET", f"{PATH}/plan/{changed}"))[:2] == (404, "NoSuchPlanIdException")
    # An id is no task.
    assert planned.web("POST", f"{PATH}/tasks", {"plan-task": plan_id}).status_code == 404


def test_a_plan_can_be_fetched_and_cancelled(planned: Planned) -> None:
    planned.append(data_file("a"))
    answer = planned.plan({"filter": {"type": "gt", "term": "size", "value": 3}})
    path = f"{PATH}/plan/{answer['plan-id']}"
    assert planned.web("GET", path).json() == answer
    assert planned.web("DELETE", path).status_code == 204
    # Nothing was kept, so nothing is gone.
    assert planned.web("GET", path).json() == answer


def test_a_plan_stays_one_of_its_snapshot_and_schema() -> None:
    planned = Planned(**{"rest.planning-max-files": 1})
    everything = many(planned)
    answer = planned.plan({"filter": {"type": "is-null", "term": "Level"}})
    planned.append(data_file("later"))
    planned.catalog.load_table(("default", "t")).update_schema().rename_column("Level", "was_level").commit()
    tasks, waiting = list(answer["file-scan-tasks"]), list(answer["plan-tasks"])
    while waiting:
        found = planned.web("POST", f"{PATH}/tasks", {"plan-task": waiting.pop()}).json()
        tasks += found["file-scan-tasks"]
        waiting += found.get("plan-tasks", ())
    assert names(tasks) == everything
    assert planned.web("GET", f"{PATH}/plan/{answer['plan-id']}").json() == answer


def test_a_task_whose_snapshot_has_expired_is_unknown() -> None:
    planned = Planned(**{"rest.planning-max-files": 1, "rest.merge-manifests": "false"})
    many(planned)
    answer = planned.plan()
    snapshot = planned.catalog.load_table(("default", "t")).metadata.current_snapshot_id
    planned.append(data_file("later"))
    planned.catalog.load_table(("default", "t")).expire_snapshots(snapshot_ids=[snapshot])
    response = planned.web("POST", f"{PATH}/tasks", {"plan-task": answer["plan-tasks"][0]})
    status, kind, message = error_of(response)
    assert (status, kind) == (404, "NoSuchPlanTaskException")
    assert "expired" in message
    assert error_of(planned.web("GET", f"{PATH}/plan/{answer['plan-id']}"))[:2] == (404, "NoSuchPlanIdException")


def test_a_task_of_another_table_is_unknown(planned: Planned) -> None:
    planned = Planned(**{"rest.planning-max-files": 1})
    many(planned)
    answer = planned.plan()
    # Another table that has the same snapshots.
    table = planned.catalog.load_table(("default", "t"))
    folder = "file:///warehouse/default.db/other"
    copied = table.metadata.replace(table_uuid="0d6bd92e-4c27-4d0f-9b1f-0f1c2e6b7a11", location=folder)
    location = f"{folder}/metadata/copied.metadata.json"
    planned.catalog.services.ports.files.write(location, copied.to_bytes())
    planned.catalog.register_table(("default", "other"), location)
    other = "/v1/namespaces/default/tables/other"
    assert planned.web("POST", f"{other}/plan", {}).status_code == 200
    response = planned.web("POST", f"{other}/tasks", {"plan-task": answer["plan-tasks"][0]})
    assert error_of(response)[:2] == (404, "NoSuchPlanTaskException")
    assert error_of(planned.web("GET", f"{other}/plan/{answer['plan-id']}"))[:2] == (404, "NoSuchPlanIdException")


def test_a_plan_waits_for_a_metastore_that_restarts(planned: Planned) -> None:
    planned.append(data_file("a"))
    planned.catalog.errors = away = _Away(2)
    planned.web = planned.again()
    assert names(planned.all_tasks()) == ["a"]
    assert away.tries == 0


class _Away(dict[str, BaseException]):
    """The errors of a catalog whose metastore does not answer the first tries."""

    def __init__(self, tries: int) -> None:
        super().__init__(load=MetastoreUnavailable("it restarts"))
        self.tries = tries

    def __contains__(self, method: object) -> bool:
        if method != "load" or not self.tries:
            return False
        self.tries -= 1
        return True


def test_a_missing_table_is_one_whatever_is_asked(planned: Planned) -> None:
    missing = "/v1/namespaces/default/tables/nothing"
    assert error_of(planned.web("POST", f"{missing}/plan", {}))[:2] == (404, "NoSuchTableException")
    elsewhere = "/v1/namespaces/nowhere/tables/nothing"
    assert error_of(planned.web("POST", f"{elsewhere}/plan", {}))[:2] == (404, "NoSuchTableException")


def test_a_long_filter_makes_long_tasks_but_no_long_id() -> None:
    planned = Planned(**{"rest.planning-max-files": 1, "rest.merge-manifests": "false"})
    many(planned)
    body = {"filter": {"type": "not-in", "term": "size", "values": [each * 7_919 % 1_000_003 for each in range(5_000)]}}
    answer = planned.plan(body)
    assert len(answer["plan-id"]) <= 2_000
    assert len(planned.all_tasks(body)) == 12
    response = planned.web("GET", f"{PATH}/plan/{answer['plan-id']}")
    assert error_of(response)[:2] == (404, "NoSuchPlanIdException")
    assert planned.web("DELETE", f"{PATH}/plan/{answer['plan-id']}").status_code == 204


def test_a_server_that_plans_no_scans_has_no_such_routes() -> None:
    planned = Planned(**{"rest.scan-planning": "off"})
    for method, path in (("POST", "plan"), ("GET", "plan/x"), ("DELETE", "plan/x"), ("POST", "tasks")):
        status, kind, _ = error_of(planned.web(method, f"{PATH}/{path}", {}))
        assert (status, kind) == (404, "NotFoundException")


@pytest.mark.parametrize("content", [FileContent.DATA, FileContent.POSITION_DELETES])
def test_manifests_outside_of_what_clients_may_name_are_not_read(planned: Planned, content: FileContent) -> None:
    planned.append(data_file("a"))
    table = planned.catalog.load_table(("default", "t"))
    metadata, manifests = table.metadata, planned.catalog.services.ports.manifests()
    # What the server may read and its clients may not: say, another table's manifest outside of the warehouse.
    elsewhere = metadata.replace(location="file:/secret")
    entries = [ManifestEntry(EntryStatus.ADDED, data_file("hidden", content=content))]
    (hidden,) = manifests.write(elsewhere, metadata.schema, metadata.spec, 77, entries)
    assert hidden.manifest_path.startswith("file:/secret/")
    raw = {
        "snapshot-id": 77,
        "parent-snapshot-id": metadata.current_snapshot_id,
        "sequence-number": 2,
        "timestamp-ms": metadata.last_updated_ms + 1,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    assert metadata.current_snapshot is not None
    listed_now = manifests.list(metadata.current_snapshot)
    listed = manifests.stage_list(metadata, Snapshot.parse({**raw, "manifest-list": "file:/x"}), [hidden, *listed_now])
    manifests.flush()
    add = {"action": "add-snapshot", "snapshot": {**raw, "manifest-list": listed}}
    assert planned.web("POST", PATH, {"requirements": [], "updates": [add]}).status_code == 200
    response = planned.web("POST", f"{PATH}/plan", {"snapshot-id": 77})
    assert error_of(response)[:2] == (403, "ForbiddenException")
    assert "hidden" not in response.text
    assert names(planned.all_tasks()) == ["a"]


def test_a_client_that_may_copy_whole_files_gets_no_residuals() -> None:
    """Java's copy-on-write leaves out the row groups that a residual excludes, and their rows would be lost."""
    planned = Planned(**{"rest.planning-max-files": 1, "rest.merge-manifests": "false"})
    many(planned)
    snapshot = planned.catalog.load_table(("default", "t")).metadata.current_snapshot_id
    filter_ = {"type": "gt", "term": "size", "value": 7}
    body = {"snapshot-id": snapshot, "use-snapshot-schema": True, "filter": filter_}
    for select in (["day", "Level", "size"], ["size", "_file"]):
        tasks = planned.all_tasks({**body, "select": select})
        assert [each["residual-filter"] for each in tasks] == [True] * 12
    tasks = planned.all_tasks({**body, "select": ["size"]})
    assert [each["residual-filter"] for each in tasks] == [filter_] * 12


def test_a_plan_of_an_old_snapshot_goes_on_when_main_is_rolled_back_to_it() -> None:
    planned = Planned(**{"rest.planning-max-files": 1, "rest.merge-manifests": "false"})
    everything = many(planned)
    old = planned.catalog.load_table(("default", "t")).metadata.current_snapshot_id
    assert old is not None
    planned.catalog.load_table(("default", "t")).update_schema().rename_column("Level", "was_level").commit()
    planned.append(data_file("later"))
    is_null = {"type": "is-null", "term": "Level"}
    answer = planned.plan({"snapshot-id": old, "use-snapshot-schema": True, "filter": is_null})
    planned.catalog.load_table(("default", "t")).rollback_to_snapshot(old)
    tasks, waiting = list(answer["file-scan-tasks"]), list(answer["plan-tasks"])
    while waiting:
        found = planned.web("POST", f"{PATH}/tasks", {"plan-task": waiting.pop()}).json()
        tasks += found["file-scan-tasks"]
        waiting += found.get("plan-tasks", ())
    assert names(tasks) == everything


@pytest.mark.parametrize("mapping", ["", "[]"])
def test_what_pyiceberg_would_filter_wrongly_is_refused(mapping: str) -> None:
    planned = Planned()
    planned.append(data_file("a", 2), data_file("b", 3))
    if mapping:
        planned.catalog.load_table(("default", "t")).set_properties({"schema.name-mapping.default": mapping})
    on_day, of_level = ({"type": "not-null", "term": name} for name in ("day", "Level"))
    for agent, column, refused in (
        ("PyIceberg/0.12.0", on_day, True),
        ("PyIceberg/0.12.0", of_level, False),
        ("Apache-HttpClient/5", on_day, False),
    ):
        body = {"filter": {"type": "and", "left": of_level, "right": column}}
        response = planned.web("POST", f"{PATH}/plan", body, headers={"User-Agent": agent})
        assert response.status_code == (400 if refused and mapping else 200), response.text
        assert ("scan-planning-mode=client" in response.text) is bool(refused and mapping)
