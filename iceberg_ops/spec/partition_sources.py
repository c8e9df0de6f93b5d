"""Checks the source columns of partition fields, also those of former partition specs.

When Iceberg Java loads a table, it binds every partition spec of the table, former ones included, to the current schema. It refuses
the table if a field's transform does not accept the type of the source column: for example a partition column of type unknown that
became a variant. When a spec is created, only the default spec is checked (``spec.validity``). A field whose source
column is no longer in the schema binds to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema


def check_sources(schema: Schema, specs: Iterable[PartitionSpec], before: Schema | None = None) -> None:
    """Raises SchemaError. ``before``: the previous schema; a column that already has its type there is not checked, because
    the table must remain changeable. Nor are transforms that this version does not know."""
    columns = schema.fields_by_id
    known = {} if before is None else before.fields_by_id
    for spec in specs:
        for f in spec.fields:
            for source_id in f.source_ids:
                column, old = columns.get(source_id), known.get(source_id)
                if column is None or f.transform.is_void or not f.transform.is_known or (old and old.type == column.type):
                    continue
                if not f.transform.can_transform(column.type):
                    raise SchemaError(
                        f"column {schema.names_by_id[source_id]!r} cannot be of type {column.type}: partition field {f.name!r} "
                        f"({f.transform}) of spec {spec.spec_id} comes from it, and Iceberg Java could not load the table. Drop "
                        "the partition field, rewrite the files of its spec, then remove the spec (expire_snapshots with "
                        "clean-expired-metadata = true)"
                    )
