"""Reads TPC-H lineitem as Arrow batches: this package and ``pyarrow.parquet`` on the same files and columns; without deletes, with
10 % position deletes, and with 100,000 equality deletes in 20 files (there also DuckDB's iceberg_scan, if its extension loads).

``tpchgen-cli`` (PyPI) makes the rows; ``SCAN_SF`` is the scale factor (1: six million rows).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.records import record
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.data.arrow.arrow_schema import schema_of_arrow
from iceberg_ops.data.reading.reader import scan_batches
from iceberg_ops.data.writing.delete_files import write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table

FACTOR = os.environ.get("SCAN_SF", "1")
REPEATS = int(os.environ.get("SCAN_REPEATS", "5"))
EQUALITY_DELETES, EQUALITY_FILES = 100_000, 20
SHARE_DELETED = 10
DUCKDB_SECONDS = float(os.environ.get("SCAN_DUCKDB_SECONDS", "120"))
"""DuckDB is stopped after this time; its time is then a lower bound."""


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="scan-") as folder:
        source = _lineitem(Path(folder))
        config = CatalogConfig(
            name="bench", type="sql", properties={"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"{folder}/wh"}
        )
        catalog = load_catalog(config)
        catalog.create_namespace(("db",))
        tables = {name: _table(catalog, source, name) for name in ("plain", "positions", "equality")}
        files = {name: _files(table) for name, table in tables.items()}
        tables["positions"] = _delete_positions(catalog, tables["positions"])
        tables["equality"] = _delete_keys(catalog, tables["equality"], source)
        found = [_compared(name, table, files[name]) for name, table in tables.items()]
        return found + _duckdb(tables["equality"], found[-1]["ours_s"])


def _lineitem(folder: Path) -> Path:
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if program is None:
        raise SystemExit("tpchgen-cli is not installed: pip install tpchgen-cli")
    subprocess.run(
        [program, "parquet", "-s", FACTOR, "--tables=lineitem", f"--output-dir={folder}"], check=True, capture_output=True
    )
    return folder / "lineitem.parquet"


def _table(catalog: Catalog, source: Path, name: str) -> Table:
    """lineitem, written by this package."""
    file = pq.ParquetFile(source)
    schema = schema_of_arrow(file.schema_arrow)
    table = catalog.create_table(("db", name), schema, properties={"format-version": "2"})
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"seed-{name}")
    for batch in file.iter_batches(batch_size=1 << 17):
        writer.write(batch)
    commit(catalog, table, AppendFiles(added=tuple(writer.close())))
    return catalog.load_table(("db", name))


def _data_files(table: Table) -> list[DataFile]:
    return [task.data_file for task in plan(table, Scan()).tasks]


def _files(table: Table) -> list[str]:
    return [file.file_path.removeprefix("file:") for file in _data_files(table)]


def _delete_positions(catalog: Catalog, table: Table) -> Table:
    rng = np.random.default_rng(3)
    rows = {f: np.sort(rng.choice(f.record_count, f.record_count // SHARE_DELETED, replace=False)) for f in _data_files(table)}
    context = WriteContext.for_table(table.metadata)
    deletes = write_position_deletes(table.io, context, rows, "file", operation_id="positions")
    commit(catalog, table, RowDelta(added_deletes=tuple(deletes), starting_snapshot_id=table.metadata.current_snapshot_id))
    return catalog.load_table(("db", "positions"))


def _delete_keys(catalog: Catalog, table: Table, source: Path) -> Table:
    """Deletes by order key and line number, each key of one row."""
    fields = table.schema.fields
    ids = [next(f.field_id for f in fields if f.name == name) for name in ("l_orderkey", "l_linenumber")]
    keys = pq.read_table(source, columns=["l_orderkey", "l_linenumber"])
    chosen = np.random.default_rng(5).choice(keys.num_rows, min(EQUALITY_DELETES, keys.num_rows // 10), replace=False)
    context, deletes = WriteContext.for_table(table.metadata), []
    for number, part in enumerate(np.array_split(np.sort(chosen), EQUALITY_FILES)):
        batches = keys.take(pa.array(part)).combine_chunks().to_batches()
        deletes += write_equality_deletes(table.io, context, ids, batches, operation_id="keys", task_id=f"{number:05}")
    commit(catalog, table, RowDelta(added_deletes=tuple(deletes), starting_snapshot_id=table.metadata.current_snapshot_id))
    return catalog.load_table(("db", "equality"))


def _compared(name: str, table: Table, files: list[str]) -> dict[str, Any]:
    """``ratio`` is the peer's time divided by ours here, too; the targets use the inverse: ``ours_over_peer``."""

    def ours() -> int:
        return sum(batch.num_rows for batch in scan_batches(table))

    def theirs() -> int:
        return sum(b.num_rows for f in files for b in pq.ParquetFile(f, memory_map=True).iter_batches(batch_size=1 << 17))

    mine, peer = _Best(ours), _Best(theirs)
    for _ in range(REPEATS):  # alternating, so that a busy machine affects both
        mine.again()
        peer.again()
    bytes_ = sum(Path(f).stat().st_size for f in files)
    return record(
        f"read lineitem SF {FACTOR}, {name}", ours_s=mine.wall, peer="pyarrow.parquet without deletes", peer_s=round(peer.wall, 3),
        bytes_=bytes_, ours_over_peer=round(mine.wall / peer.wall, 2), ours_cpu_s=round(mine.cpu, 3), peer_cpu_s=round(peer.cpu, 3),
        cpu_ours_over_peer=round(mine.cpu / peer.cpu, 2), rows=mine.found, rows_in_files=peer.found,
    )  # fmt: skip


def _duckdb(table: Table, ours: float) -> list[dict[str, Any]]:
    try:
        import duckdb  # noqa: PLC0415 - a peer that is chosen by name
        import duckdb_extensions  # noqa: PLC0415 - a peer that is chosen by name
    except ImportError:
        return []
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in ("avro", "iceberg"):
        duckdb_extensions.import_extension(extension, con=connection)

    def theirs() -> int:
        query = connection.execute(f"select * from iceberg_scan('{table.metadata_location}')")
        return sum(batch.num_rows for batch in query.to_arrow_reader(1 << 17))

    stop = threading.Timer(DUCKDB_SECONDS, connection.interrupt)
    stop.start()
    begun = time.perf_counter()
    try:
        rows: int | None = theirs()
    except (duckdb.InterruptException, pa.ArrowException, OSError):
        rows = None
    seconds = time.perf_counter() - begun
    stop.cancel()
    name = f"read lineitem SF {FACTOR}, equality, against DuckDB"
    return [record(name, ours_s=ours, peer="duckdb iceberg_scan", peer_s=round(seconds, 3), peer_finished=rows is not None)]


class _Best:
    """The least wall and CPU seconds of repeated work; CPU counts all threads and depends little on other load."""

    def __init__(self, work: Callable[[], int]) -> None:
        self._work = work
        self.wall = self.cpu = float("inf")
        self.found = 0

    def again(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.found = self._work()
        self.wall = min(self.wall, time.perf_counter() - wall)
        self.cpu = min(self.cpu, time.process_time() - cpu)
