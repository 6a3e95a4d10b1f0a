"""A Hive table in a real metastore becomes an Iceberg table in place, and a Hive table again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

import iceberg_hms
from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.changes.change import Change
from iceberg_hms.changes.clients.request import from_request
from iceberg_hms.clock import SYSTEM_CLOCK
from iceberg_hms.coordinator.hive_ports import HIDDEN_FOLDER, HiveRow, HiveTables
from iceberg_hms.coordinator.operations.kind_changes import KindChanges
from iceberg_hms.coordinator.ports import HIVE_TABLE, TableName
from iceberg_hms.errors import AlreadyIceberg, CommitConflict, InvalidInput, NotAnIcebergTable
from iceberg_hms.format.schema.schema import Schema
from iceberg_hms.format.updates.create import create_updates, new_table_metadata
from iceberg_hms.metastore.compare_and_swap.row_write import ALTER, PROBE_KEY
from iceberg_hms.metastore.connection.pool import ClientPool
from iceberg_hms.metastore.connection.thrift_types import FieldSchema
from iceberg_hms.metastore.tables.kind_of_row import hive_row
from iceberg_hms.testing.faults.proxy import FaultProxy
from iceberg_hms.testing.faults.script import Action, ScriptedFault
from integration.contract_checks import add_hive_table

WAIT_SECONDS: Final = 60.0
KINDS: Final = ("MANAGED_TABLE", "EXTERNAL_TABLE")
#: Iceberg's types of the columns `id int` and `p string`, and one that the row does not have.
FIELDS: Final = (("id", "long"), ("p", "string"), ("more", "string"))


@dataclass
class Lake:
    """One Hive table, `name`, with two partitions, in a database of a server."""

    server: Any
    pool: ClientPool
    catalog: Catalog
    hive: HiveTables
    kinds: KindChanges
    name: TableName
    folder: str

    def row(self) -> HiveRow:
        return self.hive.load_row(self.name)

    def record(self) -> Any:
        """The row as the metastore has it."""
        return self.row().table

    def partitions(self) -> list[str]:
        arguments = {"db_name": self.name.namespace, "tbl_name": self.name.name}
        return sorted(self.pool.ask("get_partition_names", **arguments, max_parts=-1))

    def migrate(self, row: HiveRow | None = None) -> None:
        names = self.partitions()
        self.kinds.to_iceberg(
            row or self.row(), empty_table(self.folder), partition_names=names, wait_seconds=WAIT_SECONDS
        )

    def undo(self) -> HiveRow:
        return self.kinds.to_hive(self.name, wait_seconds=WAIT_SECONDS)

    def set_property(self, key: str, value: str) -> None:
        update = {"action": "set-properties", "updates": {key: value}}
        self.catalog.commit(self.name, requirements=[], updates=[update])


def empty_table(folder: str) -> Change:
    """The creation of an Iceberg table without files."""
    fields = [
        {"id": number, "name": name, "required": False, "type": kind} for number, (name, kind) in enumerate(FIELDS, 1)
    ]
    schema = Schema.parse({"type": "struct", "schema-id": 0, "fields": fields})
    properties = {"write.metadata.path": f"{folder}/{HIDDEN_FOLDER}", "gc.enabled": "false"}
    clock = SYSTEM_CLOCK
    metadata = new_table_metadata(schema, None, None, folder, properties, uuid=clock.uuid(), now_ms=clock.now_ms())
    return from_request([{"type": "assert-create"}], create_updates(metadata))


@contextmanager
def lake(server: Any, namespace: str, kind: str, *, uri: str = "") -> Iterator[Lake]:
    """uri: through which the catalog reaches the server."""
    name, folder = TableName(namespace, "t"), f"{server.warehouse}/{namespace}.db/t"
    pool = ClientPool([server.uri], size=2)
    try:
        add_hive_table(pool, name, folder, kind, {"colour": "red"}, [f"{folder}/p=0", f"{folder}/p=1"])
        with iceberg_hms.connect(metastore_uri=uri or server.uri, warehouse=server.warehouse) as catalog:
            hive = catalog.services.hive_tables
            kinds = catalog.services.coordinator.kind_changes(hive)
            yield Lake(server, pool, catalog, hive, kinds, name, folder)
    finally:
        pool.close()


def check_there_and_back(server: Any, namespace: str, kind: str) -> None:
    """A table is migrated, committed to, and undone; and then once more, to stay."""
    with lake(server, namespace, kind) as there:
        before, partitions = there.record(), there.partitions()
        assert len(partitions) == 2
        there.migrate()
        table = there.catalog.load_table(there.name)
        assert table.metadata.location == there.folder
        there.set_property("colour", "blue")
        pointer = there.catalog.pointer(there.name)
        assert (pointer.parameters["colour"], pointer.parameters["EXTERNAL"]) == ("blue", "TRUE")
        assert pointer.table.tableType == "EXTERNAL_TABLE"
        assert there.partitions() == partitions
        with pytest.raises(AlreadyIceberg, match="migrate --undo"):
            there.migrate(there.hive.decode(there.name, there.hive.encode(_as_read(before, there))))

        there.undo()
        with pytest.raises(NotAnIcebergTable):
            there.catalog.load_table(there.name)
        assert comparable(there.record()) == comparable(before)
        assert there.partitions() == partitions
        files = there.catalog.services.ports.files
        assert list(files.list_files(f"{there.folder}/{HIDDEN_FOLDER}")) == []

        _check_kept(there, partitions)


def _check_kept(there: Lake, partitions: list[str]) -> None:
    there.migrate()
    there.kinds.keep(there.name, wait_seconds=WAIT_SECONDS)
    pointer = there.catalog.pointer(there.name)
    metadata = there.catalog.load_table(there.name).metadata
    assert HIVE_TABLE not in pointer.parameters
    assert not {"gc.enabled", "write.metadata.path"} & metadata.properties.keys()
    assert [column.name for column in pointer.table.sd.cols] == ["id", "more"], "`p` is a partition key of the row"
    assert [column.name for column in pointer.table.partitionKeys] == ["p"]
    with pytest.raises(InvalidInput, match="--keep"):
        there.undo()
    assert there.partitions() == partitions
    there.catalog.drop_table(there.name)


def check_changed_meanwhile(server: Any, namespace: str) -> None:
    """A Hive table that is not what its files were listed for stays as it is."""
    with lake(server, namespace, KINDS[1]) as there:
        read = there.row()
        changed = there.record()
        changed.sd.cols = [*changed.sd.cols, FieldSchema(name="late", type="string")]
        there.pool.call_once("alter_table", dbname=there.name.namespace, tbl_name=there.name.name, new_tbl=changed)
        before = there.record()
        with pytest.raises(CommitConflict, match="columns"):
            there.migrate(read)
        other = [*there.partitions()[:1], "p=other"]
        with pytest.raises(CommitConflict, match="1 of its partitions are new, and 1 are gone"):
            there.kinds.to_iceberg(
                there.row(), empty_table(there.folder), partition_names=other, wait_seconds=WAIT_SECONDS
            )
        assert there.record() == before
        assert list(there.catalog.services.ports.files.list_files(there.folder)) == []


def check_lost_calls(server: Any, namespace: str, action: Action) -> None:
    """Each alter of a migration and of its undo goes wrong once, where alters compare atomically."""
    with FaultProxy(server.uri) as proxy, lake(server, namespace, KINDS[0], uri=proxy.uri) as there:
        before, partitions = there.record(), there.partitions()
        lost = [_on_alter(proxy, action, lambda request: there.folder.encode() in request)]
        there.migrate()
        assert there.catalog.pointer(there.name).hive_table
        lost.append(_on_alter(proxy, action, lambda request: b"undone-" in request))
        # The mark is gone in the alter that removes it.
        lost.append(_on_alter(proxy, action, lambda request: b"undone-" not in request))
        there.undo()
        assert comparable(there.record()) == comparable(before)
        assert there.partitions() == partitions
        assert all(each.done(WAIT_SECONDS) for each in lost)


def _on_alter(proxy: FaultProxy, action: Action, only: Callable[[bytes], bool]) -> ScriptedFault:
    return proxy.on(ALTER, action, only=lambda request: PROBE_KEY.encode() not in request and only(request))


def _as_read(record: Any, there: Lake) -> HiveRow:
    return hive_row(there.name, record)


def comparable(record: Any) -> Mapping[str, Any]:
    """A row without when it was changed last."""
    fields = dict(vars(record))
    fields["parameters"] = {key: each for key, each in record.parameters.items() if key != "transient_lastDdlTime"}
    return fields
