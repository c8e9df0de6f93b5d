"""Columns with the name of a partition field.

When Iceberg Java loads a table, it binds every partition spec of the table, former ones and void fields included, to the current
schema. It refuses the table if the name of a partition field finds a column (by its full or short name, case-sensitive)
other than the field's own source column. A field whose source column is no longer in the schema may have any name (since Iceberg
Java 1.11; earlier versions refuse such a table too). A change of the schema or of the specs can cause a clash, so both are
checked against each other. Java: PartitionSpec.Builder.checkAndAddPartitionName.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema


@dataclass(frozen=True, slots=True)
class NameClash:
    """A partition field (of spec ``spec_id``) and the other column with its name."""

    spec_id: int
    name: str
    column_id: int


def name_clashes(schema: Schema, specs: Iterable[PartitionSpec]) -> tuple[NameClash, ...]:
    """The clashes for which Iceberg Java would not load a table with that current schema and these specs."""
    columns, names = schema.fields_by_id, schema.ids_by_name
    return tuple(
        NameClash(spec.spec_id, f.name, names[f.name])
        for spec in specs
        for f in spec.fields
        if f.name in names and f.source_id in columns and names[f.name] != f.source_id
    )


def new_clashes(schema: Schema, specs: Iterable[PartitionSpec], known: Iterable[NameClash]) -> tuple[NameClash, ...]:
    """The clashes that are not ``known``."""
    there = frozenset(known)
    return tuple(clash for clash in name_clashes(schema, specs) if clash not in there)


def check_names(schema: Schema, specs: Iterable[PartitionSpec], known: Iterable[NameClash] = ()) -> None:
    """Raises SchemaError for a new clash of names. ``known``: clashes that the table already has; it must remain changeable."""
    for clash in new_clashes(schema, specs, known):
        raise SchemaError(
            f"column {clash.name!r}: partition field {clash.name!r} of spec {clash.spec_id} has this name and another source "
            f"column, and Iceberg Java loads no such table: give the column another name"
        )
