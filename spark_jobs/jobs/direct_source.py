"""Whether a source's rows need nothing of Spark: the files to be read by Arrow, or none.

Spark has planned the source by then, so its rules about paths, names and types have all been applied, and whatever it refuses has
been refused. What it would do to the rows must then be nothing, or an exact widening, as far as Spark's schema and every file's
footer tell: the files' columns are the source's, by the same names; each type is the table's, or fits into it whole; a required
column holds no nulls; no shuffle or sort is asked for; no calendar is to be changed. In any doubt the rows go through Spark, which
also has the words for what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from iceberg_ops.config.job_spec import Source
from iceberg_ops.data.arrow_schema import arrow_type
from iceberg_ops.data.file_columns import child_arrow_fields
from iceberg_ops.data.source_parts import SourcePart, parts_of
from iceberg_ops.io.locations import location_identity
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DecimalType, FixedType, IcebergType, ListType, MapType, NestedField, StructType
from spark_jobs.runners.native_scan import plain_path
from spark_jobs.runners.spark_schema import spark_schema

_SPARK_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
_SPARK_VERSION, _LEGACY_DATES = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"
_FIRST_CORRECTED = 3
"""Spark before this version wrote old dates in another calendar."""
_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary"})
_GLOB = frozenset("*?[]{}\\")
_FOOTER_THREADS = 8


def direct_parts(session: SparkSession, source: Source | None, rows: DataFrame, schema: Schema) -> list[SourcePart] | None:
    """The parts of a source whose rows, read by Arrow, are what ``rows`` assigned to ``schema`` are; None: Spark must read it.

    ``rows`` are the source's as Spark reads them, already found to be assignable. Opens every footer.
    """
    if source is None or not _is_plain(session, source):
        return None
    fields = _matched(rows, schema)
    paths = [plain_path(location.removeprefix("file://")) for location in sorted(rows.inputFiles())] if fields else []
    if not fields or not paths or None in paths:
        return None
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        found = list(pool.map(lambda path: _parts_if_fit(path, fields), [p for p in paths if p is not None]))
    return [part for parts in found if parts is not None for part in parts] if None not in found else None


def _is_plain(session: SparkSession, source: Source) -> bool:
    if source.format != "parquet" or source.options or any(_GLOB & set(path) for path in source.paths):
        return False
    places = [location_identity(path).rstrip("/") + "/" for path in source.paths]
    if any(a.startswith(b) for i, a in enumerate(places) for j, b in enumerate(places) if i != j):
        return False  # read twice
    return all(str(session.conf.get(key)).lower() == value.lower() for key, value in _SPARK_SETTINGS.items())


def _matched(rows: DataFrame, schema: Schema) -> dict[str, NestedField]:
    """The table's fields by the source's column names; none where one of a source's types is not surely the table's."""
    known = {f.name.lower(): f for f in schema.fields}
    wanted = {f.name.lower(): f.dataType for f in spark_schema(schema).fields}
    found = {}
    for given in rows.schema.fields:
        lower = given.name.lower()
        if lower not in known or not _widens(given.dataType, wanted[lower]):
            return {}
        found[given.name] = known[lower]
    return found


def _widens(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Whether every value of ``given`` is the same one of ``wanted``. (What is nested must be equal.)"""
    if given == wanted:
        return True
    if isinstance(given, spark.DecimalType) and isinstance(wanted, spark.DecimalType):
        return given.scale == wanted.scale and given.precision <= wanted.precision
    whole = [spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType()]
    if given in whole and wanted in whole:
        return whole.index(given) < whole.index(wanted)
    return given == spark.FloatType() and wanted == spark.DoubleType()


def _parts_if_fit(path: str, fields: dict[str, NestedField]) -> list[SourcePart] | None:
    try:
        with pq.ParquetFile(path, arrow_extensions_enabled=False) as file:
            footer, columns = file.metadata, file.schema_arrow
            leaves = file.schema
    except (OSError, pa.ArrowException):
        return None
    if sorted(columns.names) != sorted(fields) or not _calendar_is_kept(footer):
        return None
    if not all(_fits(c.type, fields[c.name].type) for c in columns):
        return None
    if any(leaves.column(n).physical_type == "INT96" for n in range(len(leaves))):
        return None
    return parts_of(path, footer) if _no_required_nulls(columns, footer, fields) else None


def _calendar_is_kept(footer: pq.FileMetaData) -> bool:
    notes = footer.metadata or {}
    version = notes.get(_SPARK_VERSION)
    if version is None:
        return True
    major = version.split(b".")[0]
    return major.isdigit() and int(major) >= _FIRST_CORRECTED and _LEGACY_DATES not in notes


def _fits(stored: pa.DataType, wanted: IcebergType) -> bool:
    """Whether the writer turns what Arrow reads into the very values Spark would: the same type, a container of it, or a wider."""
    if isinstance(stored, pa.DictionaryType):
        stored = stored.value_type
    if isinstance(wanted, StructType):
        if not pa.types.is_struct(stored) or [f.name for f in stored] != [f.name for f in wanted.fields]:
            return False
        return all(_fits(have.type, want.type) for have, want in zip(stored, wanted.fields, strict=True))
    if isinstance(wanted, ListType):
        return pa.types.is_list(stored) and _fits(stored.value_type, wanted.element.type)
    if isinstance(wanted, MapType):
        return pa.types.is_map(stored) and _fits(stored.key_type, wanted.key.type) and _fits(stored.item_type, wanted.value.type)
    if child_arrow_fields(stored):
        return False
    return _fits_plain(stored, wanted)


def _fits_plain(stored: pa.DataType, wanted: IcebergType) -> bool:
    if isinstance(wanted, DecimalType):
        if not pa.types.is_decimal(stored):
            return False
        return bool(stored.scale == wanted.scale and stored.precision <= wanted.precision)
    if isinstance(wanted, FixedType):
        return bool(stored == pa.binary(wanted.length))
    name = getattr(wanted, "name", "")
    if name not in _PLAIN:
        return False
    if name in ("int", "long"):
        return bool(pa.types.is_signed_integer(stored) and stored.bit_width <= arrow_type(wanted).bit_width)
    if name == "double":
        return bool(stored in (pa.float32(), pa.float64()))
    if name == "string":
        return bool(stored in (pa.string(), pa.large_string(), pa.string_view()))
    if name == "binary":
        return bool(stored in (pa.binary(), pa.large_binary(), pa.binary_view()))
    return bool(stored == arrow_type(wanted))


def _no_required_nulls(columns: pa.Schema, footer: pq.FileMetaData, fields: dict[str, NestedField]) -> bool:
    """Known from the footer; nulls in a required column are found, and told by row, where Spark reads it."""
    place = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    for name in columns.names:
        if not fields[name].required:
            continue
        if name not in place:
            return False
        if footer.schema.column(place[name]).max_definition_level and not _counts_no_nulls(footer, place[name]):
            return False
    return True


def _counts_no_nulls(footer: pq.FileMetaData, leaf: int) -> bool:
    found: Sequence[pq.Statistics | None] = [footer.row_group(g).column(leaf).statistics for g in range(footer.num_row_groups)]
    return all(s is not None and s.has_null_count and s.null_count == 0 for s in found)
