import socket

import pytest

import iceberg_hms
from iceberg_hms.assembly import connect
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import ConfigError, MetastoreUnavailable
from iceberg_hms.metastore.locks.lock_entries import LockEntries
from tests.forking import said_by
from tests.metastore.fake_hms import pool_of, running


@pytest.fixture
def unused_tcp_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_nothing_is_connected_before_the_first_call(unused_tcp_port):
    catalog = connect(metastore_uri=f"thrift://127.0.0.1:{unused_tcp_port}", warehouse="file:/w", clients=1)
    assert catalog.settings.clients == 1
    with catalog, pytest.raises(MetastoreUnavailable, match="check that the metastore runs"):
        catalog.list_namespaces()


def test_the_public_name_is_the_same_function():
    assert iceberg_hms.connect is connect


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "no metastore is named"),
        ({"metastore_uri": "http://h:1"}, "thrift://"),
        ({"metastore_uri": "thrift://h:1", "lock": "zookeeper"}, "zookeeper.hosts"),
        ({"metastore_uri": "thrift://h:1", "zookeeper": "z:port"}, "malformed"),
        ({"metastore_uri": "thrift://h:1", "lokc": "hms"}, "lock"),
    ],
)
def test_invalid_settings_are_refused(arguments, says, monkeypatch):
    monkeypatch.delenv("ICEBERG_HMS_URI", raising=False)
    with pytest.raises(ConfigError, match=says):
        connect(**arguments)


def test_the_metastore_s_locks_are_listed_and_broken_through_the_catalog():
    name = TableName("db", "t")
    with running() as server, pool_of(server) as pool:
        entries = LockEntries(pool, "ann")
        held, waits = entries.enqueue(name, "agent-1"), entries.enqueue(name, "agent-2")
        with connect(metastore_uri=server.uri) as catalog:
            found = catalog.locks.list("db.t").locks
            assert [(lock.lock_id, lock.keeper, lock.table, lock.state) for lock in found] == [
                (str(held.lock_id), "hms", "db.t", "ACQUIRED"),
                (str(waits.lock_id), "hms", "db.t", "WAITING"),
            ]
            assert catalog.locks.break_lock(str(held.lock_id)).agent_info == "agent-1"
            assert [lock.lock_id for lock in catalog.locks.list().locks] == [str(waits.lock_id)]


def test_a_zookeeper_that_is_only_a_fallback_is_not_needed_for_tables_without_its_mark(unused_tcp_port):
    nobody = f"127.0.0.1:{unused_tcp_port}"
    with running() as server, connect(metastore_uri=server.uri, zookeeper=nobody, connect_timeout_ms=50) as catalog:
        catalog.services.ports.lock.acquire(TableName("db", "t"), wait_seconds=1, request="r").release()
        assert catalog.locks.list().problems == (f"zookeeper: ZooKeeper at {nobody} is out of reach",)


def test_settings_come_from_a_file_too(tmp_path, monkeypatch):
    file = tmp_path / "iceberg hms.toml"
    file.write_text('uri = "thrift://h:1"\nclients = 7\n')
    catalog = connect(config_file=file, clients=3)
    assert catalog.settings.metastore_uri == "thrift://h:1"
    assert catalog.settings.clients == 3
    catalog.close()


#: Forks while other threads of the parent have every mutex and every connection.
FORKING = """
import gc, os, queue, signal, sys, threading, types
import iceberg_hms
from iceberg_hms.format.manifests.manifest import DataFile

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "n", "type": "long", "required": False}]}

def mutexes(root):
    found, seen, left = [], set(), [root]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, (type, types.ModuleType)):
            continue
        seen.add(id(each))
        if isinstance(each, type(threading.Lock())):
            found.append(each)
        if isinstance(each, types.FunctionType):
            left += [cell.cell_contents for cell in each.__closure__ or ()]
        else:
            left += gc.get_referents(each)
    return found

def append(table, number):
    path = f"{warehouse}/{number}.parquet"
    report = table.append([DataFile(path, "PARQUET", partition={}, record_count=1, file_size_in_bytes=1)])
    assert events.get(timeout=10)["report"].snapshot_ids == report.snapshot_ids
    return report

def use(client):
    answers.append(client.call("get_all_databases"))
    everyone.wait()
    forked.wait()
    answers.append(client.call("get_all_databases"))

uri, warehouse = sys.argv[1:]
catalog = iceberg_hms.connect(uri, warehouse, user="ada")
events = queue.SimpleQueue()
catalog.subscribe(events.put)
table = catalog.create_table("db.t", SCHEMA, location=warehouse + "/t")
events.get(timeout=10)
append(table, 1)
pool, width = catalog.services.ports.pointer._rows._pool, catalog.settings.clients
answers, everyone, forked = [], threading.Barrier(width + 1), threading.Event()
threads = [threading.Thread(target=pool.run, args=(use,), kwargs={"idempotent": False}) for _ in range(width)]
for thread in threads:
    thread.start()
everyone.wait()
taken = [mutex for mutex in mutexes(catalog) if mutex.acquire(blocking=False)]
child = os.fork()
if child == 0:
    signal.alarm(30)
    report = append(table, 2)
    found = catalog.load_table("db.t")
    snapshots = [snapshot.snapshot_id for snapshot in found.snapshots()]
    good = snapshots[1:] == list(report.snapshot_ids) and not catalog.locks.list().locks
    catalog.close()
    os._exit(0 if good else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for mutex in taken:
    mutex.release()
forked.set()
for thread in threads:
    thread.join()
append(table, 3)
print(code, answers == [["db"]] * (2 * width), len(table.snapshots()), len(taken) > 10)
catalog.close()
"""


def test_a_forked_child_goes_on_with_a_catalog_and_its_tables_and_so_does_its_parent(tmp_path):
    with running() as server:
        assert said_by(FORKING, server.uri, f"file:{tmp_path}") == "0 True 3 True\n"
