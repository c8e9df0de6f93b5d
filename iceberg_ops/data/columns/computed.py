"""Bound terms over Arrow columns: ``upper(city)``, ``price * 2``, conditions that are not a comparison with a literal.

A term of one column is evaluated once for each distinct value, other terms row by row, with the same functions as a single row
(``expressions.scalars.evaluation``); this module does not know what a function means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.data.columns.partition_values import distinct
from iceberg_ops.errors import DataError, NeedsSparkError
from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.expressions.predicates import BoundReference
from iceberg_ops.expressions.scalars.evaluation import compiled
from iceberg_ops.expressions.scalars.terms import Bound, references
from iceberg_ops.spec.types import UNKNOWN, PrimitiveType


def computed(term: Bound, columns: Mapping[int, pa.Array], rows: int, what: str) -> pa.Array:
    """The term's value for every row, in the Arrow form of its type. ``what``: its SQL text, for errors.

    Raises DataError if Spark raises for one of the rows, NeedsSparkError for a value that only Spark can compute.
    """
    type_ = term.type
    assert isinstance(type_, PrimitiveType)
    read = list(dict.fromkeys(references(term)))
    places = {reference.field_id: n for n, reference in enumerate(read)}

    def column_reader(reference: BoundReference) -> Callable[[Any], Any]:
        place = places[reference.field_id]
        return lambda row: row[place]

    try:
        return _evaluated(compiled(term, column_reader), [(r, columns[r.field_id]) for r in read], rows, type_)
    except NotFolded as e:
        raise NeedsSparkError.to(f"{what}: {e}") from None
    except (ValueError, ArithmeticError) as e:
        raise DataError(f"{what}: {e}") from None


def _evaluated(
    value: Callable[[Any], Any], given: Sequence[tuple[BoundReference, pa.Array]], rows: int, type_: PrimitiveType
) -> pa.Array:
    if not given:
        return _array(type_, [value(())]).take(pa.array(np.zeros(rows, np.int32))) if rows else _array(type_, [])
    if len(given) > 1:
        parts = [values_of(reference.type, array) for reference, array in given]
        return _array(type_, [value(row) for row in zip(*parts, strict=True)])
    ((reference, array),) = given
    encoded = distinct(array)
    indices = encoded.indices
    if indices.null_count:
        indices = indices.fill_null(len(encoded.dictionary))
    places, inverse = np.unique(np.asarray(indices), return_inverse=True)
    known = [*values_of(reference.type, encoded.dictionary), None]  # only values of these rows: another value could be an error
    return _array(type_, [value((known[place],)) for place in places.tolist()]).take(pa.array(inverse.reshape(-1)))


def _array(type_: PrimitiveType, values: list[Any]) -> pa.Array:
    if type_ == UNKNOWN:
        return pa.nulls(len(values))
    return array_of(type_, values).cast(arrow_type(type_))
