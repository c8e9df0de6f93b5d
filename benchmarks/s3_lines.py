"""The lines of the S3 benchmark: how each makes a fresh table, what both sides do with it, and what must be left."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import lineitem
from benchmarks.java_peer import CATALOG, NAMESPACE
from benchmarks.plan_table import make_table
from benchmarks.rewrite import SORT, TARGET
from benchmarks.row_operations import merge_parts, read_by_java
from benchmarks.s3_lake import S3, CoreApi, S3Lake, made_old
from benchmarks.side_by_side import forget, ours, theirs
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.manifests import CACHE
from spark_jobs.jobs.dispatch import run as run_on_spark

METADATA_LINES = ("s3-plan", "s3-expire")
SPARK_LINES = ("s3-small", "s3-bin-pack", "s3-sort", "s3-merge", "s3-orphans")
MANIFESTS, FILES_OF_EACH = 100, 200
SNAPSHOTS, FILES_OF_APPEND = 100, 5
ORPHANS = 500
LINEITEM_FILES = 200
_OLD_DAYS = 10
_NUMBERS = itertools.count(os.getpid() * 1000)


@dataclass(frozen=True, slots=True)
class Line:
    """``fresh`` gives the name of a new table, on which one side works; ``left`` is what must be equal for both sides."""

    fresh: Callable[[], str]
    ours: Callable[[str], Any]
    theirs: Callable[[str], Any]
    left: Callable[[str], Any]
    forget: Callable[[str], Any] = lambda _: None


@contextmanager
def core_api_lines(folder: Path, s3: S3) -> Iterator[Callable[[str], Line]]:
    """Lines without Spark, beside Java's core API."""
    folder = folder / "core"
    folder.mkdir()
    catalog = load_catalog(s3.config(folder, s3.storage.direct))
    catalog.create_namespace((NAMESPACE,))
    config = s3.config(folder, s3.storage.ours)

    def planned(name: str) -> int:
        CACHE.clear()
        return len(plan(load_catalog(config).load_table((NAMESPACE, name)), Scan()).tasks)

    def expired(name: str) -> int:
        CACHE.clear()
        # Jobs take the age of snapshots from the clock, and Java's core API expires what is older than its next millisecond.
        options = {"older-than": _iso(time.time() + 3600), "retain-last": "1"}
        return run_job(JobSpec(job="expire_snapshots", table=f"{CATALOG}.{NAMESPACE}.{name}", catalog=config, options=options))  # type: ignore[return-value]

    def large() -> str:
        name = f"t{next(_NUMBERS)}"
        location = f"{s3.storage.warehouse}/{NAMESPACE}/{name}"
        made = make_table(location, MANIFESTS * FILES_OF_EACH, io=catalog.io, per_manifest=FILES_OF_EACH)
        catalog.register_table((NAMESPACE, name), made.metadata_location)
        return name

    def long() -> str:
        name = f"t{next(_NUMBERS)}"
        table = catalog.create_table((NAMESPACE, name), Schema.of(NestedField(1, "id", LONG)))
        added: list[DataFile] = []
        for n in range(SNAPSHOTS - 2):
            files = [_file(table, f"{n}-{i}") for i in range(FILES_OF_APPEND)]
            added += files
            table = commit(catalog, table, AppendFiles(added=tuple(files)), just_loaded=True).table
        start = table.metadata.current_snapshot_id
        replaced = OverwriteFiles(added=(_file(table, "all"),), removed=tuple(added), starting_snapshot_id=start)
        # Java deletes removed files when the snapshot that removed them is expired.
        commit(catalog, commit(catalog, table, replaced).table, AppendFiles(added=(_file(table, "last"),)))
        return name

    with CoreApi(folder, s3) as java:
        lines = {
            "s3-plan": Line(large, planned, lambda name: java.work("plan", name), lambda _: None),
            "s3-expire": Line(
                long, expired, lambda name: java.work("expire", name), lambda name: _snapshots_and_files(catalog, s3, name)
            ),
        }
        yield lines.__getitem__


def _file(table: Any, name: str) -> DataFile:
    """A data file whose content nobody reads."""
    place = f"{table.location}/data/{name}.parquet"
    table.io.write(place, b"PAR1")
    return DataFile(file_path=place, file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=4)


def _snapshots_and_files(catalog: Any, s3: S3, name: str) -> tuple[int, int]:
    """Snapshots, and objects that are no metadata files."""
    objects = (s3.objects / "wh" / NAMESPACE / name).rglob("*")
    return len(catalog.load_table((NAMESPACE, name)).metadata.snapshots), sum(x.suffix in (".avro", ".parquet") for x in objects)


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@contextmanager
def spark_lines(folder: Path, s3: S3) -> Iterator[Callable[[str], Line]]:
    """Lines in one Spark session."""
    (folder / "spark").mkdir()
    lake = S3Lake(folder / "spark", s3)
    try:
        yield lambda line: _SPARK[line](lake)
    finally:
        lake.close()


def _small(lake: S3Lake) -> Line:
    return _rewriting(lake, lineitem.many_partitions(lake), {}, "options => map()")


def _bin_pack(lake: S3Lake) -> Line:
    return _rewriting(lake, _lineitem(lake), _SIZES, _SIZES_IN_SQL)


def _sort(lake: S3Lake) -> Line:
    options = {**_SIZES, "sort-order": SORT}
    return _rewriting(lake, _lineitem(lake), options, f"{_SIZES_IN_SQL}, strategy => 'sort', sort_order => '{SORT}'")


_SIZES = {"target-file-size-bytes": str(TARGET)}
_SIZES_IN_SQL = f"options => map('target-file-size-bytes', '{TARGET}')"


def _lineitem(lake: S3Lake) -> str:
    return lineitem.in_files(lake, "lineitem", LINEITEM_FILES)


def _rewriting(lake: S3Lake, seed: str, options: dict[str, str], arguments: str) -> Line:
    return _on_copies(lake, seed, lambda name: ours(lake, name, options), lambda name: theirs(lake, name, arguments))


def _merge(lake: S3Lake) -> Line:
    parts, sql = merge_parts(lake, "merge-on-read")

    def mine(table: str) -> None:
        run_on_spark(lake.session, JobSpec(job="merge", table=table, catalog=lake.config, **parts))

    def java(table: str) -> None:
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')")
        lake.sql(sql.format(table=table))

    return _on_copies(lake, _lineitem(lake), mine, java)


def _on_copies(lake: S3Lake, seed: str, mine: Callable[[str], Any], java: Callable[[str], Any]) -> Line:
    """Each time on another table of the seed's files."""

    def work(table: str) -> None:
        CACHE.clear()
        mine(table)

    def name_of(table: str) -> str:
        return table.rpartition(".")[2]

    return Line(
        lambda: lake.register(seed, f"t{next(_NUMBERS)}"),
        work,
        java,
        lambda table: read_by_java(lake, name_of(table)),
        lambda table: forget(lake, seed, name_of(table)),
    )


def _orphans(lake: S3Lake) -> Line:
    """A table of its own each time: files without a table beside those of the table."""

    def fresh() -> str:
        seed = lineitem.many_partitions(lake, f"t{next(_NUMBERS)}")
        table = lake.catalog.load_table((NAMESPACE, seed))
        for n in range(ORPHANS):
            table.io.write(f"{table.location}/data/part={n % 100}/orphan-{n}.parquet", b"PAR1")
        made_old(_objects(lake, seed), _OLD_DAYS)
        return f"{CATALOG}.{NAMESPACE}.{seed}"

    def mine(table: str) -> None:
        CACHE.clear()
        options = {"prefix-listing": "true"}
        run_on_spark(lake.session, JobSpec(job="remove_orphan_files", table=table, catalog=lake.config, options=options))

    def java(table: str) -> None:
        name = table.partition(".")[2]
        lake.sql(f"CALL {CATALOG}.system.remove_orphan_files(table => '{name}', prefix_listing => true)")

    def left(table: str) -> int:
        return sum(x.suffix == ".parquet" for x in _objects(lake, table.rpartition(".")[2]).rglob("*"))

    return Line(fresh, mine, java, left)


def _objects(lake: S3Lake, name: str) -> Path:
    return lake.s3.objects / "wh" / NAMESPACE / name


_SPARK: dict[str, Callable[[S3Lake], Line]] = {
    "s3-small": _small,
    "s3-bin-pack": _bin_pack,
    "s3-sort": _sort,
    "s3-merge": _merge,
    "s3-orphans": _orphans,
}
