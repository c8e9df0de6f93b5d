"""Reads a file of Java's properties, such as ``spark-defaults.conf``. Source: ``java.util.Properties.load``."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_BETWEEN = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Key -> value; the last value of a repeated key wins. Values are stripped of spaces, as in Spark."""
    properties = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None, "it matches the empty text"
        between = _BETWEEN.match(line, key.end())
        assert between is not None, "it matches the empty text"
        properties[_plain(key[0])] = _plain(line[between.end() :]).strip(" \t\f")
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; a line that ends with an odd number of backslashes continues in the next line."""
    begun = ""
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        begun += line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
        else:
            yield begun
            begun = ""
    if begun:
        yield begun


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _NAMED.get(m[1], m[1]), text)
