"""Tables: list, create, load, exists, drop, rename, register (REST spec: the paths under `tables`).

Only Iceberg tables exist here: GET, HEAD and DELETE of a missing table, of a Hive table or view, and of anything in a
missing namespace are 404 NoSuchTableException, after which Spark's session catalog asks Hive. But DELETE of a Hive
table whose files an Iceberg table reads is carried out here, since Spark would delete the files.
"""

from __future__ import annotations

import logging
from functools import partial

from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms.catalog.purge import Purge
from iceberg_hms.catalog.table import Table
from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.coordinator.ports import TableName
from iceberg_hms.errors import (
    InvalidInput,
    MissingFile,
    NoSuchTable,
    NotAnIcebergTable,
    NotFound,
    ReadOnly,
)
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.rest import payloads, responses, vended_credentials
from iceberg_hms.rest.access import protected
from iceberg_hms.rest.access.authorization import EVERYWHERE, Action
from iceberg_hms.rest.dispatch import RestRequest
from iceberg_hms.rest.settings import PurgePolicy

logger = logging.getLogger(__name__)

_SNAPSHOT_MODES = ("all", "refs")


def list_tables(request: RestRequest) -> Response:
    """GET tables: the Iceberg tables of a namespace, in order of their names."""
    namespace = payloads.single_namespace(request.parameters["namespace"])
    page = request.page("tables", namespace)
    if page.size is None:
        tables, more = request.catalog.list_tables(namespace), False
    else:
        tables, more = request.catalog.list_tables_after(namespace, page.after, page.size)
    # The catalog may return the namespace in another case than the client's.
    identifiers = [{"namespace": [table.namespace], "name": table.name} for table in tables]
    token = page.token(tables[-1].name) if more else None
    return responses.counted_response({"identifiers": identifiers, "next-page-token": token}, request.context.memory)


def create_table(request: RestRequest) -> Response:
    """POST tables: create a table; with `stage-create` only make its metadata, for a commit that creates it."""
    namespace = payloads.single_namespace(request.parameters["namespace"])
    fields = payloads.Fields.parse(request.body)
    identifier = (namespace, fields.text("name"))
    shape = (
        fields.object("schema"),
        fields.optional_text("location"),
        fields.optional_object("partition-spec"),
        fields.optional_object("write-order"),
        fields.string_map("properties"),
    )
    is_staged = fields.flag("stage-create")
    request.require(Action.STAGE_TABLE if is_staged else Action.CREATE_TABLE, *identifier)
    marks = protected.marks_of_new_tables(request.catalog.settings)
    request.require_protected(protected.changed(fields.string_map("properties"), marks), *identifier)
    if is_staged:
        staged = request.catalog.stage_table(identifier, *shape, client=request.client)
        return responses.table_response(
            staged.metadata.to_bytes(),
            None,
            request.context.memory,
            config=vended_credentials.config_of_new(request, staged),
        )
    configs: list[responses.TableConfig] = []

    def check(table: LoadedTable) -> None:
        configs.append(vended_credentials.config_of_new(request, table))

    created = request.catalog.create_table(identifier, *shape, client=request.client, check=check)
    return _served(request, created, configs[-1])


def load_table(request: RestRequest) -> Response:
    """GET a table: its metadata, with all snapshots or those of branches and tags; 304 if the client has this
    version."""
    mode = request.query.get("snapshots", "all").lower()
    if mode not in _SNAPSHOT_MODES:
        raise InvalidInput(f"Query parameter snapshots must be one of {', '.join(_SNAPSHOT_MODES)}")
    with payloads.missing_namespace_is(NoSuchTable, table := named_table(request)):
        try:
            loaded = request.catalog.load(table)
        except MissingFile as error:
            # With the location, as Java does: the file is the table's own. Not NoSuchTable, after which Spark would
            # read the table through Hive.
            raise NotFound(error.message) from error
    location, config = str(loaded.metadata_location), vended_credentials.config_of_loaded(request, loaded)
    tag = responses.entity_tag(responses.version_of(loaded.metadata, location), mode, config.version)
    if responses.tag_matches(request.headers.get("if-none-match"), tag):
        return responses.not_modified(tag)
    return responses.loaded_response(loaded.metadata, location, mode, request.context.loads, config)


def table_exists(request: RestRequest) -> Response:
    """HEAD a table: 204 or 404."""
    with payloads.missing_namespace_is(NoSuchTable, table := named_table(request)):
        if not request.catalog.table_exists(table):
            raise NoSuchTable(".".join(table))
    return responses.no_content()


def drop_table(request: RestRequest) -> Response:
    """DELETE a table; with `purgeRequested` its files too, as far as `rest.purge` says: those of a large table behind
    the answer. A Hive table whose files an Iceberg table reads loses its row alone."""
    purge = payloads.boolean(request.query, "purgeRequested")
    policy = request.context.settings.rest_purge
    if purge:
        request.entry.details["purge"] = policy
    with payloads.missing_namespace_is(NoSuchTable, table := named_table(request)):
        try:
            _drop_iceberg_table(request, table, purge=purge)
        except NotAnIcebergTable:
            # Spark's session catalog, which sends no purge here, goes on to Hive after a 404.
            if purge or not _drop_hive_table_in_use(request, table):
                raise
    if purge and policy == PurgePolicy.KEEP:
        logger.info("%s was dropped and its files are kept: rest.purge is keep", ".".join(table))
    return responses.no_content()


def _drop_iceberg_table(request: RestRequest, table: tuple[str, str], *, purge: bool) -> None:
    policy = request.context.settings.rest_purge
    # Who gets a 404 goes on to Hive, so a missing table is one for who may not drop or purge it, too.
    if request.context.settings.rest_read_only:
        request.catalog.pointer(table)
        raise ReadOnly
    if purge and policy == PurgePolicy.REFUSE:
        request.catalog.pointer(table)
        raise HTTPException(403, "This server purges no table (rest.purge is refuse); drop it without purge")
    if purge and policy == PurgePolicy.DELETE:
        run_purge = partial(_purge, request)
        request.catalog.purge_table(table, wait_seconds=request.seconds_left, run_purge=run_purge)
    else:
        request.catalog.drop_table(table, wait_seconds=request.seconds_left)


def _drop_hive_table_in_use(request: RestRequest, table: tuple[str, str]) -> bool:
    """Drop a Hive table without its files if an Iceberg table reads them; False if none does."""

    def check() -> None:
        if request.context.settings.rest_read_only:
            raise ReadOnly

    reader = request.catalog.drop_hive_table_in_use(table, wait_seconds=request.seconds_left, check=check)
    if reader is not None:
        request.entry.details["files_kept_for"] = str(reader)
        logger.info("the Hive table %s was dropped; its files stay, since %s reads them", ".".join(table), reader)
    return reader is not None


def _purge(request: RestRequest, purge: Purge) -> None:
    if not request.context.purges.run(purge):
        # A killed server says nothing of it: this file leads an operator to what is left.
        request.entry.details["metadata"] = purge.metadata_location


def rename_table(request: RestRequest) -> Response:
    """POST rename: rename a table, also into another namespace."""
    source, destination = payloads.renamed(request.body, NoSuchTable)
    request.entry.details["to"] = list(destination)
    for name in (destination, source):
        request.require(Action.RENAME_TABLE, *name)
    request.catalog.rename_table(source, destination, wait_seconds=request.seconds_left)
    return responses.no_content()


def register_table(request: RestRequest) -> Response:
    """POST register: make a table of an existing metadata file. It may be a file of any table, so its caller must be
    allowed to read all tables."""
    namespace = payloads.single_namespace(request.parameters["namespace"])
    fields = payloads.Fields.parse(request.body)
    identifier, file = (namespace, fields.text("name")), fields.text("metadata-location")
    overwrite = fields.flag("overwrite")
    request.entry.details["file"] = file
    request.require(Action.READ_ANY_FILE, EVERYWHERE)
    request.require(Action.REGISTER_TABLE, *identifier)

    configs: list[responses.TableConfig] = []

    def check(metadata: TableMetadata, replaced: TableMetadata | None) -> None:
        if replaced is None:
            keys = protected.changed(metadata.properties, protected.marks_of_new_tables(request.catalog.settings))
        else:
            keys = protected.replaced(metadata.properties, replaced.properties)
        request.require_protected(keys, *identifier)
        if not configs:
            # The second call is under the table's lock, which a store that hangs must not keep.
            table = LoadedTable(TableName(*identifier), file, metadata)
            configs.append(vended_credentials.config_of_new(request, table))

    try:
        registered = request.catalog.register_table(
            identifier,
            file,
            overwrite=overwrite,
            wait_seconds=request.seconds_left,
            check=check,
            owner=request.caller.name,
            client=request.client,
        )
    except MissingFile as error:
        if error.location != file:
            raise
        # With the location, which the client itself named.
        raise NotFound(error.message) from error
    return _served(request, registered, configs[-1])


def named_table(request: RestRequest) -> tuple[str, str]:
    """The table that the path names."""
    return payloads.single_level(request.parameters["namespace"], request.parameters["table"], NoSuchTable)


def _served(request: RestRequest, table: Table, config: responses.TableConfig) -> Response:
    tag = responses.entity_tag(responses.version_of(table.metadata, table.metadata_location), "all", config.version)
    return responses.table_response(
        table.metadata.to_bytes(), table.metadata_location, request.context.memory, tag=tag, config=config
    )
