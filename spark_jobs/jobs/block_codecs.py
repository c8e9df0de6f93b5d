"""Checks that a text file that Hadoop decompresses in blocks consists of such blocks.

Snappy and LZ4 have several file forms. For the names ``.snappy`` and ``.lz4`` Hadoop supports one: a block's length, the length of
its first part, and that part. In any other form it takes the first bytes for lengths, and may find no text at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from iceberg_ops.errors import DataError

_IN_BLOCKS = (".snappy", ".lz4")
_LENGTHS = 8
"""Bytes of the two lengths."""
_LZ4_FRAMES = frozenset({0x04224D18, 0x02214C18})
"""The first bytes of LZ4's own files, read as a length. In a large file the next bytes may look like a part's length."""


def check_blocks(session: SparkSession, files: Iterable[str]) -> None:
    """``files``: URIs, as Spark lists them. Raises DataError for a file in another form, whose rows would be lost."""
    jvm: Any = session._jvm
    for file in files:
        if not file.endswith(_IN_BLOCKS):
            continue
        where = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI.create(file))
        store = where.getFileSystem(session._jsc.sc().hadoopConfiguration())
        rest = store.getFileStatus(where).getLen() - _LENGTHS
        if rest <= 0:
            continue
        stream = store.open(where)
        try:
            whole, first = stream.readInt(), stream.readInt()
        finally:
            stream.close()
        if whole in _LZ4_FRAMES or (whole and not (whole > 0 and 0 < first <= rest)):
            raise DataError(
                f"source {unquote(file)} is not in the form that Hadoop gives files of that name (blocks with their lengths before "
                f"them): decompress it, or compress it by gzip, bzip2 or zstd"
            )
