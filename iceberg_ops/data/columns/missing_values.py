"""Values of fields that are missing in a file, or in rows given to a writer (spec: "Column Projection", "Default values").

The rules hold at every depth, inside structs as at the top level. A file's identity partition value comes first, because planning
and residuals use it; then the default. A struct's own default is null or ``{}``, which stands for its fields' defaults (DEFAULT-08,
DEFAULT-09). A struct that is missing as a whole is still present if the partition has a value for one of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NoReturn

from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.spec.promotion import value_in_type
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import MISSING, IcebergType, NestedField, StructType


def _initial_default(f: NestedField) -> Any:
    return f.initial_default


def _not_in_the_file(f: NestedField) -> NoReturn:
    raise CorruptTableError(f"required column {f.name} (id {f.field_id}) is not in the data file and has no default")


@dataclass(frozen=True)
class MissingValues:
    """``constants``: by field id a type and a value of it, which come before any default; ``structs``: ids of structs that contain
    one of them, by the table's schema, whichever fields are read; ``default`` gives a field's own default (MISSING: null);
    ``refuse`` raises for a required field without a value."""

    constants: Mapping[int, tuple[IcebergType, Any]] = field(default_factory=dict)
    structs: frozenset[int] = frozenset()
    default: Callable[[NestedField], Any] = _initial_default
    refuse: Callable[[NestedField], NoReturn] = _not_in_the_file

    def value_for(self, f: NestedField) -> Any:
        """Canonical value of a missing field, None for null. Raises the errors of ``refuse``."""
        if f.field_id in self.constants:
            type_, value = self.constants[f.field_id]
            return value_in_type(value, type_, f.type)
        default = self.default(f)
        value = None if default is MISSING else default
        if isinstance(f.type, StructType) and (value is not None or f.field_id in self.structs):
            value = tuple(self.value_for(child) for child in f.type.fields)
        if value is None and f.required:
            self.refuse(f)
        return value


OF_NO_PARTITION = MissingValues()
"""Initial defaults only."""


def of_partition(constants: Mapping[int, tuple[IcebergType, Any]], schemas: Sequence[Schema]) -> MissingValues:
    """The values for fields missing in a file; ``constants`` are types and values of its partition by source id. ``schemas``: all
    of the table's schemas, because one may have a field that was dropped since: its struct stays present."""
    around = (
        ancestors(next((s for s in schemas if field_id in s.parents), schemas[0]), field_id)
        for field_id, (_, value) in constants.items()
        if value is not None
    )
    return MissingValues(constants, frozenset(chain.from_iterable(around)))


def ancestors(schema: Schema, field_id: int) -> Iterator[int]:
    """Ids of the parent structs of a field, innermost first; none for a field that the schema does not have."""
    parent = schema.parents.get(field_id)
    while parent is not None:
        yield parent
        parent = schema.parents[parent]


def write_defaults(schema: Schema) -> MissingValues:
    """The values that a writer stores for missing fields (DEFAULT-02). A required field without write default is a DataError."""

    def refuse(f: NestedField) -> NoReturn:
        raise DataError(f"column {schema.name_of(f.field_id)} is required and has no write-default, but the rows do not have it")

    return MissingValues(default=lambda f: f.write_default, refuse=refuse)
