"""Checks whether a Parquet file that belongs to no table can be read by Arrow and written as rows of a table, unchanged.

Values are only converted to an exact wider type. So each stored type must be the table's or one that fits into it completely,
without nulls in a required column, and with dates in today's calendar. Other files need an engine that converts values and reports
those that cannot be converted. The rule: in doubt a file does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.plain_types import is_list, plain_schema
from iceberg_ops.data.columns.file_columns import child_arrow_fields
from iceberg_ops.data.formats.parquet_encryption import file_has_encrypted_columns
from iceberg_ops.data.sources.source_parts import SourcePart, row_group_parts
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.types import UNKNOWN, DecimalType, FixedType, IcebergType, ListType, MapType, NestedField, StructType

_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY_DATES, _LEGACY_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_HIVE_DATES = b"writer.date.proleptic"
_OF_CALENDAR = ("DATE", "TIMESTAMP")
_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "binary"})
_SAME_VALUES = 2
"""The format version whose promotions change no value (v3 promotes a date to a timestamp)."""
_OF_NO_ENGINE = frozenset({"uuid", "timestamp_ns", "timestamptz_ns"})
"""Types that Spark does not have: values that fit these are read by Arrow or not at all."""


def column_names(path: str) -> list[str]:
    """Names of a Parquet file's columns. Raises DataError for a file that cannot be read."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def parts_that_fit(path: str, fields: Mapping[str, NestedField]) -> list[SourcePart]:
    """The parts of a local Parquet file whose columns are ``fields`` (by the file's own names).

    Raises UnsupportedError that names what does not fit, DataError for a file that cannot be read.
    """
    with _opened(path) as file:
        footer, columns = file.metadata, plain_schema(file.schema_arrow)
    if sorted(columns.names) != sorted(fields):
        raise UnsupportedError(f"source {path}: its columns are {', '.join(columns.names)}, not {', '.join(fields)}")
    for column in columns:
        if not fits(column.type, fields[column.name].type):
            raise UnsupportedError(f"source {path}: column {column.name} is {column.type}, not {fields[column.name].type}")
    if (null := _perhaps_null(columns, footer, fields)) is not None:
        raise UnsupportedError(f"source {path}: required column {null} holds nulls, or its statistics do not say")
    return _parts(path, footer)


def stored_parts(path: str) -> tuple[pa.Schema, list[SourcePart]]:
    """The columns of a local Parquet file, whatever a table's are, and its parts. Raises the errors of ``parts_that_fit``."""
    with _opened(path) as file:
        footer, columns = file.metadata, plain_schema(file.schema_arrow)
    return columns, _parts(path, footer)


def _parts(path: str, footer: pq.FileMetaData) -> list[SourcePart]:
    if dates_may_move(footer):
        raise UnsupportedError(f"source {path}: an old Spark wrote its dates, in another calendar")
    if any(footer.schema.column(n).physical_type == "INT96" for n in range(footer.num_columns)):
        raise UnsupportedError(f"source {path}: holds timestamps of the old type INT96")
    parts = row_group_parts(path, footer)
    if parts is None:
        raise UnsupportedError(f"source {path}: offsets do not tell its row groups apart")
    return parts


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path, arrow_extensions_enabled=False) as file:
            if file_has_encrypted_columns(file.metadata, path):
                raise DataError(f"source {path} cannot be read: columns of it are encrypted")
            yield file
    except (OSError, pa.ArrowException, UnicodeDecodeError) as e:
        raise DataError(f"source {path} cannot be read: {e}") from None


def dates_may_move(footer: pq.FileMetaData) -> bool:
    """Whether Spark moves old dates or timestamps of the file, other than INT96, from another calendar when it reads them."""
    leaves = map(footer.schema.column, range(footer.num_columns))
    return _is_of_old_spark(footer) and any(leaf.logical_type.type in _OF_CALENDAR for leaf in leaves)


def writer_of_old_calendar(footer: pq.FileMetaData, leaf: pq.ColumnSchema) -> str | None:
    """The engine that stored a leaf's old dates or timestamps in another calendar than today's, by its note in the footer; None:
    they are in today's.

    Spark before 3 did so, and later versions can be configured to; Spark always reads a file by this note. Hive does so with dates
    by default (``hive.parquet.date.proleptic.gregorian``), and always with INT96."""
    is_int96 = leaf.physical_type == "INT96"
    if not is_int96 and leaf.logical_type.type not in _OF_CALENDAR:
        return None
    if _is_of_old_spark(footer, int96=is_int96):
        return "Spark"
    note = (footer.metadata or {}).get(_HIVE_DATES)
    is_of_hive = note is not None and (is_int96 or (leaf.logical_type.type == "DATE" and note != b"true"))
    return "Hive" if is_of_hive else None


def _is_of_old_spark(footer: pq.FileMetaData, *, int96: bool = False) -> bool:
    notes = footer.metadata or {}
    version = notes.get(_SPARK_VERSION)
    if version is None:
        return False
    since, legacy = ((3, 1), _LEGACY_INT96) if int96 else ((3, 0), _LEGACY_DATES)
    numbers = tuple(parse_count(part) or 0 for part in version.decode("ascii", "replace").split(".")[:2])
    return numbers < since or legacy in notes


def fits(stored: pa.DataType, target: IcebergType) -> bool:
    """Whether the writer converts Arrow's values to exactly those of Spark: the same type, a container of it, or a wider one."""
    if isinstance(stored, pa.DictionaryType):
        stored = stored.value_type
    if pa.types.is_null(stored):  # a column without values, from a program that does not know its type
        return True
    if isinstance(target, StructType):
        if not pa.types.is_struct(stored) or [f.name for f in stored] != [f.name for f in target.fields]:
            return False
        return all(fits(have.type, want.type) for have, want in zip(stored, target.fields, strict=True))
    if isinstance(target, ListType):
        return is_list(stored) and fits(stored.value_type, target.element.type)
    if isinstance(target, MapType):
        return pa.types.is_map(stored) and fits(stored.key_type, target.key.type) and fits(stored.item_type, target.value.type)
    if child_arrow_fields(stored):
        return False
    return _fits_plain(stored, target)


def type_fits(have: IcebergType, want: IcebergType) -> bool:
    """Whether every value of a column of another Iceberg table is a valid value of type ``want`` without conversion: the same type
    or a wider one, structs of fields with the same names."""
    if isinstance(have, StructType) and isinstance(want, StructType):
        known = {f.name: f.type for f in want.fields}
        return known.keys() == {f.name for f in have.fields} and all(type_fits(f.type, known[f.name]) for f in have.fields)
    if isinstance(have, ListType) and isinstance(want, ListType):
        return type_fits(have.element.type, want.element.type)
    if isinstance(have, MapType) and isinstance(want, MapType):
        return type_fits(have.key.type, want.key.type) and type_fits(have.value.type, want.value.type)
    return have == UNKNOWN or can_promote(have, want, _SAME_VALUES)


def _fits_plain(stored: pa.DataType, target: IcebergType) -> bool:
    if isinstance(target, DecimalType):
        if not pa.types.is_decimal(stored):
            return False
        return bool(stored.scale == target.scale and stored.precision <= target.precision)
    if isinstance(target, FixedType):
        return bool(stored == pa.binary(target.length))
    name = getattr(target, "name", "")
    if name not in _PLAIN | _OF_NO_ENGINE:
        return False
    if name in ("int", "long"):
        return bool(pa.types.is_signed_integer(stored) and stored.bit_width <= arrow_type(target).bit_width)
    if name == "double":
        return bool(stored in (pa.float32(), pa.float64()))
    if name == "uuid":
        return bool(stored in (pa.binary(16), pa.uuid()))
    if name == "string":
        return bool(stored in (pa.string(), pa.large_string(), pa.string_view()))
    if name == "binary":
        return bool(stored in (pa.binary(), pa.large_binary(), pa.binary_view()))
    return bool(stored == arrow_type(target))


def _perhaps_null(columns: pa.Schema, footer: pq.FileMetaData, fields: Mapping[str, NestedField]) -> str | None:
    """A column with a required value, at any level, that may hold nulls, as far as the footer shows."""
    leaves = [footer.schema.column(n) for n in range(footer.num_columns)]
    for name in columns.names:
        if not _requires_a_value(fields[name]):
            continue
        leaf_numbers = [n for n, leaf in enumerate(leaves) if leaf.path == name or leaf.path.startswith(f"{name}.")]
        if not leaf_numbers or any(leaves[n].max_definition_level and not _counts_no_nulls(footer, n) for n in leaf_numbers):
            return str(name)
    return None


def _requires_a_value(f: NestedField) -> bool:
    if f.required:
        return True
    if isinstance(f.type, MapType):
        return _requires_a_value(f.type.value)  # a key is always present
    inner = f.type.fields if isinstance(f.type, StructType) else (f.type.element,) if isinstance(f.type, ListType) else ()
    return any(_requires_a_value(child) for child in inner)


def _counts_no_nulls(footer: pq.FileMetaData, leaf: int) -> bool:
    groups = [group for g in range(footer.num_row_groups) if (group := footer.row_group(g)).num_rows]
    statistics: Sequence[pq.Statistics | None] = [group.column(leaf).statistics for group in groups]
    return all(s is not None and s.has_null_count and s.null_count == 0 for s in statistics)
