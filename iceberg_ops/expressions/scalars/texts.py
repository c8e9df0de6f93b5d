"""Spark's functions of text: characters are code points, positions count from 1."""

from __future__ import annotations

from unicodedata import category

from iceberg_ops.expressions.literal_text import NotFolded

_LAST = 2**31 - 1
_NEWLY_CASED = frozenset("\u019b\u0264\u1c89\u1c8a")
_NEWER = (("\ua7c0", "\ua7ff"), ("\U00010d50", "\U00010d85"))
"""Characters with a different case in Unicode 16, which Spark 4 uses, but not in Python's version."""


def upper(text: str) -> str:
    return text.upper() if text.isascii() else _cased(text, text.upper())


def lower(text: str) -> str:
    if "Σ" in text:
        raise NotFolded("lower case of 'Σ'")  # it differs at the end of a word
    return text.lower() if text.isascii() else _cased(text, text.lower())


def _cased(text: str, changed: str) -> str:
    """Raises NotFolded if the case of a character depends on the version of Unicode, or on its neighbours."""
    for c in text:
        if c in _NEWLY_CASED or any(first <= c <= last for first, last in _NEWER) or _is_unassigned(c):
            raise NotFolded(f"upper or lower case of {c!r}")
    return changed


def _is_unassigned(c: str) -> bool:
    """A later version of Unicode may define it as a letter (except the last two of a plane)."""
    return category(c) == "Cn" and ord(c) & 0xFFFE != 0xFFFE


def trim(text: str) -> str:
    """Without spaces (only U+0020) at its ends."""
    return text.strip(" ")


def ltrim(text: str) -> str:
    return text.lstrip(" ")


def rtrim(text: str) -> str:
    return text.rstrip(" ")


def substring(text: str, start: int, length: int = _LAST) -> str:
    """From the ``start``-th character on; below 0 it counts from the end, 0 is the first. Positions before the text count."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = min(first + length, _LAST)
    return text[max(first, 0) : max(end, 0)]


def left(text: str, length: int) -> str:
    return text[: max(length, 0)]


def right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def replace(text: str, searched: str, replacement: str = "") -> str:
    return text.replace(searched, replacement) if searched else text


def instr(text: str, searched: str) -> int:
    """The position of the first ``searched``, 0 if there is none."""
    return text.find(searched) + 1


def starts_with(text: str, prefix: str) -> bool:
    return text.startswith(prefix)


def ends_with(text: str, suffix: str) -> bool:
    return text.endswith(suffix)


def contains(text: str, part: str) -> bool:
    return part in text


def concat(*parts: str) -> str:
    return "".join(parts)


def reverse(text: str) -> str:
    return text[::-1]
