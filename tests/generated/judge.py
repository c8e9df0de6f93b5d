"""Compares a data file's metadata with its content.

Arrow's own reader reads the file, and the spec's scalar rules judge the values one by one, in Python; from the package only the
definitions are used (scalar transforms, binary single values), not the code that writes or measures files.
"""

from __future__ import annotations

import io as bytes_io
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.partition_paths import partition_path
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transform_functions import apply
from iceberg_ops.spec.types import (
    BINARY,
    STRING,
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    child_fields,
)
from iceberg_ops.spec.values import from_bytes

Row = tuple[Any, ...]
_READ_AS_DICTIONARY = {"PLAIN", "RLE", "RLE_DICTIONARY"}


def rows_of_file(file: DataFile, schema: Schema, io: FileIO) -> list[Row]:
    """The rows of a Parquet file as canonical values, in its order."""
    assert file.file_format is FileFormat.PARQUET
    with pq.ParquetFile(bytes_io.BytesIO(io.read(file.file_path)), arrow_extensions_enabled=False) as opened:
        table = opened.read(use_threads=False)
    columns = []
    for f in schema.fields:
        assert _id_of(table.schema.field(table.schema.names.index(f.name))) == f.field_id, f"id of {f.name}"
        columns.append([v for chunk in table.column(f.name).chunks for v in values_of(f.type, chunk)])
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def names_of_file(file: DataFile, io: FileIO) -> list[str]:
    """The columns of a Parquet file."""
    return list(pq.read_schema(bytes_io.BytesIO(io.read(file.file_path))).names)


def contradictions(
    file: DataFile, schema: Schema, spec: PartitionSpec, order: SortOrder, metrics: MetricsConfig, io: FileIO
) -> list[str]:
    """Everything recorded of a Parquet file that its bytes do not bear out. ``order`` is the one whose id files may record."""
    data = io.read(file.file_path)
    footer = pq.read_metadata(bytes_io.BytesIO(data))
    rows = rows_of_file(file, schema, io)
    found = []
    if file.file_size_in_bytes != len(data):
        found.append(f"file_size_in_bytes {file.file_size_in_bytes}, not {len(data)}")
    if file.record_count != len(rows):
        found.append(f"record_count {file.record_count}, not {len(rows)}")
    if file.spec_id != spec.spec_id:
        found.append(f"spec_id {file.spec_id}, not {spec.spec_id}")
    found += _offsets(file, footer)
    found += _ids(pq.read_schema(bytes_io.BytesIO(data)), schema.struct)
    found += _partition(file, rows, schema, spec)
    found += _order(file, rows, schema, order)
    found += _dictionaries(data, footer, schema)
    found += _sizes(file, footer, schema, metrics)
    for f, path in _plain_leaves(schema.struct, ()):
        found += _column(file, f, [_reach(row, path) for row in rows], metrics)
    return found


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if text is None else int(text)


def _ids(arrow: pa.Schema, struct: StructType) -> Iterator[str]:
    yield from _ids_of([arrow.field(i) for i in range(len(arrow.names))], list(struct.fields), "")


def _ids_of(fields: Sequence[pa.Field], wanted: Sequence[NestedField], path: str) -> Iterator[str]:
    if len(fields) != len(wanted):
        yield f"{path or 'the file'} has {len(fields)} columns, not {len(wanted)}"
        return
    for have, want in zip(fields, wanted, strict=True):
        at = f"{path}{want.name}"
        if _id_of(have) != want.field_id:
            yield f"field id of {at}: {_id_of(have)}, not {want.field_id}"
        if have.nullable == want.required:
            yield f"{at} is {'optional' if have.nullable else 'required'} in the file"
        inner = have.type
        if pa.types.is_struct(inner):
            yield from _ids_of([inner.field(i) for i in range(inner.num_fields)], child_fields(want.type), at + ".")
        elif pa.types.is_map(inner):
            yield from _ids_of([inner.key_field, inner.item_field], child_fields(want.type), at + ".")
        elif pa.types.is_list(inner):
            yield from _ids_of([inner.value_field], child_fields(want.type), at + ".")


def _offsets(file: DataFile, footer: pq.FileMetaData) -> Iterator[str]:
    starts = []
    for g in range(footer.num_row_groups):
        chunk = footer.row_group(g).column(0)
        places = [p for p in (chunk.dictionary_page_offset, chunk.data_page_offset) if p]
        starts.append(min(places))
    if list(file.split_offsets or ()) != starts or starts != sorted(set(starts)):
        yield f"split_offsets {file.split_offsets}, not {starts}"


def _dictionaries(data: bytes, footer: pq.FileMetaData, schema: Schema) -> Iterator[str]:
    """A value that no row has is one that was deleted, or another partition's."""
    groups_of = [footer.row_group(g) for g in range(footer.num_row_groups)]
    encodings: dict[str, set[str]] = {}
    for chunk in (group.column(c) for group in groups_of for c in range(group.num_columns)):
        encodings.setdefault(chunk.path_in_schema, set()).update(chunk.encodings)
    text = [f.name for f in schema.fields if f.type in (STRING, BINARY) and encodings[f.name] <= _READ_AS_DICTIONARY]
    with pq.ParquetFile(bytes_io.BytesIO(data), read_dictionary=text) as opened:
        groups = [opened.read_row_group(g, use_threads=False) for g in range(opened.num_row_groups)]
    for name in text:
        chunks = [chunk for group in groups for chunk in group.column(name).chunks]
        stored = {value for chunk in chunks for value in chunk.dictionary.to_pylist()}
        if unused := stored - {value for chunk in chunks for value in chunk.to_pylist()}:
            yield f"the dictionary of {name} has {unused}, which no row has"


def _reach(row: Row, path: Sequence[int]) -> Any:
    found: Any = row
    for place in path:
        if found is None:
            return None
        found = found[place]
    return found


def _plain_leaves(struct: StructType, path: tuple[int, ...]) -> Iterator[tuple[NestedField, tuple[int, ...]]]:
    """Leaves outside lists and maps."""
    for place, f in enumerate(struct.fields):
        if isinstance(f.type, StructType):
            yield from _plain_leaves(f.type, (*path, place))
        elif f.type.is_primitive:
            yield f, (*path, place)


def _path_of(schema: Schema, field_id: int) -> tuple[NestedField, tuple[int, ...]]:
    return next((f, path) for f, path in _plain_leaves(schema.struct, ()) if f.field_id == field_id)


def same(a: Any, b: Any) -> bool:
    """Equal as partition values and floats are: NaN is NaN, -0.0 is not 0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


def transformed(f: Any, type_: IcebergType, value: Any) -> Any:
    """The value of a partition or sort field, whole numbers wrapped as Java wraps them."""
    return apply(f.transform, type_, value)


def _partition(file: DataFile, rows: list[Row], schema: Schema, spec: PartitionSpec) -> Iterator[str]:
    if len(file.partition) != len(spec.fields):
        yield f"partition {file.partition} has not the fields of its spec"
        return
    for f, value in zip(spec.fields, file.partition, strict=True):
        source, path = _path_of(schema, f.source_id)
        wrong = [row for row in rows if not same(transformed(f, source.type, _reach(row, path)), value)]
        if wrong:
            yield f"{len(wrong)} rows do not lie in partition {f.name} = {value!r}: {wrong[0]}"
    if spec.fields and partition_path(spec, file.partition, schema.fields_by_id) not in file.file_path:
        yield f"path {file.file_path} is not that of partition {file.partition}"


def _order(file: DataFile, rows: list[Row], schema: Schema, order: SortOrder) -> Iterator[str]:
    if file.sort_order_id is None:
        return
    if file.sort_order_id != order.order_id or order.is_unsorted:
        yield f"sort_order_id {file.sort_order_id}, not {order.order_id}"
        return
    keys = [[sort_key(f, schema, row) for f in order.fields] for row in rows]
    for i in range(1, len(keys)):
        for f, before, after in zip(order.fields, keys[i - 1], keys[i], strict=True):
            if before == after:
                continue
            if not _comes_first(f, before, after):
                by = f"{f.transform}({schema.name_of(f.source_id)}) {f.direction.value}"
                yield f"row {i} {rows[i]} does not follow {rows[i - 1]} by {by}"
                return
            break


def sort_key(f: SortField, schema: Schema, row: Row) -> Any:
    """None, or a value that orders as the spec says (floats: -0.0 before 0.0, NaN last)."""
    source, path = _path_of(schema, f.source_id)
    raw = _reach(row, path)
    if f.transform.name == "truncate" and getattr(source.type, "name", "") == "int":
        found = apply(f.transform, source.type, raw)  # an order needs no room in the column's type
    else:
        found = transformed(f, source.type, raw)
    if isinstance(found, float):
        return (2, 0.0, 0) if math.isnan(found) else (1, found, math.copysign(1, found))
    if isinstance(found, str):
        return found.encode("utf-8", "surrogatepass")
    return getattr(found, "bytes", found) if found is not None else None


def _comes_first(f: SortField, before: Any, after: Any) -> bool:
    if before is None or after is None:
        return (before is None) == (f.null_order is NullOrder.NULLS_FIRST)
    return bool(before < after) == (f.direction is SortDirection.ASC)


def _sizes(file: DataFile, footer: pq.FileMetaData, schema: Schema, metrics: MetricsConfig) -> Iterator[str]:
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    leaves = _all_leaves(schema.struct)
    total: dict[int, int] = {}
    for place, f in enumerate(leaves):
        total[f.field_id] = sum(g.column(place).total_compressed_size for g in groups)
    for field_id, size in (file.column_sizes or {}).items():
        if total.get(field_id) != size:
            yield f"column_sizes of {field_id}: {size}, not {total.get(field_id)}"
    if missing := [f.name for f in leaves if f.field_id not in (file.column_sizes or {})]:
        yield f"column_sizes lack {missing}"


def _all_leaves(type_: IcebergType) -> list[NestedField]:
    return [x for f in child_fields(type_) for x in (_all_leaves(f.type) if f.type.is_nested else [f])]


def _column(file: DataFile, f: NestedField, values: list[Any], metrics: MetricsConfig) -> Iterator[str]:
    mode = metrics.mode(f.field_id)
    floating = getattr(f.type, "name", "") in ("float", "double")
    numbers = [v for v in values if v is not None and not (floating and math.isnan(v))]
    counts = {
        "value_counts": len(values),
        "null_value_counts": sum(v is None for v in values),
        **({"nan_value_counts": len(values) - len(numbers) - sum(v is None for v in values)} if floating else {}),
    }
    for name, wanted in counts.items():
        have = (getattr(file, name) or {}).get(f.field_id)
        if have != (wanted if mode.has_counts else None):
            yield f"{name} of {f.name}: {have}, not {wanted} (metrics {mode})"
    lower, upper = (file.lower_bounds or {}).get(f.field_id), (file.upper_bounds or {}).get(f.field_id)
    if not mode.has_bounds or not numbers:
        if lower is not None or upper is not None:
            yield f"{f.name} has bounds {lower!r}, {upper!r} (metrics {mode}, {len(numbers)} values)"
        return
    yield from _bounds(f, numbers, lower, upper, mode.length)


def _bounds(f: NestedField, numbers: list[Any], lower: bytes | None, upper: bytes | None, length: int | None) -> Iterator[str]:
    """Exact but where they are cut, and where a zero is a bound: Parquet has -0.0 for the least and 0.0 for the greatest."""
    least, greatest = min(numbers, key=_order_of(f.type)), max(numbers, key=_order_of(f.type))
    if lower is None:
        yield f"{f.name} has no lower bound for {least!r}"
    elif length is None or len(least if isinstance(least, str | bytes) else "") <= length:
        if not same(from_bytes(f.type, lower), -0.0 if least == 0 and isinstance(least, float) else least):
            yield f"lower bound of {f.name}: {from_bytes(f.type, lower)!r}, not {least!r}"
    elif from_bytes(f.type, lower) != least[:length]:
        yield f"lower bound of {f.name}: {from_bytes(f.type, lower)!r}, not {least[:length]!r}"
    if upper is None:
        if not (isinstance(greatest, str | bytes) and length is not None and len(greatest) > length):
            yield f"{f.name} has no upper bound for {greatest!r}"
        return
    found = from_bytes(f.type, upper)
    if _order_of(f.type)(found) < _order_of(f.type)(greatest):
        yield f"upper bound of {f.name}: {found!r} is below {greatest!r}"
    if length is None or not isinstance(found, str | bytes) or len(greatest) <= length:
        if not same(found, 0.0 if greatest == 0 and isinstance(greatest, float) else greatest):
            yield f"upper bound of {f.name}: {found!r}, not {greatest!r}"
    elif len(found) > length:
        yield f"upper bound of {f.name}: {found!r} is longer than {length}"


def _order_of(type_: IcebergType) -> Any:
    name = getattr(type_, "name", "")
    if name in ("float", "double"):
        return lambda v: (v, struct.pack(">d", v)[0] < 0x80)
    if name == "string":
        return lambda v: v.encode()
    if name == "uuid":
        return lambda v: v.bytes
    return lambda v: v


def is_wide(type_: IcebergType) -> bool:
    """Whether partition values of the type may leave it (the least decimals of a precision)."""
    return isinstance(type_, DecimalType) or any(is_wide(f.type) for f in child_fields(type_))


def has_lists(type_: IcebergType) -> bool:
    return isinstance(type_, ListType | MapType) or any(has_lists(f.type) for f in child_fields(type_))
