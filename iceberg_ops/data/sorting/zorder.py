"""Z-order and Hilbert order: rows ordered by the bits of several columns together, so that each of them is clustered.

Every column's values are first spread evenly over 16 bits by their quantiles in a sample of all rows: with raw values, as in Java,
a column with few or skewed values would not use most of its bits. Nulls sort first. At most 4 columns use all 16 bits each; more
share 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.columns.partition_values import distinct
from iceberg_ops.data.columns.sort_keys import KeyMaker, Keys, comparable, extract_column
from iceberg_ops.data.sorting.external_sort import in_one
from iceberg_ops.data.sorting.hilbert import transposed
from iceberg_ops.spec.schema import Schema

_KEY_BITS = 64
_MOST_BITS = 16
Ranks = npt.NDArray[np.uint64]


def bits_per_column(columns: int) -> int:
    """Bits of each of ``columns`` columns, at most 64 (planning refuses more), in a key of 64 bits; at most 16."""
    return min(_MOST_BITS, _KEY_BITS // columns)


def zorder_cuts(schema: Schema, field_ids: Sequence[int], sample: pa.Table) -> list[pa.Array | None]:
    """The values at which each column is cut into even parts. ``sample`` holds canonical rows of ``schema``, spread over all the
    data."""
    bits = bits_per_column(len(field_ids))
    batch = in_one(sample.to_batches()) if sample.num_rows else None
    return [None if batch is None else _cuts(comparable(extract_column(batch, schema, i)[0]), 1 << bits) for i in field_ids]


def zorder_keys(schema: Schema, field_ids: Sequence[int], cuts: Sequence[pa.Array | None], curve: str = "zorder") -> KeyMaker:
    """One key column: the z-value, or with ``curve`` hilbert the place on that curve, of each row of canonical batches."""
    bits = bits_per_column(len(field_ids))

    def make(rows: pa.RecordBatch) -> Keys:
        ranks = []
        for field_id, cut in zip(field_ids, cuts, strict=True):
            array = extract_column(rows, schema, field_id)[0]
            rank = np.zeros(len(array), np.uint64) if cut is None else _rank(comparable(array), cut)
            # Scaled to all bits: cells of the curve are then halves, quarters, ... of the rows.
            spread = (rank << np.uint64(bits)) // np.uint64(1 if cut is None else len(cut) + 1)
            ranks.append(np.where(np.asarray(array.is_null()), np.uint64(0), spread) if array.null_count else spread)
        return [(pa.array(interleave(transposed(ranks, bits) if curve == "hilbert" else ranks, bits)), "ascending")]

    return make


def _cuts(values: pa.Array, parts: int) -> pa.Array:
    """Distinct values that cut the sample into at most ``parts`` even parts, ascending."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    ordered = values.take(pc.sort_indices(values))
    places = np.unique(np.linspace(0, len(ordered) - 1, parts).astype(np.int64))
    picked = ordered.take(pa.array(places)).unique()
    return picked.take(pc.sort_indices(picked))


def _rank(values: pa.Array, cuts: pa.Array) -> Ranks:
    """The number of cuts below or equal to each value."""
    if pa.types.is_integer(values.type):
        return np.searchsorted(np.asarray(cuts), np.asarray(values), side="right").astype(np.uint64)
    encoded = distinct(values)
    # Distinct decimals may have a wider type than the column.
    both = pa.concat_arrays([cuts.cast(encoded.dictionary.type), encoded.dictionary])
    order = np.asarray(pc.sort_indices(both))
    is_cut = order < len(cuts)
    below = np.cumsum(is_cut)
    ranks = np.empty(len(both), np.uint64)
    ranks[order] = below
    row_ranks: Ranks = ranks[len(cuts) :][np.asarray(encoded.indices)]
    return row_ranks


def interleave(ranks: Sequence[Ranks], bits: int) -> Ranks:
    """The z-value: bit 15 of each column, then bit 14 of each, and so on."""
    spread = _spread(bits, len(ranks))
    result = np.zeros(len(ranks[0]), np.uint64)
    for place, rank in enumerate(ranks):
        result |= spread[rank.astype(np.intp)] << np.uint64(len(ranks) - 1 - place)
    return result


@cache
def _spread(bits: int, columns: int) -> Ranks:
    """Every number of that many bits, with its bits ``columns`` places apart."""
    numbers = np.arange(1 << bits, dtype=np.uint64)
    result = np.zeros(1 << bits, np.uint64)
    for bit in range(bits):
        result |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * columns)
    return result
