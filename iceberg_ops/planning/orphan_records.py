"""Listed and recorded files as lines of text, which are next to each other after sorting.

A table may have more files than fit into memory as objects. So both sides become lines that begin with a common key, the coarse
identity of their path (for the checksum ``.name.crc``: that of ``name``), and sorting brings them together: a recorded file comes
before a listed one. The caller sorts in memory or on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.locations import Identity, coarse_identity, path_part

_RECORDED, _LISTED = 0, 1


@dataclass(slots=True)
class PathRecords:
    """All information about one path: ``recorded`` locations with their owner ("": the table itself), ``listed`` files."""

    recorded: dict[str, str] = field(default_factory=dict)
    listed: list[FileInfo] = field(default_factory=list)


def recorded_line(location: str, identity: Identity, owner: str = "") -> str:
    """A location that metadata refers to."""
    return json.dumps([_key(identity(location)), _RECORDED, location, owner])


def listed_line(info: FileInfo, identity: Identity) -> str:
    """An existing file."""
    return json.dumps([_key(identity(info.location)), _LISTED, info.location, info.size, info.modified_ms])


def records_by_path(lines: Iterable[str]) -> Iterator[PathRecords]:
    """Sorted lines, path by path."""
    for _, rows in groupby(map(json.loads, lines), _path):
        meeting = PathRecords()
        for _, kind, location, *more in rows:
            if kind == _RECORDED:
                meeting.recorded.setdefault(location, more[0])
            else:
                meeting.listed.append(FileInfo(location, *more))
        yield meeting


def by_path(lines: Iterable[str]) -> Iterator[Iterator[str | FileInfo]]:
    """The same without the owners, for any number of lines of one path: the locations of its recorded files, then its listed
    files."""
    for _, rows in groupby(map(json.loads, lines), _path):
        yield (location if kind == _RECORDED else FileInfo(location, *more) for _, kind, location, *more in rows)


def _path(row: list[Any]) -> Any:
    return row[0]


def _key(identity: str) -> str:
    folder, _, name = coarse_identity(identity).rpartition("/")
    return f"{folder}/{name[1:-4]}" if is_checksum(name) else f"{folder}/{name}"


def file_name(location: str) -> str:
    """An identity by which lines of files with equal names are next to each other."""
    return path_part(location).rpartition("/")[2]


def is_checksum(name: str) -> bool:
    """Whether a file name is that of a Hadoop checksum file."""
    return name.startswith(".") and name.endswith(".crc")
