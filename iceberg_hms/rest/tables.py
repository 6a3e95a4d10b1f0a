"""Tables: list, create, load, exists, drop, rename, register, metrics (REST spec: the paths under `tables`).

What is not an Iceberg table is not there: GET, HEAD and DELETE of a missing table, of a Hive table or view, and of
anything in a missing namespace are 404 NoSuchTableException, and Spark's session catalog then asks Hive.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.responses import Response

from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import CorruptFile, InvalidInput, NoSuchNamespace, NoSuchTable
from iceberg_hms.rest.answers import (
    entity_tag,
    json_response,
    loaded_response,
    no_content,
    not_modified,
    table_response,
    tag_matches,
    version_of,
)
from iceberg_hms.rest.dispatch import Call
from iceberg_hms.rest.payloads import (
    CreateTable,
    Fields,
    Page,
    RegisterTable,
    RenameTable,
    boolean,
    parse_object,
    single_level_table,
    single_namespace,
)

_SNAPSHOT_MODES = ("all", "refs")


def list_tables(call: Call) -> Response:
    """GET tables: the Iceberg tables of a namespace, in order of their names."""
    page = Page.parse(call.query)
    namespace = single_namespace(call.parameters["namespace"])
    # The catalog may spell the namespace in another case than the client did; names are unique either way.
    found = {table.name: table for table in call.catalog.list_tables(namespace)}
    names, token = page.cut(list(found))
    identifiers = [{"namespace": [found[name].namespace], "name": name} for name in names]
    return json_response({"identifiers": identifiers, "next-page-token": token})


def create_table(call: Call) -> Response:
    """POST tables: create a table, or with `stage-create` only work out its metadata, for a commit that creates it."""
    namespace = single_namespace(call.parameters["namespace"])
    request = CreateTable.parse(call.body)
    identifier = (namespace, request.name)
    shape = (request.schema, request.partition_spec, request.write_order, request.location, request.properties)
    if request.stage:
        return table_response(call.catalog.stage_table(identifier, *shape).metadata.to_bytes(), None)
    return _served(call.catalog.create_table(identifier, *shape))


def load_table(call: Call) -> Response:
    """GET a table: its metadata, whole or with the snapshots of branches and tags only; 304 if the client has it."""
    mode = call.query.get("snapshots", "all").lower()
    if mode not in _SNAPSHOT_MODES:
        raise InvalidInput(f"Query parameter snapshots must be one of {', '.join(_SNAPSHOT_MODES)}")
    with _missing_namespace_is_missing_table(table := named_table(call)):
        loaded = call.catalog.load(table)
    if loaded.metadata_location is None:
        raise NoSuchTable(".".join(table))
    tag = entity_tag(version_of(loaded.metadata, loaded.metadata_location), mode)
    if tag_matches(call.headers.get("if-none-match"), tag):
        return not_modified(tag)

    return loaded_response(loaded.metadata, loaded.metadata_location, mode, call.context.bodies)


def table_exists(call: Call) -> Response:
    """HEAD a table: 204 or 404."""
    with _missing_namespace_is_missing_table(table := named_table(call)):
        if not call.catalog.table_exists(table):
            raise NoSuchTable(".".join(table))
    return no_content()


def drop_table(call: Call) -> Response:
    """DELETE a table, with its files if `purgeRequested`."""
    purge = boolean(call.query, "purgeRequested")
    with _missing_namespace_is_missing_table(table := named_table(call)):
        call.catalog.drop_table(table, purge=purge, wait_seconds=call.seconds_left)
    return no_content()


def rename_table(call: Call) -> Response:
    """POST rename: a table gets another name, in another namespace if need be."""
    request = RenameTable.parse(call.body)
    call.catalog.rename_table(request.source, request.destination, wait_seconds=call.seconds_left)
    return no_content()


def register_table(call: Call) -> Response:
    """POST register: a table from a metadata file that is there already."""
    namespace = single_namespace(call.parameters["namespace"])
    request = RegisterTable.parse(call.body)
    identifier = (namespace, request.name)
    try:
        made = call.catalog.register_table(
            identifier, request.metadata_location, overwrite=request.overwrite, wait_seconds=call.seconds_left
        )
    except CorruptFile as error:
        if error.location != request.metadata_location:
            raise
        # The file is the client's input here; elsewhere a damaged file is the table's misfortune.
        raise InvalidInput(error.message, next_step="name another metadata file; nothing was registered") from error
    return _served(made)


def report_metrics(call: Call) -> Response:
    """POST metrics: accepted, checked for its shape, counted as a request, and not kept."""
    Fields(parse_object(call.body)).text("report-type")
    return no_content()


def named_table(call: Call) -> tuple[str, str]:
    """The table that the path names."""
    return single_level_table(call.parameters["namespace"], call.parameters["table"])


def _served(table: Table) -> Response:
    tag = entity_tag(version_of(table.metadata, table.metadata_location), "all")
    return table_response(table.metadata.to_bytes(), table.metadata_location, tag=tag)


@contextmanager
def _missing_namespace_is_missing_table(table: tuple[str, str]) -> Iterator[None]:
    try:
        yield
    except NoSuchNamespace as error:
        raise NoSuchTable(".".join(table)) from error
