"""Columns of a Parquet source that Spark would lose without a word.

Spark takes the columns of one file for those of all: a column that only other files have is not read. And it guesses the types of
values in folder names, so that ``code=007`` is the number 7. Here the first is an error, and text stays the text that it is where
the table's column is text.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import STRING
from spark_jobs.jobs.source_files import folder_columns

_FOOTER_THREADS = 8


def check_columns_of_files(rows: DataFrame) -> None:
    """Raise DataError for a file of ``rows``, a Parquet source as Spark reads it, that has a column or field which is not read.

    Opens every footer, where there is more than one local file.
    """
    paths = sorted(_local_files(rows))
    if len(paths) < 2:
        return
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        for path, lost in zip(paths, pool.map(lambda path: _lost(path, rows.schema), paths), strict=True):
            if lost is not None:
                raise DataError(
                    f"source {path} has column {lost!r}, which not every file of the source has, and Spark would not read it: "
                    "source option mergeSchema = true reads the columns of all files"
                )


def types_of_text_folders(rows: DataFrame, schema: Schema) -> spark.StructType | None:
    """The schema to read ``rows`` with instead, because a value in folder names is no text by it while the table's column is; None:
    it is well as it is."""
    text = {f.name.lower() for f in schema.fields if f.type == STRING}
    wanted = text & folder_columns(rows)
    wrong = [f.name for f in rows.schema.fields if f.name.lower() in wanted and f.dataType != spark.StringType()]
    if not wrong:
        return None
    return spark.StructType([spark.StructField(f.name, spark.StringType()) if f.name in wrong else f for f in rows.schema.fields])


def _local_files(rows: DataFrame) -> Iterator[str]:
    for file in rows.inputFiles():
        place = urlsplit(file)
        if place.scheme in ("", "file"):
            yield unquote(place.path)


def _lost(path: str, read: spark.StructType) -> str | None:
    try:
        found = pq.read_schema(Path(path))
    except (OSError, pa.ArrowException):
        return None  # Spark says what is the matter with it
    return next(_missing(pa.struct(list(found)), read, ""), None)


def _missing(have: pa.DataType, read: spark.DataType, path: str) -> Iterator[str]:
    """Columns and fields of ``have`` that ``read`` has not. (Types that do not go together are Spark's to refuse.)"""
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
