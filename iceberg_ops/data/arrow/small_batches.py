"""Joins rows of small files into larger batches, so that the cost per batch is paid once for many files.

A batch costs about 0.3 ms, however many rows it has: it is counted, measured, passed between threads, and each of its columns is
encoded separately. Copying the rows of a small one costs a sixth of that. Large batches pass unchanged.

The rule: the same rows in the same order, with the memory of at most two more batches.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pyarrow as pa

_ENOUGH_ROWS = 1 << 16
MOST_BYTES = 8 << 20
_LARGE = 4
"""A batch of at least a fourth of the limit is passed on alone."""


def together(batches: Iterable[pa.RecordBatch], most_bytes: int = MOST_BYTES) -> Generator[pa.RecordBatch]:
    """The same rows in fewer batches, none joined to more than ``most_bytes`` and a fourth. Neighbours are joined only if their
    types are equal: text that one file keeps in dictionaries and another does not stays separate."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        bytes_ = int(batch.get_total_buffer_size())
        is_large = batch.num_rows * _LARGE >= _ENOUGH_ROWS or bytes_ * _LARGE >= most_bytes
        if held and (is_large or rows >= _ENOUGH_ROWS or size >= most_bytes or not batch.schema.equals(held[0].schema)):
            yield from _joined(held)
            held, rows, size = [], 0, 0
        if is_large:
            yield batch
            continue
        held.append(batch)
        rows += batch.num_rows
        size += bytes_
    if held:
        yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch, or the same ones if Arrow cannot join them (for example dictionaries that contain nulls)."""
    if len(batches) == 1:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return batches
