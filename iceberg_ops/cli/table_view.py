"""Shows a table to people and machines: schema, partitioning, sort order, properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from iceberg_ops.cli.output import print_json

if TYPE_CHECKING:
    from iceberg_ops.spec.sorting import SortField
    from iceberg_ops.spec.table_metadata import TableMetadata


def show_table(target: str, metadata: TableMetadata, as_json: bool, what: str) -> None:
    """Print the table's schema, partitioning, order and properties."""
    from iceberg_ops.serde.json.partition_json import spec_to_dict
    from iceberg_ops.serde.json.schema_json import schema_to_dict
    from iceberg_ops.serde.json.sort_json import sort_order_to_dict

    if as_json:
        print_json(
            {
                "table": target,
                "location": metadata.location,
                "format-version": metadata.format_version,
                "schema": schema_to_dict(metadata.schema),
                "partition-spec": spec_to_dict(metadata.spec),
                "sort-order": sort_order_to_dict(metadata.sort_order),
                "properties": dict(metadata.properties),
            }
        )
        return
    click.echo(f"{target}: {what}, format version {metadata.format_version}")
    for f in metadata.schema.fields:
        click.echo(f"  {f.field_id}: {f.name} {f.type}{' NOT NULL' if f.required else ''}{f'  -- {f.doc}' if f.doc else ''}")
    name_of = metadata.all_fields_by_id
    parts = [f"{p.name} = {p.transform}({name_of[p.source_id].name})" for p in metadata.spec.fields]
    click.echo(f"  partitioned by {', '.join(parts) or 'nothing'}")
    keys = [f"{_term(k, name_of[k.source_id].name)} {k.direction.value} {k.null_order.value}" for k in metadata.sort_order.fields]
    click.echo(f"  ordered by {', '.join(keys) or 'nothing'}")


def _term(key: SortField, column: str) -> str:
    return column if key.transform.is_identity else f"{key.transform}({column})"
