"""Adds names of files without field ids to the name mapping of a table (``schema.name-mapping.default``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iceberg_ops.commit.protocol.operation import CallersView, MetadataOperation, StagedCommit, staged_updates
from iceberg_ops.config.properties import NAME_MAPPING
from iceberg_ops.serde.json.name_mapping_json import name_mapping_to_json, table_name_mapping
from iceberg_ops.spec.name_mapping import create_name_mapping, with_names
from iceberg_ops.spec.requirements import AssertCurrentSchemaId, AssertProperty
from iceberg_ops.spec.updates import SetProperties
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class AddMappedNames(MetadataOperation):
    """Add ``names`` by field id to the table's current mapping or, if there is none, to a mapping of its columns' current names.
    Names that a concurrent import adds, and concurrently added columns, are kept: the swap requires the mapping and the schema from
    which the new mapping was made.

    Staging raises SchemaError for a name that now belongs to another field."""

    names: Mapping[int, frozenset[str]]
    name: str = "add_mapped_names"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        known = table_name_mapping(table.metadata)
        mapping = with_names(known or create_name_mapping(table.schema), self.names)
        if mapping == known:
            return StagedCommit()
        metadata = table.metadata
        return staged_updates(
            metadata,
            SetProperties({NAME_MAPPING.name: name_mapping_to_json(mapping)}),
            requirements=(
                AssertProperty(NAME_MAPPING.name, metadata.properties.get(NAME_MAPPING.name)),
                AssertCurrentSchemaId(metadata.current_schema_id),
            ),
            run=self.run,
        )
