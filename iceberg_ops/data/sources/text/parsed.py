"""The result of reading text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot become a row. ``text``: the record in the source, with U+FFFD for bytes that are not in the encoding."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows in the order of their records: one array per column, in the canonical Arrow form of its type; and the rows of bad
    records, which are NULL in every column. ``lines``: for each row the index of its text. ``text_of``: a row's record
    in the source."""

    columns: Sequence[pa.Array]
    bad: Mapping[int, BadRecord]
    lines: Sequence[int]
    text_of: Callable[[int], str]


class NotAValueError(ValueError):
    """Text that is not a value of its column's type."""


def nulls_where_bad(columns: Sequence[pa.Array], bad: Iterable[int], rows: int) -> list[pa.Array]:
    """The columns with NULL in the rows of bad records."""
    out = set(bad)
    if not out:
        return list(columns)
    is_bad = pa.array([row in out for row in range(rows)])
    return [pc.if_else(is_bad, pa.scalar(None, c.type), c) for c in columns]


def shown(text: str) -> str:
    """A text in the form that reasons use."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
