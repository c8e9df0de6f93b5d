"""Sorts more rows than memory holds.

Rows are collected up to a limit of Arrow bytes, sorted, and kept as a run: a file of Arrow batches. A merge loads one batch of each
run at a time: the loaded rows are sorted together, and all rows up to the first end of a run's loaded part are final, because rows
that are not yet loaded can only come later. If there are more runs than batches that fit into memory, neighbouring runs are first
merged into longer ones.

The rules: all memory is limited by bytes, not by rows. Rows of equal keys keep their order, also across runs. So the result does
not depend on where runs were cut, and the new places of rows can be found later from the keys alone (``row_places``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.data.arrow.batch_sizes import BATCH_BYTES, cut, dictionary_bytes, own_bytes
from iceberg_ops.data.arrow.one_schema import one_schema, one_table, with_schema
from iceberg_ops.data.columns.sort_keys import KeyMaker, sorted_indices
from iceberg_ops.errors import VerificationError

BATCH_ROWS = 1 << 16
_MERGED_ROWS = 1 << 19
"""The approximate number of rows that a merge of many runs loads from all of them together."""
_FEWEST_ROWS = 1 << 10
_MOST_PIECE_BYTES = 1 << 30
"""Arrow holds at most 2 GiB of text in one chunk of a column."""
_RUN_BATCHES = 256
"""A batch of a run takes at most this part of the memory limit, so that a merge can hold one batch of each of many runs."""
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4")
Order = npt.NDArray[np.int64]


def sort_batches(
    batches: Iterable[pa.RecordBatch],
    make: KeyMaker,
    memory_limit: int,
    *,
    spilled: list[int] | None = None,
) -> Generator[pa.RecordBatch]:
    """The rows in key order. Columns may be dictionaries; batches of the output have at most about ``BATCH_ROWS`` rows.

    At most about three times ``memory_limit`` Arrow bytes are held at once (the rows, their copy in one piece and the keys).
    ``spilled`` receives the number of rows of each run (empty if all was sorted in memory).
    """
    with closing(Sorter(make, memory_limit, spilled)) as sorter:
        for batch in batches:
            sorter.add(batch)
        yield from sorter.rows()


class Sorter:
    """Takes rows in any order and returns them in key order; see ``sort_batches``. ``close`` deletes spilled runs."""

    def __init__(self, make: KeyMaker, memory_limit: int, spilled: list[int] | None = None) -> None:
        self._make, self._limit = make, memory_limit
        self._spilled = [] if spilled is None else spilled
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._runs: list[Run] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; all batches have the same columns. When the limit is exceeded, the collected rows are sorted and spilled."""
        most = piece_bytes(self._limit)
        for part in cut(batch, most):
            if self._held and self._bytes + part.nbytes > most:
                self._spill()
            self._held.append(part)
            self._bytes += part.nbytes

    def rows(self) -> Generator[pa.RecordBatch]:
        """Every row, in order; after this no rows can be added."""
        if not self._runs:
            if self._held:
                yield from slice_batch(*sorted_piece(self._held, self._make), BATCH_ROWS, BATCH_BYTES)
            return
        if self._held:
            self._spill()
        yield from merged(self._runs, self._make, self._limit)

    def close(self) -> None:
        """Delete spilled runs."""
        self._held, self._runs = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="iceberg-ops-sort-")
        ordered, order = sorted_piece(self._held, self._make)
        self._bytes = 0
        self._spilled.append(len(order))
        path = Path(self._folder.name) / f"{len(self._runs)}.arrow"
        self._runs.append(_written_run(path, slice_batch(ordered, order, BATCH_ROWS // 4, run_batch_bytes(self._limit))))


def piece_bytes(memory_limit: int) -> int:
    """Arrow bytes that are sorted in one piece."""
    return min(memory_limit, _MOST_PIECE_BYTES)


def run_batch_bytes(memory_limit: int) -> int:
    """Arrow bytes of a batch of a run."""
    return max(memory_limit // _RUN_BATCHES, min(1 << 14, memory_limit // 16), 1)


def in_pieces(batches: Iterable[pa.RecordBatch], memory_limit: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches collected up to the limit of bytes. The caller empties the list."""
    most = piece_bytes(memory_limit)
    held: list[pa.RecordBatch] = []
    size = 0
    for part in (part for batch in batches for part in cut(batch, most)):
        if held and size + part.nbytes > most:
            yield held
            held, size = [], 0
        held.append(part)
        size += part.nbytes
    if held:
        yield held


def sorted_piece(held: list[pa.RecordBatch], make: KeyMaker) -> tuple[pa.RecordBatch, Order]:
    """Batches in one piece, and the order of its rows. ``held`` is emptied, so that its memory is freed."""
    whole = in_one(held)
    held.clear()
    return whole, np.asarray(sorted_indices(make(whole)))


def in_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches one after the other as one batch, with one dictionary per dictionary column.

    Raises VerificationError if Arrow cannot hold them in one piece: the caller's limits are wrong.
    """
    some = [batch for batch in batches if batch.num_rows]
    if len(some) < 2:
        return some[0] if some else batches[0]
    combined = one_table(some).unify_dictionaries().combine_chunks().to_batches()
    if len(combined) != 1:
        raise VerificationError(f"{sum(b.num_rows for b in some)} rows take more text than one batch can hold: nothing was written")
    return combined[0]


def slice_batch(batch: pa.RecordBatch, order: Order, most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch's rows in that order, at most ``most_rows`` and about ``most_bytes`` (or a single row) at a time."""
    rows = max(1, min(most_rows, most_bytes * batch.num_rows // max(own_bytes(batch), 1)))
    start = 0
    while start < len(order):
        part = batch.take(pa.array(order[start : start + rows]))
        if part.num_rows > 1 and own_bytes(part) > 2 * most_bytes:
            rows = max(1, part.num_rows // 2)  # rows of one batch differ in size
            continue
        yield part
        start += part.num_rows


class Run:
    """Sorted rows in ``count`` batches, loaded one after the other. ``largest``: Arrow bytes of its largest batch, dictionaries
    included."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, count: int, largest: int) -> None:
        self._batches, self._left = batches, count
        self.schema, self.largest = schema, largest
        self.loaded: list[pa.RecordBatch] = []
        self.rows = self.bytes = 0

    @property
    def is_exhausted(self) -> bool:
        """Only the loaded rows remain."""
        return not self._left

    def load(self, rows: int, bytes_: int, schema: pa.Schema) -> None:
        """Load at least one batch and, if the run has as many, at least ``rows`` rows or ``bytes_`` Arrow bytes."""
        while (not self.rows or (self.rows < rows and self.bytes < bytes_)) and self._left:
            batch = next(self._batches)
            self._left -= 1
            if batch.num_rows:
                self.loaded.append(with_schema(batch, schema))
                self.rows += batch.num_rows
                self.bytes += own_bytes(batch)

    def drop(self, rows: int) -> None:
        """Remove the first loaded rows."""
        self.rows -= rows
        while rows:
            first = self.loaded[0]
            if rows < first.num_rows:
                self.loaded[0] = first.slice(rows)
                break
            rows -= first.num_rows
            self.loaded.pop(0)
        self.bytes = sum(own_bytes(batch) for batch in self.loaded)


def merged(runs: Sequence[Run], make: KeyMaker, memory_limit: int) -> Generator[pa.RecordBatch]:
    """The rows of sorted runs in order; rows of equal keys in the order of their runs.

    Loads at most half of ``memory_limit`` Arrow bytes at a time, or a batch of two runs.
    """
    with tempfile.TemporaryDirectory(prefix="iceberg-ops-merge-") as folder:
        left, count = list(runs), 0
        while len(left) > (most := _most_at_once(left, memory_limit)):
            longer = []
            for start in range(0, len(left), most):
                rows = _merged_at_once(left[start : start + most], make, memory_limit)
                parts = (part for batch in rows for part in cut(batch, run_batch_bytes(memory_limit)))
                longer.append(_written_run(Path(folder) / f"{count}.arrow", parts))
                count += 1
            left = longer
        yield from _merged_at_once(left, make, memory_limit)


def _most_at_once(runs: Sequence[Run], memory_limit: int) -> int:
    return max(2, memory_limit // 2 // max(1, *(run.largest for run in runs)))


def _merged_at_once(runs: Sequence[Run], make: KeyMaker, memory_limit: int) -> Iterator[pa.RecordBatch]:
    live = list(runs)
    schema = one_schema([run.schema for run in runs])
    rows = max(_FEWEST_ROWS, _MERGED_ROWS // max(len(live), 1))
    bytes_ = memory_limit // 2 // max(len(live), 1)
    while True:
        for run in live:
            run.load(rows, bytes_, schema)
        live = [run for run in live if run.rows]
        if not live:
            return
        whole = in_one([batch for run in live for batch in run.loaded])
        order = np.asarray(sorted_indices(make(whole)))
        starts = np.cumsum([0, *(run.rows for run in live)])
        last_rows = [starts[i + 1] - 1 for i, run in enumerate(live) if not run.is_exhausted]
        final = len(order)
        if last_rows:
            final = int(np.flatnonzero(np.isin(order, last_rows))[0]) + 1
        yield from slice_batch(whole, order[:final], BATCH_ROWS, BATCH_BYTES)
        taken = np.bincount(np.searchsorted(starts, order[:final], side="right") - 1, minlength=len(live))
        for run, n in zip(live, taken, strict=True):
            run.drop(int(n))


def _written_run(path: Path, batches: Iterator[pa.RecordBatch]) -> Run:
    """A run as a file, from its batches in order; there is at least one batch. Dictionaries may differ between batches."""
    count = largest = shared = 0
    with pa.OSFile(str(path), "wb") as sink:
        writer = None
        for batch in batches:
            writer = writer or pa.ipc.new_stream(sink, batch.schema, options=_WRITE)
            writer.write_batch(batch)
            count += 1
            largest, shared = max(largest, own_bytes(batch)), max(shared, dictionary_bytes(batch))
        assert writer is not None
        writer.close()
    read = pa.ipc.open_stream(pa.memory_map(str(path)))
    return Run(iter(read), read.schema, count, largest + shared)
