"""The values that SET, VALUES and ``*`` give to the columns of a row: literals, NULL, unchanged columns of the table or the source,
and in an UPDATE values computed from the row (``expressions.scalars``).

Everything else needs Spark. A name is resolved as in Spark: ``target.`` and ``source.`` choose the side; a name
without either must exist on one side only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from iceberg_ops.actions.local.source_in_memory import SourceRows
from iceberg_ops.data.arrow.arrow_values import repeated
from iceberg_ops.data.columns.computed import computed
from iceberg_ops.data.columns.sort_keys import extract_column
from iceberg_ops.errors import DataError, NeedsSparkError, OptionError, WhereError
from iceberg_ops.expressions.binding import reference
from iceberg_ops.expressions.predicates import Expression, opaque_parts
from iceberg_ops.expressions.predicates import Literal as WrittenLiteral
from iceberg_ops.expressions.renaming import plain_name
from iceberg_ops.expressions.scalars.binding import bind_scalar
from iceberg_ops.expressions.scalars.functions import evaluated
from iceberg_ops.expressions.scalars.terms import Bound, BoundCall, Constant, NotEvaluated, references
from iceberg_ops.expressions.store_assignment import stored_value
from iceberg_ops.expressions.where_literals import Null
from iceberg_ops.expressions.where_pieces import ColumnText, parse_scalar, parse_value
from iceberg_ops.spec.name_matching import named
from iceberg_ops.spec.schema import Schema, not_of_table
from iceberg_ops.spec.types import MISSING, NestedField, PrimitiveType

Side = Literal["target", "source"]
_STORED_AS = frozenset({
    ("int", "long"), ("long", "int"), ("int", "double"), ("long", "double"), ("float", "double"), ("int", "decimal"),
    ("long", "decimal"), ("decimal", "decimal"), ("date", "timestamp"), ("date", "timestamptz"),
})  # fmt: skip
"""The conversions of an assignment, from the computed type to the column's type; a value out of range is an error."""


@dataclass(frozen=True, slots=True)
class Computed:
    """``term``, bound to the table's ``schema``; ``text`` is its SQL."""

    term: Bound
    schema: Schema
    text: str

    def of(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        """Raises DataError, NeedsSparkError."""
        columns = {r.field_id: extract_column(rows, self.schema, r.field_id)[0] for r in references(self.term)}
        return computed(self.term, columns, count, self.text)


@dataclass(frozen=True, slots=True)
class SetValue:
    """The new value of the column ``field``: the column at ``place`` of a ``side``, or (``side`` None) the value ``computed`` from
    the table's row, or the ``literal``, None for NULL. ``wrong``: a literal that does not fit; this is an error as soon as a row
    would get it."""

    field: NestedField
    side: Side | None = None
    place: int = -1
    literal: Any = None
    wrong: DataError | None = None
    computed: Computed | None = None

    def of(self, target: pa.RecordBatch | None, source: pa.RecordBatch | None, rows: int) -> pa.Array:
        """The values for ``rows`` rows with these columns. Raises DataError, NeedsSparkError."""
        if self.wrong is not None:
            raise self.wrong
        if self.computed is not None:
            assert target is not None
            return self.computed.of(target, rows)
        if self.side is None:
            return repeated(self.field.type, self.literal, rows)
        side = target if self.side == "target" else source
        assert side is not None
        column = side.column(self.place)
        return repeated(self.field.type, None, rows) if pa.types.is_null(column.type) else column


@dataclass(frozen=True, slots=True)
class Sides:
    """The columns that names may refer to; ``source`` None: only the table's."""

    target: Schema
    source: SourceRows | None = None

    def resolve_column(self, column: ColumnText, what: str) -> tuple[Side, tuple[str, ...]]:
        """The side of a column and its name's parts there. Raises WhereError for an unknown or ambiguous name."""
        head = column.parts[0].lower()
        source = [] if self.source is None else [n.lower() for n in self.source.names]
        target = [f.name.lower() for f in self.target.fields]
        if len(column.parts) > 1 and (head == "target" or (head == "source" and self.source is not None)):
            if head in target or head in source:
                raise NeedsSparkError.to(f"{what} of a table or source with a column that is called {head}")
            return ("target" if head == "target" else "source"), column.parts[1:]
        sides: list[Side] = []
        if head in target:
            sides.append("target")
        if head in source:
            sides.append("source")
        if len(sides) != 1:
            why = "is a column of both, target and source" if sides else "is not a column"
            raise WhereError(f"{what}: {column.text!r} {why}")
        return sides[0], column.parts


def set_values(sides: Sides, given: Mapping[str, str]) -> dict[str, SetValue]:
    """``given`` (column -> SQL) by the table's column names. Raises OptionError for an unknown column or one that is set twice,
    UnsupportedError for an expression or conversion that needs Spark, SchemaError and WhereError."""
    assigned: dict[str, SetValue] = {}
    for name, text in given.items():
        f = set_column(sides.target, name)
        if f.name in assigned:
            raise OptionError(f"SET assigns {f.name!r} twice")
        assigned[f.name] = _value(sides, f, text)
    return assigned


def set_column(schema: Schema, name: str) -> NestedField:
    """The top-level column that SET names. Raises OptionError, UnsupportedError for a field of a struct."""
    column = schema.find(name, case_sensitive=False)
    if column is None:
        raise OptionError(f"SET {not_of_table(name, schema.fields)}")
    if column not in schema.fields:
        raise NeedsSparkError.to(f"SET of {name!r}, a field of a struct,")
    return column


def _value(sides: Sides, f: NestedField, text: str) -> SetValue:
    what = f"SET {f.name} = {text}"
    if text.strip().upper() == "DEFAULT":
        return _default(f)
    value = parse_value(text)
    if isinstance(value, Null):
        return SetValue(f)
    if isinstance(value, WrittenLiteral):
        try:
            return SetValue(f, literal=stored_value(f.name, f.type, value))
        except DataError as e:
            return SetValue(f, wrong=e)
    if value is None:
        return SetValue(f, computed=_computed(sides, f, text, what))
    side, parts = sides.resolve_column(value, what)
    if len(parts) > 1 and side == "source":
        raise NeedsSparkError.to(what)
    if len(parts) > 1:
        return SetValue(f, computed=_computed(sides, f, text, what))
    if side == "source":
        assert sides.source is not None
        return from_source(sides.source, f, parts[0], what)
    given = named(parts[0], sides.target.fields)
    if given is None:
        raise WhereError(f"{what}: {parts[0]!r} is not a column of the table")
    if given.type != f.type:
        return SetValue(f, computed=_computed(sides, f, text, what))
    return SetValue(f, "target", sides.target.fields.index(given))


def _computed(sides: Sides, f: NestedField, text: str, what: str) -> Computed:
    """Raises NeedsSparkError, WhereError."""
    if sides.source is not None:
        raise NeedsSparkError.to(what)
    schema = sides.target
    try:
        term = bind_scalar(parse_scalar(text), lambda name: reference(schema, plain_name(name, "target", schema)))
        return Computed(_stored(term, f), schema, what)
    except NotEvaluated as e:
        raise NeedsSparkError.to(f"{what} ({e})", evaluated=evaluated()) from None


def _stored(term: Bound, f: NestedField) -> Bound:
    """The term in the type of the column, converted as in an assignment. Raises NotEvaluated."""
    if term.type == f.type:
        return term
    names = (getattr(term.type, "name", ""), getattr(f.type, "name", ""))
    if not isinstance(f.type, PrimitiveType) or names not in _STORED_AS:
        raise NotEvaluated(f"{term.type} in a column of type {f.type}")
    return Constant(None, f.type) if names[0] == "unknown" else BoundCall("cast", (term,), f.type)


def refuse_opaque_parts(bound: Expression, what: str) -> None:
    """Raise NeedsSparkError, naming the part, if only Spark evaluates a bound condition."""
    for part in opaque_parts(bound):
        raise NeedsSparkError.to(f"{what} ({part.reason})" if part.reason else what, evaluated=evaluated())


def from_source(source: SourceRows, f: NestedField, name: str, what: str) -> SetValue:
    """Column ``name`` of the source as the table's ``f``. Raises WhereError, UnsupportedError."""
    given = source.find(name)
    if given is None:
        raise WhereError(f"{what}: {name!r} is not a column of the source ({', '.join(source.names)})")
    source.check_fit(given, f)
    return SetValue(f, "source", source.schema.fields.index(given))


def values_of_row(schema: Schema, values: Mapping[str, SetValue], *, otherwise_kept: bool) -> Sequence[SetValue]:
    """One value for each of the table's columns: without a given one the old value (``otherwise_kept``), or the write default."""
    row_values = []
    for place, f in enumerate(schema.fields):
        present = SetValue(f, "target", place) if otherwise_kept else None
        row_values.append(values.get(f.name) or present or _default(f))
    return row_values


def _default(f: NestedField) -> SetValue:
    """The value that an insert stores for a missing column: its write default, or NULL."""
    if f.write_default is MISSING:
        return SetValue(f)
    if f.type.is_nested:
        raise NeedsSparkError.to(f"the write default of {f.name!r}, of type {f.type},")
    return SetValue(f, literal=f.write_default)
