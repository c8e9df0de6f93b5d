"""Names of columns in Spark: quoted names, and the names of columns that jobs add to a table's own.

A column that a job adds must never hide one of a table or a source: Spark would silently use one of the two. So the names of added
columns begin with ``OWN``, and a table or source with such a name is refused. A table may use the names of
Iceberg's metadata columns (``_pos``): the reader's metadata columns are requested by field, not by name.
"""

from __future__ import annotations

from collections.abc import Iterable

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.schema import Schema

OWN = "_iceberg_ops_"
CORRUPT_RECORD_COLUMN = f"{OWN}corrupt_record"
"""For a row of text (CSV, JSON) its file, and for a bad record the reason and the record in the source: a struct."""


def quoted(name: str) -> str:
    """``name`` as one part of a column reference, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def refuse_own_columns(schema: Schema) -> None:
    """Raise UnsupportedError for a table's column with a name that jobs use for their own columns."""
    for f in schema.fields:
        if f.name.lower().startswith(OWN):
            raise UnsupportedError(
                f"not supported: column {f.name!r} in a Spark job, because names that begin with {OWN} are those of columns that "
                "Spark jobs add: rename it (ALTER COLUMN changes no data)"
            )


def refuse_own_names(names: Iterable[str]) -> None:
    """Raise UnsupportedError for a source's column with a name that jobs use for their own columns."""
    for name in names:
        if name.lower().startswith(OWN) and name != CORRUPT_RECORD_COLUMN:
            raise UnsupportedError(
                f"not supported: source column {name!r} in a Spark job, because names that begin with {OWN} are those of "
                "columns that Spark jobs add: rename it"
            )
