"""Turning a migrated table back into the Hive table that it was, and giving that possibility up."""

from __future__ import annotations

from iceberg_hms.catalog.catalog import Catalog
from iceberg_hms.identifiers import Identifier, table_name


def undo(catalog: Catalog, identifier: Identifier) -> None:
    """Make a migrated table the Hive table again that it was: its row is as it was before, and the Iceberg metadata are
    deleted. Properties and a schema that were changed since are lost with them.

    Raises NoSuchTable; NotAnIcebergTable (it is a Hive table already); InvalidInput if an Iceberg commit has added,
    rewritten or deleted files (it names the snapshot), if no migration made the table, or if undo was given up;
    CommitStateUnknown as a commit.
    """
    services = catalog.services
    wait = services.settings.commit_wait_seconds
    services.coordinator.kind_changes(services.hive_tables).to_hive(table_name(identifier), wait_seconds=wait)


def keep(catalog: Catalog, identifier: Identifier) -> None:
    """Give undo up: from then on the Iceberg table owns its files, as any other does, and expiry and purges delete
    them. Harmless twice. Raises NoSuchTable, NotAnIcebergTable, CommitStateUnknown as a commit."""
    services = catalog.services
    wait = services.settings.commit_wait_seconds
    services.coordinator.kind_changes(services.hive_tables).keep(table_name(identifier), wait_seconds=wait)
