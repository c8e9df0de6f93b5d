"""Names of tables and namespaces: which names may be created, and which can exist at all.

By default a table's name becomes the name of its folder; in a filesystem catalog it always does. So every catalog refuses to create
a name that a file system reads in another way. Looking up such a name is not an error: there is no such table.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from itertools import islice

from iceberg_ops.errors import BadInputError

MOST_BYTES = 255
"""The limit of one name in UTF-8, in file systems and in the columns of the SQL catalog."""
_NAMED = 5


def check_new_names(identifier: tuple[str, ...]) -> None:
    """Raise BadInputError if the name of a new table or namespace is not a plain folder name."""
    for name in identifier:
        if (rule := _broken_rule(name)) is not None:
            shown = repr(name) if len(name) <= 80 else f"{name[:80]!r}…"
            raise BadInputError(f"name {shown}: {rule}")


def check_new_table_name(identifier: tuple[str, ...]) -> None:
    """Raise BadInputError if a new table cannot have the name."""
    if len(identifier) < 2 or not all(identifier):
        raise BadInputError(f"table identifier {'.'.join(identifier)!r} must be namespace.name")
    check_new_names(identifier)


def can_be_stored(identifier: Iterable[str]) -> bool:
    """Whether a database or file system can hold such names: valid Unicode without NUL."""
    return all("\0" not in name and _size(name) is not None for name in identifier)


def are_folders(identifier: Iterable[str]) -> bool:
    """Whether each name is the name of exactly one folder, below the one before."""
    return all(
        name not in ("", ".", "..") and "/" not in name and "\0" not in name and (_size(name) or MOST_BYTES + 1) <= MOST_BYTES
        for name in identifier
    )


def forbid_content(
    namespace: tuple[str, ...], tables: Iterable[tuple[str, ...]], namespaces: Callable[[], Iterable[tuple[str, ...]]]
) -> None:
    """Raise BadInputError if a namespace that is to be dropped contains any; the message names the first ones, and no more are
    listed."""
    if held := list(islice(tables, _NAMED)) or list(islice(namespaces(), _NAMED)):
        raise BadInputError(f"namespace {'.'.join(namespace)} is not empty: it holds {', '.join(map('.'.join, held))}")


def shown(identifier: Iterable[str]) -> str:
    """Names for a message: bytes that are not UTF-8 are escaped, so that the message can be printed."""
    return ".".join(identifier).encode(errors="backslashreplace").decode()


def _broken_rule(name: str) -> str | None:
    if not name:
        return "must not be empty"
    if name.startswith("."):
        return "must not begin with a dot, because such folders are hidden or lead elsewhere"
    if "/" in name:
        return "must not have a slash, because its folder would be in another place"
    if (size := _size(name)) is None or any(unicodedata.category(c) == "Cc" for c in name):
        return "must not have control characters or bytes that are not UTF-8"
    if size > MOST_BYTES:
        return f"has {size} bytes: must have {MOST_BYTES} at most"
    return None


def _size(name: str) -> int | None:
    """Bytes in UTF-8; None if the name is not valid Unicode."""
    try:
        return len(name.encode())
    except UnicodeEncodeError:
        return None
