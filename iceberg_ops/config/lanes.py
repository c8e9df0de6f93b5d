"""The data with which hosts choose a lane without opening a table: the rule itself is in ``iceberg_ops.actions.lanes``."""

from __future__ import annotations

from typing import Literal, get_args

Lane = Literal["auto", "local", "spark"]
"""Where a job runs: in the calling process, as a Spark job, or chosen by its size (``actions.lanes``)."""
LANES: tuple[str, ...] = get_args(Lane)
LOCAL: Literal["local"] = "local"
SPARK: Literal["spark"] = "spark"

SPARK_FROM_BYTES = "spark-from-bytes"
"""Catalog property: lane auto is Spark if the job reads at least this many bytes."""
DEFAULT_SPARK_FROM_BYTES = 8 * 2**30
"""About two minutes of compaction on two cores; compared with that, Spark's start-up (10 s) is short."""

MOST_ROW_BYTES = 2**30
"""Lane auto does a row operation in this process up to this many bytes of source and data files."""
MOST_COMPUTED_ROWS = 10_000_000
"""The same limit in rows, if a condition or a value is computed from each: a core does about a million a second (texts, whole
numbers, times) or 150,000 (decimals, ``round``), repeated values of a batch only once. Spark's start-up takes 10 s."""
MOST_TEXT_BYTES = 2**27
"""The same limit for a CSV or JSON source, of which one process parses a few megabytes a second."""
MOST_BYTES_IN_MEMORY = 2**26
"""The same for the source of a merge or an upsert, which lane local holds in memory."""


def named_master(text: str | None) -> str | None:
    """The Spark master in a variable or connection; None for blank or missing text."""
    return (text or "").strip() or None


def is_this_machine(master: str) -> bool:
    """Whether a Spark master uses only this machine: ``local``, ``local[4]``, ``local[*]``."""
    return master == "local" or master.startswith("local[")
