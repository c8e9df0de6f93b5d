"""Converts Scala values from py4j for Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def items(sequence: Any) -> Iterator[Any]:
    """The items of a ``scala.collection.Seq``. (A linked list would be walked from its head for each of them.)"""
    indexed = sequence.toIndexedSeq()
    return (indexed.apply(i) for i in range(indexed.size()))


def class_name(value: Any) -> str:
    """The simple name of a value's class: of a plan, an expression, a relation."""
    return str(value.getClass().getSimpleName())
