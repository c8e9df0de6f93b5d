"""Sorting more rows than memory holds.

Rows are gathered until a limit of Arrow bytes, sorted, and kept as a run: a file of Arrow batches. Runs are merged a batch of each
at a time: the rows at hand are sorted together, and all up to the first row that ends what is loaded of some run are final, because
what is not yet loaded can only come later.

The rule upheld: rows of equal keys keep their order, also across runs. The result therefore does not depend on where runs were cut,
and what a sort did can be found out later from its keys alone (``row_places``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.data.parquet_writer import one_type
from iceberg_ops.data.sort_keys import KeyMaker, sorted_indices

BATCH_ROWS = 1 << 16
_MERGED_ROWS = 1 << 19
"""Rows that a merge of many runs loads of all of them together, about."""
_FEWEST_ROWS = 1 << 10
_WRITE = pa.ipc.IpcWriteOptions(compression="lz4")
Order = npt.NDArray[np.int64]


def sort_batches(
    batches: Iterable[pa.RecordBatch],
    make: KeyMaker,
    memory_limit: int,
    *,
    spilled: list[int] | None = None,
) -> Generator[pa.RecordBatch]:
    """The rows in key order. Columns may be dictionaries; batches of the output have at most ``BATCH_ROWS`` rows or so.

    At most about three times ``memory_limit`` Arrow bytes are held at once (the rows, their copy in one piece and the keys).
    ``spilled`` receives the rows of each run (none where all was sorted in memory).
    """
    runs = [] if spilled is None else spilled
    paths: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="iceberg-ops-sort-") as folder:
        for held, is_last in in_pieces(batches, memory_limit):
            ordered, order = sorted_piece(held, make)
            if is_last and not paths:
                yield from slices_of(ordered, order, BATCH_ROWS)
                return
            runs.append(len(order))
            paths.append(Path(folder) / f"{len(paths)}.arrow")
            with pa.OSFile(str(paths[-1]), "wb") as sink, pa.ipc.new_file(sink, ordered.schema, options=_WRITE) as writer:
                for batch in slices_of(ordered, order, BATCH_ROWS // 4):
                    writer.write_batch(batch)
            del ordered, order
        opened = [pa.ipc.open_file(pa.memory_map(str(path))) for path in paths]
        yield from merged([Run(file, 0, file.num_record_batches) for file in opened], make)


def in_pieces(batches: Iterable[pa.RecordBatch], memory_limit: int) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
    """Batches together up to the limit of bytes, each piece with whether it is the last. The list is the caller's to empty."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if held and size + batch.nbytes > memory_limit:
            yield held, False
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield held, True


def sorted_piece(held: list[pa.RecordBatch], make: KeyMaker) -> tuple[pa.RecordBatch, Order]:
    """Batches in one piece, and the order of its rows. ``held`` is emptied, so that its memory can go."""
    whole = in_one(held)
    held.clear()
    return whole, np.asarray(sorted_indices(make(whole)))


def in_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches one after the other as one, with one dictionary per dictionary column."""
    if len(batches) == 1:
        return batches[0]
    return one_type(batches).unify_dictionaries().combine_chunks().to_batches()[0]


def slices_of(batch: pa.RecordBatch, order: Order, rows: int) -> Iterator[pa.RecordBatch]:
    """The batch's rows in that order, ``rows`` at a time."""
    for start in range(0, len(order), rows):
        yield batch.take(pa.array(order[start : start + rows]))


class Run:
    """Sorted rows in batches ``first`` to ``end`` (exclusive) of an Arrow file, loaded one after the other."""

    def __init__(self, file: Any, first: int, end: int) -> None:
        self._file, self._next, self._end = file, first, end
        self.loaded: list[pa.RecordBatch] = []
        self.rows = 0

    @property
    def is_exhausted(self) -> bool:
        """Nothing is left but what is loaded."""
        return self._next >= self._end

    def load(self, rows: int) -> None:
        """Have at least ``rows`` rows at hand, where there are as many."""
        while self.rows < rows and not self.is_exhausted:
            batch = self._file.get_batch(self._next)
            self._next += 1
            if batch.num_rows:
                self.loaded.append(batch)
                self.rows += batch.num_rows

    def drop(self, rows: int) -> None:
        """Forget the first rows of what is loaded."""
        self.rows -= rows
        while rows:
            first = self.loaded[0]
            if rows < first.num_rows:
                self.loaded[0] = first.slice(rows)
                return
            rows -= first.num_rows
            self.loaded.pop(0)


def merged(runs: Sequence[Run], make: KeyMaker) -> Iterator[pa.RecordBatch]:
    """The rows of sorted runs in order; rows of equal keys in the order of their runs."""
    live = list(runs)
    rows = max(_FEWEST_ROWS, _MERGED_ROWS // max(len(live), 1))
    while True:
        for run in live:
            run.load(rows)
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
        yield from slices_of(whole, order[:final], BATCH_ROWS)
        taken = np.bincount(np.searchsorted(starts, order[:final], side="right") - 1, minlength=len(live))
        for run, n in zip(live, taken, strict=True):
            run.drop(int(n))
