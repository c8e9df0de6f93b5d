"""Text of CSV and JSON sources that is not what its encoding says, which Spark's readers change without a word.

Bytes that are no UTF-8 become U+FFFD, and half of a surrogate pair in JSON (``\\ud800``) becomes a question mark. A record with
such text is a bad one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError
from spark_jobs.jobs.source_files import LINE, text_lines

REPLACEMENT = "\ufffd"
"""What a decoder puts in place of bytes that it does not understand."""
_SHOWN = 200
_ESCAPED_BACKSLASH = r"\\\\"
_SURROGATE = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"


def is_utf8(options: Mapping[str, str]) -> bool:
    """Whether the files of a text source are read as UTF-8."""
    given = {k.lower(): v for k, v in options.items()}
    return given.get("encoding", given.get("charset", "utf-8")).lower() in ("utf-8", "utf8")


def is_altered(text: Column) -> Column:
    """Whether a line of JSON, as its file has it, holds bytes that are no UTF-8, or half of a surrogate pair."""
    # Without the backslashes that are meant as such, each that is left begins an escape.
    escapes = F.regexp_replace(text, _ESCAPED_BACKSLASH, "_")
    lone = F.regexp_replace(escapes, _PAIR, "_").rlike(_SURROGATE)
    return ~F.is_valid_utf8(text) | F.when(text.rlike(_SURROGATE), lone).otherwise(F.lit(False))


def altered_line(session: SparkSession, source: Source) -> str | None:
    """The first line of a source read as UTF-8 that its reader would change, with its file; None: there is none."""
    if not is_utf8(source.options):
        return None
    left_out = ("multiline", "wholetext", "encoding", "charset", "mode")
    options = {k: v for k, v in source.options.items() if k.lower() not in left_out}
    lines, value = text_lines(session.read, source.paths, options), F.col(LINE)
    wrong = lines.where(is_altered(value) if source.format == "json" else ~F.is_valid_utf8(value))
    file = wrong.metadataColumn("_metadata").getField("file_path").alias("file")
    shown = wrong.select(file, F.make_valid_utf8(value).alias("value")).limit(1).collect()
    return f"{shown[0]['file']}: {shown[0]['value'][:_SHOWN]}" if shown else None


def refuse_altered_text(session: SparkSession, source: Source) -> None:
    """Raise DataError for a source with such text, where records are not looked at one by one."""
    if (line := altered_line(session, source)) is not None:
        raise DataError(
            f"source {line}: this line is not UTF-8 text (or has half of a surrogate pair), and would be stored with other "
            "characters: convert the file, or give its encoding (reader option encoding)"
        )


def replaced_in(columns: Sequence[Column]) -> Column:
    """Whether one of these texts has a character that was put in place of bytes that are none."""
    found = F.lit(False)
    for column in columns:
        found = found | F.coalesce(column.contains(REPLACEMENT), F.lit(False))
    return found
