"""The equality deletes of an upsert: the key columns, and the partition specs in which they are written.

A key must reach its older rows through the delete's partition: every partition field's source is a key column, or the table has an
unpartitioned spec, whose deletes apply everywhere. This module also checks which columns can order the rows of a key. Every lane
uses it; the lanes read the source and write.
"""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.commit.validation.promoted_keys import unreached_keys, why_unreached
from iceberg_ops.config.job_spec import TEXT_FORMATS, Source
from iceberg_ops.data.sources.text.text_options import CsvOptions, text_options
from iceberg_ops.data.writing.upsert_keys import KeyPlan
from iceberg_ops.errors import OptionError, SchemaError, UnsupportedError
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.types import NestedField, can_be_key
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table, require_spec


def key_columns(schema: Schema, names: tuple[str, ...]) -> list[NestedField]:
    """The top-level columns that identify rows: ``names``, or the identifier fields.

    Raises OptionError if there are none or one is named twice, SchemaError for one that cannot be a key.
    """
    columns = []
    for name in names or [schema.names_by_id[i] for i in schema.identifier_field_ids]:
        f = schema.find(name, case_sensitive=False)
        if f is None:
            raise SchemaError(f"upsert-keys: {name!r} is not a column of the table")
        if schema.parents[f.field_id] is not None or not can_be_key(f.type):
            raise SchemaError(f"upsert-keys: {name!r} of type {f.type} cannot be a key: it must be a top-level, exact value")
        if f in columns:
            raise OptionError(f"upsert-keys: {name!r} names column {f.name!r} a second time: name each key once")
        columns.append(f)
    if not columns:
        raise OptionError("upsert needs upsert-keys: the table has no identifier fields")
    return columns


def check_order(source: Source | None, name: str | None, schema: Schema) -> None:
    """Raise OptionError for an ``order-by`` column ``name`` that is text only because its type is unknown: the table does not have
    it, and the CSV or JSON source does not infer types. Of ``9`` and ``10`` the greater text is ``9``."""
    if source is None or name is None or source.format not in TEXT_FORMATS:
        return
    if name.lower() in {f.name.lower() for f in schema.fields}:
        return
    options = text_options(source.format, source.options)
    if isinstance(options, CsvOptions):
        is_text, remedy = not options.infers, "set the source option inferSchema = true"
    else:
        is_text, remedy = options.as_text, "leave out the source option primitivesAsString"
    if is_text:
        raise untyped_order(name, f"the {source.format.upper()} source has it as text", remedy)


def untyped_order(name: str, why: str, remedy: str) -> OptionError:
    """The error for an ``order-by`` column that would be compared as text, whatever its values are."""
    return OptionError(
        f"order-by: the table has no column {name!r}, and {why}, of which '9' is greater than '10': {remedy}, or add the column to "
        "the table"
    )


def key_plan(table: Table, head: Snapshot | None, keys: Sequence[NestedField]) -> KeyPlan:
    """``keys``, and the specs in which their deletes apply to every older row of ``head``.

    Raises CorruptTableError for a manifest whose spec the table lacks, UnsupportedError for a v1 table and if a promotion moved
    rows of a key to another partition, OptionError for a partition field whose source is not a key column.
    """
    metadata = table.metadata
    field_ids = tuple(f.field_id for f in keys)
    if metadata.format_version < 2:
        raise UnsupportedError("not supported: upsert into a v1 table, because v1 has no row-level deletes: upgrade it to v2")
    manifests = manifests_of(table, head) if head else []
    used = {m.partition_spec_id for m in manifests if m.content is ManifestContent.DATA} | {metadata.default_spec_id}
    specs = [require_spec(metadata, i) for i in sorted(used)]
    everywhere = [s for s in specs if all(f.transform.is_void for f in s.fields)]
    if everywhere:
        return KeyPlan(field_ids, (everywhere[0].spec_id,))
    for spec in specs:
        for f in spec.fields:
            if not f.transform.is_void and not set(f.source_ids) <= set(field_ids):
                name = metadata.schema.names_by_id.get(f.source_id, str(f.source_id))
                raise OptionError(
                    f"upsert-keys {', '.join(k.name for k in keys)}: partition field {f.name!r} comes from column {name!r}, which "
                    "is not a key: an older row of the key may be in a partition that its delete does not reach"
                )
    if (moved := unreached_keys(table, manifests, specs)) is not None:
        raise UnsupportedError(
            f"not supported: upsert into {table.name}, because {why_unreached(table, moved)}, and partition field "
            f"{moved.field.name!r} ({moved.field.transform}) can put older rows of a key into a partition that its delete does "
            "not reach: use a merge"
        )
    return KeyPlan(field_ids, tuple(s.spec_id for s in specs))
