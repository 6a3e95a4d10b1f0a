"""A sample of `make fuzz`, and what it must find: a world that is not in order after a request."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from iceberg_hms.changes import requirements, updates
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import CorruptFile
from iceberg_hms.rest.configuration import ENDPOINTS
from tests.security import shapes
from tests.security.fuzz import SECRET, Broken, Response, World, run_batch, sockets, through_app
from tests.security.shapes import Attack, Mutation

EVENTS = TableName("logging", "events")
REFUSED = Response(400, orjson.dumps({"error": {"message": "no", "type": "BadRequestException", "code": 400}}))
DROP = Attack("DELETE", "/v1/namespaces/logging/tables/events")


@pytest.mark.parametrize(("seed", "examples", "one_in"), [(1, 40, 1_000), (2, 8, 1)], ids=["application", "sockets"])
def test_a_sample_of_requests_leaves_the_world_in_order(seed: int, examples: int, one_in: int) -> None:
    statuses = run_batch(seed, examples, one_in=one_in)
    assert statuses.total() >= examples
    assert {200, 400, 404} <= statuses.keys()


def answering(response: Response) -> Callable[[World], Response]:
    return lambda world: response


def error(status: int, **fields: object) -> Response:
    return Response(status, orjson.dumps({"error": {"message": "", "type": "", "code": status, **fields}}))


def drop(world: World) -> Response:
    world.catalog.drop_table(("logging", "events"))
    return REFUSED


def write_file(world: World) -> Response:
    world.files.write("file:/left-behind", b"")
    return REFUSED


def delete_file(world: World) -> Response:
    world.files.delete("file:/warehouse/canary.txt")
    return REFUSED


def create_namespace(world: World) -> Response:
    world.catalog.create_namespace("made")
    return REFUSED


def brick(world: World) -> Response:
    world.files.write("file:/cut.metadata.json", b'{"format-version": 2')
    world.pointer.point(EVENTS, "file:/cut.metadata.json")
    return Response(200, b"")


def point_nowhere(world: World) -> Response:
    world.pointer.point(EVENTS, "file:/nowhere")
    return Response(200, b"")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (answering(error(500)), "status 500"),
        (answering(error(502)), "status 502"),
        (answering(error(400, message=SECRET)), "shows what it must not"),
        (answering(error(400, message='File "/srv/app.py", line 3')), "shows what it must not"),
        (answering(error(400, stack=["a"])), "no ErrorModel"),
        (answering(Response(404, b'{"detail":"Not Found"}')), "no ErrorModel"),
        (answering(error(400, code=404)), "another code"),
        (drop, "changed a row"),
        (write_file, "left-behind"),
        (delete_file, "canary"),
        (create_namespace, "changed a namespace"),
        (point_nowhere, "missing file"),
    ],
)
def test_a_broken_world_is_found(answer: Callable[[World], Response], message: str) -> None:
    with World() as world, pytest.raises(Broken, match=message):
        world.try_attack(DROP, lambda found, _attack, _body: answer(found))


def test_damaged_metadata_is_found() -> None:
    with World() as world, pytest.raises(CorruptFile, match="not JSON"):
        world.try_attack(DROP, lambda found, _attack, _body: brick(found))


def test_a_table_that_takes_no_commit_is_found() -> None:
    with World() as world:
        brick(world)
        with pytest.raises(Broken, match="takes no commit"):
            world.usable()


def test_a_fault_of_the_metastore_permits_an_unknown_outcome_and_no_trace() -> None:
    faulty = Attack("POST", "/v1/namespaces/logging/tables/events", fault=shapes.ScriptedAnswer.REPLY_LOST)
    with World() as world:
        assert world.try_attack(faulty, lambda *_: error(500)) == 500
        with pytest.raises(Broken, match="shows"):
            world.try_attack(faulty, lambda *_: error(500, message="Traceback"))


def test_a_refused_commit_may_be_unknown_if_the_table_has_its_snapshot() -> None:
    junk = {"action": "set-properties", "updates": {"iceberg-hms.lock": "junk"}}
    present, new = ({"action": "add-snapshot", "snapshot": shapes.snapshot(each)} for each in ("@snapshot-id", 7))
    unknown = error(500, type="CommitStateUnknownException")
    with World() as world:
        assert world.try_attack(_commit(present, junk), through_app) == 500
        with pytest.raises(Broken, match="status 500"):
            world.try_attack(_commit(new, junk), lambda *_: unknown)


def test_a_commit_to_another_table_of_the_name_may_be_unknown() -> None:
    new = {"action": "add-snapshot", "snapshot": shapes.snapshot(7)}
    unknown = error(500, type="CommitStateUnknownException")
    with World() as world:
        assert world.try_attack(_commit(new, uuid="another"), through_app) == 500
        with pytest.raises(Broken, match="status 500"):
            world.try_attack(_commit({"action": "assign-uuid", "uuid": "a"}, uuid="another"), lambda *_: unknown)
        with pytest.raises(Broken, match="status 500"):
            world.try_attack(_commit(new, uuid="@uuid"), lambda *_: unknown)


def _commit(*updates: object, uuid: str | None = None) -> Attack:
    asserted = [] if uuid is None else [{"type": "assert-table-uuid", "uuid": uuid}]
    commit = {"requirements": asserted, "updates": list(updates)}
    return Attack("POST", "/v1/namespaces/logging/tables/events", body=commit)


def test_a_body_is_what_its_client_would_send() -> None:
    append = Attack("POST", "/v1/namespaces/logging/tables/new", body="@append-0")
    with World() as world, sockets() as send:
        assert world.try_attack(append, send) == 200
        assert world.try_attack(DROP, send) == 204


def test_mutations_are_made_where_they_say_and_the_words_are_written() -> None:
    body = {"a": [{"b": 1}], "c": "x"}
    assert shapes.mutated(body, [Mutation(1, "remove")]) == {"c": "x"}
    assert shapes.mutated(body, [Mutation(3, "replace", "y")]) == {"a": [{"b": "y"}], "c": "x"}
    twice = shapes.encode(shapes.mutated(body, [Mutation(4, "twice", 7)]))
    assert twice == b'{"a": [{"b": 1}], "c": "x", "c": [7]}'
    assert shapes.encode(["@digits", "\ud800"]) == b"[" + b"9" * 5_000 + b', "\\ud800"]'


def test_every_kind_of_request_has_a_shape() -> None:
    assert {each.template for each in ENDPOINTS if each.method == "POST"} == shapes.BODIES.keys()
    assert {each["action"] for each in shapes.UPDATES} >= updates.SHAPES.keys()
    kinds = {getattr(requirements, name) for name in dir(requirements) if name.startswith("ASSERT_")}
    assert {each["type"] for each in shapes.REQUIREMENTS} == kinds
