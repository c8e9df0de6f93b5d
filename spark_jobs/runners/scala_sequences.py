"""Scala's sequences, as Python iterates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def items(sequence: Any) -> Iterator[Any]:
    """The items of a ``scala.collection.Seq`` that py4j hands out."""
    return (sequence.apply(i) for i in range(sequence.size()))
