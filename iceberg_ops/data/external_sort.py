"""Sorting more rows than memory holds.

Rows are gathered until a limit of Arrow bytes; what exceeds it is sorted and spilled to local disk as a run (Arrow IPC,
memory-mapped when read back). Runs are merged a batch of each at a time: the rows at hand are sorted together, and all up to the
first row that ends some run's batch are final, because what is not yet loaded can only come later.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from iceberg_ops.data.parquet_writer import one_type
from iceberg_ops.data.sort_keys import KeyMaker, Keys, sorted_indices

BATCH_ROWS = 1 << 16
SAMPLE_ROWS = 1 << 17
FitKeys = Callable[[pa.Table], KeyMaker]
"""Makes keys from a sample of the rows (a sort order ignores it, z-order needs it)."""


def sort_batches(
    batches: Iterable[pa.RecordBatch], fit: FitKeys, memory_limit: int, *, needs_sample: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows in key order. Columns may be dictionaries; batches of the output have at most ``BATCH_ROWS`` rows or so.

    At most about three times ``memory_limit`` Arrow bytes are held at once (the rows, their sorted copy and the keys).
    """
    held: list[pa.RecordBatch] = []
    size = 0
    with tempfile.TemporaryDirectory(prefix="iceberg-ops-sort-") as folder:
        spill = _Spill(Path(folder), fit, needs_sample)
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > memory_limit:
                spill.add(held)
                held, size = [], 0
        if spill.is_empty:
            yield from _in_memory(held, fit)
        else:
            if held:
                spill.add(held)
            yield from spill.merged()


def _in_memory(held: list[pa.RecordBatch], fit: FitKeys) -> Iterator[pa.RecordBatch]:
    if held:
        table = one_type(held).unify_dictionaries().combine_chunks()
        whole = table.to_batches()[0]
        yield from _slices(_sorted(whole, fit(_sample(table))(whole)))


def _sorted(batch: pa.RecordBatch, keys: Keys) -> pa.RecordBatch:
    return batch.take(sorted_indices(keys))


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def _sample(table: pa.Table, rows: int = SAMPLE_ROWS) -> pa.Table:
    if table.num_rows <= rows:
        return table
    return table.take(pa.array(np.linspace(0, table.num_rows - 1, rows).astype(np.int64)))


class _Spill:
    """Runs on disk. Without a sample they are sorted as they are spilled; with one, when all rows are known."""

    def __init__(self, folder: Path, fit: FitKeys, needs_sample: bool) -> None:
        self._folder, self._fit, self._needs_sample = folder, fit, needs_sample
        self._runs: list[Path] = []
        self._samples: list[pa.Table] = []

    @property
    def is_empty(self) -> bool:
        return not self._runs

    def add(self, held: list[pa.RecordBatch]) -> None:
        table = _plain(one_type(held)).combine_chunks()
        if self._needs_sample:
            self._samples.append(_sample(table, SAMPLE_ROWS // 8))
        else:
            whole = table.to_batches()[0]
            table = pa.Table.from_batches([_sorted(whole, self._fit(table.slice(0, 0))(whole))])
        self._write(len(self._runs), table)

    def merged(self) -> Iterator[pa.RecordBatch]:
        """All rows in order."""
        make = self._fit(pa.concat_tables(self._samples)) if self._needs_sample else self._fit(self._read(0).schema.empty_table())
        if self._needs_sample:
            for i in range(len(self._runs)):
                whole = self._read(i).combine_chunks().to_batches()[0]
                self._write(i, pa.Table.from_batches([_sorted(whole, make(whole))]))
        runs = [iter(self._read(i).to_batches(max_chunksize=BATCH_ROWS)) for i in range(len(self._runs))]
        yield from _merge(runs, make)

    def _write(self, number: int, table: pa.Table) -> None:
        path = self._folder / f"{number}.arrow"
        fresh = path.with_suffix(".new")
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(fresh), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=BATCH_ROWS)
        fresh.replace(path)
        if path not in self._runs:
            self._runs.append(path)

    def _read(self, number: int) -> _Run:
        return _Run(self._runs[number])


class _Run:
    """A run read back batch by batch."""

    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema

    def combine_chunks(self) -> pa.Table:
        return self._file.read_all().combine_chunks()

    def to_batches(self, max_chunksize: int) -> Iterator[pa.RecordBatch]:
        for i in range(self._file.num_record_batches):
            yield self._file.get_batch(i)


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries: runs differ in theirs."""
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _merge(runs: list[Iterator[pa.RecordBatch]], make: KeyMaker) -> Iterator[pa.RecordBatch]:
    parts: list[pa.RecordBatch | None] = [next(run, None) for run in runs]
    while any(p is not None for p in parts):
        live = [(i, p) for i, p in enumerate(parts) if p is not None]
        together = pa.Table.from_batches([p for _, p in live]).combine_chunks().to_batches()[0]
        order = np.asarray(sorted_indices(make(together)))
        ends = np.cumsum([p.num_rows for _, p in live]) - 1
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        final = int(place[ends].min()) + 1
        yield together.take(pa.array(order[:final]))
        start = 0
        for i, part in live:
            left = place[start : start + part.num_rows] >= final
            rest = part.filter(pa.array(left)) if left.any() else None
            parts[i] = rest if rest is not None else next(runs[i], None)
            start += part.num_rows
