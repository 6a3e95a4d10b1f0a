"""All that this package uses of PyIceberg beyond its documented names. `tests/pyiceberg/test_upstream.py` fails when a
release changes one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
import pyiceberg
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.rest import CreateTableRequest, CreateViewRequest
from pyiceberg.partitioning import PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier, TableProperties, Transaction
from pyiceberg.table.sorting import SortOrder, assign_fresh_sort_order_ids
from pyiceberg.table.update.snapshot import _FastAppendFiles, _MergeAppendFiles
from pyiceberg.typedef import IcebergBaseModel, Properties
from pyiceberg.types import transform_dict_value_to_str
from pyiceberg.utils.config import Config
from pyiceberg.view.metadata import ViewVersion

#: Named to the coordinator as PyIceberg's REST client names itself to a server.
USER_AGENT: Final = f"PyIceberg/{pyiceberg.__version__}"

#: The operations that add files, and neither read nor remove any.
APPENDS: Final = (_FastAppendFiles, _MergeAppendFiles)


def configured_properties(name: str) -> dict[str, str]:
    """What `.pyiceberg.yaml` and the environment say of a catalog."""
    found = Config().get_catalog_config(name) or {}
    return {key: str(value) for key, value in found.items() if not isinstance(value, dict)}


def create_table_request(
    name: str, schema: Any, location: str | None, spec: PartitionSpec, order: SortOrder, properties: Properties
) -> dict[str, Any]:
    """What PyIceberg's REST client sends to create a table, in the protocol's JSON. Raises ValueError (pydantic's
    ValidationError too) for a schema or a property of another type."""
    version = int(properties.get(TableProperties.FORMAT_VERSION, TableProperties.DEFAULT_FORMAT_VERSION))
    given = _iceberg_schema(schema, version)
    fresh = assign_fresh_schema_ids(given)
    fields = {
        "name": name,
        "location": location.rstrip("/") if location else None,
        "schema": fresh,
        "partition-spec": assign_fresh_partition_spec_ids(spec, given, fresh),
        "write-order": assign_fresh_sort_order_ids(order, given, fresh),
        "properties": properties,
    }
    return _body(CreateTableRequest.model_validate(fields))


def create_view_request(
    name: str, schema: Any, version: ViewVersion, location: str | None, properties: Properties
) -> dict[str, Any]:
    """As `create_table_request`, of a view."""
    fields = {
        "name": name,
        "location": location.rstrip("/") if location else None,
        "schema": assign_fresh_schema_ids(_iceberg_schema(schema, TableProperties.DEFAULT_FORMAT_VERSION)),
        "view-version": version,
        "properties": properties,
    }
    return _body(CreateViewRequest.model_validate(fields))


def commit_table_request(name: tuple[str, str], requirements: Any, updates: Any) -> dict[str, Any]:
    """As `create_table_request`, of a commit."""
    identifier = TableIdentifier(namespace=Namespace([name[0]]), name=name[1])
    return _body(CommitTableRequest(identifier=identifier, requirements=requirements, updates=updates))


def _body(request: IcebergBaseModel) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(request.model_dump_json())
    return body


def _iceberg_schema(schema: Any, version: Any) -> Schema:
    return MetastoreCatalog._convert_schema_if_needed(schema, version)


def texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """Properties of all types as texts. Raises ValueError for None."""
    return transform_dict_value_to_str(dict(properties))


def producers(transaction: Transaction) -> list[Any]:
    """The operations of a transaction that add snapshots."""
    return transaction._snapshot_producers
