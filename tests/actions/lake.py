"""A table with real files in memory, and the few operations of writers on it, for tests of actions.

Rows are (id, data, region) of ``tests.builders.SCHEMA``. This module writes position and equality delete files by hand, so that the
package's own writers do not check themselves.
"""

from __future__ import annotations

import io as bytes_io
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.serde.puffins.deletion_vector import serialize
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, copied, make_catalog, make_table

Row = tuple[int, str | None, str | None]
NOW = 1_900_000_000_000
POSITION_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(DELETE_FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(DELETE_FILE_POS_ID)}),
    ]
)
ID_SCHEMA = pa.schema([pa.field("id", pa.int64(), False, {"PARQUET:field_id": "1"})])


@dataclass
class Lake:
    """One table in a separate catalog."""

    catalog: Catalog
    identifier: tuple[str, ...] = IDENTIFIER
    _names: Any = field(default_factory=itertools.count)

    @property
    def table(self) -> Table:
        return self.catalog.load_table(self.identifier)

    def copy(self) -> Lake:
        """Another lake with the same table; its catalog must be one of memory."""
        assert isinstance(self.catalog, MemoryCatalog)
        return Lake(copied(self.catalog), self.identifier, copy(self._names))

    def append(self, *files: Sequence[Row]) -> Table:
        """One commit of one data file (and partition) per argument."""
        return commit(self.catalog, self.table, AppendFiles(added=self.written(*files), merge=False)).table

    def written(self, *files: Sequence[Row]) -> tuple[DataFile, ...]:
        """One data file (and partition) per argument; nothing is committed."""
        table = self.table
        added: list[DataFile] = []
        for rows in files:
            context = WriteContext.for_table(table.metadata)
            writer = PartitionedWriter(context, table.io, operation_id=f"append-{next(self._names)}", task_id="0", fanout=True)
            names = [f.name for f in table.schema.fields]
            columns = list(zip(*rows, strict=True))
            writer.write(pa.RecordBatch.from_pydict({name: list(column) for name, column in zip(names, columns, strict=True)}))
            added += writer.close()
        return tuple(added)

    def delete_positions(self, *positions: tuple[FileScanTask, Iterable[int]]) -> Table:
        """One position delete file for all of them (v2), or one deletion vector each (v3)."""
        table = self.table
        files = self._vectors(table, positions) if table.metadata.format_version >= 3 else [self._positions(table, positions)]
        return self._row_delta(
            table, files, replaced=[d.data_file for t, _ in positions for d in t.deletes if d.is_deletion_vector]
        )

    def delete_ids(self, *ids: int, partition: tuple[Any, ...] = ()) -> Table:
        """An equality delete file."""
        table = self.table
        path = f"{table.location}/data/eq-{next(self._names)}.parquet"
        size = self._write(table, path, pa.table({"id": list(ids)}, ID_SCHEMA))
        file = DataFile(
            content=FileContent.EQUALITY_DELETES, file_path=path, file_format=FileFormat.PARQUET, partition=partition,
            record_count=len(ids), file_size_in_bytes=size, equality_ids=(1,),
        )  # fmt: skip
        return self._row_delta(table, [file])

    def tasks(self) -> list[FileScanTask]:
        return plan(self.table, Scan()).tasks

    def rows(self, scan: Scan | None = None) -> list[Row]:
        """Live rows, sorted by id."""
        found = scan_table(self.table, scan)
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=lambda r: (r[0], str(r)))  # type: ignore[arg-type]

    def paths(self) -> set[str]:
        """Every file below the table's location."""
        return {info.location for info in self.table.io.list_prefix(self.table.location)}

    def job(self, action: str, **options: Any) -> JobSpec:
        """A job; underscores in option names are dashes."""
        more = {name: options.pop(name) for name in ("where", "branch", "dry_run", "run_key", "report") if name in options}
        texts = {name.replace("_", "-"): str(value) for name, value in options.items()}
        config = CatalogConfig(name="test", type="memory")
        return JobSpec(job=action, table=".".join(("test", *self.identifier)), catalog=config, options=texts, **more)

    def run(
        self,
        action: str,
        *,
        now: Callable[[], int] = lambda: NOW,
        runner: Any = None,
        catalog: Catalog | None = None,
        **options: Any,
    ) -> ActionReport:
        """Run a maintenance action in this process."""
        job = self.job(action, **options)
        return run_job(job, catalog=catalog or self.catalog, runner=runner or LocalRunner(workers=1), now=now)

    def _positions(self, table: Table, positions: Sequence[tuple[FileScanTask, Iterable[int]]]) -> DataFile:
        rows = sorted((task.file_path, pos) for task, found in positions for pos in found)
        path = f"{table.location}/data/pos-{next(self._names)}.parquet"
        size = self._write(table, path, pa.table({"file_path": [r[0] for r in rows], "pos": [r[1] for r in rows]}, POSITION_SCHEMA))
        first = positions[0][0].data_file
        return DataFile(
            content=FileContent.POSITION_DELETES, file_path=path, file_format=FileFormat.PARQUET, spec_id=first.spec_id,
            partition=first.partition, record_count=len(rows), file_size_in_bytes=size,
            lower_bounds={DELETE_FILE_PATH_ID: rows[0][0].encode()}, upper_bounds={DELETE_FILE_PATH_ID: rows[-1][0].encode()},
        )  # fmt: skip

    def _vectors(self, table: Table, positions: Sequence[tuple[FileScanTask, Iterable[int]]]) -> list[DataFile]:
        path = f"{table.location}/data/dv-{next(self._names)}.puffin"
        data, files = b"PFA1", []
        for task, found in positions:
            bits = BitMap64(found)
            blob = serialize(bits)
            file = DataFile(
                content=FileContent.POSITION_DELETES,
                file_path=path,
                file_format=FileFormat.PUFFIN,
                spec_id=task.spec_id,
                partition=task.data_file.partition,
                record_count=len(bits),
                file_size_in_bytes=0,
                referenced_data_file=task.file_path,
                content_offset=len(data),
                content_size_in_bytes=len(blob),
            )
            files.append(file)
            data += blob
        table.io.write(path, data)
        return [replace(f, file_size_in_bytes=len(data)) for f in files]

    def _row_delta(self, table: Table, deletes: Sequence[DataFile], replaced: Sequence[DataFile] = ()) -> Table:
        head = table.metadata.current_snapshot_id
        operation = RowDelta(added_deletes=tuple(deletes), removed_deletes=tuple(replaced), starting_snapshot_id=head)
        return commit(self.catalog, table, operation).table

    def _write(self, table: Table, path: str, rows: pa.Table) -> int:
        sink = bytes_io.BytesIO()
        pq.write_table(rows, sink)
        table.io.write(path, sink.getvalue())
        return len(sink.getvalue())


def make_lake(*, version: int = 2, partitioned: bool = False, properties: Mapping[str, str] | None = None) -> Lake:
    """An empty table in memory."""
    catalog = make_catalog()
    make_table(catalog, version=version, partitioned=partitioned, properties=properties)
    return Lake(catalog)


def numbered(start: int, count: int, region: str = "a") -> list[Row]:
    """Rows with ids from ``start``; every seventh has no data."""
    return [(i, None if i % 7 == 0 else f"row {i}", region) for i in range(start, start + count)]
