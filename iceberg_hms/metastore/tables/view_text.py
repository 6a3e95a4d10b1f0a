"""The SQL in an Iceberg view's row, and the parameters by which Spark resolves its names.

Hive reads views from the row. So does Spark, with Iceberg's extensions too: in the session catalog it looks names up in
the metastore before Iceberg's rule for views.
"""

from __future__ import annotations

from typing import Final

from iceberg_hms.format.views.view_metadata import ViewMetadata
from iceberg_hms.metastore.connection.storable import PARAMETERS_MAX, VALUE_MAX, fits

_HIVE: Final = "hive"
_SPARK: Final = "spark"
#: The property by which Iceberg's Spark names the columns of a view's query, joined with commas.
_QUERY_COLUMNS: Final = "spark.query-column-names"
#: What Spark calls its session catalog.
_SESSION_CATALOG: Final = "spark_catalog"
#: Spark's own parameters: the current catalog and database when the view was made.
_NAMESPACE: Final = "view.catalogAndNamespace."


def row_sql(metadata: ViewMetadata) -> str | None:
    """The SQL for the row: Hive's, else the first, as Java's HiveCatalog takes it; None without any."""
    return metadata.current_version.sql_for(_HIVE)


def expanded_sql(metadata: ViewMetadata) -> str | None:
    """The row's SQL with the view's own column names, as Hive expands it; None without any.

    Hive and Spark look for the view's columns by name in this text. `CREATE VIEW v (one) AS SELECT a` keeps `SELECT a`
    in Iceberg's metadata, and the names of the query's columns in a property of Iceberg's Spark.
    """
    sql = row_sql(metadata)
    listed = metadata.properties.get(_QUERY_COLUMNS)
    if sql is None or not listed or not _is_sparks(metadata):
        return sql
    names, columns = [field.name for field in metadata.schema.fields], listed.split(",")
    # No one can split names that have commas in them, and equal names are ambiguous.
    if columns == names or len(columns) != len(names) or len({column.lower() for column in columns}) != len(columns):
        return sql
    renamed = ", ".join(f"{_quoted(column)} AS {_quoted(name)}" for column, name in zip(columns, names, strict=True))
    # The line break ends a comment in the SQL.
    return f"SELECT {renamed} FROM (\n{sql}\n) AS `view`"  # noqa: S608 - the view is SQL of its author's


def set_spark_parameters(parameters: dict[str, str], metadata: ViewMetadata) -> None:
    """Say in a row's parameters where Spark finds the tables that the row's SQL names without a database."""
    for key in [key for key in parameters if key.startswith(_NAMESPACE)]:
        del parameters[key]
    version = metadata.current_version
    namespace = version.raw["default-namespace"]
    parts = [version.raw.get("default-catalog") or _SESSION_CATALOG, *namespace]
    is_held = len(parts) <= PARAMETERS_MAX and all(fits(part, VALUE_MAX) for part in parts)
    if namespace and _SPARK in version.dialects and is_held:
        parameters[f"{_NAMESPACE}numParts"] = str(len(parts))
        parameters |= {f"{_NAMESPACE}part.{number}": part for number, part in enumerate(parts)}


def _is_sparks(metadata: ViewMetadata) -> bool:
    texts = metadata.current_version.sql_representations
    return _HIVE not in metadata.current_version.dialects and texts[0]["dialect"].lower() == _SPARK


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
