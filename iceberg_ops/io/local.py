"""Files of this machine's file system (also of a mounted one).

Locations: ``/p``, ``file:/p`` and ``file:///p`` name the same file; nothing is percent-decoded, as in Hadoop.

Creation is atomic and exclusive, also against other processes: bytes go to a hidden temporary file in the same folder, which is
then hard-linked to its name (``link`` fails if the name exists). If the file system has no hard links, it is renamed by a call that
fails if the name exists (``renameat2``). Only if neither works, the name is reserved with ``O_EXCL`` and the temporary file renamed
over the reservation: a reader can see an empty file for a moment, and a crash in that moment leaves one. Nothing is fsynced: a
table survives the crash of a process, but a power failure only as far as the file system guarantees.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from iceberg_ops.errors import CatalogUnavailableError, UnsupportedError
from iceberg_ops.io.file_io import DeleteFailure, FileInfo, FileIO, KeepsFolders
from iceberg_ops.io.locations import is_absolute
from iceberg_ops.io.machine_limits import PASSING, limit_error
from iceberg_ops.io.temporary_names import temporary_name
from iceberg_ops.io.whole_output import WholeOutput

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_NO_EXCLUSIVE_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM})
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
"""Arguments of Linux's renameat2(2)."""
_FOLDER_ATTEMPTS = 20
"""How often a file's folder is created. Each removal of empty folders removes one of them once."""
_DELETE_THREADS = 8
_FAST_S, _PATIENCE_S = 0.0002, 0.01
"""A local disk deletes a file in a hundredth of a millisecond; passing it to a thread would take longer."""


def parse_local_path(location: str) -> str:
    """The file-system path that a location names. Raises UnsupportedError for another scheme or a remote host, and
    FileNotFoundError for a location with a NUL, which no name has."""
    if "\0" in location:
        raise FileNotFoundError(errno.ENOENT, "no file has a NUL in its name", location)
    if location.startswith("/"):
        return location
    if not location.startswith("file:"):
        if is_absolute(location):
            raise UnsupportedError(f"not supported: location {location} with the local FileIO, because its scheme is not file:")
        return location
    rest = location[len("file:") :]
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost") or not slash:
        raise UnsupportedError(f"not supported: location {location}, because it names a file on another host")
    return "/" + path


class LocalFileIO:
    """FileIO over the local file system. Stateless, so one instance serves all threads."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._properties = {**(properties or {}), "io-impl": "local"}

    @property
    def properties(self) -> Mapping[str, str]:
        return self._properties

    def read(self, location: str) -> bytes:
        with _typed_failures(location), open(parse_local_path(location), "rb") as f:
            return f.read()

    def open_input(self, location: str) -> BinaryIO:
        with _typed_failures(location):
            return open(parse_local_path(location), "rb")

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        output = _AtomicOutput(location, overwrite=overwrite)
        with output:
            output.write(data)

    def open_output(self, location: str) -> BinaryIO:
        if os.path.lexists(parse_local_path(location)):
            raise FileExistsError(errno.EEXIST, "file exists", location)
        return cast(BinaryIO, _AtomicOutput(location, overwrite=False))

    def exists(self, location: str) -> bool:
        """False for a name that no file can have (too long, below a file, links in a circle). Raises OSError if existence cannot
        be determined, for example in a folder that this process may not read."""
        try:
            with _typed_failures(location):
                return stat.S_ISREG(os.stat(parse_local_path(location)).st_mode)
        except OSError as e:
            if _no_such_name(e):
                return False
            raise

    def length(self, location: str) -> int:
        with _typed_failures(location):
            return os.stat(parse_local_path(location)).st_size

    def delete(self, location: str) -> None:
        with suppress(FileNotFoundError), _typed_failures(location):
            os.unlink(parse_local_path(location))

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        """One after the other while that is fast; on a slow (mounted) file system several threads delete the rest."""
        rest, answers = iter(locations), []
        until = time.perf_counter() + _PATIENCE_S
        for location in rest:
            answers.append(_try_delete(location))
            until += _FAST_S
            if time.perf_counter() > until:
                with ThreadPoolExecutor(_DELETE_THREADS, thread_name_prefix="delete") as pool:
                    answers += pool.map(_try_delete, rest)
        return [failure for failure in answers if failure is not None]

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        """Folders that are symbolic links are not followed; files that disappear in the meantime are skipped, and so are links
        without a target file."""
        folders = [prefix.rstrip("/") or "/"]
        while folders:
            below, files = self.list_folder(folders.pop())
            folders += below
            yield from files

    def list_folder(self, location: str) -> tuple[list[str], list[FileInfo]]:
        """See ``ListsFolders``."""
        return _scanned(location)

    def list_names(self, location: str) -> list[str]:
        """See ``ListsNames``."""
        try:
            with _typed_failures(location):
                return os.listdir(parse_local_path(location))
        except OSError as e:
            if _no_such_name(e):
                return []
            raise

    def local_path(self, location: str) -> str | None:
        return parse_local_path(location)


def _scanned(location: str) -> tuple[list[str], list[FileInfo]]:
    folders: list[str] = []
    files: list[FileInfo] = []
    try:
        with _typed_failures(location), os.scandir(parse_local_path(location)) as entries:
            listed = list(entries)
    except OSError as e:
        if _no_such_name(e):
            return folders, files
        raise
    above = location.rstrip("/")
    with _typed_failures(location):
        for entry in listed:
            below = f"{above}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                folders.append(below)
                continue
            with suppress(FileNotFoundError):
                if not _leads_in_a_circle(entry) and entry.is_file():
                    stat = entry.stat()
                    files.append(FileInfo(below, stat.st_size, stat.st_mtime_ns // 1_000_000))
    return folders, files


def _no_such_name(e: OSError) -> bool:
    """Whether a file of this name does not or cannot exist: the name is too long, or lies below a file."""
    return isinstance(e, FileNotFoundError | NotADirectoryError) or e.errno == errno.ENAMETOOLONG


def _leads_in_a_circle(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is an endless link: such a link is not a file, like a link without a target."""
    if not entry.is_symlink():
        return False
    try:
        entry.stat()
    except OSError as e:
        return e.errno == errno.ELOOP
    return False


def folder_links(io: FileIO, location: str) -> Iterator[str]:
    """Symbolic links to folders below ``location``, which a listing does not follow. Empty if the store has no links."""
    local = io.local_path(location)
    for folder, names, _ in os.walk(local) if local is not None else ():
        yield from (path for name in names if os.path.islink(path := os.path.join(folder, name)))


def file_identity(io: FileIO, location: str) -> tuple[int, int] | None:
    """The device and inode, which are the same for all names of one file, symbolic or hard links. None if the store has no
    links, and for a file that is gone."""
    path = io.local_path(location)
    try:
        status = None if path is None else os.stat(path)
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def may_have_other_names(io: FileIO, location: str) -> bool:
    """Whether the name is a symbolic link, or its file has several hard links."""
    path = io.local_path(location)
    try:
        return path is not None and (os.path.islink(path) or os.stat(path).st_nlink > 1)
    except OSError:
        return False


def subfolders(path: str) -> list[tuple[str, bool]]:
    """(name, whether it is a symbolic link) of each folder directly in the folder ``path``; none if it is not a folder. A circular
    link does not count. Raises CatalogUnavailableError, and OSError if the folder, or the target of a link, cannot be read."""
    folders: list[tuple[str, bool]] = []
    with suppress(FileNotFoundError, NotADirectoryError), _typed_failures(path), os.scandir(path) as entries:
        for entry in entries:
            if not _leads_in_a_circle(entry) and entry.is_dir():
                folders.append((entry.name, entry.is_symlink()))
    return folders


def remove_empty_folders(io: FileIO, location: str) -> None:
    """Remove folders without files at and below ``location``, bottom up; a folder with a new file stays. No effect if the store has
    no folders."""
    local = io.local_path(location)
    if local is None and isinstance(io, KeepsFolders):
        io.remove_empty_folders(location)
    for folder, _, _ in os.walk(local, topdown=False) if local is not None else ():
        with suppress(OSError):
            os.rmdir(folder)


def _try_delete(location: str) -> DeleteFailure | None:
    try:
        os.unlink(parse_local_path(location))
    except FileNotFoundError:
        return None
    except (OSError, UnsupportedError) as e:
        return DeleteFailure(location, str(e))
    return None


class _AtomicOutput(WholeOutput):
    """Writes a temporary file; ``close`` gives it its name."""

    def __init__(self, location: str, *, overwrite: bool) -> None:
        super().__init__()
        self._location = location
        self._overwrite = overwrite
        self._path = parse_local_path(location)
        folder = os.path.dirname(self._path) or "."
        self._temporary = os.path.join(folder, temporary_name(self._path))
        with _typed_failures(location):
            self._file = _create(self._temporary)
        self._done = False

    def write(self, data: Any) -> int:
        try:  # without a context manager: Arrow writes thousands of small pieces, and each context costs more than the write
            return self._file.write(data)
        except OSError as e:
            with _typed_failures(self._location):
                raise e

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        if not self._done:
            self._file.flush()

    def _make_file(self) -> None:
        with _typed_failures(self._location):
            self._file.close()
            _publish(self._temporary, self._path, overwrite=self._overwrite)

    def _drop(self) -> None:
        """Bytes still in memory need no room on the disk."""
        try:
            with suppress(OSError):
                self._file.close()
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._temporary)


def check_writable(location: str) -> None:
    """Raise the error if a file cannot be written at ``location`` now. Its folder is created, as in a write."""
    path = parse_local_path(location)
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location)
    _AtomicOutput(location, overwrite=True).discard()


def _create(path: str) -> BinaryIO:
    """A new file, and its folder if there is none. A concurrent removal of empty folders (``remove_empty_folders``) may remove the
    folder again before the file is in it."""
    for _ in range(_FOLDER_ATTEMPTS):
        with suppress(FileNotFoundError):
            return open(path, "xb", buffering=1 << 20)
        with suppress(FileNotFoundError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
    return open(path, "xb", buffering=1 << 20)


def _publish(temporary: str, path: str, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except OSError as e:
        if e.errno not in _NO_HARD_LINKS:
            raise
        if _rename_exclusively(temporary, path):
            return
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            os.replace(temporary, path)
        except BaseException:
            os.unlink(path)
            raise


def _rename_exclusively(temporary: str, path: str) -> bool:
    """Rename if the name is free, in one step; False if this system or file system cannot. Raises FileExistsError."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(path), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCLUSIVE_RENAME:
        return False
    raise OSError(code, os.strerror(code), path)


@contextmanager
def _typed_failures(location: str) -> Iterator[None]:
    """Name the location in errors, and turn temporary ones into CatalogUnavailableError."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "no such file", location) from None
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "file exists", location) from None
    except OSError as e:
        if e.errno == errno.EMFILE:
            raise limit_error(e, location) or e from e
        if e.errno in PASSING:
            raise CatalogUnavailableError(f"{location}: {e.strerror or e}") from e
        if e.errno == errno.ELOOP:
            raise FileNotFoundError(errno.ENOENT, "no such file, because its symbolic links form a loop", location) from None
        raise
