"""Detects Parquet files with encrypted columns and a readable footer.

Arrow opens such a file without a key, and ends the process (``std::terminate``) when the metadata of an encrypted column is read.
So every file is checked here first. A signature follows the footer of such a file (Parquet: "Encrypted files with plaintext
footer"), and of no other file. A file whose footer is also encrypted cannot be opened.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow.parquet as pq

_TAIL, _SIGNATURE = 8, 28
"""Bytes: the footer's length and the magic at the end of a file; a nonce of 12 and a tag of 16."""


def has_encrypted_columns(metadata: pq.FileMetaData, source: Any) -> bool:
    """Whether a file has encrypted columns; ``source`` is open for reading and is left at the end of the footer's length."""
    source.seek(-_TAIL, os.SEEK_END)
    length = int.from_bytes(source.read(_TAIL)[:4], "little")
    return bool(length == metadata.serialized_size + _SIGNATURE)


def file_has_encrypted_columns(metadata: pq.FileMetaData, path: str) -> bool:
    """The same for a local file. Raises OSError."""
    with open(path, "rb") as source:
        return has_encrypted_columns(metadata, source)
