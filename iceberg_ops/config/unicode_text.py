"""Text that UTF-8 can hold.

Python reads bytes of another encoding, and an escape of half of a surrogate pair, as lone surrogates: they can be written into no
metadata, no data file and no report.
"""

from __future__ import annotations


def is_unicode(text: str) -> bool:
    """Whether ``text`` has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
