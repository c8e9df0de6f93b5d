"""How documents reach a terminal: JSON for machines, tables through rich for people.

JSON is byte-stable: key order is the order of the document, lists hold one element a line, numbers and texts as Python's json
writes them (not escaped to ASCII).
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
"""A text that is longer is folded where the terminal is narrow; a uuid fits."""
_LEAST_TEXT = 20
_UNITS_OF_TIME = ("(UTC)",)
"""How titles of columns end whose texts are times, which are not folded."""


def print_json(document: Any) -> None:
    """One document on standard output: a list one element a line, anything else indented. Where the terminal's encoding is not
    UTF-8, other characters than ASCII are JSON's escapes."""
    ascii_only = codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
    if isinstance(document, list):
        lines = ",\n ".join(json.dumps(row, ensure_ascii=ascii_only) for row in document)
        sys.stdout.write(f"[\n {lines}\n]\n" if document else "[]\n")
    else:
        sys.stdout.write(json.dumps(document, ensure_ascii=ascii_only, indent=2) + "\n")


def console() -> Console:
    """Standard output for people. Where it is no terminal (a pipe, a task's log) tables get room instead of being folded to 80."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a table for people. ``least``: how narrow it may become; text may be folded, numbers and names may not."""

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
    """A table for people; ``empty`` where there are no rows. Columns without a value are left out. On a narrow terminal text is
    folded, and then the last columns are left out, and named below; numbers and ids are never broken."""
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
    """The first columns that fit, at least one. A column takes three places beside its text."""
    shown = list(columns)
    while len(shown) > 1 and sum(column.least + 3 for column in shown) + 1 > width:
        shown.pop()
    return shown


def print_pairs(pairs: Iterable[tuple[str, Any]], *, title: str) -> None:
    """Names and values, one pair a line."""
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
    """The text with control characters as escapes: a value must not steer the terminal. Line breaks stay."""
    return "".join(c if c == "\n" or unicodedata.category(c) != "Cc" else ascii(c)[1:-1] for c in text)
