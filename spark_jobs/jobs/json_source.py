"""JSON text as rows, with the table's types: one value a line, or with ``multiLine`` one a file.

A value is an object, which is a record, or an array of objects, which are a record each. Spark's own reader stops at the end of the
first value of a line and ignores what follows. So each line is read here as the first item of an array whose second item is put
behind it, and it is refused unless the array has just these two. A line that can not be read, or holds a number that its type does
not, is marked in ``CORRUPT_RECORD_COLUMN``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.config.job_spec import Source
from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.repeated_names import any_name_twice
from spark_jobs.jobs.source_columns import schema_to_read, with_folder_decimals
from spark_jobs.jobs.source_files import LINE, text_lines
from spark_jobs.jobs.text_encoding import is_altered, is_utf8
from spark_jobs.jobs.text_shapes import (
    BLANKS,
    EMPTY,
    LONG_NUMBER,
    any_infinite,
    any_outside,
    as_text,
    hides_fields,
    holds,
    struct_shape,
    united_fields,
)
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, OWN, quoted
from spark_jobs.runners.spark_schema import spark_schema

_ONE, _MANY, _RECORDS, _BAD, _TYPED, _UNREADABLE, _DOUBTFUL, _RECORD = (
    f"{OWN}{name}" for name in ("one", "many", "records", "bad", "typed", "unreadable", "doubtful", "record")
)
_NAMELESS = f"{OWN}nameless"
_ITEMS = "items"
_MARK = "\ufeff"
"""What some programs put before text, to say that it is UTF-8."""
_NOT_OF_VALUES = frozenset({"encoding", "charset", "samplingratio", "linesep", "mode", "multiline", "columnnameofcorruptrecord"})
"""Options of the files, or without effect here: a sample of the records would leave out fields that the others have."""


def json_rows(session: SparkSession, source: Source, schema: Schema) -> DataFrame:
    """The records of a JSON source in the columns they have, typed as the table's; what can not be read is marked."""
    lines = _lines(session.read, source, schema)
    options = {k: v for k, v in source.options.items() if k.lower() not in _NOT_OF_VALUES}
    folders = [name for name in lines.columns if name != LINE]
    shape = _shape(session, source, options, schema, folders)
    read = _judged(lines, shape, options)
    # A bad line is one row; a good one is as many as it has records.
    records = F.when(F.col(_BAD), F.array(F.lit(None).cast(shape))).otherwise(F.col(_RECORDS))
    rows = read.select(*[quoted(name) for name in folders], LINE, _BAD, F.explode(records).alias(_RECORD))
    columns, twice = united_fields(F.col(_RECORD), shape)
    corrupt = F.when(F.col(_BAD) | twice, F.col(LINE)).alias(CORRUPT_RECORD_COLUMN)
    return rows.select(*[c.alias(name) for name, c in columns], *[quoted(name) for name in folders], corrupt)


def _lines(reader: DataFrameReader, source: Source, schema: Schema) -> DataFrame:
    """The text of each line or file, without a byte order mark, blank ones left out; and the values of folder names, text where
    the column of ``schema`` is."""
    given = {k.lower(): v for k, v in source.options.items()}
    whole = given.get("multiline", "false").lower()
    found = text_lines(reader, source.paths, {**source.options, "wholetext": whole})
    if (typed := schema_to_read(found, schema)) is not None:
        found = with_folder_decimals(reader.schema(typed).load(source.paths), schema)
    value = F.col(LINE)
    text = value if is_utf8(given) else F.decode(value.cast("binary"), given.get("encoding", given.get("charset", "")))
    others = [quoted(name) for name in found.columns if name != LINE]
    # By bytes: a regular expression would put other characters in place of what is no UTF-8.
    unmarked = F.when(text.startswith(_MARK), F.substring(text, 2, 2**31 - 1)).otherwise(text)
    lines = found.select(unmarked.alias(LINE), *others)
    return lines.where(F.length(F.btrim(LINE, F.lit(BLANKS))) > 0)


def _shape(
    session: SparkSession, source: Source, options: Mapping[str, str], schema: Schema, folders: list[str]
) -> spark.StructType:
    """What to read: every field that occurs, in the table's type where the table has it."""
    lower = {name.lower() for name in folders}
    wanted = spark.StructType([f for f in spark_schema(schema).fields if f.name.lower() not in lower])
    lines = _lines(_case_sensitive(session), source, schema).where(~is_altered(F.col(LINE)))
    seen = _seen(lines, options)
    shape = struct_shape([seen], wanted)
    if not hides_fields(seen, wanted):
        return shape
    good = _parsed(lines, LINE, shape, options).where(~F.col(_BAD))
    return struct_shape([_seen(good, options), seen], wanted)


def _case_sensitive(session: SparkSession) -> DataFrameReader:
    """A reader of a session that tells names apart by their case: of a field with two spellings the job's own finds one only.

    The session exists on Java's side alone: making one in Python would make it the one that ``RDD.toDF`` uses from then on.
    """
    apart: Any = session._jsparkSession.newSession()
    apart.conf().set("spark.sql.caseSensitive", "true")
    reader: Any = session.read
    reader._jreader = apart.read()
    return reader  # type: ignore[no-any-return]


def _seen(lines: DataFrame, options: Mapping[str, str]) -> spark.StructType:
    """The fields that Spark finds in lines of JSON, and their types."""
    java: Any = lines.sparkSession._jvm
    # Spark leaves out fields without a name, with what a map has under an empty key, and fields that are empty objects.
    named = F.regexp_replace(LINE, r'""(\s*:)', f'"{_NAMELESS}"$1')
    frame: Any = lines.select(F.regexp_replace(named, r"\{\s*\}", f"{{'{EMPTY}':0}}"))._jdf
    reader = frame.sparkSession().read()
    for name, value in {**options, "columnNameOfCorruptRecord": CORRUPT_RECORD_COLUMN, "allowSingleQuotes": "true"}.items():
        reader = reader.option(name, value)
    text = getattr(frame, "as")(java.org.apache.spark.sql.Encoders.STRING())
    found = spark.StructType.fromJson(json.loads(reader.json(text).schema().json().replace(_NAMELESS, "")))
    return spark.StructType([f for f in found.fields if f.name != CORRUPT_RECORD_COLUMN])


def _judged(lines: DataFrame, shape: spark.StructType, options: Mapping[str, str]) -> DataFrame:
    """Each line with its records, and whether it is bad: no object or array of objects, something behind it, a value that does not
    have its type, a number that its type does not hold, text that would be stored with other characters, or a name twice."""
    read = _parsed(lines, LINE, shape, options)
    doubtful = F.exists(_RECORDS, lambda record: any_infinite(record, shape))
    if holds(shape, spark.TimestampType):
        doubtful = doubtful | F.col(LINE).rlike(LONG_NUMBER)
    # Numbers are looked at as text only where one came out infinite, or could have wrapped around.
    asked = read.withColumn(_DOUBTFUL, F.when(~F.col(_BAD) & doubtful, F.col(LINE)))
    asked = asked.withColumnsRenamed({_RECORDS: _TYPED, _BAD: _UNREADABLE})
    again = _parsed(asked, _DOUBTFUL, as_text(shape), options)
    outside = F.coalesce(F.exists(_RECORDS, lambda record: any_outside(record, shape)), F.lit(False))
    kept = [quoted(name) for name in lines.columns]
    bad = F.col(_UNREADABLE) | outside | is_altered(F.col(LINE)) | any_name_twice(F.col(LINE), shape, options)
    return again.select(*kept, F.col(_TYPED).alias(_RECORDS), bad.alias(_BAD))


def _parsed(lines: DataFrame, text: str, shape: spark.DataType, options: Mapping[str, str]) -> DataFrame:
    """The lines with the records that are in column ``text``, and whether these can not be read; NULL text has none and is not
    bad."""

    def parsed(item: spark.DataType) -> Column:
        fields = [(_ITEMS, spark.ArrayType(item)), (CORRUPT_RECORD_COLUMN, spark.StringType())]
        told = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD_COLUMN}
        # The line ends before the second item, because it may end in a comment.
        whole = F.concat(F.lit(f'{{"{_ITEMS}":['), F.col(text), F.lit("\n,null]}"))
        return F.from_json(whole, spark.StructType([spark.StructField(name, type_) for name, type_ in fields]), told)

    is_array = F.substring(F.btrim(text, F.lit(BLANKS)), 1, 1) == "["
    read = lines.withColumns({_ONE: F.when(~is_array, parsed(shape)), _MANY: F.when(is_array, parsed(spark.ArrayType(shape)))})
    one, many = F.col(_ONE).getField(_ITEMS), F.col(_MANY).getField(_ITEMS)
    records = F.when(F.col(_ONE).isNotNull(), F.array(F.get(one, F.lit(0)))).otherwise(F.get(many, F.lit(0)))
    corrupt = F.coalesce(F.col(_ONE).getField(CORRUPT_RECORD_COLUMN), F.col(_MANY).getField(CORRUPT_RECORD_COLUMN))
    size = F.coalesce(F.size(one), F.size(many))
    bad = corrupt.isNotNull() | (size != 2) | F.exists(records, lambda record: record.isNull())
    found = read.withColumns({_RECORDS: records, _BAD: F.col(text).isNotNull() & F.coalesce(bad, F.lit(True))})
    return found.drop(_ONE, _MANY)
