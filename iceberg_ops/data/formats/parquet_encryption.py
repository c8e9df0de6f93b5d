"""Parquet files of which columns are encrypted, under a footer that can be read.

Arrow opens such a file without a key, and ends the process (``std::terminate``) where the metadata of an encrypted column is asked
for. So whoever opens a file asks here first. A signature follows the footer of such a file (Parquet: "Encrypted files with
plaintext footer"), which no other file has. A file whose footer is encrypted as well cannot be opened.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow.parquet as pq

_TAIL, _SIGNATURE = 8, 28
"""Bytes: the footer's length and the magic at the end of a file; a nonce of 12 and a tag of 16."""


def has_encrypted_columns(metadata: pq.FileMetaData, source: Any) -> bool:
    """Whether a file has; ``source`` is open for reading and is left where the footer's length ends."""
    source.seek(-_TAIL, os.SEEK_END)
    length = int.from_bytes(source.read(_TAIL)[:4], "little")
    return bool(length == metadata.serialized_size + _SIGNATURE)


def file_has_encrypted_columns(metadata: pq.FileMetaData, path: str) -> bool:
    """The same of a local file. Raises OSError."""
    with open(path, "rb") as source:
        return has_encrypted_columns(metadata, source)
