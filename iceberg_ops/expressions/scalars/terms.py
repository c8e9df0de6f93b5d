"""The parts of a computed term, unbound and bound to a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from iceberg_ops.expressions.predicates import BoundReference
from iceberg_ops.spec.types import BOOLEAN, UNKNOWN, IcebergType, PrimitiveType

TOO_DEEP = "an expression of so many levels"


class NotEvaluated(Exception):
    """A term that only Spark evaluates. The message names the part: a function, an operator on types, a type."""


class _Unbound:
    __slots__ = ()

    def negated(self) -> Call:
        """The negated condition: true if it is false, NULL if it is NULL."""
        return Call("not", (self,))  # type: ignore[arg-type]

    def is_unknown(self) -> Call:
        """The condition that it is NULL."""
        return Call("isnull", (self,))  # type: ignore[arg-type]


class _Typed:
    __slots__ = ()

    def negated(self) -> BoundCall:
        """The negated condition: true if it is false, NULL if it is NULL."""
        return BoundCall("not", (self,), BOOLEAN)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Column(_Unbound):
    """A column by its dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(_Unbound):
    """``value`` is in the canonical form of ``type``; NULL has the type ``unknown``. ``is_number``: it is written as a bare number,
    whose digits count for the type of a decimal result."""

    value: Any
    type: PrimitiveType
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Call(_Unbound):
    """A function or operator by its name in ``functions.FUNCTIONS``."""

    name: str
    arguments: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class CastTo(_Unbound):
    """``CAST(child AS type)``; ``safe``: NULL for a value that cannot be cast (TRY_CAST)."""

    child: Scalar
    type: PrimitiveType
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Refused(_Unbound):
    """A part that only Spark evaluates."""

    what: str


Scalar = Column | Constant | Call | CastTo | Refused

NULL = Constant(None, UNKNOWN)


@dataclass(frozen=True, slots=True)
class BoundColumn(_Typed):
    reference: BoundReference

    @property
    def type(self) -> IcebergType:
        return self.reference.type


@dataclass(frozen=True, slots=True)
class BoundCall(_Typed):
    """``type`` is the result's type. ``safe`` only for casts."""

    name: str
    arguments: tuple[Bound, ...]
    type: PrimitiveType
    safe: bool = False


Bound = BoundColumn | Constant | BoundCall


def renamed(term: Scalar, name_of: Callable[[str], str]) -> Scalar:
    """``term`` with every column's dotted name replaced."""
    if isinstance(term, Column):
        return Column(name_of(term.name))
    if isinstance(term, Call):
        return Call(term.name, tuple(renamed(a, name_of) for a in term.arguments))
    if isinstance(term, CastTo):
        return CastTo(renamed(term.child, name_of), term.type, term.safe)
    return term


def references(term: Bound) -> Iterator[BoundReference]:
    """The columns that a bound term reads, once for each use."""
    if isinstance(term, BoundColumn):
        yield term.reference
    elif isinstance(term, BoundCall):
        for argument in term.arguments:
            yield from references(argument)
