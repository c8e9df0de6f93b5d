"""CSV text as rows, with the table's types: columns by the header's names, or without a header by position.

Fields are quoted as RFC 4180 says: in double quotes, a quote inside doubled. Spark's own default, a backslash before the quote,
leaves doubled quotes in the values; the reader option ``escape`` is for files that are written so. A line whose quotes do not
follow the rule is refused before anything is written: what belongs to which field, or line, can not be told any more. That takes a
pass of its own over the text, because Spark's reader accepts such a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError, OptionError, SchemaError
from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.source_files import LINE, folder_columns, text_lines
from spark_jobs.jobs.spark_errors import first_line
from spark_jobs.jobs.text_encoding import is_utf8, replaced_in
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, OWN, quoted
from spark_jobs.runners.spark_schema import spark_schema

_NO_COLUMN = f"{OWN}no_column"
_SHOWN = 200
_Seen = tuple[spark.StructType, frozenset[str]]
"""The columns of a source, and the names, in lower case, of those whose values Spark takes from names of folders."""
_NOT_OF_VALUES = frozenset({"columnnameofcorruptrecord", "columnpruning", "mode"})
"""Options that are set here; what becomes of a record that cannot be read is the job's to decide."""


def csv_rows(session: SparkSession, source: Source, schema: Schema) -> DataFrame:
    """The lines of a CSV source in the columns they have, typed as the table's; what can not be read is marked.

    Raises SchemaError for another number of columns than the table's where there is no header, DataError for a line whose quotes do
    not pair up.
    """
    given = _options(source)
    altered = _check_lines(session, source, given)
    header = _value(given, "header", "false").lower() == "true"
    seen, folders = _seen(session, source, given, schema)
    found = seen.fields
    if not header:
        if len(found) != len(schema.fields):
            raise SchemaError(
                f"source {', '.join(source.paths)} has {len(found)} columns, the table {len(schema.fields)}: "
                "CSV without header=true is taken by position"
            )
        found = [spark.StructField(f.name, spark.StringType()) for f in schema.fields]
    wanted = {f.name.lower(): f.dataType for f in spark_schema(schema).fields}
    types = {f.name: _readable(wanted.get(f.name.lower(), f.dataType), f) for f in found}
    # Spark makes NULL of a decimal in a folder's name that its type does not hold.
    numbers = {n: t for n, t in types.items() if _is_floating(t) or (isinstance(t, spark.DecimalType) and n.lower() in folders)}
    read = [spark.StructField(name, spark.StringType() if name in numbers else t) for name, t in types.items()]
    # Spark refuses to read what is wrong with a record and nothing else of it.
    read = read or [spark.StructField(_NO_COLUMN, spark.StringType())]
    shape = spark.StructType([*read, spark.StructField(CORRUPT_RECORD_COLUMN, spark.StringType())])
    # Of columns that nobody asks for Spark would not see that there are too many, or too few.
    options = {**given, "mode": "PERMISSIVE", "columnPruning": "false"}
    if header:
        # Files of one source may order their columns differently; a name at another place must not be read as the first file's.
        options.setdefault("enforceSchema", "false")
    rows = session.read.format("csv").schema(shape).options(**options).load(source.paths)
    if not found:
        return rows.select(F.coalesce(CORRUPT_RECORD_COLUMN, _NO_COLUMN).alias(CORRUPT_RECORD_COLUMN))
    if altered or not is_utf8(given):
        rows = _without_replaced(rows)
    return _with_numbers(rows, numbers, given)


def _without_replaced(rows: DataFrame) -> DataFrame:
    """Rows with characters that stand for bytes which are none of the encoding are marked as bad. Where files hold no such bytes,
    the character is one like others."""
    texts = [f.name for f in rows.schema.fields if isinstance(f.dataType, spark.StringType) and f.name != CORRUPT_RECORD_COLUMN]
    record = F.to_json(F.struct(*[quoted(c) for c in rows.columns if c != CORRUPT_RECORD_COLUMN]))
    bad = F.when(replaced_in([F.col(quoted(name)) for name in texts]), record)
    return rows.withColumn(CORRUPT_RECORD_COLUMN, F.coalesce(F.col(CORRUPT_RECORD_COLUMN), bad))


def _options(source: Source) -> dict[str, str]:
    # A name that the caller chose for what does not parse would hide it from the job.
    given = {k: v for k, v in source.options.items() if k.lower() not in _NOT_OF_VALUES}
    given["columnNameOfCorruptRecord"] = CORRUPT_RECORD_COLUMN
    lower = {k.lower() for k in given}
    if "escape" not in lower:
        given["escape"] = _value(given, "quote", '"') or "\\"
    if "unescapedquotehandling" not in lower:
        given["unescapedQuoteHandling"] = "RAISE_ERROR"
    return given


def _value(options: Mapping[str, str], name: str, default: str) -> str:
    return {k.lower(): v for k, v in options.items()}.get(name.lower(), default)


def _separator(session: SparkSession, options: Mapping[str, str]) -> str:
    """What stands between fields, as Spark reads the option: ``\\t`` in two characters is a tab."""
    given = _value(options, "sep", _value(options, "delimiter", ","))
    if not given:
        raise OptionError("source option sep is empty: it must be what stands between two fields")
    jvm: Any = session._jvm
    try:
        return str(jvm.org.apache.spark.sql.catalyst.csv.CSVExprUtils.toDelimiterStr(given))
    except (PySparkException, Py4JJavaError) as e:
        raise OptionError(f"source option sep = {given!r}: {first_line(str(e).partition('Exception: ')[2] or e)}") from e


def _seen(session: SparkSession, source: Source, options: Mapping[str, str], schema: Schema) -> _Seen:
    """What Spark finds in the source by itself: the columns of the first line. ``inferSchema`` reads the whole source, and only
    where there is a column that the table does not type."""

    def found(options: Mapping[str, str]) -> _Seen:
        seen = session.read.format("csv").options(**options).load(source.paths)
        columns = [f for f in seen.schema.fields if f.name != CORRUPT_RECORD_COLUMN]
        return spark.StructType(columns), folder_columns(seen)

    without = {key: value for key, value in options.items() if key.lower() != "inferschema"}
    if len(without) == len(options):
        return found(options)
    named, known = found(without), {f.name.lower() for f in schema.fields}
    by_position = _value(options, "header", "false").lower() != "true"
    return named if by_position or all(name.lower() in known for name in named[0].names) else found(options)


def _readable(wanted: spark.DataType, seen: spark.StructField) -> spark.DataType:
    nested = isinstance(wanted, spark.StructType | spark.ArrayType | spark.MapType)
    return seen.dataType if nested else wanted


def _is_floating(type_: spark.DataType) -> bool:
    return isinstance(type_, spark.FloatType | spark.DoubleType)


def _with_numbers(rows: DataFrame, numbers: Mapping[str, spark.DataType], options: Mapping[str, str]) -> DataFrame:
    """Columns of numbers, read as text, as these. Spark reads one beyond its type as infinite or NULL: here the row is bad."""
    if not numbers:
        return rows
    said = [
        _value(options, name, default) for name, default in (("nanValue", "NaN"), ("positiveInf", "Inf"), ("negativeInf", "-Inf"))
    ]
    values, wrong = {}, []
    for name, type_ in numbers.items():
        text = F.col(quoted(name))
        number = text.try_cast(type_)
        if not _is_floating(type_):
            wrong.append(text.isNotNull() & number.isNull())
            values[name] = number
            continue
        for written, meant in zip(said, ("NaN", "Infinity", "-Infinity"), strict=True):
            number = F.when(text == written, F.lit(meant).cast(type_)).otherwise(number)
        infinite = (F.abs(number) == float("inf")) & ~text.isin(*said[1:]) & ~text.rlike("(?i)inf")
        wrong.append(text.isNotNull() & F.coalesce(number.isNull() | infinite, F.lit(True)))
        values[name] = number
    record = F.to_json(F.struct(*[quoted(c) for c in rows.columns if c != CORRUPT_RECORD_COLUMN]))
    bad = F.coalesce(F.col(CORRUPT_RECORD_COLUMN), F.when(F.greatest(*wrong) if len(wrong) > 1 else wrong[0], record))
    columns: list[Column] = [values.get(c, F.col(quoted(c))).alias(c) for c in rows.columns if c != CORRUPT_RECORD_COLUMN]
    return rows.select(*columns, bad.alias(CORRUPT_RECORD_COLUMN))


def _check_lines(session: SparkSession, source: Source, options: Mapping[str, str]) -> bool:
    """Whether a line has bytes that its encoding does not have, as far as it is UTF-8. Raises DataError for one whose quotes do not
    pair up. With ``multiLine`` a record is no line, and Spark's reader finds such quotes."""
    quote, escape, separator = _value(options, "quote", '"'), _value(options, "escape", '"'), _separator(session, options)
    told = {k: v for k, v in source.options.items() if k.lower() not in ("multiline", "wholetext", "encoding", "charset")}
    lines, value = text_lines(session.read, source.paths, told), F.col(LINE)
    wrong = value.contains(quote) & ~value.rlike(_well_quoted(quote, escape, separator)) if quote else F.lit(False)
    if comment := _value(options, "comment", ""):
        wrong = wrong & ~value.startswith(comment)
    if _value(options, "multiLine", "false").lower() == "true":
        wrong = F.lit(False)
    altered = ~F.is_valid_utf8(value) if is_utf8(options) else F.lit(False)
    file = lines.metadataColumn("_metadata").getField("file_path")
    looked_at = lines.select(
        wrong.alias("wrong"), altered.alias("altered"), file.alias("file"), F.make_valid_utf8(value).alias("value")
    )
    found = looked_at.where("wrong OR altered").limit(1).collect()
    if found and not found[0]["wrong"]:
        found = looked_at.where("wrong").limit(1).collect() or found
    if not found or not found[0]["wrong"]:
        return bool(found)
    shown = found[0]["value"]
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    raise DataError(
        f"source {found[0]['file']}: quotes do not pair up: {shown}: a field that begins with {quote} must end with it, and "
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
