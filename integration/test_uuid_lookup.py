"""Creations that lose a race, and tables that leave their names, on a real metastore: the server looks a table up by
its UUID in all databases before it answers that the outcome is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError

import iceberg_hms
from iceberg_hms.assembly import assemble
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.clock import SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.coordinator.ports import Refused, SwapAnswer, Swapped, TableName
from iceberg_hms.rest.server import RestServer
from integration.rest_clients import SentCommits
from integration.rest_clients import sent as sent
from integration.servers import make_namespace

TOKEN = "a-token-for-tests-alone"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "level", "required": False, "type": "string"}],
}
RACERS = 4


@pytest.fixture
def catalogs(metastore: Any) -> Iterator[list[Catalog]]:
    made = [iceberg_hms.connect(metastore_uri=metastore.uri, warehouse=metastore.warehouse) for _ in range(2)]
    yield made
    for each in made:
        each.close()


@pytest.fixture
def servers(catalogs: list[Catalog]) -> Iterator[list[RestServer]]:
    with (
        RestServer(catalogs[0], "127.0.0.1", 0, TOKEN) as first,
        RestServer(catalogs[1], "127.0.0.1", 0, TOKEN) as second,
    ):
        yield [first, second]


@pytest.fixture
def other_namespace(metastore: Any, request: pytest.FixtureRequest) -> str:
    return make_namespace(metastore, request)


def client_of(server: RestServer) -> httpx.Client:
    return httpx.Client(base_url=server.uri, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)


@pytest.mark.parametrize("races", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_of_creations_that_race_one_lands_and_the_others_are_conflicts(
    servers: list[RestServer], namespace: str, races: int
) -> None:
    """Four clients at once create one table as engines do for a query: staged, then committed, through two servers."""
    answered: Counter[tuple[int, str]] = Counter()
    left = 0
    with ThreadPoolExecutor(RACERS) as pool:
        for race in range(races):
            begin = Barrier(RACERS)
            clients = [client_of(servers[number % 2]) for number in range(RACERS)]
            racing = [pool.submit(_create, client, namespace, f"t{race}", begin) for client in clients]
            answers = [each.result() for each in racing]
            answered.update(answers)
            assert sorted(status for status, _ in answers) == [200] + [409] * (RACERS - 1), answers
            location = clients[0].get(f"/v1/namespaces/{namespace}/tables/t{race}").json()["metadata"]["location"]
            left += len(list(Path(urlsplit(location).path).glob("metadata/*.metadata.json"))) - 1
            for client in clients:
                client.close()
    # A commit endpoint calls every conflict so; Java's does as well.
    assert answered == {(200, ""): races, (409, "CommitFailedException"): races * (RACERS - 1)}
    assert left > 0, "some lost after they were sent, and what they wrote is left to a sweep"


def _create(client: httpx.Client, namespace: str, name: str, begin: Barrier) -> tuple[int, str]:
    tables = f"/v1/namespaces/{namespace}/tables"
    staged = client.post(tables, json={"name": name, "schema": SCHEMA, "stage-create": True}).json()["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": staged["format-version"]},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    begin.wait(30)
    answer = client.post(f"{tables}/{name}", json={"requirements": [{"type": "assert-create"}], "updates": updates})
    return answer.status_code, "" if answer.is_success else answer.json()["error"]["type"]


@pytest.mark.parametrize("elsewhere", [True, False], ids=["in another database", "in the same database"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_creation_that_was_made_refused_and_renamed_was_made(
    catalogs: list[Catalog], namespace: str, other_namespace: str, elsewhere: bool, taken: bool
) -> None:
    """A metastore that retries inside creates the table, tries once more, and answers that the name is taken. Meanwhile
    another writer renames the table, and perhaps a third one takes the name."""
    ours, theirs = catalogs
    name, to = TableName(namespace, "t"), TableName(other_namespace if elsewhere else namespace, "renamed")
    pointer: Any = ours.services.ports.pointer
    create = pointer.create

    def retry_inside(*arguments: Any, **more: Any) -> SwapAnswer:
        assert create(*arguments, **more) == Swapped()
        answer: SwapAnswer = create(*arguments, **more)
        assert isinstance(answer, Refused)
        theirs.rename_table(name, to)
        if taken:
            theirs.create_table(name, pa.schema([("level", pa.string())]))
        return answer

    pointer.create = retry_inside
    table = ours.create_table(name, pa.schema([("level", pa.string())]))
    renamed = theirs.load_table(to)
    assert renamed.metadata_location == table.metadata_location
    assert renamed.metadata.uuid == table.metadata.uuid


class LateClock(SystemClock):
    """A clock two minutes behind, until it is set right."""

    behind = 120.0

    def monotonic(self) -> float:
        return super().monotonic() - self.behind

    def now_ms(self) -> int:
        return super().now_ms() - int(self.behind * 1000)


@pytest.fixture
def old_server(metastore: Any, namespace: str) -> Iterator[RestServer]:
    """A server that has run for two minutes: it knows what it sent for the snapshots of the last minute."""
    clock = LateClock()
    settings = Settings.load({"metastore_uri": metastore.uri, "warehouse": metastore.warehouse}, environ={})
    with assemble(settings, clock=clock) as catalog, RestServer(catalog, "127.0.0.1", 0, TOKEN) as server:
        assert catalog.list_tables(namespace) == []
        clock.behind = 0.0
        yield server


@pytest.mark.parametrize("gone", ["renamed", "dropped", "replaced"])
@pytest.mark.parametrize("landed", [False, True])
def test_a_commit_to_a_table_that_has_left_its_name_is_refused_unless_it_may_have_landed(
    catalogs: list[Catalog],
    old_server: RestServer,
    sent: SentCommits,
    namespace: str,
    other_namespace: str,
    gone: str,
    landed: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = TableName(namespace, "t")
    catalogs[0].create_table(name, pa.schema([("level", pa.string())]))
    table = RestCatalog("rest", uri=old_server.uri, token=TOKEN).load_table((namespace, "t"))
    rows = pa.table({"level": ["info"]})
    if landed:
        table.append(rows)
    if gone == "renamed":
        catalogs[1].rename_table(name, TableName(other_namespace, "t"))
    else:
        catalogs[1].drop_table(name)
        if gone == "replaced":
            catalogs[1].create_table(name, pa.schema([("level", pa.string())]))
    if landed:
        answer = sent.again(0)
        assert (answer.status_code, answer.json()["error"]["type"]) == (500, "CommitStateUnknownException")
        where = f"its snapshot is in {other_namespace}.t" if gone == "renamed" else "dropped or renamed"
        # Its client may have no right to know where; the operator finds it by the request's id.
        (reason,) = [record.getMessage() for record in caplog.records if where in record.getMessage()]
        request_id = answer.headers["x-request-id"]
        assert request_id in answer.json()["error"]["message"]
        assert request_id in reason
    elif gone == "replaced":
        with pytest.raises(Exception, match="UUID does not match"):
            table.append(rows)
    else:
        with pytest.raises(RESTError, match="NoSuchTableException"):
            table.append(rows)
