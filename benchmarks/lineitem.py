"""Seed tables of the maintenance benchmarks: TPC-H lineitem in 200 files (or 2,000), written by Iceberg Java, and with deletes.

``MAINTENANCE_SF`` is the scale factor; the number of files grows with it (1: 6 million rows in 200 files). Rows come from
``tpchgen-cli`` (extra ``bench``). Seeds are kept in build/bench/lake-<scale> and used again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.java_peer import CATALOG, NAMESPACE, SharedLake
from benchmarks.records import FOLDER
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import DOUBLE, INT, LONG, NestedField

SCALE = float(os.environ.get("MAINTENANCE_SF", "1"))
FILES = max(2, round(200 * SCALE))
ROUNDS = 3
EQUALITY_FILES = 5
MORE_FILES = 10
"""How many times as many files ``in_more_files`` has."""
SMALL_FILES, SMALL_ROWS = 8, 600_000
PARTITIONS, FILES_OF_EACH, ROWS_OF_EACH = 100, 30, 100


def lake() -> SharedLake:
    """The lake of this scale."""
    folder = FOLDER / f"lake-{SCALE:g}"
    folder.mkdir(parents=True, exist_ok=True)
    return SharedLake(folder)


def plain(lake: SharedLake) -> str:
    """lineitem without deletes; the seed's name."""
    return in_files(lake, "lineitem", FILES)


def in_more_files(lake: SharedLake) -> str:
    """The same rows in ten times as many files."""
    return in_files(lake, "lineitem_more_files", FILES * MORE_FILES)


def in_files(lake: SharedLake, name: str, files: int) -> str:
    """The seed ``name``: lineitem in that many files."""

    def make(name: str) -> None:
        # Each part, however small, is one Spark partition, and so one data file.
        lake.session.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))
        lake.session.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 30))
        _create_from(lake, name, lake.session.read.parquet(str(raw(files))))
        for key in ("openCostInBytes", "maxPartitionBytes"):
            lake.session.conf.unset(f"spark.sql.files.{key}")

    return _seed(lake, name, make)


def with_position_deletes(lake: SharedLake) -> str:
    """Three rounds of merge-on-read deletes by Java, 1 % of the rows each."""

    def make(name: str) -> None:
        table = lake.register(plain(lake), name)
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        for n in range(ROUNDS):
            lake.sql(f"DELETE FROM {table} WHERE pmod(l_orderkey * 7 + l_linenumber, 100) = {n * 13}")

    return _seed(lake, "positions", make)


def with_equality_deletes(lake: SharedLake) -> str:
    """1 % of the rows, deleted by order key and line number in five commits; this package writes them, because Java on Spark
    cannot."""

    def make(name: str) -> None:
        lake.register(plain(lake), name)
        keys = pq.read_table(raw(), columns=["l_orderkey", "l_linenumber"])
        chosen = np.sort(np.random.default_rng(5).choice(keys.num_rows, keys.num_rows // 100, replace=False))
        for number in range(EQUALITY_FILES):
            table = lake.catalog.load_table((NAMESPACE, name))
            ids = [f.field_id for f in table.schema.fields if f.name in ("l_orderkey", "l_linenumber")]
            batches = keys.take(pa.array(chosen[number::EQUALITY_FILES])).combine_chunks().to_batches()
            context = WriteContext.for_table(table.metadata)
            added = write_equality_deletes(table.io, context, ids, batches, operation_id=f"keys-{uuid.uuid4()}")
            start = table.metadata.current_snapshot_id
            commit(lake.catalog, table, RowDelta(added_deletes=tuple(added), starting_snapshot_id=start))

    return _seed(lake, "equality", make)


def empty(lake: SharedLake) -> str:
    """A table like ``plain`` without rows."""

    def make(name: str) -> None:
        _create_from(lake, name, lake.session.read.parquet(str(raw())).limit(0))

    return _seed(lake, "empty", make)


def changes(lake: SharedLake) -> Path:
    """Rows to merge, one Parquet folder: 0.25 % of lineitem, of which a third has new keys."""
    folder = lake.folder / "changes"
    if not (folder / "_SUCCESS").exists():
        rows = lake.session.read.parquet(str(raw())).where("pmod(l_orderkey * 11 + l_linenumber, 400) = 23")
        is_new = "pmod(l_orderkey, 3) = 0"
        key = f"CASE WHEN {is_new} THEN l_orderkey + 100000000 ELSE l_orderkey END"
        changed = {"l_orderkey": key, "l_discount": "CAST(0.09 AS DECIMAL(15, 2))"}
        rows.selectExpr(*[f"{changed.get(c, c)} AS {c}" for c in rows.columns]).coalesce(1).write.mode("overwrite").parquet(
            str(folder)
        )
    return folder


def small(lake: SharedLake) -> str:
    """A tenth of lineitem at scale 1 in 8 files, about 17 MB."""

    def make(name: str) -> None:
        rows = lake.session.read.parquet(str(raw())).limit(SMALL_ROWS).coalesce(1).repartitionByRange(SMALL_FILES, "l_orderkey")
        _create_from(lake, name, rows)

    return _seed(lake, "small", make)


def many_partitions(lake: SharedLake, name: str = "partitioned") -> str:
    """100 partitions of 30 files of 100 rows."""

    def make(name: str) -> None:
        fields = [NestedField(1, "part", INT), NestedField(2, "id", LONG), *(NestedField(3 + i, f"x{i}", DOUBLE) for i in range(4))]
        spec = PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "part"),))
        table = lake.catalog.create_table((NAMESPACE, name), Schema.of(*fields), spec=spec)
        rng = np.random.default_rng(3)
        for n in range(FILES_OF_EACH):
            part = np.repeat(np.arange(PARTITIONS, dtype=np.int32), ROWS_OF_EACH)
            ids = np.arange(len(part)) + n * len(part)
            columns = {"part": part, "id": ids, **{f"x{i}": rng.random(len(part)) for i in range(4)}}
            writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"seed-{uuid.uuid4()}")
            writer.write(pa.RecordBatch.from_pydict({k: pa.array(v) for k, v in columns.items()}))
            table = commit(lake.catalog, table, AppendFiles(added=tuple(writer.close()))).table

    return _seed(lake, name, make)


def _seed(lake: SharedLake, name: str, make: Callable[[str], None]) -> str:
    """Created once; an interrupted run leaves no mark, so the seed is created again."""
    mark = lake.folder / f"{name}.made"
    if not mark.exists():
        if lake.exists(name):
            lake.catalog.drop_table((NAMESPACE, name))
        make(name)
        mark.touch()
    return name


def _create_from(lake: SharedLake, name: str, rows: Any) -> None:
    rows.createOrReplaceTempView("seed_rows")
    lake.sql(
        f"CREATE TABLE {CATALOG}.{NAMESPACE}.{name} USING iceberg TBLPROPERTIES ('format-version' = '2') AS SELECT * FROM seed_rows"
    )


def raw(files: int = FILES) -> Path:
    """Folder of lineitem in ``files`` Parquet parts."""
    folder = FOLDER / (f"tpch-{SCALE:g}" if files == FILES else f"tpch-{SCALE:g}-{files}")
    if not (folder / "lineitem").exists():
        program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
        if program is None:
            raise SystemExit("tpchgen-cli is not installed: pip install tpchgen-cli")
        folder.mkdir(parents=True, exist_ok=True)
        command = [program, "parquet", "-s", f"{SCALE:g}", "--tables=lineitem", f"--parts={files}", f"--output-dir={folder}"]
        subprocess.run(command, check=True, capture_output=True)
    return folder / "lineitem"
