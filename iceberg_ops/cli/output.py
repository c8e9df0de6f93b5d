"""How documents reach a terminal: JSON for machines, tables through rich for people.

JSON is byte-stable: key order is the order of the document, lists hold one element a line, numbers and texts as Python's json
writes them (not escaped to ASCII).
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 200


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


def print_rows(rows: Sequence[Mapping[str, Any]], *, title: str, empty: str) -> None:
    """A table for people; ``empty`` is said where there are no rows."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    if not rows:
        out.print(empty, markup=False)
        return
    table = Table(title=Text(title))
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        numeric = all(isinstance(row.get(name), int | float | None) and not isinstance(row.get(name), bool) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(name))) for name in names))
    out.print(table)


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
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
