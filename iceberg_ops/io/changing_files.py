"""A FileIO for files of somebody else, who may write them again while they are read: sources, and files that are being imported.

Such a file is never mapped into memory: where one that is mapped is cut short, the system ends the process (SIGBUS), and nothing is
left to say why. Read piece by piece it is an error as any other. Nothing is written there.
"""

from __future__ import annotations

from collections.abc import Mapping

from iceberg_ops.io.read_only import ReadOnlyFileIO

FILES_MAY_CHANGE = "files-may-change"
"""Property (``true``) under which ``load_file_io`` wraps a FileIO into this one."""


class ChangingFilesIO(ReadOnlyFileIO):
    """``inner`` without its changing half; its properties tell readers not to map files."""

    @property
    def properties(self) -> Mapping[str, str]:
        return {**super().properties, FILES_MAY_CHANGE: "true"}
