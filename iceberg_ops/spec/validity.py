"""Checks the rules of the spec for a schema, a partition spec or a sort order before it is written.

Reading accepts more (see ``iceberg_ops.serde``): these rules apply to what this package adds to a table. All functions raise
SchemaError. Spec: "Schemas and Data Types", "Default values", "Partitioning", "Sorting".
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from iceberg_ops.config.whole_numbers import INT_MAX
from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec.default_values import why_no_value
from iceberg_ops.spec.metadata_columns import HIGHEST_USER_FIELD_ID, lineage_twin
from iceberg_ops.spec.nesting import check_nesting
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import SortOrder
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import (
    MISSING,
    V3_TYPE_NAMES,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    PrimitiveType,
    StructType,
    child_fields,
)

_NULL_DEFAULT_ONLY = frozenset({"unknown", "variant", "geometry", "geography"})


def _type_name(type_: IcebergType) -> str:
    return type_.name if isinstance(type_, PrimitiveType) else str(type_)


def check_schema(schema: Schema, format_version: int, before: Schema | None = None) -> None:
    """Types and defaults that the format version supports, usable field ids, distinct names, permitted identifier fields.

    ``before``: the previous schema. An existing default that the format allows but on which other readers fail is not refused: the
    table must remain changeable."""
    check_nesting(schema, before)
    for field_id, f in schema.fields_by_id.items():
        name = schema.names_by_id[field_id]
        if field_id > HIGHEST_USER_FIELD_ID:
            raise SchemaError(f"column {name!r}: field id {field_id} is reserved: must be at most {HIGHEST_USER_FIELD_ID}")
        _check_names(f.type, name)
        _check_finite(f, name, None if before is None else before.fields_by_id.get(field_id))
        check_field(f, name, format_version)
    _check_names(schema.struct, "the schema")
    _check_lineage_names(schema, format_version, before)
    _check_full_names(schema)
    for field_id in schema.identifier_field_ids:
        check_identifier_field(schema, field_id)


def check_upgrade(schema: Schema | None, current: int, version: int) -> None:
    """Checks whether a table with that current schema, if it has one yet, can be upgraded."""
    if schema is not None and version > current:
        _check_lineage_names(schema, version)


def _check_lineage_names(schema: Schema, format_version: int, before: Schema | None = None) -> None:
    """No column of a v3 table may have the name of a row lineage column, unless ``before`` already has it (``schema`` may rename
    it)."""
    known = () if before is None else before.fields
    if twin := lineage_twin((f for f in schema.fields if not any(f.name == k.name for k in known)), format_version):
        raise SchemaError(
            f"column {twin!r}: files of a v{format_version} table keep row lineage under this name: give the column another name"
        )


def _check_names(type_: IcebergType, where: str) -> None:
    if isinstance(type_, StructType):
        seen: set[str] = set()
        for f in type_.fields:
            if f.name in seen:
                raise SchemaError(f"{where} has two fields named {f.name!r}: names must differ")
            seen.add(f.name)


def _check_full_names(schema: Schema) -> None:
    """A dot in a name must not make it another column's full name (Java: "Invalid schema: multiple fields for name")."""
    seen: dict[str, int] = {}
    for field_id, name in schema.names_by_id.items():
        if seen.setdefault(name, field_id) != field_id:
            raise SchemaError(
                f"two columns are called {name!r} (ids {seen[name]} and {field_id}): one has a dot in its name, the other is a "
                "field of a struct, and a condition could mean either"
            )


def check_field(f: NestedField, name: str, format_version: int) -> None:
    """The rules of one field's type and defaults."""
    kind = _type_name(f.type)
    if format_version < 3 and kind in V3_TYPE_NAMES:
        raise SchemaError(f"column {name!r}: type {f.type} is not supported until v3 (the table is v{format_version})")
    if format_version < 3 and f.initial_default is not MISSING:
        raise SchemaError(f"column {name!r}: a non-null initial-default is not supported until v3 (the table is v{format_version})")
    if isinstance(f.type, FixedType) and not 0 < f.type.length <= INT_MAX:
        raise SchemaError(f"column {name!r}: type {f.type} must have a length from 1 to {INT_MAX}")
    if isinstance(f.type, DecimalType) and not 0 <= f.type.scale <= f.type.precision:
        raise SchemaError(f"column {name!r}: type {f.type} must have a scale from 0 to its precision")
    if kind == "unknown" and f.required:
        raise SchemaError(f"column {name!r}: a column of type unknown must be optional")
    for label, default in (("initial-default", f.initial_default), ("write-default", f.write_default)):
        if default is MISSING:
            continue
        if kind in _NULL_DEFAULT_ONLY:
            raise SchemaError(f"column {name!r}: {label} of a column of type {kind} must be null")
        if isinstance(f.type, StructType) and isinstance(default, tuple) and any(part is not None for part in default):
            raise SchemaError(f"column {name!r}: {label} of a struct must be null or {{}}: give its fields their own defaults")
        if why := why_no_value(f.type, default):
            raise SchemaError(f"column {name!r}: {label} {default!r} is not a value of type {f.type}: it {why}")


def _check_finite(f: NestedField, name: str, before: NestedField | None) -> None:
    """Schemas are stored in JSON, which has no NaN and no infinities: other readers read them as 0, or fail."""
    known = () if before is None else (before.initial_default, before.write_default)
    for label, default in (("initial-default", f.initial_default), ("write-default", f.write_default)):
        if not _is_finite(default) and not any(same_default(default, other) for other in known):
            raise SchemaError(f"column {name!r}: {label} {default} has no form in JSON: must be a finite number, or null")


def _is_finite(default: object) -> bool:
    """Checks all values in a default, including keys and values of maps."""
    if isinstance(default, list | tuple):
        return all(_is_finite(part) for part in default)
    return not isinstance(default, float) or math.isfinite(default)


def same_default(a: object, b: object) -> bool:
    """Whether two canonical values are equal, with NaN equal to itself."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_default, a, b))
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def check_identifier_field(schema: Schema, field_id: int) -> None:
    """An identifier field must be a required primitive, not a float, inside required structs only."""
    f = schema.field(field_id)
    name = schema.names_by_id[field_id]
    if not isinstance(f.type, PrimitiveType) or f.type.name in ("variant", "unknown"):
        raise SchemaError(f"identifier field {name!r} of type {f.type}: must be a primitive")
    if not f.required:
        raise SchemaError(f"identifier field {name!r}: must be required")
    if f.type.name in ("float", "double"):
        raise SchemaError(f"identifier field {name!r} of type {f.type}: must not be a floating-point number")
    for parent in _parents(schema, field_id):
        if not isinstance(parent.type, StructType):
            raise SchemaError(f"identifier field {name!r}: must not be inside a {_kind(parent)} ({parent.name!r})")
        if not parent.required:
            raise SchemaError(f"identifier field {name!r}: its parent {parent.name!r} must be required")


def _kind(f: NestedField) -> str:
    return "map" if len(child_fields(f.type)) == 2 else "list"


def _parents(schema: Schema, field_id: int) -> Iterable[NestedField]:
    parent = schema.parents[field_id]
    while parent is not None:
        yield schema.fields_by_id[parent]
        parent = schema.parents[parent]


def check_source(schema: Schema, source_id: int, transform: Transform, what: str) -> None:
    """The source of a partition or sort field must be a primitive column, outside lists and maps, that its transform accepts."""
    source = schema.fields_by_id.get(source_id)
    if source is None:
        raise SchemaError(f"{what}: its source column {source_id} is not in schema {schema.schema_id}")
    name = schema.names_by_id[source_id]
    if not isinstance(source.type, PrimitiveType):
        raise SchemaError(f"{what}: its source column {name!r} of type {source.type} must be a primitive")
    if any(not isinstance(p.type, StructType) for p in _parents(schema, source_id)):
        raise SchemaError(f"{what}: its source column {name!r} must not be inside a list or map")
    if transform.is_known and not transform.can_transform(source.type):
        raise SchemaError(f"{what}: transform {transform} cannot take {name!r} of type {source.type}")


def _check_transform(transform: Transform, what: str) -> None:
    if not transform.is_known:
        raise UnsupportedError(
            f"not supported: {what} with transform {transform}, because this version of the format does not define it"
        )
    if transform.parameter is not None and not 0 < transform.parameter <= INT_MAX:
        raise SchemaError(f"{what}: {transform} must have a parameter above 0 and at most {INT_MAX}")


def check_spec_sources(spec: PartitionSpec, schema: Schema) -> None:
    """Every field that is not void must have a source column that its transform accepts; unknown transforms are not checked."""
    for f in spec.fields:
        if not f.transform.is_void:
            for source_id in f.source_ids:
                check_source(schema, source_id, f.transform, f"partition field {f.name!r}")


def check_new_spec(spec: PartitionSpec, schema: Schema, format_version: int) -> None:
    """A new spec must have known transforms, distinct names that no other column has, and v1's sequential ids."""
    check_spec_sources(spec, schema)
    names: set[str] = set()
    for position, f in enumerate(spec.fields):
        what = f"partition field {f.name!r}"
        _check_transform(f.transform, what)
        if not f.name or f.name in names:
            raise SchemaError(f"{what}: names of partition fields must be distinct and not empty")
        names.add(f.name)
        column = schema.find(f.name)
        if column is not None and not _may_share_name(f, column, schema):
            raise SchemaError(f"{what}: a column has this name, and only its own identity or void partition may share it")
        if format_version == 1 and f.field_id != 1000 + position:
            raise SchemaError(f"{what}: field id {f.field_id}: v1 tables need ids in sequence, here {1000 + position}")


def _may_share_name(f: PartitionField, column: NestedField, schema: Schema) -> bool:
    """Its own identity or void field; also a field whose source column is dropped (see ``partition_names``)."""
    if f.transform.is_void:
        return column.field_id == f.source_id or f.source_id not in schema.fields_by_id
    return f.transform.is_identity and column.field_id == f.source_id


def check_sort_order(order: SortOrder, schema: Schema, *, new: bool = True) -> None:
    """Every field's source column must exist and its transform must accept it; a new order may have only known transforms."""
    for f in order.fields:
        what = f"sort field {f.transform}({', '.join(map(str, f.source_ids))})"
        if new:
            _check_transform(f.transform, what)
        for source_id in f.source_ids:
            check_source(schema, source_id, f.transform, what)
