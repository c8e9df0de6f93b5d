"""Values of columns: as Python objects, by map key, and as numbers that identify rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from iceberg_ops.serde.avro.avro_columns import Column, ColumnReader, Positions, each


def column_values(walk: ColumnReader, column: Column) -> list[Any]:
    """The values of a column of bytes, text or floating-point numbers, None for null. Raises UnicodeDecodeError."""
    if column.starts is None or (column.present is not None and not column.present.any()):
        return [None] * (0 if column.present is None else len(column.present))
    values: list[Any] = walk.texts(column) if column.node == "string" else walk.slices(column)
    if column.node in ("float", "double"):
        width, form = (4, "<f4") if column.node == "float" else (8, "<f8")
        values = np.frombuffer(b"".join(v or bytes(width) for v in values), form).tolist()
    if column.present is None:
        return values
    return [v if known else None for v, known in zip(values, column.present.tolist(), strict=True)]


def row_codes(columns: Iterable[tuple[Column, Sequence[Any] | None]], rows: int) -> Positions:
    """One number per row; two rows have different numbers if they differ in one of these columns (given with their Python values,
    if the columns hold no numbers)."""
    codes = np.zeros(rows, np.int64)
    for column, values in columns:
        for part in _parts(column, values):
            if rows and part.min() != part.max():
                _, dense = np.unique(part, return_inverse=True)
                _, codes = np.unique(codes * (int(dense.max()) + 1) + dense, return_inverse=True)
    return codes


def _parts(column: Column, values: Sequence[Any] | None) -> list[Positions]:
    if column.values is not None:
        return [column.values] if column.present is None else [column.values, column.present.astype(np.int64)]
    if values is None:
        return []
    # Equal floating-point numbers may belong to different partitions: -0.0 and 0.0.
    keys = map(repr, values) if column.node in ("float", "double") else values
    numbered: dict[Any, int] = {}
    return [np.array([numbered.setdefault(key, len(numbered)) for key in keys], np.int64)]


def values_of_key(walk: ColumnReader, column: Column | None, key: int, rows: int) -> Column:
    """Per row the value of a key in its map (an array of keys and values); for a repeated key the last value that is not
    null."""
    values_by_row = Column("null", np.zeros(rows, bool))

    def pick(at_rows: Positions, keys: Column, values: Column) -> None:
        if keys.values is not None:
            hits = np.flatnonzero((keys.values == key) & keys.known(len(at_rows)) & values.known(len(at_rows)))
            _put(values_by_row, at_rows[hits], values, hits)

    if column is not None:
        each_pair(walk, column, rows, pick)
    return values_by_row


def each_pair(walk: ColumnReader, column: Column, rows: int, use: Callable[[Positions, Column, Column], None]) -> None:
    """Calls ``use(rows, keys, values)`` for all first pairs of maps, all second ones, and so on."""
    if column.starts is None:
        return
    key_type, value_type = (f["type"] for f in column.node["items"]["fields"])
    present = np.flatnonzero(column.known(rows))

    def read(at: Positions, of: Positions | None) -> Positions:
        keys, at = walk.read(key_type, at)
        values, at = walk.read(value_type, at)
        use(present if of is None else present[of], keys, values)
        return at

    def items(at: Positions, counts: Positions, of: Positions | None) -> Positions:
        return each(at, counts, lambda positions, n: read(positions, n if of is None else of if n is None else of[n]))

    walk.items(column.starts[present], items)


def _put(into: Column, rows: Positions, values: Column, hits: Positions) -> None:
    """Sets the values of these rows."""
    assert into.present is not None
    if not len(rows):
        return
    into.node, into.present[rows] = values.node, True
    for name in ("values", "starts", "lengths"):
        new, old = getattr(values, name), getattr(into, name)
        if new is not None:
            full = np.zeros(len(into.present), np.int64) if old is None else old
            full[rows] = new[hits]
            setattr(into, name, full)
