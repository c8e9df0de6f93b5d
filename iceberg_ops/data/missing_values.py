"""Values of fields that a file, or rows handed to a writer, do not have (spec: "Column Projection", "Default values").

The rules hold at every depth, inside structs as at the top. A file's identity partition value comes first, because planning and
residuals go by it; then the default. A struct's own default is null or ``{}``, which stands for its fields' defaults (DEFAULT-08,
DEFAULT-09). A struct that the file lacks as a whole is there all the same where the partition has a value for a field of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import MISSING, NestedField, StructType


def _initial_default(f: NestedField) -> Any:
    return f.initial_default


def _not_in_the_file(f: NestedField) -> NoReturn:
    raise CorruptTableError(f"required column {f.name} (id {f.field_id}) is not in the data file and has no default")


@dataclass(frozen=True)
class MissingValues:
    """``constants``: values by field id that come before any default; ``default`` gives a field's own (MISSING or None: null);
    ``refuse`` raises for a required field without a value."""

    constants: Mapping[int, Any] = field(default_factory=dict)
    default: Callable[[NestedField], Any] = _initial_default
    refuse: Callable[[NestedField], NoReturn] = _not_in_the_file

    def value_of(self, f: NestedField) -> Any:
        """Canonical value of a field that is not there, None where it is null. Raises what ``refuse`` raises."""
        if f.field_id in self.constants:
            return self.constants[f.field_id]
        own = self.default(f)
        value = None if own is MISSING else own
        if isinstance(f.type, StructType) and (value is not None or self._is_inside(f.type)):
            value = tuple(self.value_of(child) for child in f.type.fields)
        if value is None and f.required:
            self.refuse(f)
        return value

    def _is_inside(self, type_: StructType) -> bool:
        """Whether a constant is the value of a field at any depth."""
        return any(
            self.constants.get(f.field_id) is not None or (isinstance(f.type, StructType) and self._is_inside(f.type))
            for f in type_.fields
        )


OF_NO_PARTITION = MissingValues()
"""Initial defaults only."""


def write_defaults(schema: Schema) -> MissingValues:
    """What a writer stores that is not given a field (DEFAULT-02). A required field without write default is a DataError."""

    def refuse(f: NestedField) -> NoReturn:
        raise DataError(f"column {schema.name_of(f.field_id)} is required and has no write-default, but the rows do not have it")

    return MissingValues(default=lambda f: f.write_default, refuse=refuse)
