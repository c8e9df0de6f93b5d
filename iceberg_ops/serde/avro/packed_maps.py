"""One statistic of all files of a manifest, kept in the manifest's bytes: only the positions of the values are decoded.

A file's map is a view of two words; looking up a key cuts its value out of the bytes. So reading bounds of a hundred thousand files
creates no dict, and no unused value. ``avro_column_values`` finds the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iceberg_ops.serde.avro.avro_column_values import column_values, each_pair
from iceberg_ops.serde.avro.avro_columns import Column, ColumnReader, Mask, Positions

_WIDE = 1 << 32


@dataclass(slots=True)
class _Values:
    """One value per row, where ``present`` (None: all): ``values`` itself, or bytes from ``starts`` to ``ends``."""

    present: Mask | None
    values: Any
    starts: Any = None
    ends: Any = None


@dataclass(slots=True)
class _Pairs:
    """Every row's n-th pair. ``only_key`` is the key if all rows have the pair, with the same key; else None."""

    keys: Positions
    values: _Values
    only_key: int | None


class PackedMaps:
    """All rows' maps of one statistic: ``packed.of(row)``."""

    __slots__ = ("_by_key", "_pairs", "_present", "_raw", "_rows")

    def __init__(self, walk: ColumnReader, column: Column, rows: int) -> None:
        self._raw, self._rows = walk.raw, rows
        self._present = None if column.present is None else column.present.data
        self._pairs: list[_Pairs] = []
        self._by_key: dict[Any, _Values] = {}

        def add(at_rows: Positions, keys: Column, values: Column) -> None:
            if keys.values is not None:
                self._pairs.append(_pairs(walk, rows, at_rows, keys, values))

        each_pair(walk, column, rows, add)

    def of(self, row: int) -> PackedMap | None:
        """The map of a row; None if the file has none."""
        return PackedMap(self, row) if self._present is None or self._present[row] else None

    def value(self, key: Any, row: int) -> Any:
        """The value of that key in the row's map, None if there is none."""
        values = self._by_key.get(key) or self._of_key(key)
        if values.present is not None and not values.present[row]:
            return None
        starts = values.starts
        return values.values[row] if starts is None else self._raw[starts[row] : values.ends[row]]

    def whole(self, row: int) -> dict[int, Any]:
        """The row's map as a dict, in the file's order."""
        made: dict[int, Any] = {}
        for pairs in self._pairs:
            v = pairs.values
            if v.present is None or v.present[row]:
                key = int(pairs.keys[row]) if pairs.only_key is None else pairs.only_key
                made[key] = v.values[row] if v.starts is None else self._raw[v.starts[row] : v.ends[row]]
        return made

    def _of_key(self, key: Any) -> _Values:
        """Each row's value for that key; for a repeated key the last one counts."""
        if not isinstance(key, int):
            return _Values(np.zeros(self._rows, bool), None)
        values = _Values(np.zeros(self._rows, bool), None)
        for pairs in self._pairs:
            if pairs.only_key is None:
                _merge(values, pairs, key)
            elif pairs.only_key == key:
                values = pairs.values
        self._by_key[key] = values
        return values


class PackedMap(Mapping[int, Any]):
    """One row's map, read-only. Equal to the corresponding dict; pickled and copied as a dict."""

    __slots__ = ("_maps", "_row")

    def __init__(self, maps: PackedMaps, row: int) -> None:
        self._maps, self._row = maps, row

    def __getitem__(self, key: int) -> Any:
        value = self._maps.value(key, self._row)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key: int, default: Any = None) -> Any:
        value = self._maps.value(key, self._row)
        return default if value is None else value

    def __iter__(self) -> Iterator[int]:
        return iter(self._maps.whole(self._row))

    def __len__(self) -> int:
        return len(self._maps.whole(self._row))

    def items(self) -> Any:
        return self._maps.whole(self._row).items()

    def values(self) -> Any:
        return self._maps.whole(self._row).values()

    def __eq__(self, other: object) -> bool:
        return self._maps.whole(self._row) == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._maps.whole(self._row))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._maps.whole(self._row),)


def _pairs(walk: ColumnReader, rows: int, at_rows: Positions, keys: Column, values: Column) -> _Pairs:
    assert keys.values is not None
    everywhere = len(at_rows) == rows
    known = keys.known(len(at_rows)) & values.known(len(at_rows))
    present: Mask | None = None
    if not (everywhere and known.all()):
        present = np.zeros(rows, bool)
        present[at_rows] = known
    names = _spread(keys.values, at_rows, rows)
    values_by_row = _Values(present, None)
    if values.node in ("bytes", "fixed") and values.starts is not None and values.lengths is not None:
        kind = np.uint32 if len(walk.raw) < _WIDE else np.int64
        values_by_row.starts = _spread(values.starts, at_rows, rows).astype(kind).data
        values_by_row.ends = _spread(values.starts + values.lengths, at_rows, rows).astype(kind).data
    elif values.values is not None:
        values_by_row.values = _spread(values.values, at_rows, rows).data
    else:
        made = dict(zip(at_rows.tolist(), column_values(walk, values), strict=True))
        values_by_row.values = [made.get(row) for row in range(rows)]
    same = present is None and rows > 0 and bool((names == names[0]).all())
    return _Pairs(names[:1] if same else names, values_by_row, int(names[0]) if same else None)


def _spread(part: Positions, at_rows: Positions, rows: int) -> Positions:
    """Values of some rows at their positions among all rows."""
    if len(at_rows) == rows:
        return part
    full = np.zeros(rows, np.int64)
    full[at_rows] = part
    return full


def _merge(into: _Values, pairs: _Pairs, key: int) -> None:
    """Adds the rows whose pair has that key."""
    hits: npt.NDArray[np.bool_] = pairs.keys == key
    if pairs.values.present is not None:
        hits &= pairs.values.present
    if not hits.any():
        return
    rows = len(hits)
    into.present = hits if into.present is None else into.present | hits
    for name in ("starts", "ends", "values"):
        new, old = getattr(pairs.values, name), getattr(into, name)
        if new is not None:
            setattr(into, name, _chosen(hits, new, old, rows))


def _chosen(hits: npt.NDArray[np.bool_], new: Any, old: Any, rows: int) -> Any:
    """``new`` where ``hits`` is true, else ``old``."""
    if isinstance(new, list):
        return [n if hit else o for hit, n, o in zip(hits.tolist(), new, old or [None] * rows, strict=True)]
    return np.where(hits, np.asarray(new), 0 if old is None else np.asarray(old)).data
