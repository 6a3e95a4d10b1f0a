"""A stock client loses the answer to a commit and sends it again after the snapshot expired: no answer may let it
delete files that the table names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ValidationException

from iceberg_hms.rest.server import RestServer
from integration.faults import SCHEMA
from integration.rest_clients import TOKEN, SentCommits
from integration.rest_clients import catalog as catalog
from integration.rest_clients import sent as sent
from integration.rest_clients import server as server


def rows(*ids: int) -> Any:
    return pa.table({"id": list(ids), "name": [f"row {id_}" for id_ in ids]}, schema=SCHEMA)


#: What PyIceberg sends: appends that read the table, whole files that go, files that are written anew without a row.
VERBS: dict[str, Callable[[Any], None]] = {
    "append": lambda table: table.append(rows(9), snapshot_properties={"flink.max-committed-checkpoint-id": "7"}),
    "delete": lambda table: table.delete("id = 1"),
    "delete some rows": lambda table: table.delete("id = 2"),
    "overwrite": lambda table: table.overwrite(rows(9), "id = 1"),
}


@pytest.mark.parametrize("lists_stay", [True, False])
@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_whose_snapshot_expired_is_never_answered_as_failed(
    catalog: Any, server: RestServer, sent: SentCommits, namespace: str, verb: str, lists_stay: bool
) -> None:
    name = f"{namespace}.t"
    catalog.create_table(name, SCHEMA)
    client = load_catalog("first", type="rest", uri=server.uri, token=TOKEN)
    table = client.load_table(name)
    table.append(rows(1))
    table.append(rows(2, 3))
    VERBS[verb](table)
    assert sent.again(-1).status_code == 200, "it is in the table"
    client.load_table(name).append(rows(4))
    before = len(sent.requests) - 1
    mine = before - 1
    before_expiry = client.load_table(name).metadata
    expired = [each for each in before_expiry.snapshots if each.snapshot_id != before_expiry.current_snapshot_id]
    client.load_table(name).maintenance.expire_snapshots().by_ids([each.snapshot_id for each in expired]).commit()
    if not lists_stay:
        for snapshot in expired:
            # As Java's expireSnapshots does; PyIceberg's leaves them.
            Path(snapshot.manifest_list.removeprefix("file:")).unlink()
    wanted = sorted(client.load_table(name).scan().to_arrow()["id"].to_pylist())
    answer = sent.again(mine)
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "CommitStateUnknownException"), answer.text
    assert "delete none of its files" in answer.json()["error"]["message"]
    assert sent.again(before).status_code == 200, "this one has not expired"
    assert sorted(client.load_table(name).scan().to_arrow()["id"].to_pylist()) == wanted


def test_an_overtaken_commit_gets_a_conflict_although_others_expired(
    catalog: Any, server: RestServer, sent: SentCommits, namespace: str
) -> None:
    name = f"{namespace}.t"
    catalog.create_table(name, SCHEMA)
    client = load_catalog("first", type="rest", uri=server.uri, token=TOKEN)
    client.load_table(name).append(rows(1))
    stale = client.load_table(name)
    for number in range(3):
        client.load_table(name).append(rows(10 + number))
    metadata = client.load_table(name).metadata
    gone = [each.snapshot_id for each in metadata.snapshots if each.snapshot_id != metadata.current_snapshot_id]
    client.load_table(name).maintenance.expire_snapshots().by_ids(gone).commit()
    with pytest.raises(ValidationException, match="Cannot find starting snapshot"):
        # After the refusal PyIceberg looks at what was committed since, which has expired.
        stale.delete("id = 1")
    assert sent.statuses[-1] == 409
    assert sent.again(-1).status_code == 409
