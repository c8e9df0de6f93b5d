"""Compaction with concurrent deletes: repeated full rewrites of a 250 MB table, while another process deletes rows of the same
files about every second, merge-on-read; by this package and by Iceberg Java (its Spark procedure), each on a separate table.

``CONTENTION_ROUNDS`` rewrites of each side (25), of ``CONTENTION_MB`` megabytes (250), are distributed over the ways of deleting.
After ``CONTENTION_SECONDS`` (1,000) no new round begins, so that the run ends within twenty minutes; a record gives the number of
rounds. A round counts as committed only if all of it is. The table is read after each round: the benchmark fails unless every
acknowledged delete is in force, no row is there twice and no row is missing without a delete.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from benchmarks.contended_table import Contended, make_table
from benchmarks.java_peer import CATALOG, NAMESPACE, PEER, SharedLake
from benchmarks.records import record
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import IcebergOpsError

MEGABYTES = int(os.environ.get("CONTENTION_MB", "250"))
ROUNDS = int(os.environ.get("CONTENTION_ROUNDS", "25"))
SECONDS = float(os.environ.get("CONTENTION_SECONDS", "1000"))
MODES = {
    "v2-file-deletes": {"format-version": "2", "write.delete.granularity": "file"},
    "v2-partition-deletes": {"format-version": "2", "write.delete.granularity": "partition"},
    "v3-deletion-vectors": {"format-version": "3"},
}


@dataclass
class Figures:
    """The figures of one side and mode. ``seconds`` of every round, whatever its result; ``why`` counts the results."""

    committed: int = 0
    seconds: list[float] = field(default_factory=list)
    why: Counter[str] = field(default_factory=Counter)
    carried_over: int = 0
    waited: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)
    deletes: dict[str, Any] = field(default_factory=dict)
    bytes_: int = 0


Rewrite = Callable[[str, Figures], bool]
"""Rewrites the table with that name once; returns whether it was committed."""


def run() -> list[dict[str, Any]]:
    """One record per way of deleting."""
    with tempfile.TemporaryDirectory(prefix="contention-") as folder:
        properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"{folder}/wh"}
        config = CatalogConfig(name=CATALOG, type="sql", properties=properties)
        load_catalog(config).create_namespace((NAMESPACE,))
        begun = time.monotonic()
        ours = _side("ours", config, lambda name, figures: _we_rewrite(config, name, figures), begun + SECONDS / 3)
        lake = SharedLake(Path(folder))
        try:
            _warm_up(lake)
            theirs = _side("java", config, lambda name, figures: _java_rewrites(lake, name, figures), begun + SECONDS)
        finally:
            lake.close()
    return [_record(mode, ours[mode], theirs[mode]) for mode in ours if mode in theirs]


def _side(side: str, config: CatalogConfig, rewrite: Rewrite, until: float) -> dict[str, Figures]:
    shares = {mode: len(range(i, ROUNDS, len(MODES))) for i, mode in enumerate(MODES)}
    found = {}
    for i, (mode, rounds) in enumerate(shares.items()):
        if rounds:
            left = until - time.monotonic()
            found[mode] = _contend(f"{side}_{i}", config, MODES[mode], rewrite, rounds, left / (len(MODES) - i))
    return found


def _contend(
    name: str, config: CatalogConfig, properties: dict[str, str], rewrite: Rewrite, rounds: int, seconds: float
) -> Figures:
    figures, until = Figures(), time.monotonic() + seconds
    figures.bytes_ = make_table(config, (NAMESPACE, name), properties, MEGABYTES)
    with _deleting(config, name) as table:
        for _ in range(rounds):
            begun = time.monotonic()
            figures.committed += rewrite(f"{CATALOG}.{NAMESPACE}.{name}", figures)
            figures.seconds.append(time.monotonic() - begun)
            table.verify()
            if time.monotonic() > until:
                break
    table.verify()
    figures.deletes = table.counts()
    return figures


@contextmanager
def _deleting(config: CatalogConfig, name: str) -> Iterator[Contended]:
    table = Contended(config, (NAMESPACE, name))
    table.begin()
    try:
        yield table
    finally:
        table.end()


def _we_rewrite(config: CatalogConfig, name: str, figures: Figures) -> bool:
    try:
        report = run_job(JobSpec(job="rewrite_data_files", table=name, catalog=config, options={"rewrite-all": "true"}))
    except IcebergOpsError as e:
        figures.why[f"failed: {e.code}"] += 1
        return False
    figures.why.update(group.status for group in report.groups)
    figures.carried_over += report.metrics["carried-over-deletes-count"]
    waited = report.metrics["waited-for-writers-ms"]
    figures.waited.append(waited / 1000)
    figures.commit.append((next(s.duration_ms for s in report.steps if s.name == "commit") - waited) / 1000)
    return report.status == "committed"


def _java_rewrites(lake: SharedLake, name: str, figures: Figures) -> bool:
    table = name.partition(".")[2]
    try:
        lake.sql(f"CALL {CATALOG}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    except (PySparkException, Py4JJavaError) as e:
        figures.why[f"failed: {_cause(e)}"] += 1
        return False
    figures.why["committed"] += 1
    return True


def _warm_up(lake: SharedLake) -> None:
    """One rewrite by Java of a table without other writers: it must be able to commit, and should not be measured cold."""
    make_table(lake.config, (NAMESPACE, "warm"), MODES["v2-file-deletes"], 5)
    figures = Figures()
    if not _java_rewrites(lake, f"{CATALOG}.{NAMESPACE}.warm", figures):
        raise SystemExit(f"{PEER} cannot rewrite an idle table: {dict(figures.why)}")


def _cause(e: Exception) -> str:
    """Iceberg's own line with the reason, without file names."""
    every = [line.strip() for line in str(e).splitlines()]
    lines = [line for line in every if "org.apache.iceberg.exceptions" in line and not line.startswith("at ")] or every
    return re.sub(r"[:,]?\s*(for )?(GenericDataFile|/|file:).*", "", lines[-1].rpartition("exceptions.")[2])[:120]


def _record(mode: str, ours: Figures, theirs: Figures) -> dict[str, Any]:
    return record(
        f"compaction under deletes every second, {mode}",
        ours_s=sum(ours.seconds) / len(ours.seconds),
        peer=PEER,
        peer_s=round(sum(theirs.seconds) / len(theirs.seconds), 3),
        bytes_=ours.bytes_,
        rounds=len(ours.seconds),
        committed=ours.committed,
        peer_rounds=len(theirs.seconds),
        peer_committed=theirs.committed,
        groups=dict(ours.why),
        peer_groups=dict(theirs.why),
        carried_over_rows=ours.carried_over,
        waited_s=round(median(ours.waited), 3) if ours.waited else None,
        commit_s=round(median(ours.commit), 3) if ours.commit else None,
        slowest_s=round(max(ours.seconds), 3),
        **ours.deletes,
        **{f"peer_{name}": count for name, count in theirs.deletes.items()},
    )
