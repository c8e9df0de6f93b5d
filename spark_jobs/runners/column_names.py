"""Names of columns in Spark: any name in quotes, and those that jobs add beside a table's own.

A column that a job adds must never take the place of one that a table or a source has: Spark would put the one over the other and
say nothing. So the names of added columns begin with ``OWN``, and a table or source that uses such a name is refused. Names of
Iceberg's metadata columns (``_pos``) are a table's to use: what the reader gives for them is asked for by field, not by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.schema import Schema

OWN = "_iceberg_ops_"
CORRUPT_RECORD_COLUMN = f"{OWN}corrupt_record"
"""Of a row of text (CSV, JSON) its file, and of a bad record the reason and the record as the source has it: a struct."""


def quoted(name: str) -> str:
    """``name`` as one part of a column reference, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def refuse_own_columns(schema: Schema) -> None:
    """Raise UnsupportedError for a table's column that is named like one that jobs add."""
    for f in schema.fields:
        if f.name.lower().startswith(OWN):
            raise UnsupportedError(
                f"not supported: column {f.name!r} in a Spark job, because names that begin with {OWN} are those of columns that "
                "Spark jobs add: rename it (ALTER COLUMN changes no data)"
            )


def refuse_own_names(names: Iterable[str]) -> None:
    """Raise UnsupportedError for a column of a source that is named like one that jobs add."""
    for name in names:
        if name.lower().startswith(OWN) and name != CORRUPT_RECORD_COLUMN:
            raise UnsupportedError(
                f"not supported: source column {name!r} in a Spark job, because names that begin with {OWN} are those of "
                "columns that Spark jobs add: rename it"
            )
