"""The order of canonical values in predicates: Spark's order.

NaN equals itself and is above every other value, -0.0 equals 0.0, text is ordered by code point, binary by unsigned byte, uuid by
its 16 bytes. Python's own comparison already agrees for every type except floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import total_ordering
from typing import Any

from iceberg_ops.spec.types import IcebergType, PrimitiveType


@total_ordering
class _Top:
    """NaN's key: above every number, equal to itself. Can be compared with floats from either side."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Top)

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, _Top)

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "NAN_KEY"


NAN_KEY: Any = _Top()
"""Sorts above every float and equals itself."""


def float_key(value: Any) -> Any:
    """A key with the order and hash of floats in predicates. None stays None."""
    return NAN_KEY if value is not None and math.isnan(value) else value


def order_key(value: Any) -> Any:
    """A key with the order, equality and hash of one type's values in predicates."""
    return float_key(value) if isinstance(value, float) else value


def is_floating(type_: IcebergType) -> bool:
    """float or double: the types with NaN."""
    return isinstance(type_, PrimitiveType) and type_.name in ("float", "double")


def _same(value: Any) -> Any:
    return value


def order_key_function(type_: IcebergType) -> Callable[[Any], Any]:
    """``order_key`` for values of one type, the identity if Python's order is already correct."""
    return float_key if is_floating(type_) else _same
