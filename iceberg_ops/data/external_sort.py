"""Sorting more rows than memory holds.

Rows are gathered until a limit of Arrow bytes; what exceeds it is sorted and spilled to local disk as a run (Arrow IPC,
memory-mapped when read back). Runs are merged a batch of each at a time: the rows at hand are sorted together, and all up to the
first row that ends some run's batch are final, because what is not yet loaded can only come later.

The rule upheld: rows of equal keys keep their order, also across runs, and the same rows with the same runs come out in the same
order. What a sort did can therefore be found out later from its keys alone (``row_places``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    batches: Iterable[pa.RecordBatch],
    fit: FitKeys,
    memory_limit: int,
    *,
    needs_sample: bool = False,
    spilled: list[int] | None = None,
    repeat: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows in key order. Columns may be dictionaries; batches of the output have at most ``BATCH_ROWS`` rows or so.

    At most about three times ``memory_limit`` Arrow bytes are held at once (the rows, their sorted copy and the keys). ``spilled``
    receives the rows of each run (none where all was sorted in memory); given back as ``repeat``, the runs are cut there again,
    whatever the columns weigh now.
    """
    held: list[pa.RecordBatch] = []
    runs = [] if spilled is None else spilled
    with tempfile.TemporaryDirectory(prefix="iceberg-ops-sort-") as folder:
        spill = _Spill(Path(folder), fit, needs_sample)
        for batch, ends_run in _by_bytes(batches, memory_limit) if repeat is None else _by_rows(batches, repeat):
            held.append(batch)
            if ends_run:
                runs.append(sum(b.num_rows for b in held))
                spill.add(held)
                held = []
        if spill.is_empty:
            yield from _in_memory(held, fit)
        else:
            if held:
                runs.append(sum(b.num_rows for b in held))
                spill.add(held)
            yield from spill.merged()


def _by_bytes(batches: Iterable[pa.RecordBatch], memory_limit: int) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Batches, each with whether a run ends with it."""
    size = 0
    for batch in batches:
        size += batch.nbytes
        full = size > memory_limit
        yield batch, full
        size = 0 if full else size


def _by_rows(batches: Iterable[pa.RecordBatch], runs: Sequence[int]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    ends = iter(runs)
    left = next(ends, 0)
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, left if left else batch.num_rows)
            start += part.num_rows
            is_run = bool(left) and part.num_rows == left
            yield part, is_run
            left = next(ends, 0) if is_run else max(left - part.num_rows, 0)


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
