"""Hadoop's settings, with the client's rules: ``core-site.xml`` and ``hdfs-site.xml`` in HADOOP_CONF_DIR (or in
HADOOP_HOME/etc/hadoop) with the files that they include (``xi:include``, as Hadoop's guide keeps mount tables), and over them the
properties ``hadoop.<name>``.

This package reads them too, because they define the file system of a location without authority, which authorities are the same
(``hdfs://nn`` and ``hdfs://nn:8020``; a name service and its name nodes), and where the folders of a mount table lie.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from iceberg_ops.errors import OptionError, UnsupportedError

SCHEMES = ("hdfs", "viewfs")
DEFAULT, OLD_DEFAULT = "fs.defaultFS", "fs.default.name"
"""The file system of locations without scheme, and what Hadoop 1 called it: ``Configuration`` still knows that name."""
PREFIX = "hadoop."
CONF_DIR = "hdfs.conf-dir"
_FILES = ("core-site.xml", "hdfs-site.xml")
_SERVICE = "dfs.ha.namenodes."
_MOUNT_TABLE = "fs.viewfs.mounttable."
_UNREAD_MOUNTS = ("linkRegex.", "linkNfly", "linkMerge.")
"""Entries of mount tables that give a folder another place than ``link`` does, or several."""
_DEFAULT_MOUNT_TABLE = "default"
"""The name of the mount table of locations that name none (Hadoop: ``ConfigUtil.getDefaultMountTableName``)."""
_PORT = 8020
"""Where a name node listens if a location does not say it (Hadoop's own default)."""
_PATIENCE = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "2000",
}
"""How often the client itself asks again; it would for three minutes. ``hdfs.cluster`` asks for twenty seconds."""
_OCTAL = re.compile(r"0?[0-7]{3}")


@dataclass(frozen=True, slots=True)
class HadoopSettings:
    """``conf_dir``: their folder; None without one. ``values``: the settings of the files and of the properties. ``services``:
    ``host:port`` of each name node -> its name service."""

    conf_dir: str | None
    values: Mapping[str, str] = field(repr=False)
    services: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> HadoopSettings:
        """Raises OptionError for files that cannot be read."""
        conf_dir = _conf_dir(properties)
        values: dict[str, str] = {}
        for name in _FILES if conf_dir is not None else ():
            path = Path(conf_dir or "") / name
            values |= _read(path, tuple(map(_stamp, _with_included(path))))
        given = {key.removeprefix(PREFIX): value for key, value in properties.items() if key.startswith(PREFIX)}
        both = with_default_file_system(values) | with_default_file_system(given)
        return cls(conf_dir, both, _services(both))

    def of_client(self) -> dict[str, str]:
        """All settings, for the client, which may read newer files. It takes the blanks in a list of name nodes for a part of their
        names, so they are removed."""
        listed = {key: ",".join(_nodes(value)) for key, value in self.values.items() if key.startswith(_SERVICE)}
        return {**_PATIENCE, **self.values, **listed}

    @property
    def default(self) -> tuple[str, str] | None:
        """(scheme, authority) of locations without one (``fs.defaultFS``); None if that is not HDFS."""
        parts = urlsplit(self.values.get(DEFAULT, ""))
        scheme, authority = parts.scheme.lower(), parts.netloc
        if scheme == "viewfs":
            authority = authority or self._default_mount_table
        return (scheme, authority) if scheme in SCHEMES and authority else None

    def default_file_system(self, scheme: str) -> tuple[str, str] | None:
        """The same for locations of this scheme (empty: without one)."""
        if (default := self.default) is not None and scheme in ("", default[0]):
            return default
        return (scheme, self._default_mount_table) if scheme == "viewfs" else None

    @property
    def _default_mount_table(self) -> str:
        return self.values.get("fs.viewfs.mounttable.default.name.key", _DEFAULT_MOUNT_TABLE)

    def authority(self, scheme: str, authority: str) -> str:
        """One spelling for all authorities that are certainly the same file system: the name service, else ``host:port``; that of
        a mount table (``viewfs``) as it is."""
        if scheme != "hdfs":
            return authority
        if f"{_SERVICE}{authority}" in self.values:
            return authority
        spelled = _with_port(authority)
        return self.services.get(spelled, spelled)

    def mounts(self, cluster: str) -> dict[str, str]:
        """Of the mount table ``cluster``: folder, without a slash at its end -> its location in HDFS; the longest folder of a path
        counts. The root is empty."""
        table = f"{_MOUNT_TABLE}{cluster}."
        settings = {key.removeprefix(table): value for key, value in self.values.items() if key.startswith(table)}
        links = {key.removeprefix("link."): value for key, value in settings.items() if key.startswith("link.")}
        root = settings.get("linkMergeSlash", settings.get("linkFallback"))
        return {**({} if root is None else {"": root}), **{folder.rstrip("/"): value for folder, value in links.items()}}

    def has_unread_mounts(self, cluster: str) -> bool:
        """Whether the mount table has entries that ``mounts`` leaves out."""
        table = f"{_MOUNT_TABLE}{cluster}."
        return any(key.removeprefix(table).startswith(_UNREAD_MOUNTS) for key in self.values if key.startswith(table))

    def umask(self) -> int:
        """The permission bits that new files do not get (``fs.permissions.umask-mode``). Raises UnsupportedError."""
        text = self.values.get("fs.permissions.umask-mode", "022")
        if _OCTAL.fullmatch(text) is None:
            raise UnsupportedError(f"not supported: fs.permissions.umask-mode {text!r}, because it is not three octal digits")
        return int(text, 8)


def with_default_file_system(values: Mapping[str, str]) -> dict[str, str]:
    """The settings; the old name of the default file system counts where the present one is not set."""
    old = values.get(OLD_DEFAULT)
    return {**values} if old is None else {DEFAULT: old, **values}


def _services(values: Mapping[str, str]) -> dict[str, str]:
    """``host:port`` of each name node -> its name service."""
    services: dict[str, str] = {}
    for key, nodes in values.items():
        if key.startswith(_SERVICE):
            service = key.removeprefix(_SERVICE)
            for node in _nodes(nodes):
                if address := values.get(f"dfs.namenode.rpc-address.{service}.{node}"):
                    services[_with_port(address)] = service
    return services


def _nodes(value: str) -> list[str]:
    return [node for part in value.split(",") if (node := part.strip())]


def _with_port(authority: str) -> str:
    host, colon, port = authority.lower().rpartition(":")
    return f"{host}:{int(port)}" if colon and port.isdigit() else f"{authority.lower().rstrip(':')}:{_PORT}"


def _conf_dir(properties: Mapping[str, str]) -> str | None:
    if given := properties.get(CONF_DIR) or os.environ.get("HADOOP_CONF_DIR"):
        return given
    home = os.environ.get("HADOOP_HOME")
    return f"{home}/etc/hadoop" if home else None


def _stamp(path: Path) -> tuple[int, int] | None:
    """A value that changes when the file is written again."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _with_included(path: Path, around: tuple[Path, ...] = ()) -> Iterator[Path]:
    """The file, and those that it includes. Raises OptionError."""
    yield path
    for included in _includes(path, _stamp(path)):
        if included in (*around, path):
            raise _unreadable(path, f"it includes itself by {included}")
        yield from _with_included(included, (*around, path))


@lru_cache(maxsize=32)
def _includes(path: Path, _: tuple[int, int] | None) -> tuple[Path, ...]:
    return tuple(_included_path(element, path) for element in _parsed(path).iter() if _local_name(element) == "include")


@lru_cache(maxsize=8)
def _read(path: Path, _: tuple[tuple[int, int] | None, ...]) -> Mapping[str, str]:
    """Kept as long as the file and those that it includes have their stamps, because each comparison of locations needs the
    settings."""
    return dict(_pairs(_parsed(path), path))


def _pairs(element: ElementTree.Element, path: Path) -> Iterator[tuple[str, str]]:
    """Name and value of a property are elements in it, or attributes of it."""
    for child in element:
        if _local_name(child) == "property":
            parts = dict(child.attrib) | {_local_name(part): "".join(part.itertext()) for part in child}
            name, value = parts.get("name", "").strip(), parts.get("value", "").strip()
            if name and value:
                yield name, value
        elif _local_name(child) == "include":
            yield from _included(child, path)
        else:
            yield from _pairs(child, path)


def _included(include: ElementTree.Element, path: Path) -> Iterator[tuple[str, str]]:
    """Settings of a file beside the including one; those of ``xi:fallback`` if there is no such file."""
    included = _included_path(include, path)
    fallback = next((child for child in include if _local_name(child) == "fallback"), None)
    if _stamp(included) is not None:
        yield from _pairs(_parsed(included), included)
    elif fallback is not None:
        yield from _pairs(fallback, path)
    else:
        raise _unreadable(path, f"it includes {included}, which is missing")


def _included_path(include: ElementTree.Element, path: Path) -> Path:
    """The file that ``path`` includes: a path from its folder, or a URI of a file."""
    href = include.get("href", "")
    return Path(unquote(urlsplit(href).path)) if href.lower().startswith("file:") else path.parent / href


def _local_name(element: ElementTree.Element) -> str:
    """Without its namespace, which Hadoop ignores."""
    return element.tag.rpartition("}")[2]


def _parsed(path: Path) -> ElementTree.Element:
    """The configuration; an empty one if there is no such file."""
    try:
        return ElementTree.fromstring(path.read_bytes())
    except FileNotFoundError:
        return ElementTree.Element("configuration")
    except (OSError, ElementTree.ParseError) as e:
        raise _unreadable(path, e) from None


def _unreadable(path: Path, why: object) -> OptionError:
    return OptionError(f"Hadoop's settings {path}: cannot be read ({why}): correct the file, or HADOOP_CONF_DIR")
