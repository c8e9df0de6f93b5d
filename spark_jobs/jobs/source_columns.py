"""Columns of a source that Spark would silently lose or change.

Spark takes the columns of one Parquet file as those of all: a column that only other files have is not read. It guesses the types
of values in folder names, so that ``code=007`` is the number 7, and a decimal a double. And if the schema that it wrote into a
file has field ids (``parquet.field.id``), it finds the columns of every file by these in a job's session, and not by name. Here the
first case is an error, text and decimals stay unchanged if the table's column has that type, and columns are found by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.data.sources.text.parsed import shown
from iceberg_ops.data.sources.text.text_values import parse_decimal
from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import STRING, DecimalType
from spark_jobs.jobs.source_files import FIELD_ID, folder_columns, folder_texts
from spark_jobs.runners.column_names import quoted

_FOOTER_THREADS = 8
_NO_CHARACTER = "\ufffd"
"""The character that Spark reads for bytes that are not UTF-8."""


def check_columns_of_files(rows: DataFrame) -> None:
    """Raise DataError for a file of ``rows``, a Parquet source as Spark reads it, with a column or field that is not read.

    Opens every footer if there is more than one local file, or a name that Spark may have changed because it is not UTF-8.
    """
    paths = sorted(_local_files(rows))
    if len(paths) < 2 and _NO_CHARACTER not in rows.schema.simpleString():
        return
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        for path, lost in zip(paths, pool.map(lambda path: _lost(path, rows.schema), paths), strict=True):
            if lost is not None:
                raise DataError(
                    f"source {path} has column {lost!r}, which not every file of the source has, and Spark would not read it: "
                    "source option mergeSchema = true reads the columns of all files"
                )


def schema_to_read(rows: DataFrame, schema: Schema) -> spark.StructType | None:
    """The schema with which to read ``rows`` instead: text for a value of folder names if the table's column is text, or a decimal
    and the value is not an integer (then ``with_folder_decimals``); and without field ids. None: the schema is correct as it is."""
    folders = folder_columns(rows)
    text = folders & {f.name.lower() for f in schema.fields if f.type == STRING}
    decimals = folders & {f.name.lower() for f in schema.fields if isinstance(f.type, DecimalType)}

    def is_text(f: spark.StructField) -> bool:
        return f.name.lower() in text or (f.name.lower() in decimals and f.dataType == spark.DoubleType())

    fields = [spark.StructField(f.name, spark.StringType() if is_text(f) else _without_ids(f.dataType)) for f in rows.schema.fields]
    changed = any(f.dataType != given.dataType or has_ids(given) for f, given in zip(fields, rows.schema.fields, strict=True))
    return spark.StructType(fields) if changed else None


def with_folder_decimals(rows: DataFrame, schema: Schema) -> DataFrame:
    """``rows`` with the text of folder names converted to the decimal types of the table's columns. Raises DataError for a text
    that is not exactly a value of its column: Spark would round it."""
    decimals = {f.name.lower(): f.type for f in schema.fields if isinstance(f.type, DecimalType)}
    names = decimals.keys() & folder_columns(rows)
    texts = [f.name for f in rows.schema.fields if f.name.lower() in names and f.dataType == spark.StringType()]
    types = {name: decimals[name.lower()] for name in texts}
    for name, type_ in types.items():
        for text in sorted(folder_texts(rows, name)):
            _check_is_decimal(name, text, type_)
    return rows.withColumns({n: F.col(quoted(n)).cast(spark.DecimalType(t.precision, t.scale)) for n, t in types.items()})


def _check_is_decimal(name: str, text: str, type_: DecimalType) -> None:
    try:
        parse_decimal(text, type_)
    except ValueError:
        raise DataError(f"source folder {name}={text}: {shown(text)} is not a valid {type_}, the type of column {name!r}") from None


def has_ids(field: spark.StructField) -> bool:
    """Whether Spark would find a column, or a field inside it, by its field id."""
    return FIELD_ID in spark.StructType([field]).json()


def _without_ids(type_: spark.DataType) -> spark.DataType:
    if isinstance(type_, spark.StructType):
        return spark.StructType([spark.StructField(f.name, _without_ids(f.dataType), f.nullable) for f in type_.fields])
    if isinstance(type_, spark.ArrayType):
        return spark.ArrayType(_without_ids(type_.elementType), type_.containsNull)
    if isinstance(type_, spark.MapType):
        return spark.MapType(_without_ids(type_.keyType), _without_ids(type_.valueType), type_.valueContainsNull)
    return type_


def _local_files(rows: DataFrame) -> Iterator[str]:
    for file in rows.inputFiles():
        place = urlsplit(file)
        if place.scheme in ("", "file"):
            yield unquote(place.path)


def _lost(path: str, read: spark.StructType) -> str | None:
    try:
        file_schema = pq.read_schema(Path(path))
    except (OSError, pa.ArrowException):
        return None  # Spark reports what is wrong with it
    except UnicodeDecodeError as e:  # Spark reads it by another name, so it finds nothing
        raise DataError(f"source {path} has a column whose name is not UTF-8: {e}") from None
    return next(_missing(pa.struct(list(file_schema)), read, ""), None)


def _missing(have: pa.DataType, read: spark.DataType, path: str) -> Iterator[str]:
    """Columns and fields of ``have`` that ``read`` lacks. (Spark refuses types that do not fit together.)"""
    if pa.types.is_struct(have) and isinstance(read, spark.StructType):
        known = {f.name.lower(): f.dataType for f in read.fields}
        for f in have:
            if f.name.lower() in known:
                yield from _missing(f.type, known[f.name.lower()], f"{path}{f.name}.")
            else:
                yield path + f.name
    elif pa.types.is_map(have) and isinstance(read, spark.MapType):
        yield from _missing(have.key_type, read.keyType, f"{path}key.")
        yield from _missing(have.item_type, read.valueType, f"{path}value.")
    elif (pa.types.is_list(have) or pa.types.is_large_list(have)) and isinstance(read, spark.ArrayType):
        yield from _missing(have.value_type, read.elementType, f"{path}element.")
