"""``iceberg-ops create``: a new, empty table."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from iceberg_ops.cli.completion import table_argument
from iceberg_ops.cli.target import ensure_namespace, find_catalog_and_identifier, json_option, parse_options
from iceberg_ops.errors import CorruptTableError, OptionError

if TYPE_CHECKING:
    from iceberg_ops.cli.column_definitions import ColumnDefinition, SortKey, TransformTerm
    from iceberg_ops.spec.partitioning import PartitionSpec
    from iceberg_ops.spec.schema import Schema
    from iceberg_ops.spec.sorting import SortOrder


@click.command()
@table_argument
@click.argument("columns", required=False)
@click.option("--like", metavar="FILE", help="Take the columns of a Parquet file, or of a JSON file that holds an Iceberg schema.")
@click.option("--partitioned-by", metavar="TERMS", help="For example: days(ts), bucket(16, id).")
@click.option("--ordered-by", metavar="KEYS", help="For example: a DESC NULLS LAST, b.")
@click.option("--identifier", metavar="A,B", help="Identifier fields.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A table property (repeatable).")
@click.option("--location", help="The table's location; default: the catalog chooses it.")
@click.option("--create-namespace", is_flag=True, help="Create the namespace too, if it is missing.")
@json_option
def create(
    target: str,
    columns: str | None,
    like: str | None,
    partitioned_by: str | None,
    ordered_by: str | None,
    identifier: str | None,
    properties: tuple[str, ...],
    location: str | None,
    create_namespace: bool,
    as_json: bool,
) -> None:
    """Create a table.

    COLUMNS is a list of definitions, as in CREATE TABLE: "id bigint NOT NULL, ts timestamp COMMENT 'when', tags map<string,
    string>".
    """
    from iceberg_ops.cli.column_definitions import parse_columns, parse_sort_keys, parse_terms
    from iceberg_ops.cli.standard_output import output_of_done_work
    from iceberg_ops.cli.table_view import show_table
    from iceberg_ops.spec.nesting import check_nesting

    if (columns is None) == (like is None):
        raise OptionError("give either the columns or --like FILE")
    schema = build_schema(parse_columns(columns), identifier) if columns is not None else schema_of_file(like or "", identifier)
    check_nesting(schema)
    spec = build_spec(schema, parse_terms(partitioned_by) if partitioned_by else [])
    order = build_sort_order(schema, parse_sort_keys(ordered_by) if ordered_by else [])
    set_properties = parse_options(properties, "--property")
    check_properties(set_properties, schema)
    catalog, name = find_catalog_and_identifier(target)
    ensure_namespace(catalog, target, name[:-1], create=create_namespace)
    table = catalog.create_table(name, schema, spec=spec, sort_order=order, location=location, properties=set_properties)
    with output_of_done_work():
        show_table(target, table.metadata, as_json, "created")


def check_properties(given: Mapping[str, str], schema: Schema) -> None:
    """Raise OptionError for an invalid table property; warn on standard error about keys without effect."""
    from iceberg_ops.config.known_properties import check_values, unread

    check_values(given)
    for sentence in unread(given, set(schema.names_by_id.values())):
        click.echo(f"warning: {sentence}", err=True)


def build_schema(columns: list[ColumnDefinition], identifier: str | None = None) -> Schema:
    """A schema with placeholder ids. Raises OptionError for a repeated name, SchemaError."""
    from itertools import count

    from iceberg_ops.cli.default_literals import parse_default
    from iceberg_ops.spec.fresh_ids import with_fresh_ids
    from iceberg_ops.spec.name_matching import check_no_twins
    from iceberg_ops.spec.schema import Schema
    from iceberg_ops.spec.types import MISSING, NestedField, StructType

    fields = []
    for n, c in enumerate(columns):
        if c.parent is not None:
            raise OptionError(f"column {c.full_name}: a field of a struct is written in its type, a dot in a name in back quotes")
        default = MISSING if c.default is None else parse_default(c.default, c.type)
        fields.append(NestedField(n, c.name, c.type, c.required, c.doc, default, default))
    ids = count(1)
    struct = with_fresh_ids(StructType(tuple(fields)), lambda: next(ids))
    assert isinstance(struct, StructType)
    check_no_twins(struct)
    return _identified(Schema(struct), identifier)


def schema_of_file(path: str, identifier: str | None = None) -> Schema:
    """The columns of a Parquet file, or an Iceberg schema in JSON. Raises OptionError if the file is neither."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from iceberg_ops.data.arrow.arrow_schema import schema_of_arrow
    from iceberg_ops.serde.json.schema_json import schema_from_json

    try:
        if path.endswith(".json"):
            with open(path, "rb") as source:
                return _identified(schema_from_json(source.read().removeprefix(BOM_UTF8)), identifier)
        return _identified(schema_of_arrow(pq.read_schema(path)), identifier)
    except FileNotFoundError:
        raise OptionError(f"{path}: there is no such file") from None
    except (pa.ArrowException, ValueError, CorruptTableError) as e:
        raise OptionError(f"{path}: no schema can be read from it: {e}") from None


def _identified(schema: Schema, identifier: str | None) -> Schema:
    if identifier is None:
        return schema
    ids = tuple(_field_id(schema, name.strip()) for name in identifier.split(","))
    return replace(schema, identifier_field_ids=ids)


def _field_id(schema: Schema, name: str) -> int:
    from iceberg_ops.spec.schema import no_column

    column = schema.find(name, case_sensitive=False)
    if column is None:
        raise OptionError(no_column(schema, name))
    return column.field_id


def build_spec(schema: Schema, terms: list[TransformTerm]) -> PartitionSpec:
    """A partition spec over ``schema``'s ids. Raises OptionError for an unknown column."""
    from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec

    return PartitionSpec(
        0,
        tuple(
            PartitionField((_field_id(schema, t.source),), FIRST_PARTITION_FIELD_ID + n, t.transform, t.field_name)
            for n, t in enumerate(terms)
        ),
    )


def build_sort_order(schema: Schema, keys: list[SortKey]) -> SortOrder:
    """A sort order over ``schema``'s ids. Raises SchemaError."""
    from iceberg_ops.spec.sort_evolution import SortOrderBuilder
    from iceberg_ops.spec.sorting import SortDirection

    order = SortOrderBuilder(schema, case_sensitive=False)
    for key in keys:
        add = order.desc if key.direction is SortDirection.DESC else order.asc
        add(key.term.source, key.term.transform, key.null_order)
    return order.apply()
