"""Builds a FileIO from properties, so that another process can be given the storage to use.

``io-impl`` chooses the store (``local`` is the default); ``location-mapping``, ``read-only`` and ``files-may-change`` wrap it.
Every FileIO's ``properties`` load to an equal one. A new store is one entry in ``_STORES``, imported only when it is chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from iceberg_ops.errors import OptionError
from iceberg_ops.io.changing_files import FILES_MAY_CHANGE, ChangingFilesIO
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.mapped import LOCATION_MAPPING, MappedFileIO
from iceberg_ops.io.read_only import READ_ONLY, ReadOnlyFileIO

IO_IMPL = "io-impl"


def load_file_io(properties: Mapping[str, str] | None = None) -> FileIO:
    """Build the FileIO that ``properties`` describe; unknown keys are ignored, because they may be for others. Raises
    OptionError."""
    properties = properties or {}
    name = properties.get(IO_IMPL, "local")
    if name not in _STORES:
        raise OptionError(f"{IO_IMPL} {name!r} is not known: must be one of {', '.join(sorted(_STORES))}")
    found = _STORES[name](properties)
    if text := properties.get(LOCATION_MAPPING):
        found = MappedFileIO(found, _mapping(text))
    if properties.get(FILES_MAY_CHANGE) == "true":
        return ChangingFilesIO(found)
    return ReadOnlyFileIO(found) if properties.get(READ_ONLY, "").lower() == "true" else found


def _mapping(text: str) -> list[tuple[str, str]]:
    try:
        return [(str(recorded), str(actual)) for recorded, actual in json.loads(text)]
    except (ValueError, TypeError):
        raise OptionError(f"{LOCATION_MAPPING} {text!r}: must be a JSON list of [from, to] pairs") from None


def _local(properties: Mapping[str, str]) -> FileIO:
    from iceberg_ops.io.local import LocalFileIO  # noqa: PLC0415 - a back-end chosen by name

    kept = {k: v for k, v in properties.items() if k not in (LOCATION_MAPPING, READ_ONLY, FILES_MAY_CHANGE)}
    return LocalFileIO(kept)


def _memory(properties: Mapping[str, str]) -> FileIO:
    from iceberg_ops.io.memory import NAME, MemoryFileIO  # noqa: PLC0415 - a back-end chosen by name

    return MemoryFileIO(properties.get(NAME, "default"))


_STORES: dict[str, Callable[[Mapping[str, str]], FileIO]] = {"local": _local, "memory": _memory}
