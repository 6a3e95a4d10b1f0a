"""What the names of folders and files say: the value of a partition, and whether readers leave them out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, Self

from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.metadata.table_metadata import TableMetadata

_PAIR: Final = re.compile(r"([^=/]+)=([^/]*)")
#: An escape that all readers decode to the same character.
_ESCAPE: Final = re.compile(r"%([0-7][0-9A-Fa-f])")
#: What only some decode, or to different characters: Java's numbers have signs, and digits of all scripts.
_DISPUTED: Final = re.compile(r"%(?:[89A-Fa-f][0-9A-Fa-f]|\+[0-9A-Fa-f]|-0|[^\x00-\x7f].|[\x00-\x7f][^\x00-\x7f])")

#: How the names of Parquet's summaries begin.
_SUMMARIES: Final = ("_metadata", "_common_metadata")
#: How the name of a file ends that Hadoop's shell still copies.
_COPYING: Final = "._COPYING_"


class Readers(Enum):
    """Who of Hive and Spark reads a file below a table's folder, by the names in its path."""

    BOTH = auto()
    NEITHER = auto()
    ONE = auto()


class FolderNames:
    """The rule for hidden names of one table. A folder of one of its own partition columns is not hidden (Java:
    PartitionAwareHiddenPathFilter).

    columns: the names of partition fields and columns by which the table's folders are called."""

    def __init__(self, columns: Iterable[str] = ()) -> None:
        self._columns = frozenset(columns)

    @classmethod
    def of(cls, metadata: TableMetadata) -> Self:
        """By all specs of a table: its folders may be those of an earlier one."""
        fields = [field for spec in metadata.specs for field in spec.fields]
        columns = (metadata.schema.name_of(field.source_id) for field in fields)
        return cls({*(field.name for field in fields), *(each for each in columns if each is not None)})

    def is_hidden(self, path: str) -> bool:
        """Whether a name in the path of a file begins with `_` or `.`, as Hive and Iceberg see it. path: below the
        table's folder."""
        return not _is_plain(path) and any(map(_begins_hidden, self._judged(path)))

    def readers(self, path: str) -> Readers:
        """Who reads a file. path: as for `is_hidden`. Spark's rule is that of its HadoopFSUtils
        (shouldFilterOutPathName) and PartitioningAwareFileIndex (isDataPath)."""
        if _is_plain(path):
            return Readers.BOTH
        *folders, name = self._judged(path)
        if any(map(_begins_hidden, folders)):
            return Readers.NEITHER
        hive = not _begins_hidden(name)
        is_copied = name.endswith(_COPYING) and not name.startswith(_SUMMARIES)
        spark = (hive or (name.startswith("_") and "=" in name)) and not is_copied
        if hive == spark:
            return Readers.BOTH if hive else Readers.NEITHER
        return Readers.ONE

    def _judged(self, path: str) -> list[str]:
        """The names in a path without those of folders of the table's partition columns."""
        *folders, name = path.split("/")
        return [*(each for each in folders if not self._is_own(each)), name]

    def _is_own(self, folder: str) -> bool:
        column, found, _ = folder.partition("=")
        if not found or not self._columns:
            return False
        try:
            return unescaped(column) in self._columns
        except InvalidInput:
            return False


def _is_plain(path: str) -> bool:
    """Whether no name in a path has anything to judge: so it is with nearly every file, of millions."""
    return not (path[:1] in ("_", ".") or "/_" in path or "/." in path or path.endswith(_COPYING))


def _begins_hidden(name: str) -> bool:
    return name[:1] in ("_", ".")


def hive_folders(location: str) -> dict[str, str]:
    """Name of a column -> text of its value, with escapes, of the folders `column=value` in a path, without the file's
    own name. A folder whose column's name cannot be read is no table's partition."""
    folders, _, _ = location.rpartition("/")
    found: dict[str, str] = {}
    for pair in map(_PAIR.fullmatch, folders.split("/")):
        if pair is not None:
            try:
                found[unescaped(pair[1])] = pair[2]
            except InvalidInput:
                continue
    return found


def unescaped(text: str) -> str:
    """The text that the name of a partition's folder stands for (Hive: FileUtils.unescapePathName; Spark:
    ExternalCatalogUtils.unescapePathName). A `%` that begins no escape is one.

    Raises InvalidInput where readers differ: Hive and Spark take `%C3%BC` for two characters and others for the ü of
    UTF-8, and Hive takes `%+1` for an escape."""
    if (found := _DISPUTED.search(text)) is not None:
        raise InvalidInput(
            f"{text} has the escape {found[0]}, for which readers see different characters",
            next_step="rename the folder: Hive writes all but ASCII's special characters as they are",
        )
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
