"""Writes documents to a terminal: JSON for machines, tables with rich for people.

JSON is byte-stable: keys have the order of the document, lists have one element per line, numbers and texts have the form of
Python's json module (not escaped to ASCII).
"""

from __future__ import annotations

import codecs
import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 200
_LONGEST_NAME = 36
"""A longer text is folded if the terminal is narrow; a uuid fits."""
_LEAST_TEXT = 20
_UNITS_OF_TIME = ("(UTC)",)
"""The ends of column titles whose texts are times, which are not folded."""


def print_json(document: Any) -> None:
    """One document on standard output: a list with one element per line, anything else indented. If the terminal's encoding is not
    UTF-8, characters outside ASCII are written as JSON escapes."""
    ascii_only = codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
    if isinstance(document, list):
        lines = ",\n ".join(json.dumps(row, ensure_ascii=ascii_only) for row in document)
        sys.stdout.write(f"[\n {lines}\n]\n" if document else "[]\n")
    else:
        sys.stdout.write(json.dumps(document, ensure_ascii=ascii_only, indent=2) + "\n")


def console() -> Console:
    """Standard output for people. If it is not a terminal (a pipe, a task's log), tables are wide instead of folded to 80
    characters."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a table for people. ``least``: its minimum width; text may be folded, numbers and names may not."""

    name: str
    cells: list[str]
    is_number: bool
    width: int
    least: int

    @classmethod
    def of(cls, name: str, values: list[Any]) -> _Column:
        from rich.cells import cell_len

        cells = [_cell(value) for value in values]
        width = max(cell_len(text) for text in (name, *cells))
        is_number = all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
        folds = not is_number and any(len(cell) > _LONGEST_NAME or " " in cell for cell in cells)
        least = min(width, _LEAST_TEXT) if folds and not name.endswith(_UNITS_OF_TIME) else width
        return cls(name, cells, is_number, width, least)


def print_rows(rows: Sequence[Mapping[str, Any]], *, title: str, empty: str) -> None:
    """A table for people; the text ``empty`` if there are no rows. Columns without a value are omitted. On a narrow terminal text
    is folded first, then the last columns are omitted and named below; numbers and ids are never broken."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    if not rows:
        out.print(empty, markup=False)
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_Column.of(name, [row.get(name) for row in rows]) for name in names]
    columns = [column for column in columns if any(column.cells)] or columns[:1]
    shown = _fitting(columns, out.width)
    table = Table(title=Text(title))
    room = out.width - 1 - sum(column.least + 3 for column in shown)
    for column in shown:
        more = max(0, min(column.width - column.least, room))
        room -= more
        width = min(column.least + more, max(1, out.width - 4))
        table.add_column(Text(column.name), justify="right" if column.is_number else "left", overflow="fold", width=width)
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(Text, cells))
    out.print(table)
    if hidden := [column.name for column in columns[len(shown) :]]:
        out.print(f"The terminal is too narrow for: {', '.join(hidden)}", markup=False)


def _fitting(columns: Sequence[_Column], width: int) -> Sequence[_Column]:
    """The first columns that fit, at least one. A column needs three characters besides its text."""
    shown = list(columns)
    while len(shown) > 1 and sum(column.least + 3 for column in shown) + 1 > width:
        shown.pop()
    return shown


def print_pairs(pairs: Iterable[tuple[str, Any]], *, title: str) -> None:
    """Names and values, one pair per line."""
    print_rows(
        [{"name": name, "value": value if isinstance(value, int | float) else _cell(value)} for name, value in pairs],
        title=title,
        empty="nothing",
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) < 10**12 else str(value)
    return visible(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def partition_text(partition: Mapping[str, Any]) -> str:
    """``day=2026-07-01/region=eu``: a partition's values for people; empty for that of an unpartitioned table."""
    return "/".join(f"{name}={'null' if value is None else _cell(value)}" for name, value in partition.items())


def visible(text: str) -> str:
    """The text with control characters escaped: a value must not control the terminal. Line breaks stay."""
    return "".join(c if c == "\n" or unicodedata.category(c) != "Cc" else ascii(c)[1:-1] for c in text)
