"""Positions of the rows that a statement only deletes, collected by the driver as two numbers per row, without a Python task.

A place is identified by the CRC-32 of its ``FILE_COLUMN``, which Spark and Python compute in the same way, so that the path is not
sent for each row. The driver knows all possible places. If two of them have the same checksum, or if more rows could match than the
driver should hold, ``changes`` finds the positions in tasks instead.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from iceberg_ops.io.file_io import FileIO
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN
from spark_jobs.runners.staged_leftovers import without_leftovers
from spark_jobs.runners.tagged_jobs import in_own_thread

MOST_ROWS = 8 * 1024 * 1024
"""The most rows that may match: 128 MiB in the driver."""


def matched_places(
    rows: DataFrame, places: Collection[str], io: FileIO, operation_id: str, is_repeatable: Callable[[], bool]
) -> dict[str, BitMap64] | None:
    """Positions of ``rows`` by ``FILE_COLUMN``; ``places`` are all possible values of ``FILE_COLUMN``. None, with nothing read, if
    their checksums are not distinct.

    Nothing is staged: a discarded attempt leaves nothing behind. ``is_repeatable`` as in ``write_changes``.
    """
    by_sum = {zlib.crc32(place.encode()): place for place in places}
    if len(by_sum) < len(places):
        return None
    sums_and_positions = rows.select(F.crc32(F.col(FILE_COLUMN).cast("binary")), F.col(POSITION_COLUMN))
    session = rows.sparkSession
    read = partial(in_own_thread, session, sums_and_positions.toArrow)
    table: pa.Table = without_leftovers(session, io, (), operation_id, read, lambda _: (), is_repeatable=is_repeatable)
    sums, positions = (np.asarray(column, dtype=np.int64) for column in table.columns)
    return {by_sum[number]: BitMap64(part) for number, part in _groups(sums, positions)}


def _groups(keys: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    for start, part in zip(starts, np.split(values, starts[1:]), strict=True):
        yield int(keys[start]), part
