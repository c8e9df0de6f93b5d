"""The row order of a rewrite: the table's sort order, an order given as SQL text, z-order or Hilbert order of columns.

The text is Iceberg's procedure syntax: ``id DESC NULLS FIRST, category``, ``bucket(16, id)``, ``zorder(a, b)``; and in addition
``hilbert(a, b)``. An order equal to one of the table's gets that order's id, so that files record it; any other is recorded as
unsorted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from iceberg_ops.config.options import RewriteDataFilesOptions
from iceberg_ops.config.whole_numbers import INT_MAX, whole_number
from iceberg_ops.errors import OptionError, SchemaError
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY, Transform, bucket, transform_from_text, truncate
from iceberg_ops.spec.types import PrimitiveType
from iceberg_ops.spec.validity import check_source

_CURVE = re.compile(r"\s*(zorder|hilbert)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_QUOTED = "(?>`(?:[^`]|``)+`)"
"""A name in back quotes; ```` `` ```` in it is one back quote."""
_ARGUMENTS = rf"(?:{_QUOTED}|[^()`])*"
_TERM = re.compile(
    rf"\s*(?P<term>(?:{_QUOTED}|\w+)(?:\.(?:{_QUOTED}|\w+))*(?:\s*\({_ARGUMENTS}\))?)"
    r"(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE,
)
_CALL = re.compile(rf"(\w+)\s*\(({_ARGUMENTS})\)")
_MARK = re.compile(rf"{_QUOTED}|[(),]")
_MOST_CURVE_COLUMNS = 64
"""A key of such an order has 64 bits (``data.sorting.zorder``), and each column needs at least one."""
_PERIODS = {"years": "year", "months": "month", "days": "day", "date": "day", "hours": "hour", "date_hour": "hour"}


@dataclass(frozen=True, slots=True)
class RewriteOrder:
    """``strategy`` is binpack, sort, zorder or hilbert (the last two use ``zorder_columns``). New files record ``sort_order_id``;
    0: the order is not the table's."""

    strategy: str
    sort_order: SortOrder | None = None
    sort_order_id: int = 0
    zorder_columns: tuple[str, ...] = ()


def rewrite_order(options: RewriteDataFilesOptions, metadata: TableMetadata) -> RewriteOrder:
    """The order of the options. Raises OptionError for an unknown column, no order at all, or an order that does not parse."""
    if options.strategy == "binpack":
        return RewriteOrder("binpack")
    if options.sort_order is None:
        if metadata.sort_order.is_unsorted:
            raise OptionError("rewrite_data_files: strategy sort needs option sort-order, because the table has no sort order")
        return RewriteOrder("sort", metadata.sort_order, metadata.default_sort_order_id)
    if curve := _CURVE.fullmatch(options.sort_order):
        name = curve[1].lower()
        return RewriteOrder(name, zorder_columns=_curve_columns(name, curve[2], metadata))
    order = parse_sort_order(options.sort_order, metadata)
    known = next((o for o in metadata.sort_orders if o.fields == order.fields), None)
    return RewriteOrder("sort", order, known.order_id if known else 0)


def parse_sort_order(text: str, metadata: TableMetadata) -> SortOrder:
    """A sort order from SQL text over the table's current schema. Raises OptionError."""
    fields = []
    for part in _split(text):
        match = _TERM.fullmatch(part)
        if match is None:
            raise OptionError(f"sort-order: {part.strip()!r} must be column or transform [ASC|DESC] [NULLS FIRST|LAST]")
        transform, name = _transform(match["term"])
        direction = SortDirection((match["direction"] or "asc").lower())
        default = "first" if direction is SortDirection.ASC else "last"
        nulls = NullOrder(f"nulls-{(match['nulls'] or default).lower()}")
        fields.append(SortField((_column(name, metadata, transform),), transform, direction, nulls))
    return SortOrder(1, tuple(fields))


def _curve_columns(curve: str, text: str, metadata: TableMetadata) -> tuple[str, ...]:
    spec_sources = {f.source_id for f in metadata.spec.fields if f.transform.is_identity}
    ids = [_column(_plain(part), metadata) for part in _split(text)]
    kept = [i for i in dict.fromkeys(ids) if i not in spec_sources]
    if not kept:
        raise OptionError(f"sort-order {curve}({text}): all columns are identity partition fields, there is nothing to order by")
    if len(kept) > _MOST_CURVE_COLUMNS:
        raise OptionError(
            f"sort-order {curve}: {len(kept)} columns, must be at most {_MOST_CURVE_COLUMNS}: each needs a bit of the "
            "key, which has no more: name fewer columns"
        )
    return tuple(metadata.schema.name_of(i) for i in kept)


def _transform(term: str) -> tuple[Transform, str]:
    call = _CALL.fullmatch(term)
    if call is None:
        return IDENTITY, _plain(term)
    name, arguments = call[1].lower(), [part.strip() for part in _split(call[2])]
    if name in ("bucket", "truncate") and len(arguments) == 2:
        for text, column in (arguments, reversed(arguments)):
            if (width := whole_number(text, INT_MAX)) is not None and width > 0:
                return (bucket if name == "bucket" else truncate)(width), _plain(column)
    transform = transform_from_text(_PERIODS.get(name, name))
    if len(arguments) != 1 or not transform.is_known or transform.parameter is not None or transform.is_void:
        raise OptionError(f"sort-order: {term!r} must be year, month, day, hour (column), bucket(N, column) or truncate(W, column)")
    return transform, _plain(arguments[0])


def _column(name: str, metadata: TableMetadata, transform: Transform = IDENTITY) -> int:
    """The id of a column that rows can be ordered by, or by its transform. Raises OptionError."""
    field = metadata.schema.find(name, case_sensitive=False)
    if field is None or not isinstance(field.type, PrimitiveType):
        columns = ", ".join(f.name for f in metadata.schema.fields)
        raise OptionError(f"sort-order: {name!r} is not a column of a primitive type: the columns are {columns}")
    try:
        check_source(metadata.schema, field.field_id, transform, "sort-order")
    except SchemaError as e:
        raise OptionError(str(e)) from None
    return field.field_id


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses and back quotes."""
    parts, begun, depth = [], 0, 0
    for mark in _MARK.finditer(text):
        depth += (mark[0] == "(") - (mark[0] == ")")
        if mark[0] == "," and not depth:
            parts.append(text[begun : mark.start()])
            begun = mark.end()
    return [*parts, text[begun:]]


def _plain(name: str) -> str:
    """A name, parts of which may be in back quotes, as the schema has it."""
    return re.sub(_QUOTED, lambda quoted: quoted[0][1:-1].replace("``", "`"), name.strip())
