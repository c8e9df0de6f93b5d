"""Names that replace field ids in data files without ids (spec: "Column Projection", "Name Mapping Serialization").

This module has only names and ids; ``iceberg_ops.data`` resolves a file's columns with a mapping. A name is matched as a whole:
a dot in it is an ordinary character, and children are reached only through ``fields``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import IcebergType, child_fields


@dataclass(frozen=True)
class MappedField:
    """``names`` of one column, at its level; ``field_id`` None marks a file column that the table does not have."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def by_name(self) -> Mapping[str, MappedField]:
        """Children by each of their names. Raises SchemaError for a name used twice."""
        return _by_name(self.fields)

    def child(self, name: str) -> MappedField | None:
        return self.by_name.get(name)


@dataclass(frozen=True)
class NameMapping:
    """The top level of a mapping."""

    fields: tuple[MappedField, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, MappedField]:
        """Top-level fields by each of their names. Raises SchemaError for a name used twice."""
        return _by_name(self.fields)

    def child(self, name: str) -> MappedField | None:
        return self.by_name.get(name)

    def find(self, path: Sequence[str]) -> MappedField | None:
        """The field reached by these names, one per level (``element``, ``key`` and ``value`` included)."""
        level: NameMapping | MappedField | None = self
        for name in path:
            level = level.child(name) if level is not None else None
        return level if isinstance(level, MappedField) else None


def _by_name(fields: tuple[MappedField, ...]) -> Mapping[str, MappedField]:
    by_name: dict[str, MappedField] = {}
    for f in fields:
        for name in f.names:
            if by_name.setdefault(name, f) is not f:
                raise SchemaError(
                    f"name mapping: {name!r} stands for fields {by_name[name].field_id} and {f.field_id} at one level"
                )
    return by_name


def check_name_mapping(mapping: NameMapping | MappedField) -> None:
    """Raise SchemaError if one name stands for two fields at one level."""
    _by_name(mapping.fields)
    for f in mapping.fields:
        check_name_mapping(f)


def _mapped_fields(type_: IcebergType) -> tuple[MappedField, ...]:
    return tuple(MappedField((f.name,), f.field_id, _mapped_fields(f.type)) for f in child_fields(type_))


def create_name_mapping(schema: Schema) -> NameMapping:
    """Every column with its current name. Raises SchemaError if two columns of one level share a name."""
    mapping = NameMapping(_mapped_fields(schema.struct))
    check_name_mapping(mapping)
    return mapping


def updated_name_mapping(mapping: NameMapping, schema: Schema) -> NameMapping:
    """The mapping for a changed schema.

    A renamed column gets its new name in addition, a new column gets an entry. A name that a column of the level ever had stays
    with that column, dropped or not and in any case, because files with that name were written for it: another column with that
    name does not get it. Java's MappingUtil.update moves the name, and then values of one column are read as the other's.
    """
    return NameMapping(_updated(mapping.fields, schema.struct))


def with_names(mapping: NameMapping, names: Mapping[int, Iterable[str]]) -> NameMapping:
    """The mapping with more names of fields, by id: other readers match them exactly. Raises SchemaError for a name that
    already stands for another field of the level."""
    made = NameMapping(_with_names(mapping.fields, names))
    check_name_mapping(made)
    return made


def _with_names(mapped: tuple[MappedField, ...], names: Mapping[int, Iterable[str]]) -> tuple[MappedField, ...]:
    fields = []
    for m in mapped:
        more = sorted(set(names.get(m.field_id, ())) - set(m.names)) if m.field_id is not None else []
        fields.append(replace(m, names=(*m.names, *more), fields=_with_names(m.fields, names)))
    return tuple(fields)


def _updated(mapped: tuple[MappedField, ...], type_: IcebergType) -> tuple[MappedField, ...]:
    present = {f.field_id: f for f in child_fields(type_)}
    listed = {m.field_id for m in mapped}
    owners: dict[str, set[int | None]] = {}
    for m in mapped:
        for name in m.names:
            owners.setdefault(name.lower(), set()).add(m.field_id)
    fields = []
    for m in mapped:
        column = present.get(m.field_id) if m.field_id is not None else None
        if column is None:
            fields.append(m)
            continue
        free = column.name not in m.names and owners.get(column.name.lower(), {m.field_id}) == {m.field_id}
        names = (*m.names, column.name) if free else m.names
        fields.append(replace(m, names=names, fields=_updated(m.fields, column.type)))
    added = (f for f in present.values() if f.field_id not in listed and f.name.lower() not in owners)
    return (*fields, *(MappedField((f.name,), f.field_id, _mapped_fields(f.type)) for f in added))
