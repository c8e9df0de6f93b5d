"""A FileIO for files of other writers, who may rewrite them while they are read: sources, and files that are being imported.

Such a file is never mapped into memory: if a mapped file is truncated, the system ends the process (SIGBUS) without an error
message. If it is read piece by piece, the truncation is an ordinary error. This FileIO writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from iceberg_ops.io.read_only import ReadOnlyFileIO

FILES_MAY_CHANGE = "files-may-change"
"""Property (``true``) for which ``load_file_io`` wraps a FileIO into this one."""


class ChangingFilesIO(ReadOnlyFileIO):
    """``inner`` without the methods that change files; its properties tell readers not to map files."""

    @property
    def properties(self) -> Mapping[str, str]:
        return {**super().properties, FILES_MAY_CHANGE: "true"}
