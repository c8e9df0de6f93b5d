"""ON and the WHEN clauses of a MERGE as lane local evaluates them: keys for the look-up, and conditions on the rows of one side.

ON consists of equalities of a column of the table and one of the source, with types whose values are equal exactly if they are
identical, and of conditions on one side. A clause's condition consists of conditions on one side. Everything else needs Spark and
is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.actions.local.set_values import (
    SetValue,
    Side,
    Sides,
    from_source,
    refuse_opaque_parts,
    set_values,
    values_of_row,
)
from iceberg_ops.actions.local.source_in_memory import SourceRows
from iceberg_ops.actions.rows.merge_checks import names_side_without_row, side_without_row
from iceberg_ops.config.job_spec import MergeClause
from iceberg_ops.data.columns.row_filter import rows_where
from iceberg_ops.errors import NeedsSparkError, OptionError, TypesNotComparedError, WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression, and_
from iceberg_ops.expressions.renaming import unqualified
from iceberg_ops.expressions.where_pieces import ColumnText, Conjunct, conjuncts
from iceberg_ops.spec.name_matching import matched, named
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DecimalType, NestedField

Mask = npt.NDArray[np.bool_]
_EXACT_KEYS = frozenset({"boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "binary"})
_WHOLE = frozenset({"int", "long"})


@dataclass(frozen=True, slots=True)
class Condition:
    """Conditions on both sides that must hold together; already bound."""

    target: Expression
    source: Expression

    def of_target(self, rows: pa.RecordBatch, schema: Schema) -> Mask:
        """For rows of the table, whose first columns are those of ``schema``."""
        return rows_where(self.target, rows, schema)

    def of_source(self, source: SourceRows) -> Mask:
        """For every row of the source."""
        return rows_where(self.source, source.rows, source.schema)


@dataclass(frozen=True, slots=True)
class MatchOn:
    """Rows match if their ``keys`` (of the table, of the source) are equal and they satisfy ``also``."""

    keys: Sequence[tuple[NestedField, NestedField]]
    also: Condition


@dataclass(frozen=True, slots=True)
class BoundClause:
    """One clause; ``values`` has a value for every column of the written row, None if it writes none."""

    clause: MergeClause
    condition: Condition
    values: Sequence[SetValue] | None


def match_on(sides: Sides, text: str) -> MatchOn:
    """Raises WhereError, and UnsupportedError for an unsupported ON."""
    parts = conjuncts(text)
    keys = [_key(sides, part) for part in parts if _joins(sides, part)]
    if not keys:
        raise NeedsSparkError.to(f"merge ON {text}, without an equality of a target and a source column,")
    return MatchOn(keys, _condition(sides, [part for part in parts if not _joins(sides, part)], "ON", "target"))


def when_clauses(sides: Sides, clauses: Sequence[MergeClause]) -> list[BoundClause]:
    """Raises OptionError, WhereError, SchemaError, DataError, and UnsupportedError for an expression that needs Spark."""
    return [_when(sides, number, clause) for number, clause in enumerate(clauses, 1)]


def _when(sides: Sides, number: int, clause: MergeClause) -> BoundClause:
    what = f"WHEN clause {number}"
    constant: Side = "source" if clause.when == "not-matched" else "target"
    parts = conjuncts(clause.condition) if clause.condition is not None else []
    condition = _condition(sides, parts, what, constant)
    values = None if clause.action == "delete" else _values(sides, clause)
    used = {side for part in parts for side in _sides_read(sides, part, what)} | {v.side for v in values or () if v.side}
    if side_without_row(clause) in used:
        raise names_side_without_row(number, clause)
    return BoundClause(clause, condition, values)


def _values(sides: Sides, clause: MergeClause) -> Sequence[SetValue]:
    assert sides.source is not None
    schema = sides.target
    kept = clause.action == "update"
    if clause.assignments is not None:
        return values_of_row(schema, set_values(sides, clause.assignments), otherwise_kept=kept)
    given = {f.field_id: name for name, f in matched(sides.source.names, schema.fields, f"source {sides.source.name}").items()}
    if missing := [f.name for f in schema.fields if f.field_id not in given]:
        raise OptionError(f"merge: {clause.action} * needs every table column in the source; it lacks {', '.join(missing)}")
    what = f"{clause.action} *"
    return [from_source(sides.source, f, given[f.field_id], what) for f in schema.fields]


def _joins(sides: Sides, part: Conjunct) -> bool:
    """Whether it is an equality of columns of both sides."""
    return part.pair is not None and {sides.resolve_column(column, "ON")[0] for column in part.pair} == {"target", "source"}


def _key(sides: Sides, part: Conjunct) -> tuple[NestedField, NestedField]:
    assert part.pair is not None
    assert sides.source is not None
    names = dict(sides.resolve_column(column, "ON") for column in part.pair)
    if any(len(name) > 1 for name in names.values()):
        raise NeedsSparkError.to(f"merge ON {part.text}")
    target = named(names["target"][0], sides.target.fields)
    given = sides.source.find(names["source"][0])
    if target is None or given is None:
        raise WhereError(f"ON {part.text}: {names['source' if target else 'target'][0]!r} is not a column")
    if not _are_one_kind(target, given):
        raise NeedsSparkError.to(f"merge ON {part.text}, of types {target.type} and {given.type},")
    return target, given


def _are_one_kind(target: NestedField, given: NestedField) -> bool:
    a, b = target.type, given.type
    if isinstance(a, DecimalType) and isinstance(b, DecimalType):
        return a.scale == b.scale
    names = {str(getattr(a, "name", "")), str(getattr(b, "name", ""))}
    return names <= _WHOLE or (a == b and names <= _EXACT_KEYS)


def _sides_read(sides: Sides, part: Conjunct, what: str) -> set[Side]:
    return {sides.resolve_column(column, what)[0] for column in part.columns}


def _condition(sides: Sides, parts: Sequence[Conjunct], what: str, constant: Side) -> Condition:
    """``constant``: the side that evaluates a condition without columns."""
    by_side: dict[Side, Expression] = {"target": ALWAYS_TRUE, "source": ALWAYS_TRUE}
    for part in parts:
        asked = _sides_read(sides, part, what)
        if len(asked) > 1:
            raise NeedsSparkError.to(f"merge {what} {part.text}")
        side = next(iter(asked), constant)
        try:
            bound = _bound(sides, side, part)
            refuse_opaque_parts(bound, f"merge {what} {part.text}")
            by_side[side] = and_(by_side[side], bound)
        except TypesNotComparedError:
            raise NeedsSparkError.to(f"a comparison of different types in merge {what} {part.text}") from None
    return Condition(by_side["target"], by_side["source"])


def _bound(sides: Sides, side: Side, part: Conjunct) -> Expression:
    if side == "target":
        return bind(sides.target, unqualified(part.where, "target", sides.target), case_sensitive=False)
    source = sides.source
    assert source is not None
    for column in part.columns:
        source.find(_head(sides, column))  # raises for a column whose type cannot be held
    return bind(source.schema, unqualified(part.where, "source", source.schema), case_sensitive=False)


def _head(sides: Sides, column: ColumnText) -> str:
    return sides.resolve_column(column, "a condition")[1][0]
