"""Parses integers: the only place where text from metadata, options, file names and other engines becomes an int.

Python's own parser accepts more than any writer of the format: it treats superscripts as digits in one test and not in the next,
reads ``1_000``, and raises ValueError for more than 4,300 digits. Here a number is ASCII digits with an optional sign, and fits
into the 64 bits that Java uses for it.
"""

from __future__ import annotations

import re

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
EXACT_MAX = 2**53
"""Every integer up to this one is exact as a double."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def whole_number(text: str, most: int = LONG_MAX) -> int | None:
    """The integer in ``text``; None if it is not an integer, or not between ``-most - 1`` and ``most``."""
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if -most - 1 <= number <= most else None


def parse_count(text: str | None) -> int | None:
    """An integer of 0 or more; None for anything else."""
    number = None if text is None else whole_number(text)
    return None if number is None or number < 0 else number
