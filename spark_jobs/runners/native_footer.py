"""Decides whether Spark's own Parquet reader reads a file's columns exactly like ours, as far as the footer shows.

A footer fits if each requested column has its field id, the wanted type, and a codec and encodings that Spark supports, or
is missing and therefore NULL; if no two columns can be confused; and if Spark does not convert dates from another calendar.
The rule: in any doubt it does not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.arrow_schema import FIELD_ID
from iceberg_ops.data.columns.metadata_values import lineage_fields
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.formats.parquet_encryption import file_has_encrypted_columns
from iceberg_ops.data.sources.source_fit import dates_may_move
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.types import MISSING, DecimalType, NestedField
from spark_jobs.runners.column_names import OWN
from spark_jobs.runners.spark_schema import arrow_type

_EXACT = frozenset({"boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary"})
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
"""Without LZ4: Arrow uses this name for two forms, one of which Spark does not read from every writer."""
_DICTIONARY_OR_PLAIN = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE"})
_ENCODINGS = {
    "INT32": _DICTIONARY_OR_PLAIN | {"DELTA_BINARY_PACKED"},
    "INT64": _DICTIONARY_OR_PLAIN | {"DELTA_BINARY_PACKED"},
    "BYTE_ARRAY": _DICTIONARY_OR_PLAIN | {"DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"},
}
"""By physical type; the other types have ``_DICTIONARY_OR_PLAIN``."""


def is_exact(field: NestedField) -> bool:
    """Whether Spark returns a column's values like our reader. (None of these types is nested.)"""
    return isinstance(field.type, DecimalType) or getattr(field.type, "name", "") in _EXACT


def requested_name(field: NestedField) -> str:
    """The name with which a column is requested from Spark: no file has a column with this name (``footer_fits``)."""
    return f"{OWN}{field.field_id}"


def footer_fits(path: str, task: FileScanTask, context: ReadContext) -> bool:
    """Whether Spark reads the columns of ``context``, each of which ``is_exact``, from a local Parquet file like ours."""
    try:
        footer = pq.read_metadata(path)
        columns = footer.schema.to_arrow_schema()
        encrypted = file_has_encrypted_columns(footer, path)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return False  # whatever is wrong with it, the other reader can report it, or can still read the file
    columns_by_id = _by_id(columns)
    needed_fields = (*lineage_fields(context.projected), *context.data_fields)
    if encrypted or columns_by_id is None or not _names_are_apart(columns.names) or dates_may_move(footer):
        return False
    if task.data_file.first_row_id is None and any(f.field_id in columns_by_id for f in lineage_fields(context.projected)):
        return False  # its rows have no ids
    from_partition = _partition_sources(task, context)
    if not all(f.field_id in columns_by_id or _reads_as_null(f, from_partition) for f in needed_fields):
        return False
    stored = [(f, columns_by_id[f.field_id]) for f in needed_fields if f.field_id in columns_by_id]
    return all(column.type == arrow_type(f.type) for f, column in stored) and _are_decoded(footer, [c for _, c in stored])


def _by_id(columns: pa.Schema) -> dict[int, pa.Field] | None:
    """None: a column has no id, or two have the same."""
    by_id: dict[int, pa.Field] = {}
    for column in columns:
        field_id = (column.metadata or {}).get(FIELD_ID)
        if field_id is None or int(field_id) in by_id:
            return None
        by_id[int(field_id)] = column
    return by_id


def _names_are_apart(names: Sequence[str]) -> bool:
    lower = [name.lower() for name in names]
    return len(set(lower)) == len(lower) and not any(name.startswith(OWN) for name in lower)


def _are_decoded(footer: pq.FileMetaData, columns: Sequence[pa.Field]) -> bool:
    """Whether Spark supports the codec and the encodings of ``columns``, which are not nested, in every row group."""
    leaves = [footer.schema.column(i) for i in range(footer.num_columns)]
    times = Counter(leaf.path for leaf in leaves)
    places = {leaf.path: i for i, leaf in enumerate(leaves)}
    if any(times[column.name] != 1 for column in columns):  # a field b of a struct a, and a column a.b
        return False
    asked = [places[column.name] for column in columns]
    if not all(_has_plain_form(leaves[i], column.type) for i, column in zip(asked, columns, strict=True)):
        return False
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    return all(_is_decoded(group.column(i), leaves[i]) for group in groups for i in asked)


def _has_plain_form(leaf: pq.ColumnSchema, type_: pa.DataType) -> bool:
    """Arrow also reads JSON and BSON, enums and decimals of bytes of any length as these types."""
    if leaf.physical_type != "BYTE_ARRAY":
        return True
    return bool(leaf.logical_type.type == ("STRING" if type_ == pa.string() else "NONE"))


def _is_decoded(chunk: pq.ColumnChunkMetaData, leaf: pq.ColumnSchema) -> bool:
    encodings = set(chunk.encodings)
    if leaf.max_definition_level == 0 or "RLE" in encodings:
        encodings.discard("BIT_PACKED")  # the encoding of levels that do not exist
    known = _ENCODINGS.get(leaf.physical_type, _DICTIONARY_OR_PLAIN)
    return chunk.compression in _CODECS and encodings <= known


def _reads_as_null(field: NestedField, from_partition: set[int]) -> bool:
    return field.initial_default is MISSING and not field.required and field.field_id not in from_partition


def _partition_sources(task: FileScanTask, context: ReadContext) -> set[int]:
    spec = context.specs.get(task.spec_id)
    return {source for f in spec.fields for source in f.source_ids} if spec else set()
