"""Globs over table names, with the policy's matcher (``fnmatch``).

``*`` is any text, dots included, ``?`` one character, ``[ab]`` one of these, ``[!ab]`` any other. This module checks whether a
glob can match a name at all; otherwise a typing error in a glob would be silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

_ANY = "*"
_PROBES = "a0_-Z~é"


def glob_problem(pattern: str) -> str | None:
    """Why a text is not a glob over names; None for a valid one."""
    if pattern != pattern.strip() or not pattern:
        return "must not begin or end with a space"
    if "{" in pattern or "}" in pattern:
        return "braces are no part of a glob: write an entry for each name"
    if "[" in _tokens(pattern):
        return "[ is never closed by ]: the matcher would look for a name with a bracket"
    return None


def may_match(pattern: str, catalog: str | None = None) -> bool:
    """Whether the glob matches some ``catalog.namespace.name``; ``catalog`` None: of any catalog."""
    tokens = _tokens(pattern)
    prefix = "" if catalog is None else f"{catalog}."
    places = {0}
    for character in prefix:
        places = {after for place in places for after in _after(tokens, place, character)}
    # The rest must match names joined by dots: the remaining dots, with text between them.
    dots = 2 if catalog is None else 1
    last = len(tokens) - (tokens[-1:] == [_ANY])
    """From here on the glob has matched: at its end, or at a final star."""
    seen: set[tuple[int, int, bool]] = set()
    todo = [(place, 0, False) for place in places]
    while todo:
        place, passed_dots, inside = todo.pop()
        if (place, passed_dots, inside) in seen:
            continue
        seen.add((place, passed_dots, inside))
        if inside and passed_dots >= dots and place >= last:
            return True
        todo += [(after, passed_dots, True) for after in _after(tokens, place, None)]
        if inside:
            todo += [(after, min(passed_dots + 1, dots), False) for after in _after(tokens, place, ".")]
    return False


def _after(tokens: list[str], place: int, character: str | None) -> Iterator[int]:
    """Places in the glob after matching a character at ``place``; None: any character except a dot."""
    while place < len(tokens) and tokens[place] == _ANY:
        yield place  # the star matches this character, and may match more
        place += 1
    if place < len(tokens) and _takes(tokens[place], character):
        yield place + 1


def _takes(token: str, character: str | None) -> bool:
    if character is not None:
        return fnmatchcase(character, token) if len(token) > 1 or token == "?" else token == character
    return any(_takes(token, probe) for probe in {*token, *_PROBES} - {"."})


def _tokens(pattern: str) -> list[str]:
    """The glob in parts that match one character each, and stars. Adjacent stars become one; otherwise each place among them would
    be tried from each. An unclosed ``[`` stands for itself, as in ``fnmatch``."""
    tokens: list[str] = []
    i = 0
    while i < len(pattern):
        end = i + 1
        if pattern[i] == "[":
            close = pattern.find("]", i + 2 + (pattern[i + 1 : i + 2] == "!"))
            end = close + 1 if close > 0 else end
        if pattern[i] != _ANY or tokens[-1:] != [_ANY]:
            tokens.append(pattern[i:end])
        i = end
    return tokens
