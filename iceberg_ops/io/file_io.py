"""Bytes at locations: the only interface to storage.

A location is the string that table metadata records (``file:/wh/t/x``, ``/wh/t/x``, ``s3://b/x``); an implementation maps it to
its store and never rewrites it. Files of a table are immutable once written, so there is no append and no update; creation is
exclusive, and the filesystem catalog builds its commit on that.

Errors: ``FileNotFoundError`` and ``FileExistsError`` from the standard library; any temporary failure is a
``CatalogUnavailableError``, or, if the store has refused the call and done nothing, a ``RefusedForNowError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Protocol, cast, runtime_checkable

from iceberg_ops.errors import CatalogUnavailableError


class RefusedForNowError(CatalogUnavailableError):
    """The store has refused the call, so nothing was done; later it may do it."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One listed file: its location, size in bytes, and last modification in milliseconds since the epoch (None: unknown)."""

    location: str
    size: int
    modified_ms: int | None


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    """A file that could not be deleted, and why. A file that was already gone is not a failure."""

    location: str
    reason: str


@runtime_checkable
class FileIO(Protocol):
    """The methods that the package needs of a store. Implementations are safe to use from several threads."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties from which ``iceberg_ops.io.load.load_file_io(properties)`` builds the same FileIO in another process."""
        ...

    def read(self, location: str) -> bytes:
        """The whole file. Raises FileNotFoundError."""
        ...

    def open_input(self, location: str) -> BinaryIO:
        """A seekable reader. Raises FileNotFoundError."""
        ...

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        """Create a file atomically: readers see all of it or nothing. Raises FileExistsError unless ``overwrite``."""
        ...

    def open_output(self, location: str) -> BinaryIO:
        """A writer of a new file, complete only after ``close()``. Parent folders are created if the store has folders. Raises
        FileExistsError, here or when it is written or closed."""
        ...

    def exists(self, location: str) -> bool:
        """Whether there is a file. An error of the store is raised, because it does not decide this."""
        ...

    def length(self, location: str) -> int:
        """Size in bytes. Raises FileNotFoundError."""
        ...

    def delete(self, location: str) -> None:
        """Delete one file; it is not an error if the file does not exist."""
        ...

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        """Delete files in bulk; returns the failures, and never raises for a single file."""
        ...

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        """Every file below ``prefix`` (taken as a folder: ``a/b`` does not list ``a/bc``), in no particular order."""
        ...

    def local_path(self, location: str) -> str | None:
        """The path on this machine's file system, if there is one (lets Arrow memory-map); else None."""
        ...


@runtime_checkable
class ListsNames(Protocol):
    """An additional method of a store with real folders, which does not open each file."""

    def list_names(self, location: str) -> list[str]:
        """Names directly below ``location``, of files and folders, in no particular order; none if it is not a folder."""
        ...


def names_in(io: FileIO, folder: str) -> list[str]:
    """Names of the files directly in ``folder``, in no particular order (in a store with real folders: of folders, too)."""
    if isinstance(io, ListsNames):
        return io.list_names(folder)
    start = len(folder.rstrip("/")) + 1
    return [name for info in io.list_prefix(folder) if "/" not in (name := info.location[start:])]


def discard_output(output: BinaryIO) -> None:
    """Discard a file that is being written (``open_output``): it is never created."""
    output.__exit__(_Discarded, _Discarded(), None)


class _Discarded(Exception):
    """The reason why an output ends without a file."""


@runtime_checkable
class ProvesExclusiveCreation(Protocol):
    """An additional method of kinds of stores of which some do not create files exclusively."""

    def prove_exclusive_creation(self, folder: str) -> None:
        """Test this in ``folder``, once. Raises UnsupportedError if an existing file would be overwritten."""
        ...


def prove_exclusive_creation(io: FileIO, folder: str) -> None:
    """Prevents commits by file name in a store in which two writers may both believe that they have created the file. Raises
    UnsupportedError, and what the store raises."""
    if isinstance(io, ProvesExclusiveCreation):
        io.prove_exclusive_creation(folder)


@runtime_checkable
class KeepsFolders(Protocol):
    """Additional methods of a store whose folders exist without files, too."""

    def make_folder(self, location: str) -> bool:
        """Make a folder and those above it, unless they exist. False if this location has no folders."""
        ...

    def remove_empty_folders(self, location: str) -> None:
        """Remove folders without files at and below ``location``, bottom up; a folder with a new file stays."""
        ...


@runtime_checkable
class ListsFolders(Protocol):
    """An additional method of a store with real folders, so that a tree can be listed in parallel."""

    def list_folder(self, location: str) -> tuple[list[str], list[FileInfo]]:
        """Folders and files directly below ``location``; nothing if it is not a folder."""
        ...


def files_in(io: FileIO, folder: str) -> list[FileInfo]:
    """The files directly in ``folder``, in no particular order."""
    if isinstance(io, ListsFolders):
        return io.list_folder(folder)[1]
    start = len(folder.rstrip("/")) + 1
    return [info for info in io.list_prefix(folder) if "/" not in info.location[start:]]


@runtime_checkable
class FarFiles(Protocol):
    """Additional methods of a store in which each request takes a round trip: several at a time take no longer than one."""

    def is_far(self, location: str) -> bool:
        """Whether a request for the file takes a round trip."""
        ...

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        """Request the file's last bytes, at least ``size`` if it has that many; each call of the result returns a reader like that
        of ``open_input`` that starts with them. Raises the errors of ``open_input``."""
        ...


def is_far(io: FileIO, location: str) -> bool:
    """Whether a request for the file at ``location`` takes a round trip."""
    return _has_far_files(type(io)) and cast(FarFiles, io).is_far(location)


@cache
def _has_far_files(kind: type[object]) -> bool:
    """Asked for each of many files; ``isinstance`` with a protocol takes ten times as long."""
    return issubclass(kind, FarFiles)


@runtime_checkable
class HoldsContent(Protocol):
    """A reader whose file may be in memory already."""

    @property
    def content(self) -> bytes | None:
        """All bytes of the file, if no request is needed for them."""
        ...
