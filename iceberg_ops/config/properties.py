"""Table properties this package obeys, with Iceberg's names and defaults (Java: TableProperties).

``PROPERTY.of(properties)`` gives the typed value, or raises OptionError that names the property, the value and the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

from iceberg_ops.config.whole_numbers import INT_MAX, LONG_MAX, whole_number
from iceberg_ops.errors import OptionError

T = TypeVar("T")

_TRUNCATED = re.compile(r"truncate\((\d+)\)")

WriteMode = Literal["copy-on-write", "merge-on-read"]
"""How a statement changes rows: it rewrites files without them, or delete files name them."""
WRITE_MODES: tuple[str, ...] = get_args(WriteMode)


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("must be true or false")


def _whole(text: str, most: int = LONG_MAX) -> int:
    number = whole_number(text.strip(), most)
    if number is None:
        raise ValueError(f"must be a whole number of {most.bit_length() + 1} bits")
    return number


def _positive(text: str) -> int:
    value = _whole(text)
    if value <= 0:
        raise ValueError("must be a whole number above 0")
    return value


def _count(text: str) -> int:
    value = _whole(text)
    if value < 0:
        raise ValueError("must be a whole number, 0 or more")
    return value


def _level(text: str) -> int:
    return _whole(text, INT_MAX)


def _choice_parser(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text.lower()

    return parse


def _share(text: str) -> float:
    number = float(text) if re.fullmatch(r"[0-9.eE+-]{1,40}", text.strip()) else 0.0
    if not 0 < number < 1:
        raise ValueError("must be above 0 and below 1")
    return number


def metrics_mode(text: str) -> str:
    """none, counts, full or truncate(length), in lower case. Raises ValueError."""
    lower = text.strip().lower()
    of_length = _TRUNCATED.fullmatch(lower)
    if lower not in ("none", "counts", "full") and (of_length is None or not whole_number(of_length[1], INT_MAX)):
        raise ValueError("must be none, counts, truncate(length above 0) or full")
    return lower


@dataclass(frozen=True, slots=True)
class Property(Generic[T]):
    """A property's name, default (as text in a table; None: unset), parser, and meaning."""

    name: str
    default: str | None
    parse: Callable[[str], T]
    meaning: str

    def of(self, properties: Mapping[str, str]) -> T:
        """The effective typed value. Raises OptionError. An unset property without default raises too: use ``maybe``."""
        text = properties.get(self.name, self.default)
        if text is None:
            raise OptionError(f"table property {self.name} is not set and has no default")
        try:
            return self.parse(text)
        except ValueError as e:
            rule = str(e) if str(e).startswith("must") else "must be a whole number"
            raise OptionError(f"table property {self.name} = {text!r}: {rule}") from None

    def maybe(self, properties: Mapping[str, str]) -> T | None:
        """Like ``of``, but None if the property is unset and has no default."""
        return None if properties.get(self.name, self.default) is None else self.of(properties)


FORMAT_VERSION = Property(
    "format-version", "2", _positive, "version of the table format: 1, 2 or 3; a property of `create`, and it cannot be lowered"
)

COMMIT_NUM_RETRIES = Property(
    "commit.retry.num-retries",
    "4",
    _count,
    "tries of a commit that others were faster than; not set, only the time below limits them",
)
COMMIT_MIN_RETRY_WAIT_MS = Property("commit.retry.min-wait-ms", "100", _count, "wait before the first further try")
COMMIT_MAX_RETRY_WAIT_MS = Property("commit.retry.max-wait-ms", "60000", _count, "longest wait between two tries")
COMMIT_TOTAL_RETRY_TIME_MS = Property("commit.retry.total-timeout-ms", "1800000", _count, "time for all tries of a commit")
COMMIT_STATUS_CHECKS = Property("commit.status-check.num-retries", "3", _count, "further looks for a commit that got no answer")
COMMIT_STATUS_CHECKS_MIN_WAIT_MS = Property("commit.status-check.min-wait-ms", "1000", _count, "wait before the first further look")
COMMIT_STATUS_CHECKS_MAX_WAIT_MS = Property("commit.status-check.max-wait-ms", "60000", _count, "longest wait between two looks")
COMMIT_STATUS_CHECKS_TOTAL_TIME_MS = Property("commit.status-check.total-timeout-ms", "1800000", _count, "time for all looks")
MANIFEST_TARGET_SIZE_BYTES = Property(
    "commit.manifest.target-size-bytes", "8388608", _positive, "size that merged and rewritten manifests should have"
)
MANIFEST_MIN_MERGE_COUNT = Property(
    "commit.manifest.min-count-to-merge", "100", _positive, "manifests that must be there before a commit merges them"
)
MANIFEST_MERGE_ENABLED = Property("commit.manifest-merge.enabled", "true", _boolean, "whether commits merge manifests")

GC_ENABLED = Property(
    "gc.enabled", "true", _boolean, "false: expiry, orphan removal and purge are refused, because other tables may share the files"
)
RETENTION_PREFIX = "history.expire."
MAX_SNAPSHOT_AGE_MS = Property(
    "history.expire.max-snapshot-age-ms",
    "432000000",
    _count,
    "expire_snapshots without `older-than` keeps snapshots that are younger",
)
MIN_SNAPSHOTS_TO_KEEP = Property(
    "history.expire.min-snapshots-to-keep", "1", _positive, "snapshots that every branch keeps, however old"
)
MAX_REF_AGE_MS = Property(
    "history.expire.max-ref-age-ms",
    "9223372036854775807",
    _positive,
    "branches and tags that are older go with an expiry, but never main",
)

METADATA_COMPRESSION = Property(
    "write.metadata.compression-codec", "none", _choice_parser("none", "gzip"), "compression of metadata files"
)
METADATA_PREVIOUS_VERSIONS_MAX = Property(
    "write.metadata.previous-versions-max", "100", _positive, "former metadata files that the metadata log keeps"
)
METADATA_DELETE_AFTER_COMMIT = Property(
    "write.metadata.delete-after-commit.enabled", "false", _boolean, "whether a commit deletes metadata files that leave the log"
)
_MANIFEST_CODECS = ("gzip", "deflate", "zstd", "zstandard", "snappy", "uncompressed", "none", "null")
MANIFEST_COMPRESSION = Property(
    "write.manifest.compression-codec", "gzip", _choice_parser(*_MANIFEST_CODECS), "compression of manifests and manifest lists"
)
METRICS_DEFAULT = Property(
    "write.metadata.metrics.default", "truncate(16)", metrics_mode, "metrics of columns for which nothing else is set"
)
METRICS_COLUMN_PREFIX = "write.metadata.metrics.column."
METRICS_MAX_INFERRED = Property(
    "write.metadata.metrics.max-inferred-column-defaults",
    "100",
    _count,
    "how many columns have metrics without being named: the first ones",
)
SUMMARY_PARTITION_LIMIT = Property(
    "write.summary.partition-limit", "0", _count, "a snapshot's summary names changed partitions up to this many; 0: none"
)

WRITE_FORMAT = Property(
    "write.format.default", "parquet", _choice_parser("parquet", "avro", "orc"), "format of data files; writing orc is refused"
)
DELETE_FORMAT = Property(
    "write.delete.format.default",
    None,
    _choice_parser("parquet", "avro", "orc"),
    "format of delete files; not set: that of data files",
)
TARGET_FILE_SIZE_BYTES = Property("write.target-file-size-bytes", "536870912", _positive, "size that data files should have")
DELETE_TARGET_FILE_SIZE_BYTES = Property(
    "write.delete.target-file-size-bytes", "67108864", _positive, "size that delete files should have"
)
DELETE_GRANULARITY = Property(
    "write.delete.granularity",
    "file",
    _choice_parser("file", "partition"),
    "a position delete file is for one data file, or for a partition",
)
DELETE_MODE = Property("write.delete.mode", "copy-on-write", _choice_parser(*WRITE_MODES), "how DELETE changes rows")
UPDATE_MODE = Property("write.update.mode", "copy-on-write", _choice_parser(*WRITE_MODES), "how UPDATE changes rows")
MERGE_MODE = Property("write.merge.mode", "copy-on-write", _choice_parser(*WRITE_MODES), "how MERGE changes rows")
DELETE_ISOLATION = Property(
    "write.delete.isolation-level",
    "serializable",
    _choice_parser("serializable", "snapshot"),
    "which concurrent changes a DELETE conflicts with",
)
UPDATE_ISOLATION = Property(
    "write.update.isolation-level",
    "serializable",
    _choice_parser("serializable", "snapshot"),
    "which concurrent changes an UPDATE conflicts with",
)
MERGE_ISOLATION = Property(
    "write.merge.isolation-level",
    "serializable",
    _choice_parser("serializable", "snapshot"),
    "which concurrent changes a MERGE conflicts with",
)
DISTRIBUTION_MODE = Property(
    "write.distribution-mode", None, _choice_parser("none", "hash", "range"), "how rows are spread over the tasks that write"
)
DATA_PATH = Property("write.data.path", None, str, "folder of new data files; not set: `data` in the table's location")
METADATA_PATH = Property(
    "write.metadata.path", None, str, "folder of new metadata files; not set: `metadata` in the table's location"
)
OBJECT_STORE_ENABLED = Property("write.object-storage.enabled", "false", _boolean, "whether paths of data files begin with a hash")
OBJECT_STORE_PARTITIONED_PATHS = Property(
    "write.object-storage.partitioned-paths", "true", _boolean, "whether such paths name the partition too"
)

PARQUET_ROW_GROUP_SIZE_BYTES = Property(
    "write.parquet.row-group-size-bytes",
    "134217728",
    _positive,
    "size that row groups should have; they end at 1,048,576 rows, too",
)
PARQUET_PAGE_SIZE_BYTES = Property("write.parquet.page-size-bytes", "1048576", _positive, "size that pages should have")
PARQUET_PAGE_ROW_LIMIT = Property("write.parquet.page-row-limit", "20000", _positive, "the most rows of a page")
PARQUET_DICT_SIZE_BYTES = Property("write.parquet.dict-size-bytes", "2097152", _positive, "the largest dictionary of a column")
_PARQUET_CODECS = ("zstd", "gzip", "snappy", "brotli", "lz4", "lz4_raw", "none", "uncompressed")
PARQUET_COMPRESSION = Property(
    "write.parquet.compression-codec", "zstd", _choice_parser(*_PARQUET_CODECS), "compression of data files"
)
PARQUET_COMPRESSION_LEVEL = Property("write.parquet.compression-level", None, _level, "its level; not set: the codec's own default")
PARQUET_BLOOM_FILTER_PREFIX = "write.parquet.bloom-filter-enabled.column."
PARQUET_BLOOM_FILTER_FPP_PREFIX = "write.parquet.bloom-filter-fpp.column."
PARQUET_BLOOM_FILTER_NDV_PREFIX = "write.parquet.bloom-filter-ndv.column."
PARQUET_BLOOM_FILTER_MAX_BYTES = Property(
    "write.parquet.bloom-filter-max-bytes", "1048576", _positive, "the largest bloom filter of a column"
)
PARQUET_DICT_PREFIX = "write.parquet.dict-encoding-enabled.column."
PARQUET_STATS_PREFIX = "write.parquet.stats-enabled.column."
PARQUET_PAGE_VERSION = Property("write.parquet.page-version", "v1", _choice_parser("v1", "v2"), "version of data pages")
AVRO_COMPRESSION = Property(
    "write.avro.compression-codec",
    "gzip",
    _choice_parser("gzip", "zstd", "snappy", "uncompressed", "none"),
    "compression of Avro data files",
)

_OF_COLUMNS: tuple[Property[object], ...] = (
    Property(METRICS_COLUMN_PREFIX, None, metrics_mode, "metrics of this column"),
    Property(PARQUET_BLOOM_FILTER_PREFIX, "false", _boolean, "whether this column has a bloom filter"),
    Property(PARQUET_BLOOM_FILTER_FPP_PREFIX, "0.01", _share, "share of false positives of its bloom filter"),
    Property(PARQUET_BLOOM_FILTER_NDV_PREFIX, None, _positive, "distinct values that its bloom filter is made for"),
    Property(PARQUET_DICT_PREFIX, "true", _boolean, "whether this column may have a dictionary"),
    Property(PARQUET_STATS_PREFIX, "true", _boolean, "whether this column has statistics"),
)
OF_COLUMNS: Mapping[str, Property[object]] = {declared.name: declared for declared in _OF_COLUMNS}
"""Prefixes that are followed by a column's name."""

NAME_MAPPING = Property(
    "schema.name-mapping.default", None, str, "names by which columns of files without field ids are found, as JSON"
)

LEDGER_PREFIX = "iceberg-ops.ledger."
"""Properties that record run keys."""
LEDGER_FILE_PREFIX = "iceberg-ops.ledger-file."
"""Properties that name files with recorded run keys."""
IMPORTED_FOLDER_PREFIX = "iceberg-ops.imported-folder."
"""Properties that name folders outside the table's own from which files were imported in place."""
OWNS_IMPORTED_FILES = Property(
    "iceberg-ops.owns-imported-files",
    "false",
    _boolean,
    "whether an expiry deletes files that were imported where they lie, outside the table's folders",
)
"""Whether an expiry deletes files that were imported in place, from outside the table's own folders."""
FORMER_LOCATION_PREFIX = "iceberg-ops.former-location."
"""Properties that name former locations of the table: its older files are there, and the notes of jobs that began before the
move."""
FORMER_FOLDER_PREFIX = "iceberg-ops.former-folder."
"""Properties that name other former folders of the table (``write.data.path`` and similar): its files are there."""

RESERVED = frozenset(
    {
        "format-version", "uuid", "snapshot-count", "current-snapshot-summary", "current-snapshot-id",
        "current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order",
    }
)  # fmt: skip
"""Keys that are never stored as table properties (Java: RESERVED_PROPERTIES)."""
