"""A program by PyIceberg that does all that a catalog and its tables can, and what others see after each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType
from pyiceberg.view.metadata import ViewVersion

from iceberg_hms.coordinator.ports import Files
from iceberg_hms.format.locations import Location, parse

FIRST = pa.schema([("id", pa.int32()), ("level", pa.string()), ("price", pa.float32())])
LATER = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("price", pa.float64()), ("note", pa.string())])


def first(*ids: int, level: str = "info") -> pa.Table:
    """Rows of the first schema."""
    return pa.table([list(ids), [level] * len(ids), [each / 2 for each in ids]], schema=FIRST)


def later(*ids: int, kind: str = "info", note: str | None = None) -> pa.Table:
    """Rows of the schema after it changed."""
    return pa.table([list(ids), [kind] * len(ids), [each / 2 for each in ids], [note] * len(ids)], schema=LATER)


@dataclass
class Run:
    """The program on one catalog. namespace: its own; location: of the namespace. files: of the store, seen by another
    than PyIceberg."""

    catalog: Catalog
    namespace: str
    location: str
    files: Files

    @property
    def incoming(self) -> str:
        """A data file that another program wrote."""
        return f"{self.location}/incoming.parquet"

    @property
    def name(self) -> tuple[str, str]:
        return self.namespace, "events"

    @property
    def table(self) -> Any:
        return self.catalog.load_table(self.name)

    def other(self, name: str) -> tuple[str, str]:
        return self.namespace, name


#: What a step returns must be the same on every catalog.
Step = Callable[[Run], object]
STEPS: list[Step] = []


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


@step
def create_namespace(run: Run) -> object:
    run.catalog.create_namespace(run.namespace, {"purpose": "test", "location": run.location})
    run.catalog.create_namespace_if_not_exists(run.namespace)
    return run.catalog.namespace_exists(run.namespace), (run.namespace,) in run.catalog.list_namespaces()


@step
def update_namespace_properties(run: Run) -> object:
    done = run.catalog.update_namespace_properties(run.namespace, {"purpose", "missing"}, {"team": "a"})
    return sorted(done.removed), sorted(done.updated), sorted(done.missing)


@step
def create_table(run: Run) -> object:
    table = run.catalog.create_table(run.name, FIRST, properties={"owner-team": "a", "commit.retry.num-retries": 3})
    again = run.catalog.create_table_if_not_exists(run.name, FIRST)
    try:
        run.catalog.create_table(run.name, FIRST)
    except TableAlreadyExistsError:
        return table.scan().to_arrow().num_rows, again.metadata.table_uuid == table.metadata.table_uuid
    return "made twice"


@step
def append(run: Run) -> object:
    table = run.table
    table.append(first(1, 2, 3), snapshot_properties={"job": "one"})
    return table.scan().count(), table.metadata.current_snapshot().summary["job"]


@step
def append_of_a_reader(run: Run) -> object:
    run.table.append(pa.RecordBatchReader.from_batches(FIRST, first(4, 5, 6, level="warn").to_batches()))
    return None


@step
def add_files(run: Run) -> object:
    table = run.table
    with table.io.new_output(run.incoming).create() as file:
        pq.write_table(first(7, 8, level="error"), file)
    table.add_files([run.incoming])
    try:
        table.add_files([run.incoming])
    except ValueError:
        return "once"
    return "twice"


@step
def overwrite(run: Run) -> object:
    run.table.overwrite(first(30, 60, level="warn"), overwrite_filter="id in (3, 6)")
    return None


@step
def delete(run: Run) -> object:
    run.table.delete("id = 1")
    return None


@step
def delete_that_finds_nothing(run: Run) -> object:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        run.table.delete("id > 1000")
    return [str(each.message) for each in warned]


@step
def upsert(run: Run) -> object:
    done = run.table.upsert(pa.concat_tables([first(2, level="fatal"), first(9)]), join_cols=["id"])
    return done.rows_updated, done.rows_inserted


@step
def evolve_the_schema(run: Run) -> object:
    with run.table.update_schema() as update:
        update.add_column("note", StringType(), "what else there is to say")
        update.rename_column("level", "kind")
        update.update_column("id", field_type=LongType())
        update.update_column("price", field_type=DoubleType())
    return None


@step
def append_with_the_new_schema(run: Run) -> object:
    run.table.append(later(10, 11, note="new"))
    return None


@step
def lose_to_another_schema(run: Run) -> object:
    table = run.table
    update = table.update_schema().add_column("late", IntegerType())
    with run.table.update_schema() as other:
        other.make_column_optional("note")
        other.add_column("soon", IntegerType())
    try:
        update.commit()
    except Exception as error:  # noqa: BLE001 - its kind is what the catalogs are compared by
        return type(error).__name__
    return "committed"


@step
def drop_a_column(run: Run) -> object:
    with run.table.update_schema() as update:
        update.delete_column("soon")
    return None


@step
def update_spec(run: Run) -> object:
    with run.table.update_spec() as update:
        update.add_field("kind", IdentityTransform(), "kind")
        update.add_field("id", BucketTransform(4), "id_bucket")
    return None


@step
def append_to_partitions(run: Run) -> object:
    run.table.append(pa.concat_tables([later(12, 13), later(14, kind="warn")]))
    return None


@step
def remove_a_partition_field(run: Run) -> object:
    with run.table.update_spec() as update:
        update.remove_field("id_bucket")
    run.table.append(later(22, kind="warn"))
    return None


@step
def dynamic_partition_overwrite(run: Run) -> object:
    run.table.dynamic_partition_overwrite(later(15, 16, kind="warn", note="instead"))
    return None


@step
def update_sort_order(run: Run) -> object:
    with run.table.update_sort_order() as update:
        update.asc("id", IdentityTransform())
        update.desc("kind", IdentityTransform())
    return None


@step
def set_and_remove_properties(run: Run) -> object:
    with run.table.transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "50", "team": "b"})
        transaction.remove_properties("owner-team")
    return None


@step
def create_tag_and_branch(run: Run) -> object:
    table = run.table
    now = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(now, "end-of-day").create_branch(now, "audit").commit()
    return None


@step
def write_to_a_branch(run: Run) -> object:
    table = run.table
    table.append(later(17, kind="audit"), branch="audit")
    table.overwrite(later(18, kind="audit"), overwrite_filter="id = 17", branch="audit")
    table.delete("id = 10", branch="audit")
    return sorted(table.scan().use_ref("audit").to_arrow()["id"].to_pylist())


@step
def several_verbs_in_one_transaction(run: Run) -> object:
    with run.table.transaction() as transaction:
        transaction.append(later(19))
        transaction.delete("id = 19")
        transaction.append(later(20))
        transaction.set_properties({"team": "c"})
    return None


@step
def roll_back(run: Run) -> object:
    table = run.table
    table.manage_snapshots().rollback_to_snapshot(table.metadata.refs["end-of-day"].snapshot_id).commit()
    return None


@step
def append_after_the_rollback(run: Run) -> object:
    run.table.append(later(21))
    return None


@step
def set_the_current_snapshot_to_a_branch(run: Run) -> object:
    run.table.manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    return None


@step
def scan(run: Run) -> object:
    table = run.table
    tagged = table.metadata.refs["end-of-day"].snapshot_id
    earlier = table.scan(row_filter="price >= 5", selected_fields=("id", "kind"), snapshot_id=tagged).to_arrow()
    return (
        sorted(earlier.to_pylist(), key=str),
        table.scan(limit=3).to_arrow().num_rows,
        table.scan().filter("kind == 'info'").count(),
        sum(batch.num_rows for batch in table.scan().to_arrow_batch_reader()),
    )


@step
def inspect(run: Run) -> object:
    tables = run.table.inspect
    partitions = tables.partitions().select(["partition", "record_count", "file_count"])
    return (
        tables.snapshots()["operation"].to_pylist(),
        [(each["name"], each["type"]) for each in tables.refs().to_pylist()],
        sorted(partitions.to_pylist(), key=str),
        sorted(tables.files()["record_count"].to_pylist()),
        sorted(tables.entries()["status"].to_pylist()),
        len(tables.manifests()),
    )


@step
def history(run: Run) -> object:
    return len(run.table.history())


@step
def expire_snapshots(run: Run) -> object:
    table = run.table
    named = {each.snapshot_id for each in table.metadata.refs.values()}
    gone = [each.snapshot_id for each in table.snapshots() if each.snapshot_id not in named][:3]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    return None


@step
def remove_tag_and_branch(run: Run) -> object:
    run.table.manage_snapshots().remove_tag("end-of-day").remove_branch("audit").commit()
    return None


@step
def create_table_transaction(run: Run) -> object:
    with run.catalog.create_table_transaction(run.other("made"), FIRST, properties={"team": "d"}) as transaction:
        with transaction.update_schema() as update:
            update.add_column("note", StringType())
        with transaction.update_spec() as spec:
            spec.add_identity("level")
        transaction.append(first(1, 2).append_column("note", pa.array(["a", "b"])))
    return None


@step
def create_what_another_made_meanwhile(run: Run) -> object:
    late = run.catalog.create_table_transaction(run.other("raced"), FIRST)
    late.append(first(1))
    run.catalog.create_table(run.other("raced"), FIRST).append(first(2))
    try:
        late.commit_transaction()
    except Exception as error:  # noqa: BLE001 - its kind is what the catalogs are compared by
        return type(error).__name__
    return "committed"


@step
def rename_table(run: Run) -> object:
    renamed = run.catalog.rename_table(run.other("made"), run.other("renamed"))
    renamed.append(first(3).append_column("note", pa.array(["c"])))
    return run.catalog.table_exists(run.other("made")), run.catalog.table_exists(run.other("renamed"))


@step
def drop_and_register(run: Run) -> object:
    location = run.catalog.load_table(run.other("renamed")).metadata_location
    run.catalog.drop_table(run.other("renamed"))
    registered = run.catalog.register_table(run.other("registered"), location)
    return registered.metadata_location == location


@step
def load_what_is_not_there(run: Run) -> object:
    try:
        run.catalog.load_table(run.other("renamed"))
    except NoSuchTableError:
        return "no such table"
    return "loaded"


@step
def drop_a_namespace_with_tables(run: Run) -> object:
    try:
        run.catalog.drop_namespace(run.namespace)
    except NamespaceNotEmptyError:
        return "not empty"
    return "dropped"


@step
def views(run: Run) -> object:
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_600_000_000_000,
        "summary": {"engine": "test"},
        "representations": [{"type": "sql", "sql": "SELECT id FROM events", "dialect": "spark"}],
        "default-namespace": [run.namespace],
    }
    try:
        made = run.catalog.create_view(
            run.other("ids"), Schema.model_validate(_ID), ViewVersion.model_validate(version)
        )
    except NotImplementedError:
        return "no views"
    listed = run.catalog.list_views(run.namespace)
    loaded = run.catalog.load_view(run.other("ids"))
    run.catalog.drop_view(run.other("ids"))
    sql = loaded.current_version().representations[0].root.sql
    return (
        listed == [run.other("ids")],
        sql,
        made.schema() == loaded.schema(),
        run.catalog.view_exists(run.other("ids")),
    )


_ID = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


@step
def purge(run: Run) -> object:
    table = run.table
    before = _files(run, table.location())
    entries = [table.inspect.entries(each.snapshot_id).to_pylist() for each in table.snapshots()]
    reachable = {entry["data_file"]["file_path"] for each in entries for entry in each}
    reachable |= set(table.inspect.all_manifests()["path"].to_pylist())
    reachable |= {each.manifest_list for each in table.snapshots()}
    reachable |= {each.metadata_file for each in table.metadata.metadata_log} | {table.metadata_location}
    try:
        run.catalog.purge_table(run.name)
    except NotImplementedError:
        run.catalog.drop_table(run.name)
        return "no purge"
    # PyIceberg's expiration keeps the files of what expired, and a purge knows of none of those.
    wrong = _files(run, table.location()) ^ (before - set(map(parse, reachable)))
    return sorted(map(str, wrong)) or "what was the table's is gone"


def _files(run: Run, location: str) -> set[Location]:
    return {parse(each.location) for each in run.files.list_files(location)}


@step
def the_file_that_was_added(run: Run) -> object:
    return parse(run.incoming) in _files(run, run.location)


@step
def drop_namespace(run: Run) -> object:
    for name in run.catalog.list_tables(run.namespace):
        run.catalog.drop_table(name)
    run.catalog.drop_namespace(run.namespace)
    return run.catalog.namespace_exists(run.namespace)


def state(run: Run) -> dict[str, Any]:
    """What a reader sees of each table: rows, schema, partition spec, sort order, refs, snapshots and properties. What
    is random is left out: ids of snapshots become their places in the table's list of them."""
    if not run.catalog.namespace_exists(run.namespace):
        return {}
    tables = map(run.catalog.load_table, run.catalog.list_tables(run.namespace))
    return {table.name()[1]: _table_state(table) for table in tables}


def _table_state(table: Any) -> dict[str, Any]:
    metadata = table.metadata
    places = {each.snapshot_id: place for place, each in enumerate(metadata.snapshots)}
    return {
        "rows": {
            name: sorted(table.scan(snapshot_id=ref.snapshot_id).to_arrow().to_pylist(), key=str)
            for name, ref in metadata.refs.items()
        },
        "refs": {name: (ref.snapshot_ref_type, places[ref.snapshot_id]) for name, ref in metadata.refs.items()},
        "current": places.get(metadata.current_snapshot_id),
        "snapshots": [
            (places.get(each.parent_snapshot_id), each.summary.operation, _counts(each.summary.additional_properties))
            for each in metadata.snapshots
        ],
        "schema": (table.schema().schema_id, [str(column) for column in table.schema().columns]),
        "schemas": [schema.schema_id for schema in metadata.schemas],
        "spec": str(table.spec()),
        "specs": [str(spec) for spec in metadata.partition_specs],
        "order": str(table.sort_order()),
        "properties": dict(metadata.properties),
        "format": metadata.format_version,
    }


def _counts(summary: dict[str, str]) -> dict[str, str]:
    """What a snapshot's summary says, but for bytes, which depend on the names of folders."""
    return {key: value for key, value in summary.items() if not key.endswith("-size")}
