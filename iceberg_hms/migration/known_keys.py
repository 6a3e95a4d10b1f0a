"""Each key by which a catalog entry of Hive's or Spark's says something of a table, and what a migration makes of it.

    find(KeyPlace.OPTION, "pathGlobFilter").verdict    # Verdict.REFUSED

A migration changes no row that Spark read before. So a key is carried over, or known to change no row, or refused. The
keys are those of the sources of Spark 3.5 and 4.1, Hive 2.3 to 4.1, Parquet's and ORC's readers and writers that both
embed, and those that Impala and Trino write into rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from iceberg_hms.format.updates.table import RESERVED_PROPERTIES


class Verdict(StrEnum):
    """What a migration makes of a key."""

    CARRIED = "carried over"
    NO_EFFECT = "without effect on rows"
    REFUSED = "refused"


class KeyPlace(StrEnum):
    """Where a catalog entry has a key. OPTION: properties of the serde of a table or of a partition, which are Spark's
    storage options. PARAMETER: parameters of a table or of a partition. COLUMN: metadata of a column in the schema that
    Spark stores, and what the type of a column says."""

    OPTION = "option"
    PARAMETER = "parameter"
    COLUMN = "column"


@dataclass(frozen=True, slots=True)
class RowKey:
    """name: of the key, in its writers' case; readers fold it. One that ends with `*` stands for all that begin so.
    places: where it has this meaning. why: how it is carried over, why it changes no row, or why it is refused.
    next_step: of a refusal. harmless: values in lower case with which a refused key changes no row. formats: of the
    files whose readers a refused key reaches; none: all. is_final: `ignore_keys` does not let it pass. is_property: the
    Iceberg table has it as a property."""

    name: str
    places: frozenset[KeyPlace]
    verdict: Verdict
    why: str
    next_step: str = ""
    harmless: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    is_final: bool = False
    is_property: bool = False

    def refuses(self, value: str, file_format: str) -> bool:
        """Whether the key with this value stands in the way of a migration of files of this format."""
        if self.verdict is not Verdict.REFUSED or value.strip().lower() in self.harmless:
            return False
        return not self.formats or file_format in self.formats


COPY: Final = "copy its rows into a new Iceberg table: CREATE TABLE ... USING iceberg AS SELECT"
_UNSET: Final = "unset it if it changes no row, or copy its rows into a new table: CREATE TABLE ... AS SELECT"
_FALSE: Final = frozenset({"false"})
_OPTION: Final = frozenset({KeyPlace.OPTION})
_PARAMETER: Final = frozenset({KeyPlace.PARAMETER})
_COLUMN: Final = frozenset({KeyPlace.COLUMN})
_BOTH: Final = _OPTION | _PARAMETER
_ORC: Final = frozenset({"orc"})
_AVRO: Final = frozenset({"avro"})


def _carried(places: frozenset[KeyPlace], how: str, names: str, is_property: bool = False) -> list[RowKey]:
    return [RowKey(name, places, Verdict.CARRIED, how, is_property=is_property) for name in names.split()]


def _no_effect(places: frozenset[KeyPlace], why: str, names: str, is_property: bool = False) -> list[RowKey]:
    return [RowKey(name, places, Verdict.NO_EFFECT, why, is_property=is_property) for name in names.split()]


def _refused(
    places: frozenset[KeyPlace],
    why: str,
    names: str,
    next_step: str = _UNSET,
    harmless: frozenset[str] = frozenset(),
    formats: frozenset[str] = frozenset(),
    is_final: bool = False,
) -> list[RowKey]:
    return [
        RowKey(name, places, Verdict.REFUSED, why, next_step, harmless, formats, is_final) for name in names.split()
    ]


_SCHEMA: Final = "spark.sql.sources.schema"

_KEYS_OF_ROWS: Final = (
    *_carried(_BOTH, "the folder of a table of Spark's; a table of Hive's is read from its row's", "path"),
    *_carried(_PARAMETER, "the format of the files", "spark.sql.sources.provider"),
    *_carried(_PARAMETER, "the columns", f"{_SCHEMA} {_SCHEMA}.numParts {_SCHEMA}.part.*"),
    *_carried(_PARAMETER, "the partition columns", f"{_SCHEMA}.numPartCols {_SCHEMA}.partCol.*"),
    *_carried(
        _PARAMETER,
        "the metastore lists the partitions; a table whose partitions it does not list is refused",
        "spark.sql.partitionProvider",
    ),
    *_carried(_PARAMETER, "the version of the Iceberg table's format", "format-version"),
    *_carried(_PARAMETER, "a property of the Iceberg table", "comment owner", is_property=True),
    *_carried(
        _PARAMETER,
        "who owns the files: the table has it again when undo is given up",
        "external.table.purge gc.enabled",
    ),
    *_no_effect(
        _PARAMETER,
        "says what kind of row it is; rows of other kinds are refused for that",
        "EXTERNAL table_type provider is_managed_location metadata_location "
        "previous_metadata_location TRANSLATED_TO_EXTERNAL defaultTableType create_table_as_external "
        "created_with_ctas created_with_ctlt",
    ),
    *_no_effect(
        _PARAMETER,
        "says when, by whom and by which release the row was written",
        "transient_lastDdlTime last_modified_by last_modified_time spark.sql.create.version presto_version "
        "presto_query_id trino_version trino_query_id OBJCAPABILITIES accessType",
    ),
    *_no_effect(
        _PARAMETER,
        "statistics, which Iceberg has of its files",
        "COLUMN_STATS_ACCURATE DO_NOT_UPDATE_STATS DO_NOT_POPULATE_QUICK_STATS STATS_GENERATED "
        "STATS_GENERATED_VIA_STATS_TASK deleteCount hive.stats.tmp.loc impala.computeStatsSnapshotIds "
        "impala.enable.stats.extrapolation impala.lastComputeStatsTime impala_intermediate_stats_chunk* "
        "impala_intermediate_stats_num_chunks insertCount numFiles numFilesErasureCoded numPartitions numRows "
        "rawDataSize runTimeNumRows spark.sql.statistics.colStats.* spark.sql.statistics.numRows "
        "spark.sql.statistics.totalSize totalSize updateCount",
    ),
    *_no_effect(
        _PARAMETER,
        "for replication, events and caches",
        "cache_directive_id cache_replication impala.disableHmsSync impala.events.catalogServiceId "
        "impala.events.catalogVersion repl.*",
    ),
    *_no_effect(
        _PARAMETER,
        "for writers and for what is deleted when, not for readers",
        "auto.purge clusteringColumns collation discover.partitions immutable no_auto_compaction no_cleanup "
        "numFilesPerBucket partition.retention.period sort.columns sort.order",
    ),
    *_no_effect(
        _PARAMETER,
        "of buckets, and tables with buckets are refused",
        f"{_SCHEMA}.numBucketCols {_SCHEMA}.bucketCol.* {_SCHEMA}.numSortCols {_SCHEMA}.sortCol.* bucketing_version "
        "SORTBUCKETCOLSPREFIX bucket_count bucket_field_name",
    ),
    *_no_effect(_PARAMETER, "of views, which are refused", "view.* presto_view trino_view hive_filter_field_*"),
    *_no_effect(
        _BOTH,
        "for readers of text, which the files are not",
        "colelction.delim collection.delim column.name.delimiter escape.delim field.delim line.delim "
        "mapkey.delim quote.delim serialization.ddl serialization.encoding serialization.escape.crlf "
        "serialization.format serialization.last.column.takes.rest serialization.null.format "
        "serialization.sort.order serialization.sort.order.null serialization.use.json.object "
        "timestamp.formats",
    ),
    *_no_effect(
        _OPTION,
        "Hive's copy of what the row says elsewhere",
        "bucket_count bucket_field_name columns columns.comments columns.types db field_to_dimension "
        "file.inputformat file.outputformat fileFormat inputFormat location name outputFormat "
        "partition_columns partition_columns.types serde serialization.class serialization.lib",
    ),
    *_no_effect(
        _OPTION,
        "Spark reads the columns of the row, whether it may merge those of files or not",
        "mergeSchema",
    ),
    *_no_effect(
        _OPTION,
        "each file that is there is listed, and so are all partitions of the metastore",
        "ignoreInvalidPartitionPaths ignoreMissingFiles",
    ),
    *_no_effect(
        _OPTION,
        "for writers",
        "compression maxRecordsPerFile partitionOverwriteMode recordName recordNamespace",
    ),
    *_no_effect(
        _OPTION,
        "of unions, which are refused, and of functions that read Avro in a column",
        "enableStableIdentifiersForUnionType mode recursiveFieldMaxDepth stableIdentifierPrefixForUnionType",
    ),
    *_no_effect(
        _BOTH,
        "for Parquet's writers",
        "parquet.block.row.count.limit parquet.block.size parquet.bloom.filter.* "
        "parquet.column.statistics.enabled parquet.columnindex.truncate.length parquet.compression "
        "parquet.compression.codec.zstd.level parquet.compression.codec.zstd.workers "
        "parquet.dictionary.page.size parquet.enable.dictionary parquet.enable.summary-metadata "
        "parquet.memory.min.chunk.size parquet.memory.pool.ratio parquet.page.row.count.limit "
        "parquet.page.size parquet.page.size.check.estimate parquet.page.size.row.check.max "
        "parquet.page.size.row.check.min parquet.page.value.count.threshold "
        "parquet.page.write-checksum.enabled parquet.size.statistics.enabled "
        "parquet.statistics.truncate.length parquet.summary.metadata.level parquet.validation "
        "parquet.write.support.class parquet.writer.max-padding parquet.writer.version "
        "parquet_bloom_filter_columns",
        is_property=True,
    ),
    *_no_effect(
        _BOTH,
        "how Parquet's readers split, buffer and skip what they read, or prove that they may skip it",
        "parquet.decrypt.off-heap.buffer.enabled parquet.filter.bloom.enabled "
        "parquet.filter.columnindex.enabled parquet.filter.dictionary.enabled "
        "parquet.filter.record-level.enabled parquet.filter.stats.enabled parquet.hadoop.vectored.io.enabled "
        "parquet.page.verify-checksum.enabled parquet.split.files parquet.task.side.metadata",
    ),
    *_no_effect(
        _BOTH,
        "for ORC's writers",
        "orc.base.delta.ratio orc.block.padding orc.block.padding.tolerance orc.block.size "
        "orc.bloom.filter.columns orc.bloom.filter.fpp orc.bloom.filter.write.version orc.buffer.size.enforce "
        "orc.column.encoding.direct orc.compress orc.compress.size orc.compression.strategy "
        "orc.compression.zstd.* orc.create.index orc.dictionary.early.check orc.dictionary.implementation "
        "orc.dictionary.key.threshold orc.encoding.strategy orc.memory.pool orc.overwrite.output.file "
        "orc.row.batch.size orc.row.child.limit orc.row.index.stride orc.rows.between.memory.checks "
        "orc.stripe.row.count orc.stripe.size orc.write.format orc.write.variable.length.blocks "
        "orc.mapred.map.output.key.schema orc.mapred.map.output.value.schema orc.mapred.output.schema",
        is_property=True,
    ),
    *_no_effect(
        _BOTH,
        "how ORC's readers split, buffer and skip what they read",
        "orc.bloom.filter.ignore.non-utf8 orc.filter.use.selected orc.kryo.sarg.buffer "
        "orc.max.disk.range.chunk.limit orc.min.disk.seek.size orc.min.disk.seek.size.tolerance "
        "orc.sarg.to.filter orc.use.zerocopy",
    ),
    *_no_effect(
        _BOTH,
        "for Avro's writers, and names of its schema, by which no file is read",
        "avro.output.codec avro.mapred.deflate.level avro.mapred.zstd.level avro.schema.doc avro.schema.name "
        "avro.schema.namespace",
    ),
    *_refused(
        _OPTION,
        "leaves files of the folder out by their name or time",
        "pathGlobFilter modifiedBefore modifiedAfter",
    ),
    *_refused(
        _OPTION,
        "false leaves out files whose names do not end with .avro",
        "ignoreExtension",
        harmless=frozenset({"true"}),
        formats=_AVRO,
    ),
    *_refused(
        _BOTH,
        "true leaves out files whose names do not end with .avro",
        "avro.mapred.ignore.inputs.without.extension",
        harmless=_FALSE,
        formats=_AVRO,
    ),
    *_refused(
        _OPTION,
        "the rows of nested folders belong to the table",
        "recursiveFileLookup",
        next_step="ignore this key, and take nested folders too: recursive_directory='true'",
        harmless=_FALSE,
    ),
    *_refused(
        _OPTION,
        "leaves rows out that cannot be read, and Iceberg's readers fail there",
        "ignoreCorruptFiles",
        harmless=_FALSE,
    ),
    *_refused(
        _BOTH,
        "leaves rows out that cannot be read, and Iceberg's readers fail there",
        "orc.skip.corrupt.data",
        harmless=_FALSE,
        formats=_ORC,
    ),
    *_refused(
        _OPTION,
        "LEGACY shows days before October 15, 1582 as others, and Iceberg as they are",
        "datetimeRebaseMode int96RebaseMode",
        harmless=frozenset({"corrected", "exception"}),
    ),
    *_refused(_OPTION, "says in which zone timestamps of partitions are", "timeZone"),
    *_refused(_OPTION, "says below which folder the names of folders are values of partitions", "basePath"),
    *_refused(
        _OPTION,
        "its columns are those of another schema, whose defaults older files have",
        "avroSchema avroSchemaUrl",
        formats=_AVRO,
    ),
    *_refused(
        _OPTION,
        "finds the columns of its files by their place, and Iceberg goes by names",
        "positionalFieldMatching",
        harmless=_FALSE,
        formats=_AVRO,
        next_step=COPY,
    ),
    *_refused(
        _BOTH,
        "finds the columns of its files by their place, and Iceberg goes by names",
        "parquet.column.index.access orc.force.positional.evolution",
        harmless=_FALSE,
        next_step=COPY,
    ),
    *_refused(
        _BOTH,
        "finds the columns of its files by their place, and Iceberg goes by names",
        "orc.force.positional.evolution.level",
        harmless=frozenset({"1"}),
        formats=_ORC,
        next_step=COPY,
    ),
    *_refused(
        _BOTH,
        "finds the columns of its files whatever the case of their names",
        "orc.schema.evolution.case.sensitive",
        harmless=frozenset({"true"}),
        formats=_ORC,
    ),
    *_refused(
        _BOTH,
        "its columns are those of this schema, which may say more than its row",
        "avro.schema.url avro.schema.literal avro.schema.retriever avro.serde.schema",
        next_step="run ALTER TABLE ... UPDATE COLUMNS in Hive, then unset the key: ALTER TABLE ... UNSET TBLPROPERTIES",
        formats=_AVRO,
        harmless=frozenset({"", "none"}),
    ),
    *_refused(
        _BOTH,
        "another class, schema or filter decides what is read of a file",
        "orc.filter.plugin orc.filter.plugin.allowlist orc.include.columns orc.kryo.sarg "
        "orc.mapred.input.schema orc.max.file.length orc.sarg.column.names orc.tolerate.missing.schema "
        "parquet.private.read.filter.predicate parquet.read.filter parquet.read.support.class "
        "parquet.strict.typing",
    ),
    *_refused(
        _BOTH,
        "says in which calendar the days of files are that do not say it",
        "orc.proleptic.gregorian orc.proleptic.gregorian.default",
        formats=_ORC,
        harmless=_FALSE,
    ),
    *_refused(
        _BOTH,
        "its files may be encrypted, and Iceberg's readers have no key",
        "orc.encrypt orc.key.provider orc.mask parquet.crypto.factory.class parquet.encryption.*",
        next_step=COPY,
    ),
    *_refused(
        _PARAMETER,
        "leaves out the first or last rows of each file in Hive",
        "skip.header.line.count skip.footer.line.count",
        harmless=frozenset({"0"}),
    ),
    *_refused(
        _PARAMETER,
        "it is transactional (ACID): its folders have deltas that only Hive reads",
        "transactional",
        next_step=COPY,
        harmless=_FALSE,
        is_final=True,
    ),
    *_refused(
        _PARAMETER,
        "it is transactional (ACID): its folders have deltas that only Hive reads",
        "transactional_properties",
        next_step=COPY,
        harmless=frozenset({"", "none"}),
    ),
    *_refused(
        _PARAMETER,
        "its files lie in an archive",
        "is_archived original_location",
        next_step="bring them back: ALTER TABLE ... UNARCHIVE PARTITION",
        harmless=_FALSE,
        is_final=True,
    ),
    *_refused(
        _PARAMETER,
        "partitions are computed, and the metastore does not list them",
        "projection.* storage.location.template partition_projection_* trino.partition_projection_* "
        "partition_transform_spec",
    ),
    *_refused(
        _PARAMETER,
        "its rows are not in files, but behind a storage handler",
        "storage_handler druid.* hive.sql.* kudu.* hbase.*",
        next_step=COPY,
        harmless=frozenset({""}),
        is_final=True,
    ),
    *_refused(
        _PARAMETER,
        "Iceberg counts buckets by another hash",
        f"{_SCHEMA}.numBuckets",
        next_step=COPY,
        is_final=True,
    ),
    *_no_effect(
        _PARAMETER,
        "a name that Iceberg keeps for what it derives from metadata",
        " ".join(sorted(RESERVED_PROPERTIES - {"format-version"})),
    ),
)

_KEYS_OF_COLUMNS: Final = (
    *_carried(_COLUMN, "the column's comment", "comment"),
    *_carried(
        _COLUMN,
        "write-default, if it is a literal and the Iceberg table has version 3; null is none; else refused",
        "CURRENT_DEFAULT",
    ),
    *_carried(_COLUMN, "see char(n) and varchar(n), which it says", "__CHAR_VARCHAR_TYPE_STRING HIVE_TYPE_STRING"),
    *_no_effect(_COLUMN, "for models and plans, not for readers", "ml_attr __autoGeneratedAlias"),
    *_refused(
        _COLUMN,
        "files that lack the column have this in it, Iceberg's initial-default: Java's readers leave rows of such "
        "Parquet files out that a filter keeps, and cannot read such ORC files; null is none",
        "EXISTS_DEFAULT",
        next_step="write the older files again (INSERT OVERWRITE in Spark), and let the key pass: ignore_keys",
    ),
    *_refused(
        _COLUMN,
        "Spark pads its values when it reads and compares them, and Iceberg takes them as they are",
        "char(n)",
        next_step="copy its rows into a new table; or let the key pass if blanks at the end do not matter: ignore_keys",
    ),
    *_refused(
        _COLUMN,
        "Hive's serde cuts longer values of Avro files; in others Spark reads a varchar as a string",
        "varchar(n)",
        next_step="copy its rows into a new table; or let the key pass if no value is longer: ignore_keys",
        formats=_AVRO,
    ),
    *_refused(
        _COLUMN,
        "strings of this collation are equal and in order otherwise than by their bytes, as Iceberg compares them",
        "__COLLATIONS",
        next_step="copy its rows into a new table whose column is STRING COLLATE UTF8_BINARY",
    ),
    *_refused(
        _COLUMN,
        "its values are computed, and Iceberg's writers do not compute them",
        "GENERATION_EXPRESSION identity.* delta.*",
        next_step="make it a plain column, or copy its rows into a new table",
    ),
    *_refused(
        _COLUMN,
        "Spark may find the column by this id, and the files have other ids than the Iceberg table",
        "parquet.field.id",
        next_step="unset it, or copy its rows into a new table",
    ),
    *_refused(
        _COLUMN,
        "a column that Spark computes while it reads is none of the files",
        "__metadata_col __qualified_access_only __aggregated_access_only __file_source_* __preserve_on_* "
        "__VARIANT_METADATA_KEY __VARIANT_WRITE_SHREDDING_KEY spark.timeWindow",
        next_step="copy its rows into a new table",
    ),
)

#: All of them, those of rows first.
KEYS: Final[tuple[RowKey, ...]] = (*_KEYS_OF_ROWS, *_KEYS_OF_COLUMNS)

#: How a parameter begins that an engine interprets: one that is not among the keys is refused. No reader looks for any
#: other parameter, and the Iceberg table has it as a property.
INTERPRETED: Final = (
    "avro.", "avroSchema", "columns.", "fs.", "hive.", "impala.", "mapred.", "mapreduce.", "option.", "orc.",
    "parquet.", "presto.", "presto_", "projection.", "serialization.", "skip.", "spark.sql.", "transactional", "trino.",
    "trino_",
)  # fmt: skip

_EXACT: Final = {(place, key.name.lower()): key for key in KEYS for place in key.places if key.name[-1] != "*"}
_PREFIXES: Final = tuple(
    (place, key.name[:-1].lower(), key) for key in KEYS for place in key.places if key.name[-1] == "*"
)


def find(place: KeyPlace, name: str) -> RowKey | None:
    """What is known of a key in this place; None: nothing."""
    folded = name.lower()
    found = _EXACT.get((place, folded))
    if found is not None:
        return found
    return next((key for at, prefix, key in _PREFIXES if at is place and folded.startswith(prefix)), None)


def is_interpreted(parameter: str) -> bool:
    """Whether an engine may read a parameter that is not among the keys."""
    folded = parameter.lower()
    # Spark gives its readers all parameters of Hive's tables that have one of these parts.
    return folded.startswith(_INTERPRETED) or ".parquet." in folded or ".orc." in folded


_INTERPRETED: Final = tuple(each.lower() for each in INTERPRETED)
