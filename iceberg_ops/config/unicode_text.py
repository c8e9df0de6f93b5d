"""Text that UTF-8 can encode.

Python reads bytes in another encoding, and an escape of half of a surrogate pair, as lone surrogates: they cannot be written to
metadata, data files or reports.
"""

from __future__ import annotations


def is_unicode(text: str) -> bool:
    """Whether ``text`` has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
