"""The table information that a reader needs, as a value that can be sent to other processes.

Besides the columns to return it holds every schema the table ever had: a delete column that was dropped, or widened, is found in
that history, with the widest type it has had (spec: "Equality Delete Files"). Another engine may have replaced the table (CREATE OR
REPLACE TABLE): then a column has the id of the former one with its name, and the types of the former one do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.errors import CorruptTableError, SchemaError
from iceberg_ops.serde.json.name_mapping_json import name_mapping_from_json, name_mapping_to_json, table_name_mapping
from iceberg_ops.serde.json.partition_json import spec_from_dict, spec_to_dict
from iceberg_ops.serde.json.schema_json import schema_from_dict, schema_to_dict
from iceberg_ops.spec.metadata_columns import (
    HIGHEST_USER_FIELD_ID,
    LAST_UPDATED_SEQUENCE_NUMBER,
    METADATA_COLUMNS,
    ROW_ID,
    partition_column,
)
from iceberg_ops.spec.name_mapping import NameMapping
from iceberg_ops.spec.partition_union import PartitionUnion, partition_union
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.promotion import can_promote, fields_ever, in_type, widest
from iceberg_ops.spec.schema import Schema, no_column
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import DATE, TIMESTAMP_NS, UNKNOWN, IcebergType, ListType, MapType, NestedField, StructType

_LINEAGE = (ROW_ID.field_id, LAST_UPDATED_SEQUENCE_NUMBER.field_id)


@dataclass(frozen=True, kw_only=True)
class ReadContext:
    """``table_schema`` is the schema to read rows with, ``projected`` the columns to return, including requested metadata columns;
    ``schemas`` is the table's whole schema history, ``specs`` its partition specs by id."""

    table_schema: Schema
    projected: Schema
    schemas: tuple[Schema, ...] = ()
    specs: Mapping[int, PartitionSpec] = field(default_factory=dict)
    name_mapping: NameMapping | None = None
    format_version: int = 3
    value_schema: Schema | None = None
    """The schema with the types of partition values (see ``TableMetadata.schema_of_values``); None: the newest schema."""
    is_of_uncommitted_files: bool = False
    """Row lineage is returned as stored: a null gets its value when the file is committed. Not in ``to_json``."""

    @classmethod
    def for_table(
        cls, metadata: TableMetadata, *, schema: Schema | None = None, columns: Sequence[str | NestedField] | None = None
    ) -> ReadContext:
        """Read ``columns`` (None: all) under ``schema`` (None: the current one). Raises SchemaError for an unknown column."""
        schema = schema or metadata.schema
        context = cls(
            table_schema=schema,
            projected=schema,
            schemas=metadata.schemas,
            specs=metadata.specs_by_id,
            name_mapping=table_name_mapping(metadata),
            format_version=metadata.format_version,
            value_schema=metadata.schema_of_values(schema),
        )
        return context if columns is None else context.select(columns)

    def select(self, columns: Sequence[str | NestedField]) -> ReadContext:
        """The same with other columns, by top-level or metadata column name, ignoring case. If a table has a column with a metadata
        column's name, the name means this column; the metadata column is then given by its field. Raises SchemaError."""
        chosen = tuple(c if isinstance(c, NestedField) else self._column(c) for c in columns)
        if twice := [f.name for i, f in enumerate(chosen) if f in chosen[:i]]:
            raise SchemaError(f"column {twice[0]!r} is chosen twice: a column can be shown once")
        return replace(self, projected=Schema(StructType(chosen), self.table_schema.schema_id))

    def of_uncommitted_files(self) -> ReadContext:
        """The same for files that are written and not committed yet."""
        return replace(self, is_of_uncommitted_files=True)

    def _column(self, name: str) -> NestedField:
        column = self.table_schema.find(name, case_sensitive=False)
        if column is not None and self.table_schema.parents[column.field_id] is None:
            return column
        if name in METADATA_COLUMNS:
            return METADATA_COLUMNS[name]
        if name == "_partition":
            return partition_column(self.partitions.type)
        raise SchemaError(no_column(self.table_schema, name, top_level=True))

    @cached_property
    def data_fields(self) -> tuple[NestedField, ...]:
        """The projected columns that files hold: not the metadata columns."""
        return tuple(f for f in self.projected.fields if f.field_id <= HIGHEST_USER_FIELD_ID)

    @cached_property
    def stored_fields(self) -> tuple[NestedField, ...]:
        """The projected columns that files may hold: ``data_fields`` and row lineage."""
        return tuple(f for f in self.projected.fields if f.field_id <= HIGHEST_USER_FIELD_ID or f.field_id in _LINEAGE)

    @cached_property
    def partitions(self) -> PartitionUnion:
        """The union of all specs' partition fields, for ``_partition``."""
        return partition_union(self.specs.values(), self._fields_of_values)

    @cached_property
    def _fields_of_values(self) -> Mapping[int, NestedField]:
        known = self.schemas or (self.table_schema,)
        now = self.value_schema or sorted(known, key=lambda s: s.schema_id)[-1]
        return fields_ever((*known, self.table_schema), now, self.format_version)

    @cached_property
    def column_ids(self) -> ColumnIds:
        return ColumnIds(self.name_mapping, self.table_schema)

    @cached_property
    def _holders(self) -> Mapping[int, Schema]:
        """The schema that has each field, by the field's id: the read schema, else the newest schema with the field."""
        return {i: schema for schema in self._newest_last for i in schema.fields_by_id}

    @property
    def _newest_last(self) -> list[Schema]:
        return [*sorted(self.schemas, key=lambda s: s.schema_id), self.table_schema]

    def path_to(self, field_id: int) -> NestedField:
        """The top-level column that leads to a field; every struct on the path has only that one field, and the field has the
        widest type it has had. Raises CorruptTableError for an id that no schema has, or one inside a list or map."""
        if (schema := self._holders.get(field_id)) is None:
            raise CorruptTableError(f"field id {field_id} is in no schema of the table")
        return self._path_in(schema, field_id)

    def type_of_values(self, field_id: int) -> IcebergType:
        """The type of the field's partition values in manifests, whatever schema is used for reading."""
        column = self._fields_of_values.get(field_id)
        return UNKNOWN if column is None else column.type

    def former_fields(self, fields: Sequence[NestedField]) -> list[tuple[NestedField, ...]]:
        """The same top-level columns with the types of each schema in which a part of one has a type that is not promoted to its
        present one."""
        now = Schema(StructType(tuple(fields))).fields_by_id
        return [tuple(s.fields_by_id.get(f.field_id, f) for f in fields) for s in self.schemas if not self._are_promoted(s, now)]

    def _are_promoted(self, schema: Schema, now: Mapping[int, NestedField]) -> bool:
        pairs = ((schema.fields_by_id[i].type, f.type) for i, f in now.items() if i in schema.fields_by_id)
        return all((a.is_nested and b.is_nested) or can_promote(a, b, self.format_version) for a, b in pairs)

    @cached_property
    def types_had(self) -> Mapping[int, frozenset[IcebergType]]:
        """The types, other than nested ones, that each field has had; only of fields that have had several."""
        if all(schema.struct == self.table_schema.struct for schema in self.schemas):
            return {}
        types_by_id: dict[int, set[IcebergType]] = {}
        for schema in self._newest_last:
            for i, f in schema.fields_by_id.items():
                if not f.type.is_nested:
                    types_by_id.setdefault(i, set()).add(f.type)
        return {i: frozenset(types) for i, types in types_by_id.items() if len(types) > 1}

    def was_unknown(self, field_id: int) -> bool:
        """Whether a schema of the table has the field with type unknown, for which files store nothing."""
        known = (s.fields_by_id.get(field_id) for s in self._newest_last)
        return any(f is not None and f.type == UNKNOWN for f in known)

    def _path_in(self, schema: Schema, field_id: int) -> NestedField:
        leaf = schema.fields_by_id[field_id]
        made = in_type(leaf, self._widest(schema, leaf))
        parent = schema.parents[field_id]
        while parent is not None:
            holder = schema.fields_by_id[parent]
            if isinstance(holder.type, ListType | MapType):
                raise CorruptTableError(f"column {schema.name_of(field_id)}: a value inside a list or map cannot be compared")
            made = replace(holder, type=StructType((made,)))
            parent = schema.parents[parent]
        return made

    def _widest(self, schema: Schema, leaf: NestedField) -> IcebergType:
        """The widest type that the field of ``schema`` has had. Schema ids do not show the order: an older schema may be current
        again. Dates that are read as dates do not become timestamp_ns, which cannot hold every date."""
        types = [s.fields_by_id[leaf.field_id].type for s in self.schemas if leaf.field_id in s.fields_by_id]
        if schema is self.table_schema and leaf.type == DATE:
            types = [t for t in types if t != TIMESTAMP_NS]
        return widest(leaf.type, types, self.format_version)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "table-schema": schema_to_dict(self.table_schema),
            "projected": schema_to_dict(self.projected),
            "schemas": [schema_to_dict(s) for s in self.schemas],
            "specs": [spec_to_dict(s) for s in self.specs.values()],
            "name-mapping": None if self.name_mapping is None else name_mapping_to_json(self.name_mapping),
            "format-version": self.format_version,
            "value-schema": None if self.value_schema is None else schema_to_dict(self.value_schema),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReadContext:
        """The inverse of ``to_json``."""
        specs = [spec_from_dict(s) for s in document["specs"]]
        mapping, values = document["name-mapping"], document["value-schema"]
        return cls(
            table_schema=schema_from_dict(document["table-schema"]),
            projected=schema_from_dict(document["projected"]),
            schemas=tuple(schema_from_dict(s) for s in document["schemas"]),
            specs={s.spec_id: s for s in specs},
            name_mapping=None if mapping is None else name_mapping_from_json(mapping),
            format_version=document["format-version"],
            value_schema=None if values is None else schema_from_dict(values),
        )
