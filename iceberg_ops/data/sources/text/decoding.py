"""Bytes of a source as text."""

from __future__ import annotations

import codecs
import re

from iceberg_ops.data.sources.text.parsed import BadRecord, NotAValueError

_MARK = "\ufeff"
"""What some programs put before text, to say that it is UTF-8."""
_NOT_ITS_ENCODING = "is not text in the source's encoding"
_LINE_END = re.compile("\r\n|\r|\n")


def decoded(raw: bytes, encoding: str, *, begins: bool = True) -> str | BadRecord:
    """The text of a line, or of a whole file; a bad record for bytes that the encoding does not have. Where a file ``begins``, a
    byte order mark is no part of the text."""
    mark = _MARK if begins else ""
    try:
        return raw.decode(encoding).removeprefix(mark)
    except UnicodeError:
        return BadRecord(f"{_NOT_ITS_ENCODING} ({encoding})", raw.decode(encoding, "replace").removeprefix(mark))


def without_mark(raw: bytes) -> bytes:
    """The first line of a file without a byte order mark."""
    return raw.removeprefix(codecs.BOM_UTF8)


def lines_of(raw: bytes, encoding: str) -> list[bytes]:
    """A whole text cut into lines, which are UTF-8: for encodings in which a line feed is no single byte. Raises NotAValueError for
    bytes that the encoding does not have."""
    text = decoded(raw, encoding)
    if isinstance(text, BadRecord):
        raise NotAValueError(text.reason)
    return [line.encode() for line in _LINE_END.split(text)]
