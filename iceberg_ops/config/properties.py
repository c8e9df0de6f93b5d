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
"""How a statement changes rows: files are written again without them, or delete files name them."""
WRITE_MODES: tuple[str, ...] = get_args(WriteMode)


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("must be true or false")


def _whole(text: str, most: int = LONG_MAX) -> int:
    found = whole_number(text.strip(), most)
    if found is None:
        raise ValueError(f"must be a whole number of {most.bit_length() + 1} bits")
    return found


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


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text.lower()

    return parse


def _share(text: str) -> float:
    found = float(text) if re.fullmatch(r"[0-9.eE+-]{1,40}", text.strip()) else 0.0
    if not 0 < found < 1:
        raise ValueError("must be above 0 and below 1")
    return found


def metrics_mode(text: str) -> str:
    """none, counts, full or truncate(length), in lower case. Raises ValueError."""
    lower = text.strip().lower()
    of_length = _TRUNCATED.fullmatch(lower)
    if lower not in ("none", "counts", "full") and (of_length is None or not whole_number(of_length[1], INT_MAX)):
        raise ValueError("must be none, counts, truncate(length above 0) or full")
    return lower


@dataclass(frozen=True, slots=True)
class Property(Generic[T]):
    """A property's name, default (in text, as a table would hold it; None: unset) and parser."""

    name: str
    default: str | None
    parse: Callable[[str], T]

    def of(self, properties: Mapping[str, str]) -> T:
        """The typed value in force. Raises OptionError. An unset property without default raises too: use ``maybe``."""
        text = properties.get(self.name, self.default)
        if text is None:
            raise OptionError(f"table property {self.name} is not set and has no default")
        try:
            return self.parse(text)
        except ValueError as e:
            rule = str(e) if str(e).startswith("must") else "must be a whole number"
            raise OptionError(f"table property {self.name} = {text!r}: {rule}") from None

    def maybe(self, properties: Mapping[str, str]) -> T | None:
        """Like ``of``, but None where the property is unset and has no default."""
        return None if properties.get(self.name, self.default) is None else self.of(properties)


FORMAT_VERSION = Property("format-version", "2", _positive)

COMMIT_NUM_RETRIES = Property("commit.retry.num-retries", "4", _count)
COMMIT_MIN_RETRY_WAIT_MS = Property("commit.retry.min-wait-ms", "100", _count)
COMMIT_MAX_RETRY_WAIT_MS = Property("commit.retry.max-wait-ms", "60000", _count)
COMMIT_TOTAL_RETRY_TIME_MS = Property("commit.retry.total-timeout-ms", "1800000", _count)
COMMIT_STATUS_CHECKS = Property("commit.status-check.num-retries", "3", _count)
COMMIT_STATUS_CHECKS_MIN_WAIT_MS = Property("commit.status-check.min-wait-ms", "1000", _count)
COMMIT_STATUS_CHECKS_MAX_WAIT_MS = Property("commit.status-check.max-wait-ms", "60000", _count)
COMMIT_STATUS_CHECKS_TOTAL_TIME_MS = Property("commit.status-check.total-timeout-ms", "1800000", _count)
MANIFEST_TARGET_SIZE_BYTES = Property("commit.manifest.target-size-bytes", "8388608", _positive)
MANIFEST_MIN_MERGE_COUNT = Property("commit.manifest.min-count-to-merge", "100", _positive)
MANIFEST_MERGE_ENABLED = Property("commit.manifest-merge.enabled", "true", _boolean)

GC_ENABLED = Property("gc.enabled", "true", _boolean)
RETENTION_PREFIX = "history.expire."
MAX_SNAPSHOT_AGE_MS = Property("history.expire.max-snapshot-age-ms", "432000000", _count)
MIN_SNAPSHOTS_TO_KEEP = Property("history.expire.min-snapshots-to-keep", "1", _positive)
MAX_REF_AGE_MS = Property("history.expire.max-ref-age-ms", "9223372036854775807", _positive)

METADATA_COMPRESSION = Property("write.metadata.compression-codec", "none", _one_of("none", "gzip"))
METADATA_PREVIOUS_VERSIONS_MAX = Property("write.metadata.previous-versions-max", "100", _positive)
METADATA_DELETE_AFTER_COMMIT = Property("write.metadata.delete-after-commit.enabled", "false", _boolean)
_MANIFEST_CODECS = ("gzip", "deflate", "zstd", "zstandard", "snappy", "uncompressed", "none", "null")
MANIFEST_COMPRESSION = Property("write.manifest.compression-codec", "gzip", _one_of(*_MANIFEST_CODECS))
METRICS_DEFAULT = Property("write.metadata.metrics.default", "truncate(16)", metrics_mode)
METRICS_COLUMN_PREFIX = "write.metadata.metrics.column."
METRICS_MAX_INFERRED = Property("write.metadata.metrics.max-inferred-column-defaults", "100", _count)
SUMMARY_PARTITION_LIMIT = Property("write.summary.partition-limit", "0", _count)

WRITE_FORMAT = Property("write.format.default", "parquet", _one_of("parquet", "avro", "orc"))
DELETE_FORMAT = Property("write.delete.format.default", None, _one_of("parquet", "avro", "orc"))
TARGET_FILE_SIZE_BYTES = Property("write.target-file-size-bytes", "536870912", _positive)
DELETE_TARGET_FILE_SIZE_BYTES = Property("write.delete.target-file-size-bytes", "67108864", _positive)
DELETE_GRANULARITY = Property("write.delete.granularity", "file", _one_of("file", "partition"))
DELETE_MODE = Property("write.delete.mode", "copy-on-write", _one_of(*WRITE_MODES))
UPDATE_MODE = Property("write.update.mode", "copy-on-write", _one_of(*WRITE_MODES))
MERGE_MODE = Property("write.merge.mode", "copy-on-write", _one_of(*WRITE_MODES))
DELETE_ISOLATION = Property("write.delete.isolation-level", "serializable", _one_of("serializable", "snapshot"))
UPDATE_ISOLATION = Property("write.update.isolation-level", "serializable", _one_of("serializable", "snapshot"))
MERGE_ISOLATION = Property("write.merge.isolation-level", "serializable", _one_of("serializable", "snapshot"))
DISTRIBUTION_MODE = Property("write.distribution-mode", None, _one_of("none", "hash", "range"))
DATA_PATH = Property("write.data.path", None, str)
METADATA_PATH = Property("write.metadata.path", None, str)
OBJECT_STORE_ENABLED = Property("write.object-storage.enabled", "false", _boolean)
OBJECT_STORE_PARTITIONED_PATHS = Property("write.object-storage.partitioned-paths", "true", _boolean)

PARQUET_ROW_GROUP_SIZE_BYTES = Property("write.parquet.row-group-size-bytes", "134217728", _positive)
PARQUET_PAGE_SIZE_BYTES = Property("write.parquet.page-size-bytes", "1048576", _positive)
PARQUET_PAGE_ROW_LIMIT = Property("write.parquet.page-row-limit", "20000", _positive)
PARQUET_DICT_SIZE_BYTES = Property("write.parquet.dict-size-bytes", "2097152", _positive)
_PARQUET_CODECS = ("zstd", "gzip", "snappy", "brotli", "lz4", "lz4_raw", "none", "uncompressed")
PARQUET_COMPRESSION = Property("write.parquet.compression-codec", "zstd", _one_of(*_PARQUET_CODECS))
PARQUET_COMPRESSION_LEVEL = Property("write.parquet.compression-level", None, _level)
PARQUET_BLOOM_FILTER_PREFIX = "write.parquet.bloom-filter-enabled.column."
PARQUET_BLOOM_FILTER_FPP_PREFIX = "write.parquet.bloom-filter-fpp.column."
PARQUET_BLOOM_FILTER_NDV_PREFIX = "write.parquet.bloom-filter-ndv.column."
PARQUET_BLOOM_FILTER_MAX_BYTES = Property("write.parquet.bloom-filter-max-bytes", "1048576", _positive)
PARQUET_DICT_PREFIX = "write.parquet.dict-encoding-enabled.column."
PARQUET_STATS_PREFIX = "write.parquet.stats-enabled.column."
PARQUET_PAGE_VERSION = Property("write.parquet.page-version", "v1", _one_of("v1", "v2"))
AVRO_COMPRESSION = Property("write.avro.compression-codec", "gzip", _one_of("gzip", "zstd", "snappy", "uncompressed", "none"))

OF_COLUMNS: Mapping[str, Callable[[str], object]] = {
    METRICS_COLUMN_PREFIX: metrics_mode,
    PARQUET_BLOOM_FILTER_PREFIX: _boolean,
    PARQUET_BLOOM_FILTER_FPP_PREFIX: _share,
    PARQUET_BLOOM_FILTER_NDV_PREFIX: _positive,
    PARQUET_DICT_PREFIX: _boolean,
    PARQUET_STATS_PREFIX: _boolean,
}
"""What stands before a column's name, and the parser of the value."""

NAME_MAPPING = Property("schema.name-mapping.default", None, str)

LEDGER_PREFIX = "iceberg-ops.ledger."
"""Properties that remember run keys."""
LEDGER_FILE_PREFIX = "iceberg-ops.ledger-file."
"""Properties that name files which remember run keys."""
IMPORTED_FOLDER_PREFIX = "iceberg-ops.imported-folder."
"""Properties that name folders outside the table's own ones from which files were imported where they lie."""
OWNS_IMPORTED_FILES = Property("iceberg-ops.owns-imported-files", "false", _boolean)
"""Whether an expiry deletes files that were imported where they lie, from outside the table's own folders."""
FORMER_LOCATION_PREFIX = "iceberg-ops.former-location."
"""Properties that name locations which the table had before: its files are there, and the notes of jobs that began then."""
FORMER_FOLDER_PREFIX = "iceberg-ops.former-folder."
"""Properties that name other folders which the table wrote to before (``write.data.path`` and the like): its files are there."""

RESERVED = frozenset(
    {
        "format-version", "uuid", "snapshot-count", "current-snapshot-summary", "current-snapshot-id",
        "current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order",
    }
)  # fmt: skip
"""Keys that are never stored as table properties (Java: RESERVED_PROPERTIES)."""
