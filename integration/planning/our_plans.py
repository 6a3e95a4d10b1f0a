"""What our planner says a scan of a table reads, in the shape in which plans are compared."""

from __future__ import annotations

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.expressions.expression import Expression
from iceberg_hms.format.metadata.table_metadata import TableMetadata
from iceberg_hms.planning import layout
from iceberg_hms.planning.planner import DELETES, RESIDUAL, ScanPlanner
from iceberg_hms.planning.request import ScanRequest
from integration.planning.compared import Plan, Planned, of_ours


def our_planner(catalog: Catalog, metadata: TableMetadata, request: ScanRequest) -> ScanPlanner:
    """A planner with the catalog's readers."""
    return ScanPlanner(metadata, request, catalog.manifests(), catalog.services.manifest_columns)


def our_plan(catalog: Catalog, metadata: TableMetadata, where: Expression, *, case_sensitive: bool = True) -> Plan:
    """A scan of the current snapshot. Raises AssertionError for a file that is there twice."""
    planner = our_planner(catalog, metadata, ScanRequest(filter=where, case_sensitive=case_sensitive))
    rows: list[tuple[str, int, list[int] | None]] = []
    for planned in planner.plan():
        columns = [planned.columns.column(name).to_pylist() for name in (layout.FILE_PATH, RESIDUAL, DELETES)]
        rows += zip(*columns, strict=True)
    residuals = of_ours(planner.residuals, metadata.schema, case_sensitive=case_sensitive)
    deletes = [(each.data_file.file_path, each.data_file.content_offset) for each in planner.delete_files]
    whole = [Planned(each) for each in residuals]
    plan = {
        path: Planned(residuals[residual], frozenset(deletes[at] for at in applying)) if applying else whole[residual]
        for path, residual, applying in rows
    }
    assert len(plan) == len(rows), f"{where}: a file is planned twice"
    return plan
