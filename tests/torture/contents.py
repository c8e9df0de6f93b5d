"""What is in the world's files: rows, keys and positions, written by the package's writers and read here without it.

Everything is a real file. A file never changes, so each is read once; that none is written a second time is the world's to check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.delete_files import write_equality_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.data.writer import FileNames, RollingWriter
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.serde.deletion_vector import deserialize
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.table.table import Table

Row = tuple[str, int, int]
"""(region, id, version of that id)."""
ROW_ID = "_row_id"


def batch_of(rows: Iterable[Row]) -> pa.RecordBatch:
    regions, ids, versions = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int64()), "data": pa.array([str(v) for v in versions]), "region": pa.array(regions)}
    return pa.RecordBatch.from_pydict(columns)


def write_data(io: FileIO, table: Table, rows: list[Row], name: str) -> DataFile:
    """One data file of one region's rows."""
    writer = RollingWriter(
        WriteContext.for_table(table.metadata), io, partition=(rows[0][0],), names=FileNames("00000", name)
    )  # fmt: skip
    writer.write(batch_of(rows))
    (file,) = writer.close()
    return file


def write_keys(io: FileIO, table: Table, ids: Iterable[int], region: str, name: str) -> DataFile:
    """One equality delete file. Raises UnsupportedError for a v1 table."""
    keys = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})
    context = WriteContext.for_table(table.metadata)
    (file,) = write_equality_deletes(io, context, [1], [keys], partition=(region,), operation_id=name)
    return file


class Contents:
    """Reads ``store``, without steps, and remembers."""

    def __init__(self, store: FileIO) -> None:
        self.store = store
        self._rows: dict[str, list[Row]] = {}
        self._row_ids: dict[str, list[int | None]] = {}
        self._keys: dict[str, frozenset[int]] = {}
        self._positions: dict[tuple[str, int | None], dict[str, set[int]]] = {}

    def forget(self) -> None:
        for known in (self._rows, self._row_ids, self._keys, self._positions):
            known.clear()

    def rows(self, path: str) -> list[Row]:
        if path not in self._rows:
            found = self._columns(path)
            versions = [int(v) for v in found["data"]]
            self._rows[path] = list(zip(found["region"], found["id"], versions, strict=True))
            self._row_ids[path] = found.get(ROW_ID) or [None] * len(versions)
        return self._rows[path]

    def row_id(self, entry: ManifestEntry, position: int) -> int | None:
        """The row's id as v3 has it: stored, or counted from the file's first; None where the file has none yet."""
        f = entry.data_file
        self.rows(f.file_path)
        stored = self._row_ids[f.file_path][position]
        return stored if stored is not None or f.first_row_id is None else f.first_row_id + position

    def keys(self, path: str) -> frozenset[int]:
        if path not in self._keys:
            self._keys[path] = frozenset(self._columns(path)["id"])
        return self._keys[path]

    def positions(self, file: DataFile) -> dict[str, set[int]]:
        """Positions by path of the data file, of a position delete file or a deletion vector."""
        key = (file.file_path, file.content_offset)
        if key not in self._positions:
            found: dict[str, set[int]] = {}
            if file.is_deletion_vector:
                start = file.content_offset or 0
                data = self.store.read(file.file_path)
                found[file.referenced_data_file or ""] = set(deserialize(data[start : start + (file.content_size_in_bytes or 0)]))
            else:
                columns = self._columns(file.file_path)
                for path, position in zip(columns["file_path"], columns["pos"], strict=True):
                    found.setdefault(path, set()).add(position)
            self._positions[key] = found
        return self._positions[key]

    def _columns(self, path: str) -> dict[str, list[Any]]:
        file = pq.ParquetFile(pa.BufferReader(self.store.read(path)))
        return file.read(use_threads=False).to_pydict()  # type: ignore[no-any-return]

    # deletes

    def position_deletes_of(self, entry: ManifestEntry, live: list[ManifestEntry]) -> tuple[DeleteFile, ...]:
        """The vector of a data file, or else the position deletes that may apply to it."""
        f, number = entry.data_file, entry.sequence_number or 0
        found = [
            e
            for e in live
            if e.data_file.content is FileContent.POSITION_DELETES
            and (e.sequence_number or 0) >= number
            and e.data_file.partition == f.partition
            and (scoped_path(e.data_file) or f.file_path) == f.file_path
        ]
        vectors = [e for e in found if e.data_file.is_deletion_vector]
        assert len(vectors) < 2, f"{f.file_path} has two deletion vectors"
        return tuple(DeleteFile(e.data_file, e.sequence_number or 0) for e in vectors or found)

    def deleted(self, entry: ManifestEntry, live: list[ManifestEntry]) -> set[int]:
        """Positions of a data file that deletes of either kind remove."""
        f, number = entry.data_file, entry.sequence_number or 0
        gone: set[int] = set()
        for delete in self.position_deletes_of(entry, live):
            gone |= self.positions(delete.data_file).get(f.file_path, set())
        for other in live:
            d = other.data_file
            if d.content is FileContent.EQUALITY_DELETES and (other.sequence_number or 0) > number and d.partition == f.partition:
                keys = self.keys(d.file_path)
                gone |= {i for i, row in enumerate(self.rows(f.file_path)) if row[1] in keys}
        return gone

    def live_rows(self, entry: ManifestEntry, live: list[ManifestEntry]) -> dict[int, Row]:
        """Rows of a data file that no delete removes, by position."""
        gone = self.deleted(entry, live)
        return {i: row for i, row in enumerate(self.rows(entry.data_file.file_path)) if i not in gone}
