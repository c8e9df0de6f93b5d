"""Finds the column for a name: the one with exactly that name, else the only one with that name ignoring case.

Two columns whose names differ only in case are found only by their exact spelling; any other spelling finds neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.types import IcebergType, NestedField, StructType, child_fields


def named(name: str, fields: Sequence[NestedField]) -> NestedField | None:
    """The field with the name ``name``. Raises SchemaError if several match."""
    exact = next((f for f in fields if f.name == name), None)
    if exact is not None:
        return exact
    alike = [f for f in fields if f.name.lower() == name.lower()]
    if len(alike) > 1:
        raise SchemaError(f"column {name!r} may be {' or '.join(repr(f.name) for f in alike)}: their names differ only in case")
    return alike[0] if alike else None


def matched(names: Iterable[str], fields: Sequence[NestedField], what: str) -> dict[str, NestedField]:
    """The fields by the names of a source that match them; other names are left out. ``what``: the source, for errors.

    Raises SchemaError for two names of one field.
    """
    fields_by_name: dict[str, NestedField] = {}
    owners: dict[int, str] = {}
    for name in names:
        f = named(name, fields)
        if f is None:
            continue
        if f.field_id in owners:
            raise SchemaError(f"{what}: columns {owners[f.field_id]!r} and {name!r} are both {f.name!r} of the table")
        owners[f.field_id] = name
        fields_by_name[name] = f
    return fields_by_name


def case_twins(type_: IcebergType) -> set[tuple[str, str]]:
    """Pairs of names in one struct, at any depth, that differ only in case."""
    pairs: set[tuple[str, str]] = set()
    if isinstance(type_, StructType):
        seen: dict[str, str] = {}
        for f in type_.fields:
            first = seen.setdefault(f.name.lower(), f.name)
            if first != f.name:
                pairs.add((first, f.name))
    for child in child_fields(type_):
        pairs |= case_twins(child.type)
    return pairs


def check_no_twins(type_: IcebergType, known: IcebergType | None = None) -> None:
    """Raise SchemaError for names that differ only in case, except those that ``known`` already has."""
    for a, b in sorted(case_twins(type_) - (case_twins(known) if known is not None else set())):
        raise SchemaError(
            f"columns {a!r} and {b!r} differ only in case: Spark SQL, and every statement here, names columns without regard to it"
        )
