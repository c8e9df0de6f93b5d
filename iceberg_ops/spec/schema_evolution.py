"""Changes to a schema, checked one by one and applied together (spec: "Schema Evolution"; Java: UpdateSchema).

Columns have their names from the schema before the change, even if the same evolution renames them. Ids are assigned here, above
``last_column_id``; every step raises SchemaError if the spec forbids it. Storing the result is the metadata builder's task.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.name_matching import check_no_twins
from iceberg_ops.spec.nesting import check_type_nesting
from iceberg_ops.spec.partition_names import check_names, name_clashes
from iceberg_ops.spec.partition_sources import check_sources
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.promotion import can_promote, changed_partition_field, promoted_value
from iceberg_ops.spec.schema import Schema, no_column
from iceberg_ops.spec.schema_changes import Move, PendingChanges, rebuilt
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import MISSING, IcebergType, ListType, MapType, NestedField, StructType, child_fields
from iceberg_ops.spec.updates import LAST_ADDED, AddSchema, SetCurrentSchema, TableUpdate
from iceberg_ops.spec.validity import check_schema


@dataclass(frozen=True, slots=True)
class _Named:
    """A column: its current field, full original name and parent's id (None at the top level)."""

    field: NestedField
    name: str
    parent_id: int | None


class SchemaEvolution:
    """Collects changes; ``apply`` returns the new schema. Methods return the evolution itself, so calls can be chained."""

    def __init__(
        self,
        schema: Schema,
        last_column_id: int,
        *,
        format_version: int = 2,
        specs: Iterable[PartitionSpec] = (),
        case_sensitive: bool = True,
        allow_incompatible_changes: bool = False,
    ) -> None:
        """``specs``: every partition spec of the table. A promotion that would change their values is refused, and so is a column
        with the name of one of their fields (``spec.partition_names``).

        ``allow_incompatible_changes`` permits adding a required column without a default and requiring an optional one; existing
        rows may then violate the schema.
        """
        self.schema = schema
        self.last_column_id = last_column_id
        self._format_version = format_version
        self._specs = tuple(specs)
        self._case_sensitive = case_sensitive
        self._incompatible = allow_incompatible_changes
        self._changes = PendingChanges()
        self._added: dict[str, int] = {}
        self._added_parents: dict[int, int | None] = {}
        self._identifiers: tuple[str, ...] | None = None

    @classmethod
    def of_table(
        cls, metadata: TableMetadata, *, case_sensitive: bool = True, allow_incompatible_changes: bool = False
    ) -> SchemaEvolution:
        """Starts from the table's current schema."""
        return cls(
            metadata.schema,
            metadata.last_column_id,
            format_version=metadata.format_version,
            specs=metadata.partition_specs,
            case_sensitive=case_sensitive,
            allow_incompatible_changes=allow_incompatible_changes,
        )

    def column(self, name: str) -> NestedField:
        """A column after the changes collected so far. Raises SchemaError if there is none, or it is dropped."""
        return self._find_live(name).field

    def add_column(
        self,
        name: str,
        type_: IcebergType,
        *,
        parent: str | None = None,
        required: bool = False,
        doc: str | None = None,
        default: Any = MISSING,
    ) -> SchemaEvolution:
        """Add a column at the end of the table or of the struct ``parent`` (of a list's elements, of a map's values).

        ``default`` is a canonical value and becomes both defaults (v3); None means no default. Ids inside ``type_`` are replaced by
        new ones."""
        holder_id, full_name = self._holder(parent, name)
        taken = self._lookup(full_name)
        if taken is not None and taken.field.field_id not in self._changes.deletes:
            raise SchemaError(f"cannot add column {full_name!r}: the name is taken")
        if required and (default is MISSING or default is None) and not self._incompatible:
            raise SchemaError(
                f"cannot add required column {full_name!r} without a default: rows already there have no value for it"
            )
        check_type_nesting(full_name, type_)
        field_id = self._next_id()
        fresh = with_fresh_ids(type_, self._next_id)
        self._changes.updates[field_id] = NestedField(field_id, name, fresh, required, doc, default, default)
        self._changes.adds.setdefault(holder_id, []).append(field_id)
        self._added[full_name] = field_id
        self._added_parents[field_id] = holder_id
        return self

    def drop_column(self, name: str) -> SchemaEvolution:
        """Drop a column and its nested fields. Its id is never used again."""
        column = self._find(name)
        field_id = column.field.field_id
        if field_id in self._added_parents:
            raise SchemaError(f"cannot drop column {name!r}: this evolution adds it")
        if field_id in self._changes.adds:
            raise SchemaError(f"cannot drop column {name!r}: this evolution adds columns to it")
        if field_id in self._changes.updates:
            raise SchemaError(f"cannot drop column {name!r}: this evolution changes it")
        if any(field_id in (m.field_id, m.reference_id) for moves in self._changes.moves.values() for m in moves):
            raise SchemaError(f"cannot drop column {name!r}: this evolution moves it, or another column beside it")
        self._changes.deletes.add(field_id)
        return self

    def rename_column(self, name: str, new_name: str) -> SchemaEvolution:
        """Give a column another name at its level; ``new_name`` is not a path."""
        if not new_name:
            raise SchemaError(f"cannot rename column {name!r}: the new name is empty")
        column = self._find_live(name)
        if column.parent_id is not None and not isinstance(self._field(column.parent_id).type, StructType):
            raise SchemaError(f"cannot rename {name!r}: the parts of a list or map have fixed names")
        self._change(column, name=new_name)
        return self

    def update_type(self, name: str, new_type: IcebergType) -> SchemaEvolution:
        """Promote a column. Raises SchemaError for any other change of type, and if partition values would change."""
        column = self._find_live(name)
        old, field_id = column.field.type, column.field.field_id
        if old == new_type:
            return self
        if not can_promote(old, new_type, self._format_version):
            raise SchemaError(
                f"cannot change the type of column {name!r}: {old} to {new_type} is not a promotion in v{self._format_version}"
            )
        partition = changed_partition_field(field_id, old, new_type, self._specs)
        if partition is not None:
            why = f"the values of partition field {partition.name!r} ({partition.transform}) would change"
            raise SchemaError(f"cannot change the type of column {name!r}: {old} to {new_type}: {why}")
        promoted = new_type if new_type.is_primitive else with_fresh_ids(new_type, self._next_id)
        self._change(
            column,
            type=promoted,
            initial_default=promoted_value(old, new_type, column.field.initial_default),
            write_default=promoted_value(old, new_type, column.field.write_default),
        )
        return self

    def update_doc(self, name: str, doc: str | None) -> SchemaEvolution:
        """Set or remove the comment of a column or of a field of a struct: the format cannot store other comments."""
        column = self._find_live(name)
        if doc is not None:
            self._check_is_column(column, "have a comment")
        self._change(column, doc=doc)
        return self

    def update_default(self, name: str, default: Any) -> SchemaEvolution:
        """Set the write-default of a column or of a field of a struct, a canonical value, None for none; the value for existing
        rows does not change."""
        column = self._find_live(name)
        if column.field.required and default is None and not self._incompatible:
            raise SchemaError(f"cannot set the default of required column {name!r} to null")
        if default is not None and default is not MISSING:
            self._check_is_column(column, "have a default")
        self._change(column, write_default=default)
        return self

    def make_optional(self, name: str) -> SchemaEvolution:
        """Let a column hold nulls."""
        column = self._find_live(name)
        if column.parent_id is not None and self._is_map_key(column):
            raise SchemaError(f"cannot make {name!r} optional: map keys are always required")
        self._change(column, required=False)
        return self

    def require_column(self, name: str) -> SchemaEvolution:
        """Forbid nulls. Only for a column added here with a default, unless incompatible changes are allowed."""
        column = self._find_live(name)
        if column.field.required:
            return self
        default = column.field.initial_default
        has_default = column.field.field_id in self._added_parents and default is not MISSING
        if not has_default and not self._incompatible:
            raise SchemaError(f"cannot require column {name!r}: rows already there may hold null")
        self._change(column, required=True)
        return self

    def move_first(self, name: str) -> SchemaEvolution:
        """Make a column the first of its struct."""
        return self._move(name, "first", None)

    def move_before(self, name: str, reference: str) -> SchemaEvolution:
        """Put a column right before ``reference``, a column of the same struct."""
        return self._move(name, "before", reference)

    def move_after(self, name: str, reference: str) -> SchemaEvolution:
        """Put a column right after ``reference``, a column of the same struct."""
        return self._move(name, "after", reference)

    def set_identifier_fields(self, names: Iterable[str]) -> SchemaEvolution:
        """Replace the identifier fields; names are from before this evolution, or of columns that it adds."""
        self._identifiers = tuple(names)
        return self

    def union_by_name(self, other: Schema | StructType) -> SchemaEvolution:
        """Add what ``other`` has and this schema lacks: new columns (optional), wider types, optionality, comments.

        Columns are matched by name at each level; a narrower type in ``other`` is ignored, an unrelated one raises SchemaError.
        """
        struct = other.struct if isinstance(other, Schema) else other
        self._union_struct(struct, None)
        return self

    def apply(self) -> Schema:
        """The new schema, with the old one's id: the metadata builder assigns a new id. Raises SchemaError."""
        struct = rebuilt(self.schema.struct, None, self._changes)
        if not isinstance(struct, StructType):
            raise SchemaError("a schema must be a struct")
        self._check_emptied(struct)
        schema = replace(self.schema, struct=struct, identifier_field_ids=self._identifier_ids())
        for field_id in schema.identifier_field_ids:
            if field_id not in schema.fields_by_id:
                name = self.schema.names_by_id[field_id]
                raise SchemaError(f"cannot drop identifier field {name!r}: set other identifier fields in the same evolution")
        check_schema(schema, self._format_version, self.schema)
        check_names(schema, self._specs, name_clashes(self.schema, self._specs))
        check_sources(schema, self._specs, self.schema)
        if not self._case_sensitive:
            check_no_twins(schema.struct, self.schema.struct)
        return schema

    def updates(self) -> tuple[TableUpdate, ...]:
        """The updates to commit: the new schema, made current."""
        return AddSchema(self.apply()), SetCurrentSchema(LAST_ADDED)

    def _check_emptied(self, struct: StructType) -> None:
        """A struct keeps at least one field: Parquet cannot store one without, and its own nulls would be lost."""
        for field_id, f in Schema(struct).fields_by_id.items():
            old = self.schema.fields_by_id.get(field_id)
            if f.type == StructType(()) and old is not None and old.type != f.type:
                name = self.schema.names_by_id[field_id]
                raise SchemaError(
                    f"cannot drop the last field of struct {name!r}: a struct without fields cannot be stored in Parquet files: "
                    f"drop column {name!r} itself, or add a field to it in the same evolution"
                )

    def _next_id(self) -> int:
        self.last_column_id += 1
        return self.last_column_id

    def _lookup(self, name: str) -> _Named | None:
        field_id = self._added.get(name)
        if field_id is None and not self._case_sensitive:
            field_id = next((i for n, i in self._added.items() if n.lower() == name.lower()), None)
        if field_id is not None:
            return _Named(self._changes.updates[field_id], name, self._added_parents[field_id])
        field = self.schema.find(name, case_sensitive=self._case_sensitive)
        if field is None:
            return None
        current = self._changes.updates.get(field.field_id, field)
        return _Named(current, self.schema.names_by_id[field.field_id], self.schema.parents[field.field_id])

    def _find(self, name: str) -> _Named:
        column = self._lookup(name)
        if column is None:
            raise SchemaError(no_column(self.schema, name))
        return column

    def _find_live(self, name: str) -> _Named:
        column = self._find(name)
        if column.field.field_id in self._changes.deletes:
            raise SchemaError(f"cannot change column {name!r}: this evolution drops it")
        return column

    def _field(self, field_id: int) -> NestedField:
        return self._changes.updates.get(field_id) or self.schema.fields_by_id[field_id]

    def _change(self, column: _Named, **values: Any) -> None:
        self._changes.updates[column.field.field_id] = replace(column.field, **values)

    def _check_is_column(self, column: _Named, what: str) -> None:
        if column.parent_id is not None and not isinstance(self._field(column.parent_id).type, StructType):
            raise SchemaError(f"{column.name!r} cannot {what}: the parts of a list or map have none")

    def _is_map_key(self, column: _Named) -> bool:
        holder = self._field(column.parent_id) if column.parent_id is not None else None
        return holder is not None and isinstance(holder.type, MapType) and holder.type.key.field_id == column.field.field_id

    def _holder(self, parent: str | None, name: str) -> tuple[int | None, str]:
        """The id of the struct field to which a column is added, None for the table; and the new column's full name."""
        if not name:
            raise SchemaError("cannot add a column without a name")
        if parent is None:
            return None, name
        column = self._find_live(parent)
        holder, full_name = column.field, column.name
        if isinstance(holder.type, ListType | MapType):
            holder = child_fields(holder.type)[-1]
            full_name = f"{full_name}.{holder.name}"
        if not isinstance(holder.type, StructType):
            raise SchemaError(f"cannot add column {name!r} to {parent!r} of type {holder.type}: it is not a struct")
        return holder.field_id, f"{full_name}.{name}"

    def _move(self, name: str, place: str, reference: str | None) -> SchemaEvolution:
        column = self._find_live(name)
        if column.parent_id is not None and not isinstance(self._field(column.parent_id).type, StructType):
            raise SchemaError(f"cannot move {name!r}: it is not a field of a struct")
        reference_id = None
        if reference is not None:
            other = self._find_live(reference)
            reference_id = other.field.field_id
            if reference_id == column.field.field_id:
                raise SchemaError(f"cannot move column {name!r} relative to itself")
            if other.parent_id != column.parent_id:
                raise SchemaError(f"cannot move column {name!r} {place} {reference!r}: they are not fields of one struct")
        self._changes.moves.setdefault(column.parent_id, []).append(Move(column.field.field_id, place, reference_id))
        return self

    def _identifier_ids(self) -> tuple[int, ...]:
        if self._identifiers is None:
            return self.schema.identifier_field_ids
        return tuple(dict.fromkeys(self._find_live(name).field.field_id for name in self._identifiers))

    def _union_struct(self, struct: StructType, parent: str | None) -> None:
        for f in struct.fields:
            full_name = f.name if parent is None else f"{parent}.{f.name}"
            column = self._lookup(full_name)
            if column is None:
                self.add_column(f.name, f.type, parent=parent, doc=f.doc)
            else:
                self._union_field(column, f)

    def _union_field(self, column: _Named, other: NestedField) -> None:
        if column.field.required and other.optional and not self._is_map_key(column):
            self.make_optional(column.name)
        if other.doc is not None and other.doc != column.field.doc:
            self.update_doc(column.name, other.doc)
        old = column.field.type
        if isinstance(old, StructType) and isinstance(other.type, StructType):
            self._union_struct(other.type, column.name)
        elif old.is_nested and type(old) is type(other.type):
            for mine, theirs in zip(child_fields(old), child_fields(other.type), strict=True):
                self._union_field(_Named(mine, f"{column.name}.{mine.name}", column.field.field_id), theirs)
        elif not can_promote(other.type, old, self._format_version):
            self.update_type(column.name, other.type)
