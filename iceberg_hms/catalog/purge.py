"""Deletes the files of a dropped table.

Memory holds one manifest list and one manifest at a time, the paths of all manifests, and no path of a data file for
longer than it takes to delete it and to say so: a table may have millions. A data file that several manifests name is
deleted as often, which does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final

from iceberg_hms.catalog.maintenance.reports import PurgeReport
from iceberg_hms.coordinator.files.cleanup import PUBLISHED_MAX
from iceberg_hms.coordinator.files.own_files import (
    SEARCH_ALL_SECONDS,
    OwnDeletion,
    OwnFiles,
    find_own_files,
)
from iceberg_hms.coordinator.locations.guarded_manifests import manifests_for
from iceberg_hms.coordinator.locations.location_policy import LocationGuard
from iceberg_hms.coordinator.ports import CommitPorts, TableName
from iceberg_hms.coordinator.reading.metadata_cache import TableVersion
from iceberg_hms.errors import IcebergHmsError, MetastoreError, ResourceExhausted
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_properties import GC_ENABLED, is_true

logger = logging.getLogger(__name__)

#: How long to delete at least before the next search for other tables in the folder: one may have come since the drop.
SEARCH_AGAIN_SECONDS: Final = 60.0


class Purge:
    """The deletion of a dropped table's own files (`OwnFiles`): data (unless `gc.enabled=false`), manifests, lists,
    statistics and old metadata files, and last the current metadata file. So after an interruption that still leads to
    whatever is left: a table that is registered from it can be purged again.

    Make one only once the drop is proved. guard: of what may be read to find files; None: everything.
    """

    def __init__(self, ports: CommitPorts, dropped: TableVersion, guard: LocationGuard | None = None) -> None:
        self._ports = ports
        self._row = dropped.pointer
        self._metadata = dropped.metadata
        self._reader = manifests_for(ports, guard)
        self._deleted = 0
        self._stopped = False
        #: What became of the files; None until the purge has ended.
        self.report: PurgeReport | None = None

    @property
    def name(self) -> TableName:
        return self._row.name

    @property
    def metadata_location(self) -> str:
        """The file that leads to all others."""
        return self._row.metadata_location

    def run(
        self,
        stop: Callable[[], bool] = lambda: False,
        *,
        search_seconds: float = SEARCH_ALL_SECONDS,
        is_last: bool = True,
    ) -> bool:
        """Delete the files, and publish the event `purged`. Logs what it keeps or cannot delete, and goes on: the table
        itself is dropped already. Raises nothing of ours.

        stop: asked before each read and each deletion. Once it is true this returns False. Then call `run` again, which
        begins anew and finds files that are gone, or `give_up`. search_seconds: how long one search for other tables in
        the folder may take. is_last: one that fails, or for which this process has no memory, keeps the files that are
        left; else this returns False."""
        self._stopped = False
        deletion = OwnDeletion(self._ports, self._row, "purge")
        try:
            why = self._delete(deletion, stop, search_seconds)
        except ResourceExhausted as error:
            self._stopped = not is_last
            why = f"{error}; a table that is registered from {self.metadata_location} can be dropped with purge again"
        except IcebergHmsError as error:
            self._stopped = not is_last and isinstance(error, MetastoreError)
            why = f"other tables may name them: {error}"
        self._deleted += deletion.deleted
        if self._stopped:
            return False
        if why:
            logger.warning("the files of the dropped table %s are kept: %s", self.name, why)
        self._end(PurgeReport(self._deleted, deletion.failed, deletion.kept, why or deletion.log_kept(), deletion.left))
        return True

    def give_up(self) -> None:
        """Say that files are left, and what leads to them."""
        logger.warning(
            "files of the dropped table %s are left: register a table from %s and drop that with purge",
            self.name,
            self.metadata_location,
        )
        self._end(PurgeReport(self._deleted, why="it was stopped", ended=False))

    def _end(self, report: PurgeReport) -> None:
        self.report = report
        if report.failed:
            # No orphan sweep finds what is left of a table that is gone.
            logger.warning(
                "%d files of the dropped table %s in %s could not be deleted: delete them there",
                *(report.failed, self.name, self._row.location),
            )
        self._ports.events.publish(
            {
                "event": "purged",
                "table": self.name,
                "metadata_location": self.metadata_location,
                "ended": report.ended,
                "deleted": report.deleted,
                "kept": report.kept,
                "failed": report.failed,
                "why": report.why,
            }
        )

    def _delete(self, deletion: OwnDeletion, stop: Callable[[], bool], search_seconds: float) -> str:
        """Returns why all files that are left are kept; empty if there is no such reason. Raises MetastoreError,
        ResourceExhausted."""

        def stopped() -> bool:
            # Once true it stays so: no manifest may go before the data files that it names.
            self._stopped = self._stopped or stop()
            return self._stopped

        if stopped():
            return ""
        now = self._ports.runtime.now
        began = now()
        own, searched_at = self._own_files(search_seconds), now()
        if own.reason:
            return own.reason
        # Half of the time at most is for searches.
        pause = max(SEARCH_AGAIN_SECONDS, searched_at - began)
        for stage in self._stages(stopped):
            left = takewhile(lambda _: not stopped(), stage)
            while some := tuple(islice(left, PUBLISHED_MAX)):
                if now() - searched_at >= pause:
                    own, searched_at = self._own_files(search_seconds), now()
                    if own.reason:
                        return own.reason
                deletion.delete(own, some)
            if stopped():
                break
        return ""

    def _own_files(self, search_seconds: float) -> OwnFiles:
        return find_own_files(self._ports, self._row, dropped=True, seconds=search_seconds)

    def _stages(self, stopped: Callable[[], bool]) -> Iterator[Iterable[str]]:
        """The files to delete. No store deletes those of one stage in an order, so each stage has what leads to those
        of the one before."""
        fields = self._metadata.fields
        manifests: dict[str, None] = {}
        yield self._data_files(manifests, stopped)
        yield manifests
        yield [snapshot.manifest_list for snapshot in self._metadata.snapshots if snapshot.manifest_list]
        for key in ("statistics", "partition-statistics"):
            yield _named(fields.get(key), "statistics-path")
        yield _named(fields.get("metadata-log"), "metadata-file")
        yield [self.metadata_location]

    def _data_files(self, manifests: dict[str, None], stopped: Callable[[], bool]) -> Iterator[str]:
        """The data files, if they are the table's to delete; adds their manifests to `manifests`."""
        # As Java reads a boolean: anything but "true" is false.
        with_data = is_true(GC_ENABLED, self._metadata.properties)
        for manifest in self._manifests(stopped):
            if manifest.manifest_path not in manifests:
                manifests[manifest.manifest_path] = None
                if with_data:
                    yield from self._listed(manifest)

    def _manifests(self, stopped: Callable[[], bool]) -> Iterator[ManifestFile]:
        for snapshot in self._metadata.snapshots:
            if stopped():
                return
            try:
                yield from self._reader.list(snapshot)
            except ResourceExhausted:
                raise
            except IcebergHmsError as error:
                logger.warning("files of snapshot %d cannot be found for deletion: %s", snapshot.snapshot_id, error)

    def _listed(self, manifest: ManifestFile) -> Iterator[str]:
        try:
            for entry in self._reader.entries([manifest]):
                yield entry.data_file.file_path
        except ResourceExhausted:
            # Without its data files' names the manifest must stay.
            raise
        except IcebergHmsError as error:
            logger.warning("files of %s cannot be found for deletion: %s", manifest.manifest_path, error)


def _named(entries: Any, key: str) -> Iterator[str]:
    """The files that a list of the metadata names. Malformed entries are logged and skipped."""
    for entry in entries if isinstance(entries, Sequence) else ():
        path = entry.get(key) if isinstance(entry, Mapping) else None
        if isinstance(path, str):
            yield path
        else:
            logger.warning("a file cannot be found for deletion: %s has no %s", entry, key)
