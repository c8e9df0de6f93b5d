"""Options of actions on a table that policies do not schedule: importing files, computing statistics.

As in ``options``: Iceberg's names and defaults, typed values, one-line errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iceberg_ops.config.option_parsing import Option, OptionReader, at_least, boolean, names, pairs, text
from iceberg_ops.errors import OptionError

ADD_FILES = (
    Option("source-path", "a location", "required", "folder of the Parquet files to add"),
    Option("partition-filter", "pairs", "none", "only files in this partition, as name=value pairs"),
    Option("check-duplicate-files", "true or false", "true", "fail if a file is already in the table"),
    Option("parallelism", "files", "8", "number of footers to read at a time (at most 256)"),
)
COMPUTE_PARTITION_STATS = (Option("snapshot-id", "an id", "the branch's head", "the snapshot to compute statistics of"),)
COMPUTE_TABLE_STATS = (
    *COMPUTE_PARTITION_STATS,
    Option("columns", "names", "all that are not nested", "columns, comma separated"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFilesOptions:
    """``partition_filter``: partition field names and values; ``parallelism``: footers read at a time."""

    source_path: str
    partition_filter: Mapping[str, str]
    check_duplicate_files: bool
    parallelism: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStatsOptions:
    """``snapshot_id`` None: the head of the branch; ``columns`` empty: all that are not nested."""

    snapshot_id: int | None
    columns: tuple[str, ...] = ()


def add_files_options(options: Mapping[str, str]) -> AddFilesOptions:
    """Typed options of add_files. Raises OptionError."""
    read = OptionReader.of("add_files", ADD_FILES, options)
    source = read("source-path", text, None)
    if source is None:
        raise OptionError("add_files needs option source-path: the folder whose files become the table's")
    return AddFilesOptions(
        source_path=source.rstrip("/"),
        partition_filter=read("partition-filter", pairs, {}),
        check_duplicate_files=read("check-duplicate-files", boolean, True),
        parallelism=read("parallelism", at_least(1), 8),
    )


def compute_table_stats_options(options: Mapping[str, str]) -> ComputeStatsOptions:
    """Typed options of compute_table_stats. Raises OptionError."""
    read = OptionReader.of("compute_table_stats", COMPUTE_TABLE_STATS, options)
    return ComputeStatsOptions(snapshot_id=read("snapshot-id", at_least(0), None), columns=read("columns", names, ()))


def compute_partition_stats_options(options: Mapping[str, str]) -> ComputeStatsOptions:
    """Typed options of compute_partition_stats. Raises OptionError."""
    read = OptionReader.of("compute_partition_stats", COMPUTE_PARTITION_STATS, options)
    return ComputeStatsOptions(snapshot_id=read("snapshot-id", at_least(0), None))
