"""Builds a FileIO from properties, so that another process can be given the storage to use.

``io-impl`` chooses the store; by default each location's scheme does (``resolving``). Names of Java's classes are understood.
``location-mapping``, ``read-only`` and ``files-may-change`` wrap it. Every FileIO's ``properties`` load to an equal one. A new
store is one entry in ``_STORES``, imported only when it is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from iceberg_ops.errors import OptionError
from iceberg_ops.io.changing_files import FILES_MAY_CHANGE, ChangingFilesIO
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.mapped import LOCATION_MAPPING, MappedFileIO
from iceberg_ops.io.read_only import READ_ONLY, ReadOnlyFileIO
from iceberg_ops.io.renewal import Renewal, RenewsCredentials
from iceberg_ops.io.resolving import NAME as RESOLVING
from iceberg_ops.io.resolving import ResolvingFileIO, hdfs, object_store
from iceberg_ops.io.stores.settings import flag

IO_IMPL = "io-impl"
JAVA_NAMES = {
    "org.apache.iceberg.aws.s3.S3FileIO": "s3",
    "org.apache.iceberg.gcp.gcs.GCSFileIO": "gcs",
    "org.apache.iceberg.azure.adlsv2.ADLSFileIO": "azure",
    "org.apache.iceberg.io.ResolvingFileIO": RESOLVING,
    "org.apache.iceberg.hadoop.HadoopFileIO": RESOLVING,
}
"""What a catalog that is shared with Java engines calls a FileIO, and what it is called here."""


def load_file_io(properties: Mapping[str, str] | None = None, renewal: Renewal | None = None) -> FileIO:
    """Build the FileIO that ``properties`` describe; unknown keys are ignored, because they may be for others. ``renewal``: returns
    them with renewed credentials. Raises OptionError."""
    properties = properties or {}
    name = properties.get(IO_IMPL, RESOLVING)
    name = JAVA_NAMES.get(name, name)
    if name not in _STORES:
        raise OptionError(f"{IO_IMPL} {name!r} is not known: must be one of {', '.join(sorted(_STORES))}")
    io = _STORES[name](properties)
    if renewal is not None and isinstance(io, RenewsCredentials):
        io.renew_with(renewal)
    if text := properties.get(LOCATION_MAPPING):
        io = MappedFileIO(io, _mapping(text))
    if properties.get(FILES_MAY_CHANGE) == "true":
        return ChangingFilesIO(io)
    return ReadOnlyFileIO(io) if flag(properties, READ_ONLY, False) else io


def _mapping(text: str) -> list[tuple[str, str]]:
    try:
        return msgspec.json.decode(text, type=list[tuple[str, str]])
    except msgspec.DecodeError:
        raise OptionError(f"{LOCATION_MAPPING} {text!r}: must be a JSON list of [from, to] pairs") from None


def _local(properties: Mapping[str, str]) -> FileIO:
    from iceberg_ops.io.local import LocalFileIO  # noqa: PLC0415 - a back-end chosen by name

    return LocalFileIO(_kept(properties))


def _resolving(properties: Mapping[str, str]) -> FileIO:
    return ResolvingFileIO(_kept(properties))


def _kept(properties: Mapping[str, str]) -> dict[str, str]:
    """Without those of the wrappers."""
    return {k: v for k, v in properties.items() if k not in (LOCATION_MAPPING, READ_ONLY, FILES_MAY_CHANGE)}


def _memory(properties: Mapping[str, str]) -> FileIO:
    from iceberg_ops.io.memory import NAME, MemoryFileIO  # noqa: PLC0415 - a back-end chosen by name

    return MemoryFileIO(properties.get(NAME, "default"))


def _store(name: str) -> Callable[[Mapping[str, str]], FileIO]:
    return lambda properties: object_store(name, _kept(properties))


_STORES: dict[str, Callable[[Mapping[str, str]], FileIO]] = {
    "azure": _store("azure"),
    "gcs": _store("gcs"),
    "hdfs": lambda properties: hdfs(_kept(properties)),
    "local": _local,
    "memory": _memory,
    RESOLVING: _resolving,
    "s3": _store("s3"),
}
