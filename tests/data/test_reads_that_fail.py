"""A read in the middle of a data file fails: the reader of the table gets the store's error."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, BinaryIO, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats.any_format import open_file
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError, TerminalError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.io.wrapped import WrappedFileIO
from iceberg_ops.spec.content_files import FileFormat

ROWS = pa.table({"id": pa.array(range(20_000), pa.int64())})
AVRO = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long", "field-id": 1}]}
WRITERS: dict[FileFormat, Callable[[BytesIO], object]] = {
    FileFormat.PARQUET: lambda file: pq.write_table(ROWS, file, row_group_size=5_000),
    FileFormat.ORC: lambda file: orc.write_table(ROWS, file, stripe_size=1),
    FileFormat.AVRO: lambda file: fastavro.writer(file, AVRO, ROWS.to_pylist()),
}


class Breaks(WrappedFileIO):
    """From some moment on every read of an open file raises ``error``."""

    error: BaseException | None = None

    def open_input(self, location: str) -> BinaryIO:
        outer, inner = self, self._inner.open_input(location)

        class Input(BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                if outer.error is not None:
                    raise outer.error
                return super().read(size)

        return cast(BinaryIO, Input(inner.read()))


@pytest.fixture(params=WRITERS, ids=lambda kind: kind.value)
def stored(request: pytest.FixtureRequest) -> tuple[Breaks, FileFormat]:
    file, io = BytesIO(), MemoryFileIO(request.node.nodeid)
    WRITERS[request.param](file)
    io.write("memory://b/f", file.getvalue())
    return Breaks(io), request.param


def rows_read(io: Breaks, kind: FileFormat, error: BaseException | None) -> int:
    opened: Any = open_file(io, "memory://b/f", kind, ColumnIds())
    try:
        io.error = error
        return sum(batch.num_rows for _, batch, _ in opened.batches({0}, 0, None, 1_000))
    finally:
        opened.close()


@pytest.mark.parametrize("error", [CatalogUnavailableError("no answer"), TerminalError("written again"), KeyboardInterrupt("^C")])
def test_what_a_read_ends_with_is_no_damage(stored: tuple[Breaks, FileFormat], error: BaseException) -> None:
    with pytest.raises(type(error), match=str(error.args[0]).replace("^", r"\^")) as raised:
        rows_read(*stored, error)
    assert not isinstance(raised.value, CorruptTableError)


def test_a_file_that_is_deleted_while_it_is_read_is_missing(stored: tuple[Breaks, FileFormat]) -> None:
    with pytest.raises(CorruptTableError, match=r"memory://b/f .*(no such file|No such file)"):
        rows_read(*stored, FileNotFoundError(2, "No such file"))


def test_reads_that_do_not_fail_give_every_row(stored: tuple[Breaks, FileFormat]) -> None:
    assert rows_read(*stored, None) == ROWS.num_rows


def test_an_error_while_a_file_is_opened_is_no_damage_either(stored: tuple[Breaks, FileFormat]) -> None:
    io, kind = stored
    io.error = CatalogUnavailableError("no answer")
    with pytest.raises(CatalogUnavailableError, match="no answer"):
        open_file(io, "memory://b/f", kind, ColumnIds())
