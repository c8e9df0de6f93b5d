"""Decodes the bytes of a source to text."""

from __future__ import annotations

import codecs
import re

from iceberg_ops.data.sources.text.parsed import BadRecord, NotAValueError

_MARK = "\ufeff"
"""The byte order mark that some programs put before UTF-8 text."""
_NOT_ITS_ENCODING = "is not text in the source's encoding"
_IS_PACKED = "is packed by"
_PACKED = {
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf'\x1c": "7z",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"(\xb5/\xfd": "zstd",
}
"""The first bytes of compressed files, and the program that wrote them."""
_LINE_END = re.compile("\r\n|\r|\n")


def decoded(raw: bytes, encoding: str, *, begins: bool = True) -> str | BadRecord:
    """The text of a line, or of a whole file; a bad record for bytes that are not valid in the encoding. If a file ``begins``, a
    byte order mark is not part of the text."""
    mark = _MARK if begins else ""
    try:
        return raw.decode(encoding).removeprefix(mark)
    except UnicodeError:
        return BadRecord(_not_text(raw, encoding), raw.decode(encoding, "replace").removeprefix(mark))


def _not_text(raw: bytes, encoding: str) -> str:
    packed = next((how for begin, how in _PACKED.items() if raw.startswith(begin)), None)
    if packed is None:
        return f"{_NOT_ITS_ENCODING} ({encoding})"
    return f"{_IS_PACKED} {packed}, and files are unpacked by their names (.gz, .bz2): unpack it, or pack it under such a name"


def is_packed(record: BadRecord) -> bool:
    """Whether it is the first line of a compressed file."""
    return record.reason.startswith(_IS_PACKED)


def without_mark(raw: bytes) -> bytes:
    """The first line of a file without a byte order mark."""
    return raw.removeprefix(codecs.BOM_UTF8)


def split_lines(raw: bytes, encoding: str) -> list[bytes]:
    """A whole text cut into UTF-8 lines, for encodings in which a line feed is not a single byte. Raises NotAValueError for
    bytes that are not valid in the encoding."""
    text = decoded(raw, encoding)
    if isinstance(text, BadRecord):
        raise NotAValueError(text.reason)
    return [line.encode() for line in _LINE_END.split(text)]
