"""Delete files that an operation adds: whether they fit the table's format version, and the manifests that list them.

Others wrote them. Format version 1 has none; version 2 has position delete files and equality delete files; version 3
takes deletion vectors instead of new position delete files, one for each data file (spec: Delete Formats).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from iceberg_hms.changes.change import Manifests
from iceberg_hms.changes.operations.manifests.delete_index import referenced_data_file
from iceberg_hms.changes.operations.manifests.manifest_filter import delete_file_key
from iceberg_hms.changes.operations.manifests.new_data_files import check_partition, check_record
from iceberg_hms.changes.partition_set import PartitionKey, partition_key, schema_of_spec
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.locations import file_key
from iceberg_hms.format.manifests.manifest import DataFile, EntryStatus, FileContent, ManifestEntry
from iceberg_hms.format.manifests.manifest_list import ManifestFile
from iceberg_hms.format.metadata.table_metadata import TableMetadata

#: `RequirementFailed.name` of the assumption that delete files that fitted the table still do.
FILES_FIT: Final = "delete-files-fit"
#: Content and partition of delete files -> their data sequence number.
DeleteNumbers = Mapping[tuple[int, PartitionKey], int]


class NewDeleteFiles:
    """The delete files that one operation adds. snapshot_id: of the operation's snapshot. planned: the state of the
    table that the files were written for; None: not known.

    Raises InvalidInput for data files, a file named twice, equality deletes without columns, deletion vectors that lack
    the fields which locate them, and two of them for one data file; and as `check_record`.
    """

    def __init__(
        self, delete_files: Sequence[DataFile], *, snapshot_id: int, planned: TableMetadata | None = None
    ) -> None:
        self.files = tuple(delete_files)
        #: The data files that they name, as they spell them.
        self.referenced = tuple(path for each in self.files if (path := referenced_data_file(each)) is not None)
        self._planned = planned
        #: Keys of the data files for which there is a deletion vector.
        self.vector_keys = _check_files(self.files)
        self._snapshot_id = snapshot_id
        self._written: dict[tuple[int, frozenset[object]], tuple[ManifestFile, ...]] = {}

    def check(self, base: TableMetadata) -> None:
        """Raises InvalidInput if the table's format version does not allow one of the files, or if it lacks the file's
        partition spec or an equality column; RequirementFailed if that is so only since the files were planned, as
        after an upgrade to version 3."""
        try:
            self._check_fit(base)
        except InvalidInput as error:
            if self._planned is None or self._planned is base:
                raise
            self._check_fit(self._planned)
            raise RequirementFailed(
                FILES_FIT,
                f"another writer changed the table, and on its current state this holds: {error.message}",
                next_step="reload the table, and write the delete files for it as it is",
            ) from error

    def _check_fit(self, base: TableMetadata) -> None:
        version = base.format_version
        if self.files and version == 1:
            raise InvalidInput("Format version 1 has no delete files", next_step="upgrade the table to version 2 or 3")
        for each in self.files:
            if each.content == FileContent.POSITION_DELETES and each.is_deletion_vector != (version > 2):
                needed = "deletion vectors" if version > 2 else "position delete files, not deletion vectors"
                raise InvalidInput(f"Format version {version} takes {needed} for positions: {each.file_path}")
            spec = base.spec_by_id(each.spec_id)
            if spec is None:
                raise InvalidInput(f"{each.file_path} has partition spec {each.spec_id}, which the table lacks")
            check_partition(each, {field.name for field in spec.fields})
            for column in each.equality_ids or ():
                if base.schema.field(column) is None:
                    raise InvalidInput(f"{each.file_path} deletes by column {column}, which the table lacks")

    def check_spelling(self, live: Mapping[str, ManifestEntry]) -> None:
        """Raises InvalidInput for deletes of a data file in another spelling than the table's: the rows of position
        deletes and the blob of a deletion vector have it too, and PyIceberg goes by these. live: the table's data
        files, by their keys."""
        for each in self.files:
            if (path := referenced_data_file(each)) is None:
                continue
            entry = live.get(file_key(path))
            if entry is not None and entry.data_file.file_path != path:
                raise InvalidInput(
                    f"{each.file_path} has positions of {path}, which the table spells {entry.data_file.file_path}: "
                    "not all readers would apply them",
                    next_step="write them with the table's spelling",
                )

    def manifests(
        self, base: TableMetadata, manifests: Manifests, numbers: DeleteNumbers | None = None
    ) -> tuple[ManifestFile, ...]:
        """The manifests of the files, written on first use. numbers: of the files; None: that of the snapshot, as for
        rows that are newly deleted."""
        numbers = numbers or {}
        key = base.format_version, frozenset[object](numbers.items())
        if key not in self._written:
            self._written[key] = tuple(self._write(base, manifests, numbers))
        return self._written[key]

    def entries(self, numbers: DeleteNumbers, default: int | None = None) -> list[ManifestEntry]:
        """The files as a manifest lists them. default: the number of those that `numbers` lacks."""
        return [
            ManifestEntry(
                EntryStatus.ADDED,
                each,
                snapshot_id=self._snapshot_id,
                sequence_number=numbers.get((each.content, partition_key(each)), default),
            )
            for each in self.files
        ]

    def _write(self, base: TableMetadata, manifests: Manifests, numbers: DeleteNumbers) -> list[ManifestFile]:
        written: list[ManifestFile] = []
        for spec_id in sorted({each.spec_id for each in self.files}):
            spec = base.specs_by_id[spec_id]
            entries = [each for each in self.entries(numbers) if each.data_file.spec_id == spec_id]
            written.extend(manifests.write(base, schema_of_spec(base, spec), spec, self._snapshot_id, entries))
        return written


def _check_files(delete_files: Sequence[DataFile]) -> frozenset[str]:
    """The keys of the data files that have a deletion vector."""
    seen = set()
    referenced: set[str] = set()
    for each in delete_files:
        if each.content == FileContent.DATA:
            raise InvalidInput(f"Not a delete file: {each.file_path}")
        check_record(each)
        if each.content == FileContent.EQUALITY_DELETES and not each.equality_ids:
            raise InvalidInput(f"{each.file_path} has equality deletes and names no column")
        if each.is_deletion_vector:
            _check_vector(each, referenced)
        key = delete_file_key(each)
        if key in seen:
            raise InvalidInput(f"Cannot add a delete file twice: {each.file_path}")
        seen.add(key)
    return frozenset(referenced)


def _check_vector(vector: DataFile, referenced: set[str]) -> None:
    if vector.referenced_data_file is None or vector.content_offset is None or vector.content_size_in_bytes is None:
        raise InvalidInput(
            f"{vector.file_path} is a deletion vector without referenced_data_file, content_offset or "
            "content_size_in_bytes"
        )
    key = file_key(vector.referenced_data_file)
    if key in referenced:
        raise InvalidInput(
            f"Two deletion vectors for {vector.referenced_data_file}: a data file has at most one",
            next_step="merge their positions into one",
        )
    referenced.add(key)
