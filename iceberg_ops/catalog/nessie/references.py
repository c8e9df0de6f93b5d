"""A state of Nessie's content: a branch, a tag, or a commit of one; and table names that hold one (Java: ``TableReference``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from iceberg_ops.errors import BadInputError

_NAME = re.compile(r"([^@#]+)(?:@([^@#]+))?(?:#([^@#]+))?")
_HASH = re.compile(r"[0-9a-fA-F]{8,64}")
_QUOTES = "`'"


@dataclass(frozen=True, slots=True)
class Reference:
    """``name`` None: the server's default branch. With ``hash`` it is one commit of the reference, and read-only."""

    name: str | None = None
    hash: str | None = None

    def path(self, default: str) -> str:
        """As a part of an address."""
        name = quote(self.name or default, safe="")
        return f"{name}@{self.hash}" if self.hash else name


def is_hash(text: str) -> bool:
    """Whether a text has the form of a commit's hash."""
    return _HASH.fullmatch(text) is not None


def split_name(name: str) -> tuple[str, Reference | None]:
    """The table's own name, and the reference in ``table@branch``, ``table@branch#hash`` or ``table#hash``, also in back quotes;
    None if there is none. Raises BadInputError for anything else with ``@`` or ``#``."""
    if "@" not in name and "#" not in name:
        return name, None
    text = name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in _QUOTES else name
    match = _NAME.fullmatch(text)
    if match is None or (match[3] is not None and not is_hash(match[3])):
        raise BadInputError(
            f"table name {name!r}: with @ or # it must be table@reference, table@reference#hash or table#hash, where the hash is "
            f"8 to 64 hexadecimal digits"
        )
    return match[1], Reference(match[2], match[3])
