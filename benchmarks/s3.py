"""Maintenance in a store that is far away: this package and Iceberg Java 1.11 (S3FileIO) on the same S3, each behind a proxy that
delays every request by 0, 20 and 50 ms and counts it.

Lines: ``s3-plan`` (100 manifests, nothing in memory) and ``s3-expire`` (100 snapshots), both beside Java's core API,
``s3-small`` (3,000 small files in 100 partitions), ``s3-bin-pack``, ``s3-sort`` and ``s3-merge`` (lineitem in 200 files) and
``s3-orphans`` (500 orphans beside 3,000 files); these five in one Spark session (``local[2]``), beside Java's procedures and MERGE.

Each side is warmed up once without delay, then runs once with each delay of ``S3_DELAYS``, each time on a fresh table of the same
files. Both must leave the same rows, snapshots or files. The figures of a record are those of the delay of 20 ms (else the last
one); ``delays`` has all of them. ``MAINTENANCE_SF`` is the scale of lineitem.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.delaying_proxy import DelayingProxy
from benchmarks.java_peer import PEER
from benchmarks.meter import Measured, measured
from benchmarks.records import record
from benchmarks.s3_lake import S3, running_s3
from benchmarks.s3_lines import METADATA_LINES, SPARK_LINES, Line, core_api_lines, spark_lines

DELAYS = tuple(int(text) for text in os.environ.get("S3_DELAYS", "0,20,50").split(","))
LINES = (*METADATA_LINES, *SPARK_LINES)
_SHOWN = 20


def run(lines: Sequence[str] = LINES) -> Iterator[dict[str, Any]]:
    """One record for each of ``lines``, as they complete."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="s3-", dir=memory if memory.is_dir() else None) as name, ExitStack() as until_the_end:
        folder = Path(name)
        s3 = until_the_end.enter_context(running_s3(folder / "store"))
        for names, open_lines in ((METADATA_LINES, core_api_lines), (SPARK_LINES, spark_lines)):
            if wanted := [line for line in lines if line in names]:
                with open_lines(folder, s3) as make:
                    for line in wanted:
                        yield _compared(line, s3, make(line))


def _compared(name: str, s3: S3, line: Line) -> dict[str, Any]:
    """Ends the program if the sides do not leave the same."""
    _once(line, line.ours, s3.ours, 0)
    _once(line, line.theirs, s3.theirs, 0)
    found = {delay: _both(name, line, s3, delay) for delay in DELAYS}
    shown = found.get(_SHOWN) or found[DELAYS[-1]]
    more = {key: shown[key] for key in ("requests", "peer_requests", "cpu_s", "peer_cpu_s")}
    return record(
        name, ours_s=shown["ours_s"], peer=PEER, peer_s=shown["peer_s"], **more, delays={str(k): v for k, v in found.items()}
    )


def _both(name: str, line: Line, s3: S3, delay: int) -> dict[str, Any]:
    ours, asked, left = _once(line, line.ours, s3.ours, delay)
    theirs, they_asked, they_left = _once(line, line.theirs, s3.theirs, delay)
    if left != they_left:
        raise SystemExit(f"{name}: we left {left}, Java {they_left}")
    return {
        "ours_s": ours.wall_s,
        "peer_s": theirs.wall_s,
        "ratio": round(theirs.wall_s / ours.wall_s, 2),
        "requests": asked,
        "peer_requests": they_asked,
        "cpu_s": ours.cpu_s,
        "peer_cpu_s": theirs.cpu_s,
    }


def _once(line: Line, work: Any, proxy: DelayingProxy, delay: int) -> tuple[Measured, dict[str, int], Any]:
    table = line.fresh()
    proxy.begin(delay)
    found = measured(partial(work, table))
    counts = proxy.counts()
    left = line.left(table)
    line.forget(table)
    return found, {"all": sum(counts.values()), **dict(sorted(counts.items()))}, left
