"""A table schema: a struct with an id, identifier fields and look-up by id or name.

Look-up by name follows the reference implementation's short and full names: a list's element is ``a.element``, a map's sides are
``m.key`` and ``m.value``, and if it is unambiguous a struct inside a list or map value may omit ``element``/``value``
(``a.b`` for ``a.element.b``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.types import IcebergType, ListType, MapType, NestedField, StructType, child_fields


@dataclass(frozen=True)
class Schema:
    """``struct`` with ``schema_id`` and ``identifier_field_ids``. ``extra`` holds unknown JSON keys."""

    struct: StructType
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, *fields: NestedField, schema_id: int = 0, identifier_field_ids: tuple[int, ...] = ()) -> Schema:
        return cls(StructType(fields), schema_id, identifier_field_ids)

    @property
    def fields(self) -> tuple[NestedField, ...]:
        return self.struct.fields

    @cached_property
    def fields_by_id(self) -> Mapping[int, NestedField]:
        """Every field at every depth, by id, in depth-first order."""
        fields: dict[int, NestedField] = {}
        for f in _walk(self.struct):
            if f.field_id in fields:
                raise SchemaError(
                    f"schema {self.schema_id}: field id {f.field_id} is used by {fields[f.field_id].name!r} and {f.name!r}"
                )
            fields[f.field_id] = f
        return fields

    @cached_property
    def parents(self) -> Mapping[int, int | None]:
        """For each field id the id of its parent field; None at the top level."""
        parents: dict[int, int | None] = {}

        def visit(type_: IcebergType, parent: int | None) -> None:
            for f in child_fields(type_):
                parents[f.field_id] = parent
                visit(f.type, f.field_id)

        visit(self.struct, None)
        return parents

    @cached_property
    def names_by_id(self) -> Mapping[int, str]:
        """Full dotted name of each field id (``a.element.b``)."""
        names: dict[int, str] = {}

        def visit(type_: IcebergType, prefix: str) -> None:
            for f in child_fields(type_):
                names[f.field_id] = prefix + f.name
                visit(f.type, prefix + f.name + ".")

        visit(self.struct, "")
        return names

    @cached_property
    def ids_by_name(self) -> Mapping[str, int]:
        """Full names, and short names if they do not collide with a full one."""
        ids = {name: field_id for field_id, name in self.names_by_id.items()}

        def visit(type_: IcebergType, prefix: str) -> None:
            hide = isinstance(type_, ListType | MapType)
            for f in child_fields(type_):
                skip = hide and f.name in ("element", "value") and isinstance(f.type, StructType)
                name = prefix + f.name
                if not skip:
                    ids.setdefault(name, f.field_id)
                visit(f.type, prefix if skip else name + ".")

        visit(self.struct, "")
        return ids

    @cached_property
    def ids_by_lower_name(self) -> Mapping[str, int]:
        ids: dict[str, int] = {}
        for name, field_id in self.ids_by_name.items():
            if ids.setdefault(name.lower(), field_id) != field_id:
                ids[name.lower()] = -1
        return ids

    @cached_property
    def highest_field_id(self) -> int:
        return max(self.fields_by_id, default=0)

    def find(self, name: str, *, case_sensitive: bool = True) -> NestedField | None:
        """The field with that full or short name, or None. Raises SchemaError if ``name`` is ambiguous when case is ignored."""
        if case_sensitive:
            field_id = self.ids_by_name.get(name)
        else:
            field_id = self.ids_by_lower_name.get(name.lower())
            if field_id == -1:
                field_id = self.ids_by_name.get(name)
                if field_id is None:
                    raise SchemaError(f"column {name!r} is ambiguous without regard to case")
        return None if field_id is None else self.fields_by_id[field_id]

    def field(self, field_id: int) -> NestedField:
        """The field with that id. Raises SchemaError."""
        try:
            return self.fields_by_id[field_id]
        except KeyError:
            raise SchemaError(f"schema {self.schema_id} has no field with id {field_id}") from None

    def name_of(self, field_id: int) -> str:
        """Full dotted name. Raises SchemaError."""
        self.field(field_id)
        return self.names_by_id[field_id]

    def select(self, names: list[str] | tuple[str, ...], *, case_sensitive: bool = True) -> Schema:
        """The top-level columns with those names, in the given order. Raises SchemaError for an unknown one."""
        picked = []
        for name in names:
            column = self.find(name, case_sensitive=case_sensitive)
            if column is None or self.parents[column.field_id] is not None:
                raise SchemaError(no_column(self, name, top_level=True))
            picked.append(column)
        return Schema(StructType(tuple(picked)), self.schema_id)

    def same_columns(self, other: Schema) -> bool:
        """Equal except for the schema id (this decides whether evolution reuses an old schema)."""
        return self.struct == other.struct and set(self.identifier_field_ids) == set(other.identifier_field_ids)


def _walk(type_: IcebergType) -> Iterator[NestedField]:
    for f in child_fields(type_):
        yield f
        yield from _walk(f.type)


def no_column(schema: Schema, name: str, *, top_level: bool = False) -> str:
    """The message for a column that is not in ``schema``: its columns, and similar names. ``top_level``: a part of a
    column does not count."""
    columns = [f.name for f in schema.fields]
    shown = ", ".join(columns)
    if top_level and (whole := _column_of_part(schema, name)) is not None:
        return f"{name!r} is a part of column {whole!r}, and no column of its own: the columns are {shown}"
    near = did_you_mean(name, columns if top_level else schema.names_by_id.values())
    return f"no column named {name!r}{near}: the columns are {shown}"


def not_of_table(name: str, fields: Sequence[NestedField]) -> str:
    """The message for a name that is not one of the table's ``fields``."""
    names = [f.name for f in fields]
    return f"{name!r} is not a column of the table{did_you_mean(name, names)}: its columns are {', '.join(names)}"


def _column_of_part(schema: Schema, name: str) -> str | None:
    """The top-level column that ``name`` is a part of; None if it is not."""
    column = schema.fields_by_id.get(schema.ids_by_lower_name.get(name.lower(), -1))
    if column is None or schema.parents[column.field_id] is None:
        return None
    while (parent := schema.parents[column.field_id]) is not None:
        column = schema.fields_by_id[parent]
    return column.name
