"""How much of a Parquet file in a store is held at a time."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats import parquet_reader
from iceberg_ops.data.formats.any_format import open_file
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.io.wrapped import WrappedFileIO
from iceberg_ops.spec.content_files import FileFormat

GROUPS, ROWS = 20, 10_000


class Watched(WrappedFileIO):
    """Counts the bytes that were read and are still held."""

    held = most = 0

    def open_input(self, location: str) -> BinaryIO:
        outer, inner = self, self._inner.open_input(location)

        class Held(bytes):
            def __del__(self) -> None:
                outer.held -= len(self)

        class Input(BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                data = Held(super().read(size))
                outer.held += len(data)
                outer.most = max(outer.most, outer.held)
                return data

        return cast(BinaryIO, Input(inner.read()))


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_large_file_is_not_held_as_a_whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    file, io = BytesIO(), Watched(MemoryFileIO(request.node.nodeid))
    rows = pa.table({"id": pa.array(range(GROUPS * ROWS), pa.int64())})
    pq.write_table(rows, file, row_group_size=ROWS, compression="none", use_dictionary=False)
    io.write("memory://b/f", file.getvalue())
    group = len(file.getvalue()) // GROUPS
    monkeypatch.setattr(parquet_reader, "_HELD_BYTES", (at_once + 0.5) * group)
    opened = open_file(io, "memory://b/f", FileFormat.PARQUET, ColumnIds())
    found = [(position, batch.column(0).to_pylist()) for position, batch, _ in opened.batches({0}, 0, None, ROWS)]
    opened.close()
    assert found == [(n * ROWS, list(range(n * ROWS, (n + 1) * ROWS))) for n in range(GROUPS)]
    assert io.most < (at_once + 2) * group
