"""LIKE patterns: ``%`` any text, ``_`` one character, an escape character before either or itself.

A pattern is stored with ``\\`` as its escape character, whatever the SQL used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from iceberg_ops.errors import WhereError

ANY_TEXT, ONE_CHARACTER = "%", "_"


def stored_pattern(text: str, escape: str = "\\") -> str:
    """``text`` with another escape character, as a pattern in stored form. Raises WhereError if an escape character is followed
    by anything but ``%``, ``_`` or itself, as in Spark."""
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
    """Characters of a stored pattern, each with whether it is a wildcard."""
    result, at = [], 0
    while at < len(pattern):
        escaped = pattern[at] == "\\"
        at += escaped
        result.append((pattern[at], not escaped and pattern[at] in (ANY_TEXT, ONE_CHARACTER)))
        at += 1
    return result


def literal_prefix(pattern: str) -> str:
    """The text with which every match begins."""
    prefix = []
    for character, wild in tokens(pattern):
        if wild:
            break
        prefix.append(character)
    return "".join(prefix)


def is_literal(pattern: str) -> bool:
    """True if only one text matches (``literal_prefix`` is this text)."""
    return not any(wild for _, wild in tokens(pattern))


def is_prefix(pattern: str) -> bool:
    """True if exactly the texts beginning with ``literal_prefix`` match: wildcards only at the end, all ``%``."""
    shown = tokens(pattern)
    wild = [i for i, (_, is_wild) in enumerate(shown) if is_wild]
    return bool(wild) and wild[0] == len(shown) - len(wild) and all(shown[i][0] == ANY_TEXT for i in wild)


def fixed_text(pattern: str) -> tuple[bool, str, bool] | None:
    """For a pattern whose only wildcards are ``%`` at either end: whether any text may come before, the text between, and whether
    any may follow. None for every other pattern."""
    shown = tokens(pattern)
    start, stop = 0, len(shown)
    while start < stop and shown[start] == (ANY_TEXT, True):
        start += 1
    while stop > start and shown[stop - 1] == (ANY_TEXT, True):
        stop -= 1
    if any(wild for _, wild in shown[start:stop]):
        return None
    return start > 0, "".join(c for c, _ in shown[start:stop]), stop < len(shown)


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches. Each part between two ``%`` is searched from left to right and matched at its first place, so
    that no pattern takes longer than its length times the text's."""
    pieces: list[list[tuple[str, bool]]] = [[]]
    for character, wild in tokens(pattern):
        if wild and character == ANY_TEXT:
            pieces.append([])
        else:
            pieces[-1].append((character, wild))
    patterns = [re.compile("".join("." if wild else re.escape(c) for c, wild in piece), re.DOTALL) for piece in pieces]
    if len(patterns) == 1:
        return lambda text: patterns[0].fullmatch(text) is not None
    return lambda text: _in_order(text, patterns, len(pieces[-1]))


def _in_order(text: str, pieces: list[re.Pattern[str]], last: int) -> bool:
    """Whether the text begins with the first piece, ends with the last one (of ``last`` characters), and contains the others in
    order between."""
    first, stop = pieces[0].match(text), len(text) - last
    if first is None or stop < first.end() or pieces[-1].match(text, stop) is None:
        return False
    at = first.end()
    for piece in pieces[1:-1]:
        place = piece.search(text, at, stop)
        if place is None:
            return False
        at = place.end()
    return True


def regex_text(pattern: str) -> str:
    """The pattern as a regular expression of RE2 for a search (Arrow's own LIKE does not support escapes)."""
    wildcard = {ANY_TEXT: ".*", ONE_CHARACTER: "."}
    return "".join(["(?s)\\A", *(wildcard[c] if wild else _in_regex(c) for c, wild in tokens(pattern)), "\\z"])


def _in_regex(character: str) -> str:
    if character.isalnum() or ord(character) > 127:
        return character
    return f"\\x{ord(character):02x}"
