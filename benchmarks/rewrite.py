"""``rewrite_data_files`` on TPC-H lineitem: this package and Iceberg Java in one Spark session (``local[2]``), to files of 64 MB.

Lines: ``bin-pack``, ``bin-pack-2000-files`` (the same rows in ten times as many files), ``bin-pack-deletes-pos``,
``bin-pack-deletes-eq``, ``sort``, ``z-order``; and ``bin-pack-floor``, whose peer is only pyarrow in two processes. Every run
has a fresh table of the same files. After one warm-up each, the median of ``MAINTENANCE_REPEATS`` runs (3) counts. After the
last run of each side DuckDB reads the new files of both: the benchmark fails unless the number of rows and the sum of row hashes
are equal.
``MAINTENANCE_SF`` is the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks import lineitem
from benchmarks.java_peer import SharedLake
from benchmarks.pyarrow_floor import floor
from benchmarks.records import record
from benchmarks.side_by_side import Side, compare, ours, theirs

TARGET = 64 << 20
SORT = "l_shipdate, l_orderkey"
_CASES: dict[str, tuple[Callable[[SharedLake], str], dict[str, str], str]] = {
    "bin-pack": (lineitem.plain, {}, ""),
    "bin-pack-2000-files": (lineitem.in_more_files, {}, ""),
    "bin-pack-deletes-pos": (lineitem.with_position_deletes, {}, ""),
    "bin-pack-deletes-eq": (lineitem.with_equality_deletes, {}, ""),
    "sort": (lineitem.plain, {"sort-order": SORT}, f", strategy => 'sort', sort_order => '{SORT}'"),
    "z-order": (
        lineitem.plain,
        {"sort-order": "zorder(l_shipdate, l_partkey)"},
        ", strategy => 'sort', sort_order => 'zorder(l_shipdate, l_partkey)'",
    ),
}
LINES = (*_CASES, "bin-pack-floor")


def run(lines: Sequence[str] = LINES) -> Iterator[dict[str, Any]]:
    """One record for each of ``lines``, as they complete."""
    lake = lineitem.lake()
    try:
        for line in lines:
            yield _floor(lake) if line == "bin-pack-floor" else _case(lake, line)
    finally:
        lake.close()


def _case(lake: SharedLake, line: str) -> dict[str, Any]:
    seed, options, arguments = _CASES[line]
    options = {"target-file-size-bytes": str(TARGET), **options}
    procedure = f"options => map('target-file-size-bytes', '{TARGET}'){arguments}"
    return compare(
        lake, line, seed(lake), Side(lambda name: ours(lake, name, options)), Side(lambda name: theirs(lake, name, procedure))
    )


def _floor(lake: SharedLake) -> dict[str, Any]:
    found = compare(
        lake, "bin-pack", lineitem.plain(lake), Side(lambda name: ours(lake, name, {"target-file-size-bytes": str(TARGET)})), None
    )
    seconds, size = floor(lake, lineitem.plain(lake))
    return record(
        "bin-pack-floor", ours_s=found["ours_s"], peer="pyarrow, 2 processes", peer_s=seconds, bytes_=found["bytes"],
        peer_bytes=size, scale=lineitem.SCALE, cpu_s=found["cpu_s"],
    )  # fmt: skip
