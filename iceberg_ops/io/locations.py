"""Decides whether two recorded locations name the same file.

Writers of one table spell a location in several ways: ``hdfs://host:port/p`` and ``/p``, ``file:/p`` and ``file:///p``, ``s3a://``
and ``s3://``; ``write.data.path`` holds ``//`` or ``/../``; a warehouse is reached through a symbolic link or a mount table
(``viewfs``); a copied table is read through a mapping of prefixes. Locations are therefore compared by identity and never
rewritten. ``identity_under`` is the one function for all code that has the table's storage; ``location_identity`` is its part that
needs no storage.

A file that is itself a link has its own identity: deleting it removes the link. But code that keeps the link must also keep its
target (``links_under``).

Two locations of equal identity are the same file. The reverse does not always hold: it is not known here whether ``a%20b`` in one
engine is ``a b`` in another. So code that deletes files also compares ``coarse_identity``, which is equal for all spellings
that any engine may treat as one file, and keeps files that are equal only there.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable
from urllib.parse import unquote

from iceberg_ops.errors import BadInputError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.hadoop_settings import SCHEMES as HDFS_SCHEMES
from iceberg_ops.io.hadoop_settings import HadoopSettings
from iceberg_ops.io.mapped import LOCATION_MAPPING, MappedFileIO

Identity = Callable[[str], str]
Links = Callable[[str], tuple[str, ...]]

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?://([^/]*))?")
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_FILE_SYSTEMS = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs"})
"""Schemes whose authority is ignored: writers of one table spell it differently, or omit it."""
_AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})
_S3 = frozenset({"s3", "s3a", "s3n"})
_WITH_LOCAL_FILES = frozenset({"local", "resolving"})
"""``io-impl`` of those that serve files of this machine."""
_WITH_HDFS = frozenset({"hdfs", "resolving"})
"""``io-impl`` of those that serve HDFS."""
_MOUNTED = "viewfs:"
_MOST_FOLDERS = 100_000
_KNOWN_FOR_S = 60.0
_LOOKED_AT_ONE_BY_ONE = 64
_NO_LINK = frozenset({errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def is_absolute(location: str) -> bool:
    """Whether a location means the same in every working folder: a path from the root, a URI (``scheme://``), or the URI of a file
    system without authority (``file:/p``, ``hdfs:/p``). A colon alone does not make a URI: ``day=10:30`` and ``bk:1/f`` are
    paths."""
    if location.startswith("/") or _URI.match(location):
        return True
    scheme, _, rest = location.partition(":")
    return rest.startswith("/") and scheme.lower() in _FILE_SYSTEMS


def below(folder: str, path: str) -> str:
    """The location of a table property such as ``write.data.path``: an absolute location, or a path below the table's
    ``folder``."""
    if is_absolute(path):
        return path.rstrip("/")
    return f"{folder.rstrip('/')}/{_without_scheme(path).strip('/')}"


def location_identity(location: str) -> str:
    """A text that is equal for two spellings of one file, as far as the text alone shows it.

    File systems (``file``, ``hdfs``, ``viewfs``, ``webhdfs`` and plain paths): the path without scheme and authority, with ``//``,
    ``/./`` and ``/../`` resolved. Azure (``abfs[s]``, ``wasb[s]``): one scheme, container and account, and the path resolved. S3
    (``s3``, ``s3a``, ``s3n``): one scheme; the key stays, because ``a//b`` and ``a/b`` are two objects. Every other location is
    unchanged."""
    if location.startswith("/"):
        return resolved(location)
    m = _SCHEME.match(location)
    if m is None or not is_absolute(location):
        return resolved(_without_scheme(location))
    scheme, rest = m[1].lower(), location[m.end() :]
    if scheme in _FILE_SYSTEMS and rest.startswith("/"):
        return resolved(rest)
    if scheme in _S3:
        return f"s3://{m[2] or ''}{rest}"
    if scheme in _AZURE and m[2]:
        return f"abfs://{_azure_authority(m[2])}{resolved(rest)}"
    return location


class KnownFolders:
    """The targets of links to local folders at their first look-up. One look-up serves all locations that are compared with each
    other; a link may be changed later, so the result is not kept for the life of the process."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.real: dict[str, str] = {}
        """Folder, as it is spelled -> the folder without symbolic links; only existing folders."""


def known_folders() -> KnownFolders:
    """The process's current knowledge of folders: since the last job began, and for no more than a minute."""
    global _known  # noqa: PLW0603 - one look serves all threads
    known = _known
    if time.monotonic() - known.since > _KNOWN_FOR_S or len(known.real) >= _MOST_FOLDERS:
        _known = known = KnownFolders()
    return known


def look_at_folders_again() -> None:
    """Identities that are created after this follow the current links; existing identities do not change."""
    global _known  # noqa: PLW0603 - one look serves all threads
    _known = KnownFolders()


def identity_under(io: FileIO, folders: KnownFolders | None = None, *, deletes: bool = False) -> Identity:
    """Identity of the locations that ``io`` serves: after its prefix mapping, in HDFS instead of a mount table, and on this machine
    with the symbolic links of folders followed, as recorded in ``folders`` (None: the process's own). One identity function always
    gives the same result. It looks through wrappers of a FileIO, because it uses ``io.properties``.

    ``deletes``: files whose identity no recorded location has may be deleted. Then it raises UnsupportedError for a location whose
    place Hadoop's settings do not show (no such mount table, no such folder in it), because it may be any of them."""
    identity: Identity = location_identity
    if _has_local_files(io):
        identity = _LocalIdentity(known_folders() if folders is None else folders)
    resolve = _found_by(io, deletes)
    return identity if resolve is None else lambda location: identity(resolve(location))


def on_one_file_system(io: FileIO, one: str, other: str) -> bool:
    """Whether two locations of equal identity are certainly one file, or one folder.

    Identity ignores the authority of HDFS, so that no file is deleted that an engine spells in another way. It is not a proof that
    a file belongs to the table: a warehouse that was copied to another cluster has equal paths there. Authorities are compared by
    Hadoop's settings; authorities that these do not identify with each other count as two file systems."""
    resolve = _found_by(io) or str
    one, other = resolve(one), resolve(other)
    return _scheme_and_authority(one) == _scheme_and_authority(other) or _file_system(io, one) == _file_system(io, other)


def is_in_hdfs(io: FileIO, location: str) -> bool:
    """Whether ``io`` finds a location in HDFS."""
    return _file_system(io, _mapped_by(io)(location))[0] in HDFS_SCHEMES


def absolute_under(io: FileIO, location: str) -> str:
    """A location that means the same in every working folder: a relative one of the local file system is resolved in this one."""
    if is_absolute_under(io, location):
        return location
    path = os.path.normpath(_absolute(_without_scheme(location)))
    return f"file:{path}" if _without_scheme(location) != location else path


def is_absolute_under(io: FileIO, location: str) -> bool:
    """``is_absolute`` for a recorded location, after the prefix mapping of ``io``. Only the local file system has working
    folders."""
    return is_absolute(location) or not _has_local_files(io) or is_absolute(_mapped_by(io)(location))


def forbid_relative(io: FileIO, location: str, what: str) -> None:
    """Prevents metadata that only readers in one working folder understand, and whose files look like orphans to all others. Raises
    BadInputError."""
    if not is_absolute_under(io, location):
        raise BadInputError(
            f"{what} {location!r} is relative: it would mean another place in every working folder. Name it by an absolute "
            "path, or by a URI with scheme"
        )


def links_under(io: FileIO) -> Links:
    """For a location that is a symbolic link to a file: the identities of its targets, link by link; for every other
    location nothing. Only the local file system has links."""
    if not _has_local_files(io):
        return lambda _: ()
    return _LinkTargets(identity_under(io))


def _mapped_by(io: FileIO) -> Callable[[str], str]:
    """The prefix mapping of ``io``."""
    text = io.properties.get(LOCATION_MAPPING)
    return MappedFileIO(io, [(recorded, actual) for recorded, actual in json.loads(text)]).map if text else str


def _found_by(io: FileIO, must_be_known: bool = False) -> Callable[[str], str] | None:
    """Where ``io`` finds a location: after its prefix mapping, and in HDFS itself instead of a mount table. None: where it says."""
    mapped = _mapped_by(io) if io.properties.get(LOCATION_MAPPING) else None
    if io.properties.get("io-impl") not in _WITH_HDFS:
        return mapped
    mounts = _MountTables(io, must_be_known)
    return mounts if mapped is None else lambda location: mounts(mapped(location))


class _MountTables:
    """Hadoop's mount tables (``viewfs``): of a location in one of them, where the file lies in HDFS. Every other location is
    unchanged; so is one whose place the settings do not show, if it need not be known: else UnsupportedError."""

    def __init__(self, io: FileIO, must_be_known: bool) -> None:
        self._properties = io.properties
        self._must_be_known = must_be_known
        self._paths_may_be = io.properties.get("io-impl") == "hdfs"
        self._settings: HadoopSettings | None = None
        self._mounts: dict[str, dict[str, str]] = {}

    def __call__(self, location: str) -> str:
        if location[:7].lower() != _MOUNTED and not (self._paths_may_be and location.startswith("/")):
            return location
        scheme, authority = _scheme_and_authority(location)
        cluster, path = authority or self._default(scheme), resolved(path_part(location))
        if cluster not in self._mounts:
            self._mounts[cluster] = self._mount_table(cluster) if cluster else {}
        mounts, folder = self._mounts[cluster], path.rstrip("/")
        while folder and folder not in mounts:
            folder = folder.rpartition("/")[0]
        if cluster and self._must_be_known and folder not in mounts:
            raise UnsupportedError(
                f"not supported: deleting files that no table records, because a table records {location}, and Hadoop's settings "
                f"do not show where the mount table {cluster} has it: let the job have the settings (HADOOP_CONF_DIR) of the "
                f"engines that write (linkRegex, linkNfly and linkMerge in it are not read)"
            )
        return f"{mounts[folder].rstrip('/')}{path[len(folder) :]}" if folder in mounts else location

    def _mount_table(self, cluster: str) -> dict[str, str]:
        """Empty if places must be known, and the mount table has entries that are not read."""
        is_unknown = self._must_be_known and self._known().has_unread_mounts(cluster)
        return {} if is_unknown else self._known().mounts(cluster)

    def _default(self, scheme: str) -> str:
        """The mount table of locations that name none; empty if there is none."""
        scheme, authority = self._known().default_file_system(scheme) or ("", "")
        return authority if scheme == "viewfs" else ""

    def _known(self) -> HadoopSettings:
        if self._settings is None:
            self._settings = HadoopSettings.of(self._properties)
        return self._settings


def _scheme_and_authority(location: str) -> tuple[str, str | None]:
    """(scheme, authority) as they are spelled; empty for a path."""
    m = None if location.startswith("/") or not is_absolute(location) else _SCHEME.match(location)
    return (m[1].lower(), m[2]) if m else ("", None)


def _file_system(io: FileIO, location: str) -> tuple[str, str]:
    """(scheme, authority), in one spelling for all that are certainly one file system."""
    scheme, authority = _scheme_and_authority(location)
    if scheme in ("", "file") and (scheme == "file" or io.properties.get("io-impl") != "hdfs"):
        return "file", ""
    if scheme not in ("", *HDFS_SCHEMES):
        return (scheme, authority or "") if scheme in _FILE_SYSTEMS else ("", "")  # elsewhere the identity has the authority
    settings = HadoopSettings.of(io.properties)
    if not authority:
        scheme, authority = settings.default_file_system(scheme) or settings.default or (scheme, "")
    return scheme, settings.authority(scheme, authority) if authority else ""


def _has_local_files(io: FileIO) -> bool:
    """Whether locations without a scheme are files of this machine, which has links and working folders."""
    return io.properties.get("io-impl") in _WITH_LOCAL_FILES


def folder_identity(identity: Identity, folder: str) -> str:
    """The identity of a folder, without a slash at its end: that of the files in it, even if the folder itself is a link."""
    return identity(f"{folder.rstrip('/')}/x")[:-2]


def coarse_identity(identity: str) -> str:
    """A text that is equal for all identities that some engine may treat as one file: the path without scheme and authority (of an
    object store: without the bucket), resolved and percent-decoded. Files that agree only here are never deleted."""
    return resolved(unquote(path_part(identity)))


def path_part(location: str) -> str:
    """A location without scheme and authority."""
    if location.startswith("/") or not is_absolute(location):
        return _without_scheme(location)
    rest = location.partition(":")[2]
    return "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest


def is_within(location: str, folder: str) -> bool:
    """Whether a location lies at or below a folder; both are identities."""
    return (location.rstrip("/") + "/").startswith(folder.rstrip("/") + "/")


def resolved(path: str) -> str:
    """``path`` without empty parts, ``.`` and ``..``; a trailing slash stays."""
    if "//" not in path and "/." not in path and not path.startswith("."):
        return path
    absolute, parts = path.startswith("/"), list[str]()
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", ".") and (part != ".." or not absolute):
            parts.append(part)
    end = "/" if path.endswith(("/", "/.", "/..")) and parts else ""
    return ("/" if absolute else "") + "/".join(parts) + end


def _azure_authority(authority: str) -> str:
    """``container@account``: the endpoints ``.dfs.`` and ``.blob.`` belong to the same account."""
    container, at, host = authority.lower().partition("@")
    return f"{container}{at}{host.partition('.')[0]}"


_known = KnownFolders()


class _LocalIdentity:
    """Identity on the local file system. Results for existing folders are shared (``KnownFolders``); a missing folder is remembered
    only as long as this object lives, because a link of that name may be created at any time."""

    def __init__(self, folders: KnownFolders) -> None:
        self._folders = folders.real
        self._missing: dict[str, str] = {}

    def __call__(self, location: str) -> str:
        if location.startswith("/"):
            path = location
        elif (m := _SCHEME.match(location)) is None or not is_absolute(location):
            path = _absolute(_without_scheme(location))
        elif m[1].lower() == "file" and (m[2] is None or location[m.end() :].startswith("/")):
            path = _absolute(location[m.end() :])
        else:
            return location_identity(location)
        whole = path.rstrip("/")
        folder, slash, name = whole.rpartition("/")
        if name in (".", ".."):
            folder, slash, name = whole, "", ""
        real = self._folders.get(folder)
        if real is None:
            real = self._real_folder(folder)
        return f"{real}{slash}{name}{'/' if len(path) > len(whole) else ''}" or "/"

    def _real_folder(self, folder: str) -> str:
        """The folder without links and without a slash at its end; the part of the path that does not exist is used as
        written."""
        real = self._missing.get(folder)
        if real is not None:
            return real
        if "\0" in folder:
            return resolved(folder)  # No folder can have such a name.
        real = os.path.realpath(folder or "/").rstrip("/")
        if not os.path.isdir(real or "/"):
            self._missing[folder] = real
            return real
        if len(self._folders) >= _MOST_FOLDERS:
            self._folders.clear()
        self._folders[folder] = real
        return real


def _without_scheme(location: str) -> str:
    """``file:p``, a relative path, without its scheme; every other location unchanged."""
    is_relative_file = location[:5].lower() == "file:" and not location.startswith("/", 5)
    return location[5:] if is_relative_file else location


def _absolute(path: str) -> str:
    """A relative path is resolved in the working folder, as when files are opened."""
    return path if path.startswith("/") or not path else f"{os.getcwd()}/{path}"


class _LinkTargets:
    """The targets of links. The first files of a folder are checked one by one; if many are checked, the folder's links are listed
    once, which is one call instead of thousands on a mounted file system."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._asked: dict[str, int] = {}
        self._links: dict[str, frozenset[str]] = {}

    def __call__(self, location: str) -> tuple[str, ...]:
        passed: list[str] = []
        path = self._identity(location)
        while path.startswith("/") and (target := self._target(path)) is not None:
            path = self._identity(os.path.join(path.rpartition("/")[0], target))
            if path in passed:
                break
            passed.append(path)
        return tuple(passed)

    def _target(self, path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        links = self._links.get(folder)
        if links is None:
            self._asked[folder] = asked = self._asked.get(folder, 0) + 1
            if asked > _LOOKED_AT_ONE_BY_ONE:
                links = self._links[folder] = _links_in(folder)
        if links is not None and name not in links:
            return None
        try:
            return os.readlink(path) if "\0" not in path else None
        except OSError as e:
            if e.errno in _NO_LINK:
                return None
            raise


def _links_in(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder or "/") as entries:
            return frozenset(entry.name for entry in entries if entry.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
