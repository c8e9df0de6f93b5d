"""Rules of reading and writing from the time when they were wrong, or that are easily made wrong: replacements that switch a fix
off (``tests.torture.switching``). Each gets the present function as its first argument."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.columns.partition_values import transformed
from iceberg_ops.data.sources.text.json_values import Number
from iceberg_ops.data.writing.writer import PartitionedWriter, source_column
from iceberg_ops.expressions.literal_casts import cast
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, ALWAYS_TRUE, Literal
from iceberg_ops.expressions.projection import project_inclusive
from iceberg_ops.expressions.row_evaluator import row_filter
from iceberg_ops.scan.incremental import ChangeKind
from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER_ID, ROW_ID_ID
from iceberg_ops.spec.partition_union import PartitionUnion
from iceberg_ops.spec.partitioning import UNPARTITIONED
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import STRING, DecimalType, NestedField, StructType
from iceberg_ops.spec.values import float32

Switch = Mapping[str, Callable[..., Any]]


# Conditions


def like_of_arrow(_: Any, array: pa.Array, pattern: str) -> pa.BooleanArray:
    """Arrow searched for the escape characters of a simple pattern literally."""
    return pc.match_like(array, pattern)


def cut_to_microseconds(_: Any, nanos: int, type_: Any) -> Literal:
    return Literal(nanos, type_) if type_.name.endswith("_ns") else Literal(nanos // 1000, type_)


def texts_alone(original: Any, literal: Literal, target: Any) -> Literal:
    """A uuid was no type to cast to."""
    if target.name == "uuid":
        raise ValueError(f"a {literal.type} literal cannot be cast to {target}")
    return original(literal, target)  # type: ignore[no-any-return]


def at_its_partition(_: Any, leaf: Any, spec: Any, fields: Any) -> Callable[[Sequence[Any]], Any]:
    """A leaf that may hold in a partition was taken to hold for all its rows."""
    some = row_filter(project_inclusive(leaf, spec, fields))
    if project_inclusive(leaf, spec, fields) == ALWAYS_TRUE:
        return lambda partition: leaf
    return lambda partition: ALWAYS_TRUE if some(partition) else ALWAYS_FALSE


# Values and columns


def with_exponent(_: Any, value: Any) -> str:
    return str(value)


def without_default(_: Any, f: NestedField) -> Any:
    """A row written before a column was added showed NULL."""
    return None


def by_the_file(original: Any, f: Any, positions: Any, task: Any, context: Any, stored: Any) -> pa.Array:
    """Row ids and sequence numbers that a file stores were ignored."""
    if stored is not None and not context.is_of_uncommitted_files and f.field_id in (ROW_ID_ID, LAST_UPDATED_SEQUENCE_NUMBER_ID):
        stored = pa.nulls(len(positions), pa.int64())
    return original(f, positions, task, context, stored)


# Deletes and changes


def at_the_same_number(original: Any, index: Any, file: Any, sequence_number: int) -> Any:
    """An equality delete applied also to rows of its own commit."""
    return (*original(index, file, sequence_number - 1),)


def everywhere(original: Any, index: Any, delete: Any, specs_by_id: Any) -> None:
    """An equality delete of one partition applied to all."""
    file = delete.data_file
    original(index, delete, {file.spec_id: UNPARTITIONED} if file.equality_ids else specs_by_id)


def files_alone(original: Any, *args: Any) -> Iterator[Any]:
    """A changelog had no rows that delete files removed."""
    return (task for task in original(*args) if task.kind is not ChangeKind.CHANGED_DELETES)


def copies_too(original: Any, part: Any, others: Any, met: Any, context: Any, shown: Any, io: Any) -> Iterator[Any]:
    """A changelog had the rows that a copy-on-write rewrite only moved."""
    return (part.marked(batch) for batch in part.rows(shown, io))


# Written files


def by_the_source_column(original: Any, schema: Any, order: Any) -> Any:
    """Rows were sorted by the column itself where its bucket, or a decimal or bytes truncated, is the key."""
    fields = [replace(f, transform=IDENTITY) if _has_own_order(f, schema) else f for f in order.fields]
    return original(schema, replace(order, fields=tuple(fields)))


def _has_own_order(f: Any, schema: Any) -> bool:
    type_ = schema.field(f.source_id).type
    is_cut = f.transform.name == "truncate" and (isinstance(type_, DecimalType) or str(type_) == "binary")
    return f.transform.name == "bucket" or is_cut


def as_they_come(_: Any, context: Any, io: Any, **more: Any) -> PartitionedWriter:
    """An engine was trusted to bring rows in the order that their files record."""
    return PartitionedWriter(context, io, **more)


def believed(_: Any, order: Any, batch: Any) -> bool:
    return True


# Partitions


def of_its_source(_: Any, f: Any, batch: Any, context: Any) -> pa.Array:
    """A void field needed its source column."""
    return transformed(f.transform, context.schema.field(f.source_id).type, source_column(batch, context, f.source_id))


def by_field_id(_: Any, specs: Iterable[Any], fields_by_id: Any) -> PartitionUnion:
    """Fields of several specs were one if they had one id, under the names that they had."""
    return _union(specs, fields_by_id, lambda f: f.field_id)


def by_name(_: Any, specs: Iterable[Any], fields_by_id: Any) -> PartitionUnion:
    """Fields of several specs were one if they had one name."""
    return _union(specs, fields_by_id, lambda f: f.name)


def _union(specs: Iterable[Any], fields_by_id: Any, key: Callable[[Any], Any]) -> PartitionUnion:
    ordered = sorted(specs, key=lambda s: s.spec_id)
    found = {key(f): f for spec in ordered for f in spec.partition_type(fields_by_id).fields}
    places = {s.spec_id: tuple(next((i for i, f in enumerate(s.fields) if key(f) == k), None) for k in found) for s in ordered}
    return PartitionUnion(StructType(tuple(found.values())), places)


# Sources


def the_first_value(_: Any, text: str) -> Any:
    """What stands behind the first JSON value was not looked at."""
    decoder = json.JSONDecoder(object_pairs_hook=dict, parse_int=Number, parse_float=Number, parse_constant=Number)
    return decoder.raw_decode(text.strip())[0]


def fields_of_the_table(original: Any, given: Mapping[str, Any], wanted: StructType, *args: Any, **more: Any) -> Any:
    """What the table does not have was no part of a record."""
    names = {f.name.lower() for f in wanted.fields}
    return original({name: found for name, found in given.items() if not names or name.lower() in names}, wanted, *args, **more)


def known_fields(original: Any, record: Mapping[str, Any], places: Mapping[str, int]) -> list[Any]:
    """Fields that the table does not have were dropped."""
    return original({name: value for name, value in record.items() if name.lower() in places}, places)  # type: ignore[no-any-return]


def in_their_case(original: Any, type_: StructType, forms: Any) -> Any:
    """A nested field of another spelling was NULL."""
    convert, names = original(type_, forms), {f.name for f in type_.fields}

    def exact(value: Any) -> Any:
        return convert({n: v for n, v in value.items() if n in names} if isinstance(value, dict) else value)

    return exact


def split_at_separators(original: Any, cutter: Any, line: str) -> Any:
    """A line whose quotes do not pair up was cut at its separators."""
    try:
        return original(cutter, line)
    except ValueError:
        return [part or None for part in line.split(cutter._form.separator)]


def to_infinity(_: Any, text: str, *, single: bool) -> float:
    """A number out of range became infinite."""
    return float32(float(text)) if single else float(text)


# Imports


def exactly(_: Any, names: Sequence[str], fields: Sequence[Any]) -> list[Any]:
    """Columns of a file were found by exact names only."""
    known = {name: f for f in fields for name in f.names}
    return [known.get(name) for name in names]


def as_mapped(_: Any, mapping: Any, names: Any) -> Any:
    """The table's name mapping did not get the spellings of imported files, which other readers compare exactly."""
    return mapping


def as_cast(_: Any, text: str, type_: Any) -> Any:
    """A folder's value was rounded as a cast rounds."""
    return cast(Literal(text, STRING), type_).value


def of_any_writer(_: Any, trusted: Any, chunk: Any, type_: Any) -> bool:
    """Statistics were believed whoever wrote them."""
    return True
