"""Column metrics of a new Parquet file: sizes, counts and bounds by field id (spec: "Manifests", ``data_file``).

Sizes, counts and bounds come from the footer. Values that a footer lacks are collected while rows are written: NaN counts, and
bounds of text too long for Arrow's statistics. Metrics modes decide what is recorded. Leaves inside lists and maps have
counts but no bounds. Bounds are truncated by the mode, upper ones rounded up so that they still bound; a column of nulls and NaNs
has none.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.nested_nulls import map_entries
from iceberg_ops.data.columns.geo_bounds import BoundingBox
from iceberg_ops.spec.bounds import truncate_lower, truncate_upper
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    DOUBLE,
    FLOAT,
    STRING,
    UNKNOWN,
    VARIANT,
    DecimalType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)
from iceberg_ops.spec.values import decimal_of, to_bytes

_STATISTICS_LIMIT = 4000
"""Arrow omits min and max from a chunk's statistics if they exceed 4096 bytes."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf column: its field, and whether it lies inside a list or map. ``field`` is the variant itself for its parts."""

    field: NestedField
    repeated: bool


def leaves(schema: Schema) -> tuple[Leaf, ...]:
    """The leaf columns of a Parquet file of that schema, in the order of its column chunks."""
    return tuple(leaf for f in schema.fields for leaf in _leaves(f, False))


def _leaves(f: NestedField, repeated: bool) -> Iterator[Leaf]:
    if f.type == UNKNOWN:
        return
    if f.type == VARIANT:
        yield from (Leaf(f, repeated), Leaf(f, repeated))
    elif isinstance(f.type, StructType):
        for child in f.type.fields:
            yield from _leaves(child, repeated)
    elif isinstance(f.type, ListType):
        yield from _leaves(f.type.element, True)
    elif isinstance(f.type, MapType):
        yield from _leaves(f.type.key, True)
        yield from _leaves(f.type.value, True)
    else:
        yield Leaf(f, repeated)


def leaf_paths(schema: Schema) -> list[tuple[str, int, IcebergType]]:
    """(path in the Parquet schema, field id, type) of every leaf column of a file of that schema."""
    return [path for f in schema.fields for path in _paths(f, f.name)]


def _paths(f: NestedField, path: str) -> Iterator[tuple[str, int, IcebergType]]:
    if isinstance(f.type, StructType):
        for child in f.type.fields:
            yield from _paths(child, f"{path}.{child.name}")
    elif isinstance(f.type, ListType):
        yield from _paths(f.type.element, f"{path}.list.element")
    elif isinstance(f.type, MapType):
        yield from _paths(f.type.key, f"{path}.key_value.key")
        yield from _paths(f.type.value, f"{path}.key_value.value")
    elif f.type == VARIANT:
        yield from ((f"{path}.{part}", f.field_id, BINARY) for part in ("metadata", "value"))
    elif f.type != UNKNOWN:
        yield path, f.field_id, f.type


@dataclass
class Observer:
    """Collects values that footers lack from the rows as they are written."""

    schema: Schema
    nan_counts: dict[int, int] = field(default_factory=dict)
    null_counts: dict[int, int] = field(default_factory=dict)
    """For geometry and geography: Arrow keeps no statistics of columns without an order."""
    long_text: dict[tuple[int, int], tuple[Any, Any]] = field(default_factory=dict)
    """(row group, field id) -> (least, greatest) value."""
    boxes: dict[int, BoundingBox] = field(default_factory=dict)
    """For geometry and geography."""

    def observe(self, table: pa.Table, row_group: int) -> None:
        """Collect from a row group's canonical rows before they are written."""
        for f, column in zip(self.schema.fields, table.columns, strict=True):
            self._observe(f, column, row_group, False)

    def _observe(self, f: NestedField, array: pa.Array | pa.ChunkedArray, row_group: int, repeated: bool) -> None:
        """All chunks of text are checked together, because a long text in one of them removes the statistics of all."""
        if isinstance(array, pa.ChunkedArray) and isinstance(f.type, ListType | MapType | GeometryType | GeographyType):
            for chunk in array.chunks:
                self._observe(f, chunk, row_group, repeated)
        elif isinstance(f.type, StructType):
            for child, part in zip(f.type.fields, array.flatten(), strict=True):
                self._observe(child, part, row_group, repeated)
        elif isinstance(f.type, ListType):
            self._observe(f.type.element, array.flatten(), row_group, True)
        elif isinstance(f.type, MapType):
            entries = map_entries(array)
            self._observe(f.type.key, entries.field(0), row_group, True)
            self._observe(f.type.value, entries.field(1), row_group, True)
        elif f.type in (FLOAT, DOUBLE):
            nans = pc.sum(pc.is_nan(array)).as_py() or 0
            self.nan_counts[f.field_id] = self.nan_counts.get(f.field_id, 0) + nans
        elif isinstance(f.type, GeometryType | GeographyType) and not repeated:
            self.null_counts[f.field_id] = self.null_counts.get(f.field_id, 0) + array.null_count
            self.boxes.setdefault(f.field_id, BoundingBox(isinstance(f.type, GeographyType))).extend(array)
        elif f.type in (STRING, BINARY) and not repeated and len(array):
            self._text(f.field_id, array, row_group)

    def _text(self, field_id: int, array: pa.Array | pa.ChunkedArray, row_group: int) -> None:
        in_dictionary = pa.types.is_dictionary(array.type)
        values = array
        if in_dictionary:
            values = array.unify_dictionaries().chunk(0).dictionary if isinstance(array, pa.ChunkedArray) else array.dictionary
        if (pc.max(pc.binary_length(values)).as_py() or 0) < _STATISTICS_LIMIT:
            return
        if in_dictionary:
            array = array.cast(array.type.value_type)
        bounds = pc.min_max(array.cast(pa.binary())).as_py()
        if bounds["min"] is None:
            return
        key = (row_group, field_id)
        low, high = self.long_text.get(key, (bounds["min"], bounds["max"]))
        self.long_text[key] = (min(low, bounds["min"]), max(high, bounds["max"]))


@dataclass(frozen=True)
class FileMetrics:
    """Metrics as a DataFile records them."""

    record_count: int
    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    split_offsets: tuple[int, ...]


BoundsOf = Callable[[int, NestedField, Sequence[pq.ColumnChunkMetaData]], tuple[Any, Any] | None]
"""(number of the leaf, its field, its chunks) -> (lower, upper) bound as canonical values, or None."""


def file_metrics(
    footer: pq.FileMetaData,
    schema: Schema,
    config: MetricsConfig,
    observed: Observer,
    offsets: tuple[int, ...],
    *,
    bounds: BoundsOf | None = None,
) -> FileMetrics:
    """Metrics of a file from its footer and the observed values. ``bounds``: the rule by which statistics of another writer's file
    are trusted; without it the file was written by this package, and its statistics are trusted."""
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    for c, leaf in enumerate(leaves(schema)):
        field_id, mode = leaf.field.field_id, config.mode(leaf.field.field_id)
        chunks = [g.column(c) for g in groups]
        sizes[field_id] = sizes.get(field_id, 0) + sum(k.total_compressed_size for k in chunks)
        if not mode.has_counts:
            continue
        values[field_id] = sum(k.num_values for k in chunks)
        counts = [None if k.statistics is None or not k.statistics.has_null_count else k.statistics.null_count for k in chunks]
        if leaf.field.type != VARIANT and None not in counts:
            nulls[field_id] = sum(n for n in counts if n is not None)
        elif field_id in observed.null_counts:
            nulls[field_id] = observed.null_counts[field_id]
        if mode.has_bounds and (box := observed.boxes.get(field_id)) is not None and (corners := box.corners()) is not None:
            lower[field_id], upper[field_id] = corners
        elif not mode.has_bounds or leaf.repeated:
            continue
        elif (
            own_bounds := _own_bounds(leaf.field, chunks, observed) if bounds is None else bounds(c, leaf.field, chunks)
        ) is not None:
            low, high = _cut(leaf.field.type, own_bounds, mode.length)
            lower[field_id] = to_bytes(leaf.field.type, low)
            if high is not None:
                upper[field_id] = to_bytes(leaf.field.type, high)
    nans = {i: n for i, n in observed.nan_counts.items() if config.mode(i).has_counts}
    return FileMetrics(footer.num_rows, sizes, values, nulls, nans, lower, upper, offsets)


def _cut(type_: IcebergType, bounds: tuple[Any, Any], width: int | None) -> tuple[Any, Any | None]:
    low, high = bounds
    if width is None:
        return low, high
    return truncate_lower(type_, low, width), truncate_upper(type_, high, width)


def _own_bounds(f: NestedField, chunks: list[pq.ColumnChunkMetaData], observed: Observer) -> tuple[Any, Any] | None:
    """(least, greatest) canonical value over all row groups; None if there is none, or one group's is unknown."""
    if isinstance(f.type, GeometryType | GeographyType) or f.type == VARIANT:
        return None
    bounds: list[tuple[Any, Any]] = []
    for group, chunk in enumerate(chunks):
        statistics = chunk.statistics
        if (long := observed.long_text.get((group, f.field_id))) is not None:
            bounds.append((canonical_value(f.type, long[0]), canonical_value(f.type, long[1])))
        elif statistics is not None and statistics.has_min_max:
            bounds.append((canonical_value(f.type, statistics.min_raw), canonical_value(f.type, statistics.max_raw)))
        elif statistics is None or not (f.type in (FLOAT, DOUBLE) or statistics.null_count == chunk.num_values):
            return None
    return enclosing(f.type, bounds)


def enclosing(type_: IcebergType, bounds: Sequence[tuple[Any, Any]]) -> tuple[Any, Any] | None:
    """The least lower and the greatest upper of some bounds, none of them NaN; None without bounds."""
    if not bounds:
        return None
    return _least(type_, [low for low, _ in bounds]), _greatest(type_, [high for _, high in bounds])


def _key(type_: IcebergType) -> Any:
    """-0.0 sorts before 0.0 (MANIFEST-53); uuids by their bytes; strings by code point, which is Python's order too."""
    if type_ in (FLOAT, DOUBLE):
        return lambda v: (v, struct.pack(">d", v)[0] < 0x80)
    return None if not (isinstance(type_, PrimitiveType) and type_.name == "uuid") else (lambda v: v.bytes)


def _least(type_: IcebergType, values: list[Any]) -> Any:
    return min(values, key=_key(type_))


def _greatest(type_: IcebergType, values: list[Any]) -> Any:
    return max(values, key=_key(type_))


def canonical_value(type_: IcebergType, raw: Any) -> Any:
    """A Parquet statistic's physical value as a canonical value."""
    if isinstance(type_, DecimalType):
        number = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return decimal_of(number, type_.scale)
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name == "string" and isinstance(raw, bytes):
        return raw.decode("utf-8")
    if name == "uuid":
        return uuid.UUID(bytes=raw)
    return raw
