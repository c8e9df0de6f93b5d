"""CSV text as rows, with the table's types: columns by the header's names, or without a header by position.

Fields are quoted as RFC 4180 says: in double quotes, a quote inside doubled. Spark's own default, a backslash before the quote,
leaves doubled quotes in the values; the reader option ``escape`` is for files that are written so. A line whose quotes do not
follow the rule is refused before anything is written: what belongs to which field, or line, can not be told any more. That takes a
pass of its own over the text, because Spark's reader accepts such a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError, SchemaError
from iceberg_ops.spec.schema import Schema
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, OWN, quoted
from spark_jobs.runners.spark_schema import spark_schema

_NO_COLUMN = f"{OWN}no_column"
_SHOWN = 200


def csv_rows(session: SparkSession, source: Source, schema: Schema) -> DataFrame:
    """The lines of a CSV source in the columns they have, typed as the table's; what can not be read is marked.

    Raises SchemaError for another number of columns than the table's where there is no header, DataError for a line whose quotes do
    not pair up.
    """
    given = _options(source)
    _check_quotes(session, source, given)
    header = _value(given, "header", "false").lower() == "true"
    found = _seen(session, source, given, schema).fields
    if not header:
        if len(found) != len(schema.fields):
            raise SchemaError(
                f"source {', '.join(source.paths)} has {len(found)} columns, the table {len(schema.fields)}: "
                "CSV without header=true is taken by position"
            )
        found = [spark.StructField(f.name, spark.StringType()) for f in schema.fields]
    wanted = {f.name.lower(): f.dataType for f in spark_schema(schema).fields}
    types = {f.name: _readable(wanted.get(f.name.lower(), f.dataType), f) for f in found}
    read = [spark.StructField(name, spark.StringType() if _is_floating(t) else t) for name, t in types.items()]
    # Spark refuses to read what is wrong with a record and nothing else of it.
    read = read or [spark.StructField(_NO_COLUMN, spark.StringType())]
    shape = spark.StructType([*read, spark.StructField(CORRUPT_RECORD_COLUMN, spark.StringType())])
    options = {"mode": "PERMISSIVE", **given}
    if header:
        # Files of one source may order their columns differently; a name at another place must not be read as the first file's.
        options.setdefault("enforceSchema", "false")
    rows = session.read.format("csv").schema(shape).options(**options).load(source.paths)
    if not found:
        return rows.select(F.coalesce(CORRUPT_RECORD_COLUMN, _NO_COLUMN).alias(CORRUPT_RECORD_COLUMN))
    return _with_numbers(rows, {name: t for name, t in types.items() if _is_floating(t)}, given)


def _options(source: Source) -> dict[str, str]:
    # A name that the caller chose for what does not parse would hide it from the job.
    given = {k: v for k, v in source.options.items() if k.lower() != "columnnameofcorruptrecord"}
    given["columnNameOfCorruptRecord"] = CORRUPT_RECORD_COLUMN
    lower = {k.lower() for k in given}
    if "escape" not in lower:
        given["escape"] = _value(given, "quote", '"') or "\\"
    if "unescapedquotehandling" not in lower:
        given["unescapedQuoteHandling"] = "RAISE_ERROR"
    return given


def _value(options: Mapping[str, str], name: str, default: str) -> str:
    return {k.lower(): v for k, v in options.items()}.get(name.lower(), default)


def _seen(session: SparkSession, source: Source, options: Mapping[str, str], schema: Schema) -> spark.StructType:
    """What Spark finds in the source by itself: the columns of the first line. ``inferSchema`` reads the whole source, and only
    where there is a column that the table does not type."""

    def found(options: Mapping[str, str]) -> spark.StructType:
        seen = session.read.format("csv").options(**options).load(source.paths).schema
        return spark.StructType([f for f in seen.fields if f.name != CORRUPT_RECORD_COLUMN])

    without = {key: value for key, value in options.items() if key.lower() != "inferschema"}
    if len(without) == len(options):
        return found(options)
    named, known = found(without), {f.name.lower() for f in schema.fields}
    by_position = _value(options, "header", "false").lower() != "true"
    return named if by_position or all(name.lower() in known for name in named.names) else found(options)


def _readable(wanted: spark.DataType, seen: spark.StructField) -> spark.DataType:
    nested = isinstance(wanted, spark.StructType | spark.ArrayType | spark.MapType)
    return seen.dataType if nested else wanted


def _is_floating(type_: spark.DataType) -> bool:
    return isinstance(type_, spark.FloatType | spark.DoubleType)


def _with_numbers(rows: DataFrame, floating: Mapping[str, spark.DataType], options: Mapping[str, str]) -> DataFrame:
    """Floating-point columns, read as text, as numbers. Spark reads a number beyond its type as infinite: here the row is bad."""
    if not floating:
        return rows
    said = [
        _value(options, name, default) for name, default in (("nanValue", "NaN"), ("positiveInf", "Inf"), ("negativeInf", "-Inf"))
    ]
    values, wrong = {}, []
    for name, type_ in floating.items():
        text = F.col(quoted(name))
        number = text.try_cast(type_)
        for written, meant in zip(said, ("NaN", "Infinity", "-Infinity"), strict=True):
            number = F.when(text == written, F.lit(meant).cast(type_)).otherwise(number)
        infinite = (F.abs(number) == float("inf")) & ~text.isin(*said[1:]) & ~text.rlike("(?i)inf")
        wrong.append(text.isNotNull() & F.coalesce(number.isNull() | infinite, F.lit(True)))
        values[name] = number
    record = F.to_json(F.struct(*[quoted(c) for c in rows.columns if c != CORRUPT_RECORD_COLUMN]))
    bad = F.coalesce(F.col(CORRUPT_RECORD_COLUMN), F.when(F.greatest(*wrong) if len(wrong) > 1 else wrong[0], record))
    columns: list[Column] = [values.get(c, F.col(quoted(c))).alias(c) for c in rows.columns if c != CORRUPT_RECORD_COLUMN]
    return rows.select(*columns, bad.alias(CORRUPT_RECORD_COLUMN))


def _check_quotes(session: SparkSession, source: Source, options: Mapping[str, str]) -> None:
    """Raise DataError for a line whose quotes do not pair up. With ``multiLine`` a record is no line, and Spark's reader tells."""
    quote, escape = _value(options, "quote", '"'), _value(options, "escape", '"')
    separator = _value(options, "sep", _value(options, "delimiter", ","))
    if not quote or _value(options, "multiLine", "false").lower() == "true":
        return
    told = {k: v for k, v in source.options.items() if k.lower() not in ("multiline", "wholetext", "encoding", "charset")}
    lines = session.read.format("text").options(**told).load(source.paths)
    wrong = lines.where(F.col("value").contains(quote) & ~F.col("value").rlike(_well_quoted(quote, escape, separator)))
    if comment := _value(options, "comment", ""):
        wrong = wrong.where(~F.col("value").startswith(comment))
    shown = wrong.select(wrong.metadataColumn("_metadata").getField("file_path").alias("file"), "value").limit(1).collect()
    if shown:
        line = shown[0]["value"]
        line = line if len(line) <= _SHOWN else line[:_SHOWN] + "..."
        raise DataError(
            f"source {shown[0]['file']}: quotes do not pair up: {line}: a field that begins with {quote} must end with it, and "
            f"{quote} inside is written {escape}{quote} (reader options: quote, escape; multiLine = true where quoted fields hold "
            "line breaks)"
        )


def _well_quoted(quote: str, escape: str, separator: str) -> str:
    """A line whose fields are quoted as a whole, or do not begin with a quote. Possessive, so that long lines take linear time."""
    q, e, s = (re.escape(text) for text in (quote, escape, separator))
    inside = f"[^{q}]*+(?:{q}{q}[^{q}]*+)*+" if escape == quote else f"[^{q}{e}]*+(?:{e}.[^{q}{e}]*+)*+"
    plain = f"(?!{q})[^{s}]*+" if len(separator) == 1 else f"(?!{q})(?:(?!{s}).)*+"
    one = f"(?:{q}{inside}{q}|{plain})"
    return f"(?s)^{one}(?:{s}{one})*+\\r?$"
