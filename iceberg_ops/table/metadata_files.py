"""Table metadata files: their locations and names, reading and writing them, and finding the newest one in a folder.

Names: ``<V>-<uuid>.metadata.json`` for tables of a catalog (COMMIT-21), ``v<V>.metadata.json`` for file-system tables (COMMIT-20);
``.gz`` before ``.metadata.json`` or after it if the JSON is compressed (META-36). A catalog decides which file is current;
``table_from_path`` is for folders without a catalog, and returns a table that cannot be written.
"""

from __future__ import annotations

import re
import uuid

from iceberg_ops.config import properties
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import CorruptTableError, NoSuchTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import below
from iceberg_ops.io.read_only import ReadOnlyFileIO
from iceberg_ops.serde.json.metadata_json import metadata_from_json, metadata_to_json
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.stored_files import named_failures, read_stored
from iceberg_ops.table.table import Table

VERSION_HINT = "version-hint.text"
LEDGER_FILE_NAME = "_iceberg-ops-ledger-{}.json.gz"
"""Name of a file that records run keys."""
_SUFFIX = re.compile(r"(\.gz)?\.metadata\.json(\.gz)?$")
_HADOOP = re.compile(r"v(\d+)$")
_CATALOG = re.compile(r"(?![0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$)(\d+)-.+$", re.IGNORECASE)
"""Excludes a file-system table's temporary file: its name is only a uuid, which may begin with digits."""
_HIGHEST_VERSION = 2**31 - 1


def metadata_folder(metadata: TableMetadata) -> str:
    """The folder of metadata files, manifests and manifest lists: ``write.metadata.path`` or ``<location>/metadata``
    (COMMIT-22)."""
    return below(metadata.location, properties.METADATA_PATH.maybe(metadata.properties) or "metadata")


def data_folder(metadata: TableMetadata) -> str:
    """The folder of data files: ``write.data.path`` or ``<location>/data``."""
    return below(metadata.location, properties.DATA_PATH.maybe(metadata.properties) or "data")


def ledger_files(metadata: TableMetadata) -> tuple[str, ...]:
    """Files with run keys that the table's properties name."""
    return tuple(v for k, v in metadata.properties.items() if k.startswith(properties.LEDGER_FILE_PREFIX))


def is_ledger_file(location: str) -> bool:
    """Whether a location has the name of a file that records run keys."""
    before, after = LEDGER_FILE_NAME.split("{}")
    name = location.rsplit("/", 1)[-1]
    return name.startswith(before) and name.endswith(after)


def is_metadata_file(location: str) -> bool:
    """Whether a location has the name of a metadata file."""
    return _SUFFIX.search(location) is not None


def parse_version(location: str) -> int | None:
    """The version in a metadata file's name; None if it has none."""
    stem = _SUFFIX.sub("", location.rsplit("/", 1)[-1])
    match = _HADOOP.match(stem) or _CATALOG.match(stem)
    return parse_count(match[1]) if match else None


def new_metadata_location(metadata: TableMetadata, version: int) -> str:
    """A fresh location for version ``version``, compressed or not as ``write.metadata.compression-codec`` says."""
    return f"{metadata_folder(metadata)}/{version:05d}-{uuid.uuid4()}{metadata_suffix(metadata)}"


def metadata_suffix(metadata: TableMetadata) -> str:
    """``.metadata.json`` or ``.gz.metadata.json``."""
    return ".gz.metadata.json" if properties.METADATA_COMPRESSION.of(metadata.properties) == "gzip" else ".metadata.json"


def read_metadata(io: FileIO, location: str) -> TableMetadata:
    """The metadata in that file. Raises CorruptTableError if the file is missing, cannot be read or breaks the spec."""
    return metadata_from_json(read_stored(io, location, "metadata file"), location)


def write_metadata(io: FileIO, location: str, metadata: TableMetadata) -> None:
    """Create the file; its name decides whether it is compressed. Raises FileExistsError."""
    suffix = _SUFFIX.search(location)
    io.write(location, metadata_to_json(metadata, compress=bool(suffix and (suffix[1] or suffix[2]))))


def table_from_path(path: str, io: FileIO) -> Table:
    """The table of a metadata file (with any name before ``.json``), of a table folder or of its metadata folder.

    In a folder the highest version wins, among equal versions the metadata updated last; a version hint that is not a number names
    the file. Raises NoSuchTableError if the path holds no metadata, CorruptTableError if the hint names a higher version than there
    is.
    """
    path = path.rstrip("/") or path
    read_only = io if isinstance(io, ReadOnlyFileIO) else ReadOnlyFileIO(io)
    is_file = is_metadata_file(path) or (path.endswith((".json", ".json.gz")) and _is_file(path, io))
    location = path if is_file else _newest(path, io)
    with named_failures(location, "metadata file"):
        there = io.exists(location)
    if not there:
        raise NoSuchTableError(f"there is no metadata file {location}")
    folder = path.rsplit("/", 1)[0] if is_file else path
    name = folder.removesuffix("/metadata").rsplit("/", 1)[-1]
    return Table(("path", name), read_metadata(io, location), location, read_only)


def _is_file(path: str, io: FileIO) -> bool:
    return io.exists(path) and not any(True for _ in io.list_prefix(f"{path}/"))


def _newest(path: str, io: FileIO) -> str:
    for folder in (f"{path}/metadata", path):
        files = _metadata_files(folder, io)
        if files:
            return _hinted(folder, files, io) or _highest(files, io)
    raise NoSuchTableError(f"{path} holds no table: there is no metadata file in it or in its metadata folder")


def _metadata_files(folder: str, io: FileIO) -> dict[str, str]:
    """File name without suffix -> location, for the files right in ``folder``."""
    files = {}
    for file in io.list_prefix(folder):
        name = file.location[len(folder) + 1 :]
        if "/" not in name and is_metadata_file(name) and not name.startswith("."):
            files[_SUFFIX.sub("", name)] = file.location
    return files


def hinted_version(data: bytes) -> int | None:
    """The version in a version hint; None if it has none. A number beyond Iceberg Java's versions (32 bits) does not count."""
    version = parse_count(data.decode("utf-8", "replace").strip())
    return None if version is None or version > _HIGHEST_VERSION else version


def _hinted(folder: str, files: dict[str, str], io: FileIO) -> str | None:
    try:
        data = io.read(f"{folder}/{VERSION_HINT}")
    except OSError:
        return None  # a hint, whatever is wrong with it
    if (version := hinted_version(data)) is None:
        hint = data.decode("utf-8", "replace").strip()
        return files.get(hint) or files.get(_SUFFIX.sub("", hint))
    newest = max((parse_version(location) or 0 for location in files.values()), default=0)
    if version > newest:
        raise CorruptTableError(
            f"{folder}/{VERSION_HINT} says version {version}, but the highest version there is {newest}: the metadata file of "
            f"version {version} is missing. Name the metadata file of the version to be read instead of the folder"
        )
    return None


def _highest(files: dict[str, str], io: FileIO) -> str:
    best = max(parse_version(location) or 0 for location in files.values())
    candidates = sorted(location for location in files.values() if (parse_version(location) or 0) == best)
    if len(candidates) == 1:
        return candidates[0]
    return max(candidates, key=lambda location: (read_metadata(io, location).last_updated_ms, location))
