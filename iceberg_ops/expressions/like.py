"""LIKE patterns: ``%`` any text, ``_`` one character, an escape character before either or itself.

A pattern is held with ``\\`` as its escape character, whatever the SQL said.
"""

from __future__ import annotations

import re
from functools import lru_cache

from iceberg_ops.errors import WhereError

ANY_TEXT, ONE_CHARACTER = "%", "_"


def pattern_of(text: str, escape: str = "\\") -> str:
    """``text`` written with another escape character, as a pattern in held form. Raises WhereError where an escape character stands
    before anything but ``%``, ``_`` or itself, as Spark does."""
    if len(escape) != 1:
        raise WhereError(f"LIKE {text!r}: the escape must be one character, not {escape!r}")
    parts, at = [], 0
    while at < len(text):
        if text[at] == escape:
            following = text[at + 1 : at + 2]
            if following not in (ANY_TEXT, ONE_CHARACTER, escape):
                raise WhereError(f"LIKE {text!r}: the escape character {escape!r} must stand before '%', '_' or itself")
            parts.append(literal_pattern(following))
            at += 2
        else:
            parts.append(text[at] if text[at] in (ANY_TEXT, ONE_CHARACTER) else literal_pattern(text[at]))
            at += 1
    return "".join(parts)


def literal_pattern(text: str) -> str:
    """A pattern that matches exactly ``text``."""
    return re.sub(r"([%_\\])", r"\\\1", text)


def tokens(pattern: str) -> list[tuple[str, bool]]:
    """Characters of a held pattern, each with whether it is a wildcard."""
    found, at = [], 0
    while at < len(pattern):
        escaped = pattern[at] == "\\"
        at += escaped
        found.append((pattern[at], not escaped and pattern[at] in (ANY_TEXT, ONE_CHARACTER)))
        at += 1
    return found


def literal_prefix(pattern: str) -> str:
    """The text every match begins with."""
    prefix = []
    for character, wild in tokens(pattern):
        if wild:
            break
        prefix.append(character)
    return "".join(prefix)


def is_literal(pattern: str) -> bool:
    """True where only one text matches (``literal_prefix`` is it)."""
    return not any(wild for _, wild in tokens(pattern))


def is_prefix(pattern: str) -> bool:
    """True where exactly the texts beginning with ``literal_prefix`` match: wildcards only at the end, all ``%``."""
    shown = tokens(pattern)
    wild = [i for i, (_, is_wild) in enumerate(shown) if is_wild]
    return bool(wild) and wild[0] == len(shown) - len(wild) and all(shown[i][0] == ANY_TEXT for i in wild)


@lru_cache(maxsize=256)
def regex_of(pattern: str) -> re.Pattern[str]:
    """To be used with ``fullmatch``."""
    wildcard = {ANY_TEXT: ".*", ONE_CHARACTER: "."}
    return re.compile("".join(wildcard[c] if wild else re.escape(c) for c, wild in tokens(pattern)), re.DOTALL)
