"""Hadoop's settings, with the client's rules: ``core-site.xml`` and ``hdfs-site.xml`` in HADOOP_CONF_DIR (or in
HADOOP_HOME/etc/hadoop), and over them the properties ``hadoop.<name>``.

This package reads them too, because they define the file system of a location without authority, which authorities are the same
(``hdfs://nn`` and ``hdfs://nn:8020``; a name service and its name nodes), and where the folders of a mount table lie.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from iceberg_ops.errors import OptionError, UnsupportedError

SCHEMES = ("hdfs", "viewfs")
PREFIX = "hadoop."
CONF_DIR = "hdfs.conf-dir"
_FILES = ("core-site.xml", "hdfs-site.xml")
_SERVICE = "dfs.ha.namenodes."
_MOUNT_TABLE = "fs.viewfs.mounttable."
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
            values |= _read(path := Path(conf_dir or "") / name, _stamp(path))
        given = {key.removeprefix(PREFIX): value for key, value in properties.items() if key.startswith(PREFIX)}
        return cls(conf_dir, {**values, **given}, _services({**values, **given}))

    def of_client(self) -> dict[str, str]:
        """All settings, for the client, which may read newer files. It takes the blanks in a list of name nodes for a part of their
        names, so they are removed."""
        listed = {key: ",".join(_nodes(value)) for key, value in self.values.items() if key.startswith(_SERVICE)}
        return {**_PATIENCE, **self.values, **listed}

    @property
    def default(self) -> tuple[str, str] | None:
        """(scheme, authority) of locations without one (``fs.defaultFS``); None if that is not HDFS."""
        parts = urlsplit(self.values.get("fs.defaultFS", ""))
        return (parts.scheme.lower(), parts.netloc) if parts.scheme.lower() in SCHEMES and parts.netloc else None

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

    def umask(self) -> int:
        """The permission bits that new files do not get (``fs.permissions.umask-mode``). Raises UnsupportedError."""
        text = self.values.get("fs.permissions.umask-mode", "022")
        if _OCTAL.fullmatch(text) is None:
            raise UnsupportedError(f"not supported: fs.permissions.umask-mode {text!r}, because it is not three octal digits")
        return int(text, 8)


def _services(values: Mapping[str, str]) -> dict[str, str]:
    """``host:port`` of each name node -> its name service."""
    found: dict[str, str] = {}
    for key, nodes in values.items():
        if key.startswith(_SERVICE):
            service = key.removeprefix(_SERVICE)
            for node in _nodes(nodes):
                if address := values.get(f"dfs.namenode.rpc-address.{service}.{node}"):
                    found[_with_port(address)] = service
    return found


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
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _read(path: Path, _: tuple[int, int] | None) -> Mapping[str, str]:
    """Kept as long as the file has its stamp, because each comparison of locations needs the settings."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ElementTree.ParseError) as e:
        raise OptionError(f"Hadoop's settings {path}: cannot be read ({e}): correct the file, or HADOOP_CONF_DIR") from None
    pairs = ((p.findtext("name"), p.findtext("value")) for p in root.iter("property"))
    return {name.strip(): value.strip() for name, value in pairs if name and value}
