"""Writers that change a table's definition: columns, partition spec, sort order, format version, properties. None changes a row,
except that a dropped column loses its values."""

from __future__ import annotations

from collections.abc import Callable

from iceberg_ops.commit.operations.metadata_updates import (
    UpdateProperties,
    UpdateSchema,
    UpdateSortOrder,
    UpdateSpec,
    UpgradeFormatVersion,
)
from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY, Transform
from iceberg_ops.spec.types import LONG, STRING
from tests.commit.scenarios import SchemaSetBack
from tests.torture.acts import Act
from tests.torture.foreign import is_read_by
from tests.torture.making import BUCKET, TRUNCATE
from tests.torture.rows import KIND
from tests.torture.stepping import Writer
from tests.torture.world import World

FIELDS: tuple[tuple[str, Transform], ...] = (("region", IDENTITY), ("id", BUCKET), (KIND, IDENTITY), (KIND, TRUNCATE))


def columns(world: World, w: Writer) -> None:
    """Add a column, or drop one that was added so."""
    table = world.load(w)
    evolution = SchemaEvolution.of_table(table.metadata)
    mine = [f.name for f in table.schema.fields if f.name.startswith("c")]
    if mine and world.random.random() < 0.5:
        evolution.drop_column(mine[-1])
    else:
        evolution.add_column(world.name("c"), LONG)
    key = world.name("columns")
    world.commit(w, table, UpdateSchema(schema=evolution.apply(), run_key=key), Act("columns", key))


def partitioning(world: World, w: Writer) -> None:
    """Add, remove or replace a partition field."""
    table = world.load(w)
    metadata = table.metadata
    evolution = SpecEvolution.of_table(metadata)
    there = [f for f in metadata.spec.fields if not f.transform.is_void]
    absent = [
        (c, t) for c, t in FIELDS if metadata.schema.find(c) and not any(is_field(metadata, f.source_id, f, c, t) for f in there)
    ]
    dice = world.random.random()
    if there and dice < 0.6:
        evolution.remove_field(world.random.choice(there).name)
    if absent and dice > 0.3:
        evolution.add_field(*world.random.choice(absent))
    key = world.name("partitioning")
    try:
        spec = evolution.apply()
    except SchemaError as e:
        world.count("errors", type(e).__name__)
        return
    world.commit(w, table, UpdateSpec(spec=spec, run_key=key), Act("partitioning", key))


def bucket_comes_or_goes(world: World, w: Writer) -> None:
    """Add or remove a bucket of the id: upserts by the id continue, and their older rows may be compacted from one spec into the
    other."""
    table, key = world.load(w), world.name("partitioning")
    evolution = SpecEvolution.of_table(table.metadata)
    known = [f.name for f in table.metadata.spec.fields if f.transform == BUCKET]
    for name in known:
        evolution.remove_field(name)
    if not known:
        evolution.add_field("id", BUCKET)
    world.commit(w, table, UpdateSpec(spec=evolution.apply(), run_key=key), Act("partitioning", key))


def bucket_too(world: World, w: Writer) -> None:
    """Add a bucket of the id to the present fields: the keys of an upsert by region and id still determine the partition."""
    table, key = world.load(w), world.name("partitioning")
    spec = SpecEvolution.of_table(table.metadata).add_field("id", BUCKET).apply()
    world.commit(w, table, UpdateSpec(spec=spec, run_key=key), Act("partitioning", key))


def is_field(metadata: TableMetadata, source_id: int, found: object, column: str, transform: Transform) -> bool:
    field = metadata.schema.find(column)
    return field is not None and field.field_id == source_id and getattr(found, "transform", None) == transform


def kind_comes_or_goes(world: World, w: Writer) -> None:
    """``kind`` is dropped, once no partition field comes from it, or added again under its name: another column with the same
    name."""
    table = world.load(w)
    found = table.schema.find(KIND)
    key = world.name("kind")
    if found is None:
        schema = SchemaEvolution.of_table(table.metadata).add_column(KIND, STRING).apply()
        world.commit(w, table, UpdateSchema(schema=schema, run_key=key), Act("columns", key))
        return
    by_it = [f.name for f in table.metadata.spec.fields if f.source_id == found.field_id and not f.transform.is_void]
    if by_it:
        evolution = SpecEvolution.of_table(table.metadata)
        for name in by_it:
            evolution.remove_field(name)
        if (
            world.commit(w, table, UpdateSpec(spec=evolution.apply(), run_key=f"{key}/spec"), Act("partitioning", f"{key}/spec"))
            is None
        ):
            return
        table = world.load(w)
        if table.schema.find(KIND) is None:
            return
    schema = SchemaEvolution.of_table(table.metadata).drop_column(KIND).apply()
    world.commit(w, table, UpdateSchema(schema=schema, run_key=key), Act("columns", key))


def column_set_back(world: World, w: Writer) -> None:
    """An older schema is made current again, as REST allows: ``kind`` comes back with the values that files still hold. Not one
    from before the table was replaced, if a column had another type."""
    table, key = world.load(w), world.name("schema")
    now = table.metadata.current_schema_id
    schemas = [s for s in table.metadata.schemas if s.schema_id != now and is_read_by(s, table.schema)]
    holds_kind = [s for s in schemas if s.find(KIND)]
    if schemas:
        schema_id = world.random.choice(holds_kind or schemas).schema_id
        world.commit(w, table, SchemaSetBack(schema_id=schema_id, of=now, run_key=key), Act("columns", key))


def upgrade(world: World, w: Writer) -> None:
    table, key = world.load(w), world.name("upgrade")
    version = world.random.choice([v for v in (2, 3) if v >= table.metadata.format_version] or [3])
    world.commit(w, table, UpgradeFormatVersion(format_version=version, run_key=key), Act("upgrade", key))


def properties(world: World, w: Writer) -> None:
    table, key = world.load(w), world.name("properties")
    operation = UpdateProperties(updates={"owner": key}, removals=("last",), run_key=key)
    world.commit(w, table, operation, Act("properties", key))


def sort_order(world: World, w: Writer) -> None:
    table, key = world.load(w), world.name("order")
    fields = (SortField((world.random.choice([1, 2]),), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),)
    world.commit(w, table, UpdateSortOrder(sort_order=SortOrder(1, fields), run_key=key), Act("sort order", key))


OF_SPECS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "partitioning": (3, partitioning),
    "bucket comes or goes": (1, bucket_comes_or_goes),
}
OF_COLUMNS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "kind comes or goes": (2, kind_comes_or_goes),
    "column set back": (1, column_set_back),
}
KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "columns": (1, columns),
    "upgrade": (1, upgrade),
    "properties": (0.5, properties),
    "sort order": (0.5, sort_order),
    **OF_SPECS,
    **OF_COLUMNS,
}
