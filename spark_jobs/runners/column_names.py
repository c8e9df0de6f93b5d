"""Names of columns in Spark: any name in quotes, and those that jobs add beside a table's own.

A column that a job adds must never take the place of one that a table or a source has: Spark would put the one over the other and
say nothing. So the names of added columns begin with ``OWN``, which no table uses; and a table that has a column of the name of one
of Iceberg's metadata columns (``_pos``) is refused where rows are read with their places, as Iceberg's Spark runtime refuses it.
"""

from __future__ import annotations

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.metadata_columns import METADATA_COLUMNS
from iceberg_ops.spec.schema import Schema

OWN = "_iceberg_ops_"
CORRUPT_RECORD_COLUMN = f"{OWN}corrupt_record"
"""Text of a source that does not parse as the table's columns."""


def quoted(name: str) -> str:
    """``name`` as one part of a column reference, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def refuse_reserved_names(schema: Schema) -> None:
    """Raise UnsupportedError for a column that is named like a metadata column."""
    for f in schema.fields:
        if f.name.lower() in METADATA_COLUMNS:
            raise UnsupportedError(
                f"not supported: column {f.name!r} in a Spark job that reads the table, because the name is that of a metadata "
                "column: rename it (ALTER COLUMN changes no data)"
            )
