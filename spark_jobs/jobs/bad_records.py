"""Detects rows that do not fit the table while they are read: text that does not parse, a value out of range, NULL where a value is
required, at any level.

Each such row carries ``BAD_COLUMN``, a struct of file, row number (Parquet only), reason and the record itself; rows that fit have
NULL there. The writer handles them (``runners.bad_rows``): the job fails before any commit, or they go to the
quarantine. If nothing can be wrong, there is no such column and no cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.assignment import assign_by_name
from spark_jobs.runners.bad_rows import BAD_COLUMN
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, quoted


def checked_rows(rows: DataFrame, schema: Schema, source_format: str) -> DataFrame:
    """``rows`` in the table's columns, with ``BAD_COLUMN`` if a row could be bad. Raises SchemaError for columns that do not fit,
    whatever their values are."""
    assigned = assign_by_name(rows.drop(CORRUPT_RECORD_COLUMN), schema)
    reasons = [column.wrong for column in assigned if column.wrong is not None]
    bad = bad_column(rows, rows.columns, reasons, source_format)
    return rows.select(*[c.value.alias(c.field.name) for c in assigned], *([] if bad is None else [bad]))


def bad_column(rows: DataFrame, shown: Sequence[str], reasons: Sequence[Column], source_format: str) -> Column | None:
    """``BAD_COLUMN`` from the first non-null one of ``reasons``; text that did not parse comes first. None: nothing can be
    wrong."""
    corrupt = F.col(CORRUPT_RECORD_COLUMN) if CORRUPT_RECORD_COLUMN in rows.columns else None
    if corrupt is not None:
        reasons = [corrupt.getField("reason"), *reasons]
    if not reasons:
        return None
    reason = F.coalesce(*reasons)
    record = F.to_json(F.struct(*[rows[quoted(name)] for name in shown if name != CORRUPT_RECORD_COLUMN]))
    # The rows of a query have no files: reading their metadata column would fail.
    about = rows.metadataColumn("_metadata") if source_format == "parquet" else corrupt
    file = F.lit(None).cast("string") if about is None else about.getField("file_path" if corrupt is None else "file")
    row = about.getField("row_index") if about is not None and corrupt is None else F.lit(None).cast("long")
    bad = F.struct(
        file.alias("file"),
        row.alias("row"),
        reason.alias("reason"),
        (record if corrupt is None else F.coalesce(corrupt.getField("record"), record)).alias("record"),
    )
    return F.when(reason.isNotNull(), bad).alias(BAD_COLUMN)


def bad_change(reasons: Sequence[Column], place: Column, position: Column, record: Column | None = None) -> Column | None:
    """``BAD_COLUMN`` for rows that a statement makes; None: nothing can be wrong. A row of the table is identified by ``place``
    (``FILE_COLUMN``) and ``position``, a new one (without place) by ``record``."""
    if not reasons:
        return None
    reason, none = F.coalesce(*reasons), F.lit(None).cast("string")
    bad = F.struct(
        none.alias("file"),
        position.alias("row"),
        reason.alias("reason"),
        (none if record is None else F.when(place.isNull(), record)).alias("record"),
        place.alias("place"),
    )
    return F.when(reason.isNotNull(), bad).alias(BAD_COLUMN)
