"""PyIceberg's Catalog on our coordinator: a program that speaks PyIceberg commits through it, without a server.

    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "lake",
        **{
            "py-catalog-impl": "iceberg_hms.pyiceberg.HmsCatalog",
            "uri": "iceberg-hms+thrift://127.0.0.1:9083",
            "warehouse": "file:/data/warehouse",
        },
    )
    catalog.load_table("logging.events").append(rows)

PyIceberg plans, reads and writes data files; what commits, creates and deletes is ours. It needs the extra `pyiceberg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iceberg_hms.pyiceberg.catalog import HmsCatalog as HmsCatalog


def __getattr__(name: str) -> Any:
    if name != "HmsCatalog":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from iceberg_hms.pyiceberg import catalog
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyiceberg":
            raise
        from iceberg_hms.errors import EngineError

        raise EngineError(
            "The pyiceberg package is not installed", next_step="pip install 'iceberg-hms[pyiceberg]'"
        ) from error
    return catalog.HmsCatalog


def __dir__() -> list[str]:
    return [*globals(), "HmsCatalog"]
