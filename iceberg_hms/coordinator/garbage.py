"""Delete files that nothing names any more."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iceberg_hms.coordinator.going_on import SWEEP, going_on
from iceberg_hms.coordinator.ports import Files
from iceberg_hms.errors import IcebergHmsError

logger = logging.getLogger(__name__)


def delete_files(files: Files, locations: Iterable[str]) -> None:
    """Delete what is known to be garbage. A file that cannot be deleted is logged and passed over: whatever made it
    garbage is decided already."""
    for location in locations:
        with going_on(f"deleting {location}", SWEEP):
            try:
                files.delete(location)
            except IcebergHmsError as error:
                logger.warning("%s could not be deleted: %s", location, error)
