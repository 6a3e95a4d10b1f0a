"""Short-lived credentials for clients that ask for them, narrowed to the folders of one table (REST spec:
LoadTableResult, LoadCredentialsResponse, X-Iceberg-Access-Delegation).

    what the caller may do with the table       what its credentials do in the table's folders
    commit to it                                read, write, delete, list
    load it                                     read, list

They are in `storage-credentials`, and in `config` too: Trino, and PyIceberg for a table that it stages, read only that.
There is one entry, since Java's client takes no more when it asks for new ones (VendedCredentialsProvider).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, Final
from urllib.parse import quote

import orjson
from starlette.responses import Response

from iceberg_hms.catalog.locations import folders_of
from iceberg_hms.catalog.services import CredentialVending
from iceberg_hms.catalog.table_access import LoadedTable
from iceberg_hms.errors import LocationNotAllowed, NoSuchTable
from iceberg_hms.rest.access.authorization import Action
from iceberg_hms.rest.client_planning import table_properties
from iceberg_hms.rest.dispatch import RestRequest
from iceberg_hms.rest.payloads import asks_for_credentials, missing_namespace_is, single_level
from iceberg_hms.rest.responses import TableConfig, json_response, never_stored
from iceberg_hms.rest.warehouses import DEFAULT_WAREHOUSE

logger = logging.getLogger(__name__)

#: Where Java's S3FileIO asks for new credentials, five minutes before they expire; a path below the catalog's address.
_REFRESH_ENDPOINT: Final = "client.refresh-credentials-endpoint"
_ACCESS_KEY: Final = "s3.access-key-id"


def config_of_loaded(request: RestRequest, table: LoadedTable) -> TableConfig:
    """What the client gets with a table that exists. A table whose folder is none of the caller's, or that the store
    cannot narrow credentials to, comes without them: the client may have its own. Raises CredentialsUnavailable."""
    return _config_of(request, table, _made)


def config_of_new(request: RestRequest, table: LoadedTable) -> TableConfig:
    """The same for a table that is about to be made or staged, with folders that were checked for its caller. Called
    before anything is changed, so that an outage of the store's token service changes nothing."""
    return _config_of(request, table, _made_of_new)


def credentials_of_plan(request: RestRequest, table: LoadedTable) -> bytes:
    """What the client gets with a plan, as a JSON list; nothing where a load comes without credentials.

    Java's client makes a FileIO of the catalog's properties and these alone, so they say where the store is, too."""
    found = _made_for(request, table, _made)
    if found is None:
        return b""
    vending, made = found
    return orjson.dumps(
        [_entry(table, replace(made, properties={**_public(request, vending, table), **made.properties}))]
    )


def load_credentials(request: RestRequest) -> Response:
    """GET credentials: new ones, for a table of which the client has some that expire. Raises LocationNotAllowed where
    a load comes without them."""
    vending = request.context.vending
    name = single_level(request.parameters["namespace"], request.parameters["table"], NoSuchTable)
    with missing_namespace_is(NoSuchTable, name):
        table = request.catalog.load(name)
    made = None if vending is None else _made(request, vending, table)
    return never_stored(json_response({"storage-credentials": [] if made is None else [_entry(table, made)]}))


@dataclass(frozen=True, slots=True, repr=False)
class _Made:
    """The folders of a table, and the credentials for them."""

    folders: Sequence[str]
    properties: Mapping[str, str]


def _made(request: RestRequest, vending: CredentialVending, table: LoadedTable) -> _Made | None:
    """None for a table that has no folder in the store."""
    writes = not request.context.settings.rest_read_only and request.may(Action.COMMIT, table.name.namespace)
    may = partial(request.may, Action.COMMIT if writes else Action.LOAD_TABLE)
    folders = request.catalog.client_folders(table, may, vending.serves)
    return _Made(folders, vending.vend(folders, write=writes)) if folders else None


def _made_of_new(_request: RestRequest, vending: CredentialVending, table: LoadedTable) -> _Made | None:
    """As `_made`."""
    folders = [folder for _, folder in folders_of(table.metadata, vending.serves)]
    return _Made(folders, vending.vend(folders, write=True)) if folders else None


_Make = Callable[[RestRequest, CredentialVending, LoadedTable], _Made | None]


def _made_for(request: RestRequest, table: LoadedTable, make: _Make) -> tuple[CredentialVending, _Made] | None:
    """None for a client that does not ask, and for a table that comes without credentials."""
    vending, made = request.context.vending, None
    if vending is not None and asks_for_credentials(request.headers):
        try:
            made = make(request, vending, table)
        except LocationNotAllowed as error:
            logger.info("%s comes without credentials: %s", table.name, error.message)
    return None if vending is None or made is None else (vending, made)


def _config_of(request: RestRequest, table: LoadedTable, make: _Make) -> TableConfig:
    found = _made_for(request, table, make)
    return request.context.config_of(table.metadata) if found is None else _config(request, *found, table)


def _public(request: RestRequest, vending: CredentialVending, table: LoadedTable) -> Mapping[str, str]:
    """What clients need besides, without secrets."""
    warehouse, name = request.context.warehouse, table.name
    prefix = "" if warehouse == DEFAULT_WAREHOUSE else f"{quote(warehouse, safe='')}/"
    return {
        **vending.client_properties,
        _REFRESH_ENDPOINT: f"v1/{prefix}namespaces/{quote(name.namespace, safe='')}/tables/{quote(name.name, safe='')}"
        "/credentials",
        **table_properties(request.context.settings, table.metadata),
    }


def _config(request: RestRequest, vending: CredentialVending, made: _Made, table: LoadedTable) -> TableConfig:
    public = _public(request, vending, table)
    return TableConfig(
        orjson.dumps({**public, **made.properties}),
        orjson.dumps([_entry(table, made)]),
        orjson.dumps([public, made.properties.get(_ACCESS_KEY)]),
    )


def _entry(table: LoadedTable, made: _Made) -> dict[str, Any]:
    """A StorageCredential. PyIceberg looks at the prefix of the metadata file alone."""
    spelled = [f"{folder.rstrip('/')}/" for folder in made.folders]
    if table.metadata_location is not None:
        spelled.append(table.metadata_location)
    return {"prefix": _common(spelled), "config": made.properties}


def _common(locations: Sequence[str]) -> str:
    """What all begin with, up to a slash. `s3:` and `s3a:` have only `s3` in common."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*locations, strict=False))
    common = "".join(letters[0] for letters in alike)
    return common[: common.rfind("/") + 1] or common
