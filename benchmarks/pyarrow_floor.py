"""What pyarrow alone takes to read files and write them as fewer, in two processes, with the settings that were fastest.

No Iceberg, no Spark, no field ids, no metrics, no checks: a floor to stand beside. Two processes of a pool that is warm.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.java_peer import NAMESPACE, SharedLake
from iceberg_ops.scan.planning import Scan, plan

TEXT = ["l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode"]
ENCODINGS = {
    "l_orderkey": "DELTA_BINARY_PACKED", "l_partkey": "DELTA_BINARY_PACKED", "l_suppkey": "DELTA_BINARY_PACKED",
    "l_extendedprice": "DELTA_BINARY_PACKED", "l_comment": "DELTA_LENGTH_BYTE_ARRAY",
}  # fmt: skip
PARTS, REPEATS, ROW_GROUP = 3, 3, 1 << 20


def floor(lake: SharedLake, seed: str) -> tuple[float, int]:
    """Seconds (median of three, after one that warms the processes) and bytes written."""
    paths = [task.file_path.removeprefix("file:") for task in plan(lake.catalog.load_table((NAMESPACE, seed)), Scan()).tasks]
    size = -(-len(paths) // PARTS)
    parts = [paths[at : at + size] for at in range(0, len(paths), size)]
    target = lake.folder / "floor"
    target.mkdir(exist_ok=True)
    seconds = []
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"), initializer=_one_thread) as pool:
        for _ in range(REPEATS + 1):
            begun = time.perf_counter()
            written = list(pool.map(_merge, parts, [str(target / f"{i}.parquet") for i in range(len(parts))]))
            seconds.append(time.perf_counter() - begun)
    return round(median(seconds[1:]), 3), sum(written)


def _one_thread() -> None:
    pa.set_cpu_count(1)


def _merge(paths: list[str], target: str) -> int:
    held: list[pa.Table] = []
    writer: pq.ParquetWriter | None = None

    def flush() -> None:
        nonlocal writer
        table = pa.concat_tables(held).unify_dictionaries()
        held.clear()
        if writer is None:
            dictionary = [name for name in table.schema.names if name not in ENCODINGS]
            writer = pq.ParquetWriter(
                target, table.schema, compression="zstd", compression_level=3, use_dictionary=dictionary, column_encoding=ENCODINGS,
                store_decimal_as_integer=True, store_schema=False,
            )  # fmt: skip
        writer.write_table(table, row_group_size=table.num_rows)

    for path in paths:
        held.append(pq.read_table(path, read_dictionary=TEXT, memory_map=True, pre_buffer=False, use_threads=False))
        if sum(table.num_rows for table in held) >= ROW_GROUP:
            flush()
    if held:
        flush()
    assert writer is not None
    writer.close()
    return Path(target).stat().st_size
