"""Columns, types, partition terms and sort keys as people write them: in Spark SQL's syntax, or Iceberg's if Spark has none.

``timestamp`` is Spark's, which is Iceberg's timestamptz; ``timestamp_ntz`` is Iceberg's timestamp. Field ids assigned here are
placeholders that the metadata builder replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from iceberg_ops.cli.sql_tokens import Tokens
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import OptionError
from iceberg_ops.spec import types
from iceberg_ops.spec.nesting import MOST_LEVELS
from iceberg_ops.spec.sorting import NullOrder, SortDirection
from iceberg_ops.spec.transforms import IDENTITY, Transform, bucket, truncate
from iceberg_ops.spec.types import DecimalType, FixedType, IcebergType, NestedField, StructType, list_of, map_of

T = TypeVar("T")

_PLAIN_TYPES: dict[str, IcebergType] = {
    "boolean": types.BOOLEAN,
    "tinyint": types.INT, "byte": types.INT, "smallint": types.INT, "short": types.INT, "int": types.INT, "integer": types.INT,
    "bigint": types.LONG, "long": types.LONG, "float": types.FLOAT, "real": types.FLOAT, "double": types.DOUBLE,
    "date": types.DATE, "time": types.TIME,
    "timestamp": types.TIMESTAMPTZ, "timestamp_ltz": types.TIMESTAMPTZ, "timestamptz": types.TIMESTAMPTZ,
    "timestamp_ntz": types.TIMESTAMP, "timestamp_ns": types.TIMESTAMP_NS, "timestamptz_ns": types.TIMESTAMPTZ_NS,
    "string": types.STRING, "uuid": types.UUID, "binary": types.BINARY, "variant": types.VARIANT, "unknown": types.UNKNOWN,
    "void": types.UNKNOWN, "geometry": types.GeometryType(), "geography": types.GeographyType(),
}  # fmt: skip
_TIME_TRANSFORMS = {"year": "year", "years": "year", "month": "month", "months": "month", "day": "day", "days": "day", "date":
"day",
                    "hour": "hour", "hours": "hour", "date_hour": "hour"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """``name type [NOT NULL] [DEFAULT literal] [COMMENT 'text']``; ``default`` is the literal's SQL text. ``parent``: the full name
    of the struct that contains the column, None for the table."""

    name: str
    type: IcebergType
    required: bool = False
    default: str | None = None
    doc: str | None = None
    parent: str | None = None

    @property
    def full_name(self) -> str:
        return self.name if self.parent is None else f"{self.parent}.{self.name}"


@dataclass(frozen=True, slots=True)
class TransformTerm:
    """A transform of a column, with the name given to it, if any."""

    transform: Transform
    source: str
    name: str | None = None

    @property
    def field_name(self) -> str:
        """The given name, or the name that the reference implementation uses in CREATE TABLE."""
        suffix = {"identity": "", "truncate": "_trunc"}.get(self.transform.name, f"_{self.transform.name}")
        return self.name or self.source + suffix


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of a sort order."""

    term: TransformTerm
    direction: SortDirection
    null_order: NullOrder


def parse_columns(text: str) -> list[ColumnDefinition]:
    """``id bigint NOT NULL, name string COMMENT 'x'``. Raises OptionError."""
    tokens = Tokens(text)
    return finished(tokens, comma_separated(tokens, column))


def parse_terms(text: str) -> list[TransformTerm]:
    """``days(ts), bucket(16, id) AS shard, region``. Raises OptionError."""
    tokens = Tokens(text)
    return finished(tokens, comma_separated(tokens, named_term))


def parse_sort_keys(text: str) -> list[SortKey]:
    """``a DESC NULLS LAST, bucket(16, id)``. Raises OptionError."""
    tokens = Tokens(text)
    return finished(tokens, comma_separated(tokens, sort_key))


def finished(tokens: Tokens, value: T) -> T:
    """The value, after a check that nothing follows it."""
    tokens.end()
    return value


def comma_separated(tokens: Tokens, parse: Callable[[Tokens], T]) -> list[T]:
    items = [parse(tokens)]
    while tokens.take(","):
        items.append(parse(tokens))
    return items


def column(tokens: Tokens) -> ColumnDefinition:
    """One column definition; a name in parts places it inside a struct, a dot inside back quotes does not."""
    *parents, name = tokens.name_parts()
    return replace(_definition(tokens, name, count(1)), parent=".".join(parents) or None)


def _definition(tokens: Tokens, name: str, ids: count[int]) -> ColumnDefinition:
    type_ = data_type(tokens, ids)
    required, default, doc = False, None, None
    while True:
        if tokens.take("NOT", "NULL"):
            required = True
        elif tokens.take("DEFAULT"):
            default = tokens.until(("COMMENT",), ("NOT", "NULL"), ("FIRST",), ("AFTER",), (",",))
        elif tokens.take("COMMENT"):
            doc = tokens.text()
        else:
            return ColumnDefinition(name, type_, required, default, doc)


def data_type(tokens: Tokens, ids: count[int] | None = None) -> IcebergType:
    """A type, whose nested fields get ids from ``ids``. Raises OptionError for an unknown type, and for one nested deeper than
    Parquet readers support."""
    ids = ids or count(1)
    if tokens.depth > MOST_LEVELS:
        raise OptionError(f"{tokens.source[:60]!r}...: types are nested more than {MOST_LEVELS} deep")
    name = tokens.name().lower()
    if name in ("decimal", "dec", "numeric"):
        return _decimal(tokens)
    if name == "fixed":
        return _fixed(tokens)
    if name in ("varchar", "char"):
        tokens.expect("(")
        tokens.whole_number()
        tokens.expect(")")
        return types.STRING
    if name in ("array", "list"):
        tokens.expect("<")
        return _closed(tokens, list_of(next(ids), data_type(tokens, ids)))
    if name == "map":
        tokens.expect("<")
        key_id, value_id, key = next(ids), next(ids), data_type(tokens, ids)
        tokens.expect(",")
        return _closed(tokens, map_of(key_id, key, value_id, data_type(tokens, ids)))
    if name == "struct":
        tokens.expect("<")
        return _closed(tokens, StructType(tuple(comma_separated(tokens, lambda t: _struct_field(t, ids)))))
    if name not in _PLAIN_TYPES:
        raise OptionError(f"{tokens.source!r}: unknown type {name!r}")
    return _PLAIN_TYPES[name]


def _closed(tokens: Tokens, type_: IcebergType) -> IcebergType:
    tokens.expect(">")
    return type_


def _struct_field(tokens: Tokens, ids: count[int]) -> NestedField:
    field_id, name = next(ids), tokens.name()
    tokens.take(":")
    definition = _definition(tokens, name, ids)
    if definition.default is not None:
        raise OptionError(
            f"{tokens.source!r}: field {name!r} of a struct: a default is set on a column of its own, with ALTER COLUMN"
        )
    return NestedField(field_id, name, definition.type, definition.required, definition.doc)


def _decimal(tokens: Tokens) -> DecimalType:
    precision, scale = 10, 0
    if tokens.take("("):
        precision = tokens.whole_number()
        scale = tokens.whole_number() if tokens.take(",") else 0
        tokens.expect(")")
    return DecimalType(precision=precision, scale=scale)


def _fixed(tokens: Tokens) -> FixedType:
    close = "]" if tokens.take("[") else ")"
    if close == ")":
        tokens.expect("(")
    length = tokens.whole_number()
    tokens.expect(close)
    return FixedType(length=length)


def named_term(tokens: Tokens) -> TransformTerm:
    """A term and, after AS, its name."""
    parsed = term(tokens)
    return TransformTerm(parsed.transform, parsed.source, tokens.name()) if tokens.take("AS") else parsed


def term(tokens: Tokens) -> TransformTerm:
    """A column, or a transform of one: ``bucket(16, id)``, ``truncate(4, name)``, ``days(ts)``."""
    name = tokens.dotted_name()
    if not tokens.take("("):
        return TransformTerm(IDENTITY, name)
    parsed = _parse_transform(tokens, name.lower())
    tokens.expect(")")
    return parsed


def _parse_transform(tokens: Tokens, name: str) -> TransformTerm:
    if name in ("bucket", "truncate"):
        number = tokens.whole_number()
        tokens.expect(",")
        make = bucket if name == "bucket" else truncate
        if number < 1:
            raise OptionError(f"{tokens.source!r}: {name} takes a number above 0, not {number}")
        return TransformTerm(make(number), tokens.dotted_name())
    if name == "identity":
        return TransformTerm(IDENTITY, tokens.dotted_name())
    if name not in _TIME_TRANSFORMS:
        known = ["bucket", "truncate", "identity", "years", "months", "days", "hours"]
        raise OptionError(
            f"{tokens.source!r}: unknown transform {name!r}{did_you_mean(name, known)}: must be one of {', '.join(known)}"
        )
    return TransformTerm(Transform(_TIME_TRANSFORMS[name]), tokens.dotted_name())


def sort_key(tokens: Tokens) -> SortKey:
    """A term with its direction and null order; by default nulls come first ascending and last descending."""
    parsed = term(tokens)
    descending = tokens.take("DESC")
    if not descending:
        tokens.take("ASC")
    nulls = NullOrder.NULLS_LAST if descending else NullOrder.NULLS_FIRST
    if tokens.take("NULLS"):
        nulls = NullOrder.NULLS_FIRST if tokens.take("FIRST") else NullOrder.NULLS_LAST
        if nulls is NullOrder.NULLS_LAST:
            tokens.expect("LAST")
    return SortKey(parsed, SortDirection.DESC if descending else SortDirection.ASC, nulls)
