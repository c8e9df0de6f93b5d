"""Rows of the torture world, and models of the expected rows of a branch.

A row is (region, id, version, kind). ``kind`` represents any column that is dropped and added: its value belongs to one field id,
so a column that is dropped and added again under its name reads as null in rows written before. A model is every row of a branch,
in no order, and holds a row twice if a file is live twice (an import without the check for duplicates)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

KIND = "kind"
REGIONS = ("eu", "us")
KINDS = (None, "", "a", "b", "a/b", "%2F", "ünï ☃", " ", "x=y", "..", "a'b")
"""Values of ``kind``, some of which paths, folders and SQL must escape."""
NUMBERS = (None, 0, 7, -1, 2**40)
"""The same if a replaced table has a number column with that name."""


class Row(NamedTuple):
    region: str | None
    id: int
    version: int
    kind: tuple[int, str | int] | None = None
    """(field id of the column, value), None: null."""

    @property
    def key(self) -> tuple[str | None, int]:
        return self.region, self.id

    @property
    def text(self) -> str | int | None:
        """The value of ``kind``."""
        return None if self.kind is None else self.kind[1]


Model = tuple[Row, ...]
Effect = Callable[[Model], Model]


def without(model: Iterable[Row], gone: Iterable[Row]) -> Model:
    """All but the rows of the same region, id and version."""
    taken = {row[:3] for row in gone}
    return tuple(row for row in model if row[:3] not in taken)


def minus(model: Iterable[Row], gone: Iterable[Row]) -> Model:
    """All rows without those in ``gone``, each removed as often as it is given: of two equal rows one stays if one is removed. A
    row may have lost its kind in the meantime."""
    exactly = Counter(gone)
    rest: list[Row] = []
    for row in model:
        if exactly[row]:
            exactly[row] -= 1
        else:
            rest.append(row)
    changed = Counter(row[:3] for row in exactly.elements())
    found: list[Row] = []
    for row in rest:
        if changed[row[:3]]:
            changed[row[:3]] -= 1
        else:
            found.append(row)
    return tuple(found)


def holds(model: Iterable[Row], rows: Iterable[Row]) -> bool:
    """Whether each row is in the model, with any kind."""
    return {row[:3] for row in rows} <= {row[:3] for row in model}


def normal(model: Iterable[Row], kind_id: int | None) -> Model:
    """As rows are read where ``kind`` has that field id (None: there is no such column)."""
    return tuple(row if row.kind is None or row.kind[0] == kind_id else row._replace(kind=None) for row in model)


def difference(wanted: Sequence[Row], found: Sequence[Row]) -> str:
    """The difference as text; empty if there is none."""
    if len(wanted) == len(found) and Counter(wanted) == Counter(found):
        return ""
    lost, surplus = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    return f"lost {sorted(lost.elements(), key=str)}, surplus {sorted(surplus.elements(), key=str)}"
