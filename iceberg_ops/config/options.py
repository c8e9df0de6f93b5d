"""Options of the maintenance actions: Iceberg's names and defaults, typed values, and one-line refusals.

Each action has its documented options (``EXPIRE_SNAPSHOTS``) and a function (``expire_snapshots_options``) that converts the text
of a job spec to one frozen value. An unknown key is refused with a list of the known ones; an invalid value is refused with
the value and the rule. Sizes are bytes, times milliseconds since the epoch. If Iceberg takes a default from a table property,
``properties`` gives it. ``actions`` registers them.

``iceberg_ops.planning`` decides what the values mean for a plan. Reference: Iceberg's Spark procedures and action options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from iceberg_ops.config.option_parsing import (
    Option,
    OptionReader,
    at_least,
    boolean,
    choice,
    moment,
    names,
    number,
    numbers,
    pairs,
    ratio,
    size,
    text,
)
from iceberg_ops.config.properties import (
    DELETE_TARGET_FILE_SIZE_BYTES,
    MANIFEST_TARGET_SIZE_BYTES,
    MAX_SNAPSHOT_AGE_MS,
    TARGET_FILE_SIZE_BYTES,
)
from iceberg_ops.errors import OptionError, UnsupportedError

V = TypeVar("V")
NO_LIMIT = 2**63 - 1
DAY_MS = 86_400_000
SMALL_FILE_RATIO = 0.75
"""A file below this share of the target size is small (Java: MIN_FILE_SIZE_DEFAULT_RATIO)."""
JOB_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")

_SIZES = (
    Option("target-file-size-bytes", "bytes", "the table's", "target size of new files"),
    Option("min-file-size-bytes", "bytes", f"{SMALL_FILE_RATIO} x target", "smaller files are candidates"),
    Option("max-file-size-bytes", "bytes", "1.8 x target", "larger files are candidates and are split"),
    Option("min-input-files", "files", "5", "a group with at least this many files is rewritten"),
    Option("rewrite-all", "true or false", "false", "rewrite every file, whatever its size"),
    Option("max-file-group-size-bytes", "bytes", "107374182400", "maximum size of a group"),
    Option("max-file-group-input-files", "files", "unlimited", "maximum number of files in a group"),
)
_PROGRESS = (
    Option(
        "max-concurrent-file-group-rewrites",
        "groups",
        "5",
        "groups in work at a time, one per CPU at most (on Spark its slots decide)",
    ),
    Option("partial-progress.enabled", "true or false", "false", "use several commits instead of one"),
    Option("partial-progress.max-commits", "commits", "10", "maximum number of commits of a run"),
    Option("partial-progress.max-failed-commits", "commits", "max-commits", "the run fails after more failed commits than this"),
    Option("rewrite-job-order", "a word", "none", "order of groups: " + ", ".join(JOB_ORDERS)),
)
REWRITE_DATA_FILES = (
    Option("strategy", "a word", "binpack", "binpack or sort"),
    Option("sort-order", "SQL", "the table's", "SQL order list, zorder(a, b) or hilbert(a, b); implies strategy sort"),
    *_SIZES,
    *_PROGRESS,
    Option("max-files-to-rewrite", "files", "unlimited", "maximum number of input files of a run; the best groups come first"),
    Option("delete-file-threshold", "files", "unlimited", "a file with at least this many delete files is a candidate"),
    Option("delete-ratio-threshold", "share, to 1", "0.3", "a file with at least this share of deleted rows is a candidate"),
    Option("use-starting-sequence-number", "true or false", "true", "new files keep the starting snapshot's sequence number"),
    Option("output-spec-id", "an id", "the table's default spec", "partition spec of the new files"),
    Option("remove-dangling-deletes", "true or false", "false", "also remove delete files that apply to no live file"),
    Option("compression-factor", "factor", "1.0", "scales the estimated number of sorted output files"),
    Option("max-overlap-depth", "files", "2", "sort: files are sorted again if more than this many overlap on average"),
    Option("shuffle-partitions-per-file", "partitions", "1", "no other value: Spark does not shuffle rows here"),
    Option(
        "var-length-contribution",
        "bytes",
        "8",
        "no other value: z-order uses quantiles of values, not their first bytes",
    ),
    Option("max-output-size", "bytes", "2147483647", "no other value: z-values have 64 bits"),
)
REWRITE_POSITION_DELETE_FILES = (*_SIZES, *_PROGRESS)
CONVERT_EQUALITY_DELETES = (
    Option("target-file-size-bytes", "bytes", "the table's", "target size of new delete files"),
    *_PROGRESS,
)
REWRITE_MANIFESTS = (
    Option("spec-id", "an id", "the table's default spec", "rewrite the manifests of this partition spec"),
    Option("sort-by", "names", "all partition fields", "partition fields to cluster by, comma separated"),
    Option("use-caching", "true or false", "false", "no other value: Spark does not rewrite manifests here"),
)
EXPIRE_SNAPSHOTS = (
    Option(
        "older-than", "time or age", "history.expire.max-snapshot-age-ms ago", "expire snapshots older than this time or age (5d)"
    ),
    Option(
        "retain-last", "snapshots", "history.expire.min-snapshots-to-keep", "minimum number of snapshots to keep on each branch"
    ),
    Option("snapshot-ids", "ids", "none", "expire these snapshots, comma separated"),
    Option("clean-expired-metadata", "true or false", "false", "also remove partition specs and schemas that are no longer used"),
    Option("max-concurrent-deletes", "files", "in bulk", "delete files one by one, this many at a time (at most 256)"),
    Option("stream-results", "true or false", "true", "true: the report lists at most 1,000 files; false: all"),
)
REMOVE_ORPHAN_FILES = (
    Option("older-than", "time or age", "3d", "only files last modified before this: a time, or an age such as 3d"),
    Option("location", "a location", "the table's location", "folder to search: the table's location or one below it"),
    Option(
        "unsafe-allow-recent",
        "true or false",
        "false",
        "permit older-than within the last 24 hours, at the risk of running writers",
    ),
    Option(
        "prefix-mismatch-mode",
        "a word",
        "error",
        "what to do with a file whose scheme or authority differs: error, ignore or delete",
    ),
    Option("equal-schemes", "pairs", "s3n=s3,s3a=s3", "schemes to treat as equal, as from=to pairs"),
    Option("equal-authorities", "pairs", "none", "authorities to treat as equal, as from=to pairs"),
    Option("max-concurrent-deletes", "files", "in bulk", "delete files one by one, this many at a time (at most 256)"),
    Option("quarantine-path", "a location", "none", "move orphan files to this folder instead of deleting them"),
    Option(
        "prefix-listing", "true or false", "false", "true: the driver lists all files; false: on lane spark, tasks list folders"
    ),
    Option("stream-results", "true or false", "true", "true: the report lists at most 1,000 files; false: all"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeOptions:
    """Which files and groups are worth rewriting by size (Iceberg: SizeBasedFileRewritePlanner)."""

    target_file_size_bytes: int
    min_file_size_bytes: int
    max_file_size_bytes: int
    min_input_files: int
    rewrite_all: bool
    max_file_group_size_bytes: int
    max_file_group_input_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOptions:
    """How groups are processed and committed."""

    max_concurrent_file_group_rewrites: int
    partial_progress: bool
    max_commits: int
    max_failed_commits: int
    rewrite_job_order: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDataFilesOptions:
    """``sort_order`` is the text of option sort-order; None means the table's own if ``strategy`` is sort."""

    strategy: str
    sort_order: str | None
    sizes: SizeOptions
    progress: ProgressOptions
    max_files_to_rewrite: int
    delete_file_threshold: int
    delete_ratio_threshold: float
    use_starting_sequence_number: bool
    output_spec_id: int | None
    remove_dangling_deletes: bool
    compression_factor: float
    max_overlap_depth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePositionDeleteFilesOptions:
    """See ``SizeOptions`` and ``ProgressOptions``."""

    sizes: SizeOptions
    progress: ProgressOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertEqualityDeletesOptions:
    """The size of new delete files in bytes."""

    target_file_size_bytes: int
    progress: ProgressOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsOptions:
    """``sort_by`` empty means every partition field in spec order; ``target_size_bytes`` comes from the table."""

    spec_id: int | None
    sort_by: tuple[str, ...]
    target_size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshotsOptions:
    """``retain_last`` None: the table's property decides. Times are milliseconds since the epoch."""

    older_than_ms: int
    retain_last: int | None
    snapshot_ids: tuple[int, ...]
    clean_expired_metadata: bool
    max_concurrent_deletes: int | None = None
    stream_results: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphanFilesOptions:
    """``older_than_ms``: milliseconds since the epoch. ``location`` None: the table's. ``equal_schemes`` and ``equal_authorities``
    map each to the one it is equal to. ``max_concurrent_deletes`` None: delete in bulk."""

    older_than_ms: int
    location: str | None
    prefix_mismatch_mode: str
    equal_schemes: Mapping[str, str]
    equal_authorities: Mapping[str, str]
    quarantine_path: str | None = None
    max_concurrent_deletes: int | None = None
    prefix_listing: bool = False
    stream_results: bool = True


def rewrite_data_files_options(options: Mapping[str, str], properties: Mapping[str, str]) -> RewriteDataFilesOptions:
    """Typed options of rewrite_data_files. Raises OptionError."""
    read = OptionReader.of("rewrite_data_files", REWRITE_DATA_FILES, options)
    _refuse_others(read, "shuffle-partitions-per-file", at_least(1), 1, "rows are not shuffled by Spark")
    _refuse_others(read, "var-length-contribution", at_least(1), 8, "z-order ranks values by quantiles, not by their first bytes")
    _refuse_others(read, "max-output-size", at_least(1), 2**31 - 1, "z-values have 64 bits")
    sort_order = read("sort-order", text, None)
    strategy = read("strategy", choice("binpack", "sort"), "sort" if sort_order else "binpack")
    if sort_order and strategy == "binpack":
        raise OptionError(f"rewrite_data_files: sort-order {sort_order!r} needs strategy sort, not binpack")
    return RewriteDataFilesOptions(
        strategy=strategy,
        sort_order=sort_order,
        sizes=_sizes(read, TARGET_FILE_SIZE_BYTES.of(properties)),
        progress=_progress(read),
        max_files_to_rewrite=read("max-files-to-rewrite", at_least(1), NO_LIMIT),
        delete_file_threshold=read("delete-file-threshold", at_least(1), 2**31 - 1),
        delete_ratio_threshold=read("delete-ratio-threshold", ratio, 0.3),
        use_starting_sequence_number=read("use-starting-sequence-number", boolean, True),
        output_spec_id=read("output-spec-id", at_least(0), None),
        remove_dangling_deletes=read("remove-dangling-deletes", boolean, False),
        compression_factor=read("compression-factor", number, 1.0),
        max_overlap_depth=read("max-overlap-depth", number, 2.0),
    )


def rewrite_position_delete_files_options(
    options: Mapping[str, str], properties: Mapping[str, str]
) -> RewritePositionDeleteFilesOptions:
    """Typed options of rewrite_position_delete_files. Raises OptionError."""
    read = OptionReader.of("rewrite_position_delete_files", REWRITE_POSITION_DELETE_FILES, options)
    sizes = _sizes(read, DELETE_TARGET_FILE_SIZE_BYTES.of(properties))
    return RewritePositionDeleteFilesOptions(sizes=sizes, progress=_progress(read))


def convert_equality_deletes_options(options: Mapping[str, str], properties: Mapping[str, str]) -> ConvertEqualityDeletesOptions:
    """Typed options of convert_equality_deletes. Raises OptionError."""
    read = OptionReader.of("convert_equality_deletes", CONVERT_EQUALITY_DELETES, options)
    return ConvertEqualityDeletesOptions(
        target_file_size_bytes=read("target-file-size-bytes", size(1), DELETE_TARGET_FILE_SIZE_BYTES.of(properties)),
        progress=_progress(read),
    )


def rewrite_manifests_options(options: Mapping[str, str], properties: Mapping[str, str]) -> RewriteManifestsOptions:
    """Typed options of rewrite_manifests. Raises OptionError."""
    read = OptionReader.of("rewrite_manifests", REWRITE_MANIFESTS, options)
    _refuse_others(read, "use-caching", boolean, False, "manifests are not rewritten by Spark")
    return RewriteManifestsOptions(
        spec_id=read("spec-id", at_least(0), None),
        sort_by=read("sort-by", names, ()),
        target_size_bytes=MANIFEST_TARGET_SIZE_BYTES.of(properties),
    )


def expire_snapshots_options(options: Mapping[str, str], properties: Mapping[str, str], *, now_ms: int) -> ExpireSnapshotsOptions:
    """Typed options of expire_snapshots; ``now_ms``: milliseconds since the epoch. Raises OptionError."""
    read = OptionReader.of("expire_snapshots", EXPIRE_SNAPSHOTS, options)
    return ExpireSnapshotsOptions(
        older_than_ms=read("older-than", moment(now_ms), now_ms - MAX_SNAPSHOT_AGE_MS.of(properties)),
        retain_last=read("retain-last", at_least(1), None),
        snapshot_ids=read("snapshot-ids", numbers, ()),
        clean_expired_metadata=read("clean-expired-metadata", boolean, False),
        max_concurrent_deletes=read("max-concurrent-deletes", at_least(1), None),
        stream_results=read("stream-results", boolean, True),
    )


def remove_orphan_files_options(options: Mapping[str, str], *, now_ms: int) -> RemoveOrphanFilesOptions:
    """Typed options of remove_orphan_files; ``now_ms``: milliseconds since the epoch. Raises OptionError, also for an
    ``older-than`` within the last 24 hours, unless ``unsafe-allow-recent`` is true."""
    read = OptionReader.of("remove_orphan_files", REMOVE_ORPHAN_FILES, options)
    older_than_ms = read("older-than", moment(now_ms), now_ms - 3 * DAY_MS)
    allow_recent = read("unsafe-allow-recent", boolean, False)
    if older_than_ms > now_ms - DAY_MS and not allow_recent:
        raise OptionError(
            f"remove_orphan_files: older-than {options['older-than']!r} is within the last 24 hours: files of running writers "
            "would be taken for orphans (unsafe-allow-recent=true permits it)"
        )
    return RemoveOrphanFilesOptions(
        older_than_ms=older_than_ms,
        location=read("location", text, None),
        prefix_mismatch_mode=read("prefix-mismatch-mode", choice("error", "ignore", "delete"), "error"),
        equal_schemes={"s3n": "s3", "s3a": "s3", **read("equal-schemes", pairs, {})},
        equal_authorities=read("equal-authorities", pairs, {}),
        quarantine_path=read("quarantine-path", text, None),
        max_concurrent_deletes=read("max-concurrent-deletes", at_least(1), None),
        prefix_listing=read("prefix-listing", boolean, False),
        stream_results=read("stream-results", boolean, True),
    )


def _refuse_others(read: OptionReader, name: str, parse: Callable[[str], V], default: V, because: str) -> None:
    """An option of Iceberg that has no effect here: its default, which matches the behaviour, is accepted."""
    if (value := read(name, parse, default)) != default:
        raise UnsupportedError(f"not supported: option {name} = {value} of {read.action}, because {because} here")


def properties_that_fit(options: Mapping[str, str]) -> dict[str, str]:
    """Table properties for which the file size limits in ``options`` are valid, if there are any: a target between them.
    Raises ValueError for a limit that is not a size."""
    low, high = options.get("min-file-size-bytes"), options.get("max-file-size-bytes")
    if low is not None:
        target = max(size(0)(low.strip()) + 1, 2)
    elif high is not None:
        target = max(size(1)(high.strip()) - 1, 1)
    else:
        return {}
    return {TARGET_FILE_SIZE_BYTES.name: str(target), DELETE_TARGET_FILE_SIZE_BYTES.name: str(target)}


def _sizes(read: OptionReader, table_target: int) -> SizeOptions:
    target = read("target-file-size-bytes", size(1), table_target)
    low = read("min-file-size-bytes", size(0), int(target * SMALL_FILE_RATIO))
    high = read("max-file-size-bytes", size(1), int(target * 1.8))
    if low >= target:
        raise OptionError(f"{read.action}: min-file-size-bytes {low} must be < target-file-size-bytes {target}")
    if high <= target:
        raise OptionError(f"{read.action}: max-file-size-bytes {high} must be > target-file-size-bytes {target}")
    return SizeOptions(
        target_file_size_bytes=target,
        min_file_size_bytes=low,
        max_file_size_bytes=high,
        min_input_files=read("min-input-files", at_least(1), 5),
        rewrite_all=read("rewrite-all", boolean, False),
        max_file_group_size_bytes=read("max-file-group-size-bytes", size(1), 100 * 2**30),
        max_file_group_input_files=read("max-file-group-input-files", at_least(1), NO_LIMIT),
    )


def _progress(read: OptionReader) -> ProgressOptions:
    commits = read("partial-progress.max-commits", at_least(1), 10)
    return ProgressOptions(
        max_concurrent_file_group_rewrites=read("max-concurrent-file-group-rewrites", at_least(1), 5),
        partial_progress=read("partial-progress.enabled", boolean, False),
        max_commits=commits,
        max_failed_commits=read("partial-progress.max-failed-commits", at_least(0), commits),
        rewrite_job_order=read("rewrite-job-order", choice(*JOB_ORDERS), "none"),
    )
