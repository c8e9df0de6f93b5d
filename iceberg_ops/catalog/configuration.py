"""Finds the configuration of a catalog by its name, in a YAML file with a list of CatalogConfig.

The environment variable ``ICEBERG_OPS_CATALOGS`` names the file; the default is ``catalogs.yml`` in the working folder::

    catalogs:
      - name: lake
        type: sql
        properties: {uri: "sqlite:////data/catalog.db", warehouse: "file:///data/warehouse"}
    also-read: [pyiceberg, "spark:/opt/spark/conf/spark-defaults.conf"]

``also-read`` adds the catalogs of other programs: ``pyiceberg`` (the files that pyiceberg itself would read), ``spark`` (the
defaults that Spark would read), or one of them with a file. The variable may also have such a value, if there is no catalogs file.
A catalog in the file itself overrides one of the same name.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iceberg_ops.catalog.foreign.pyiceberg_settings import pyiceberg_catalogs
from iceberg_ops.catalog.foreign.spark_settings import spark_catalogs, spark_file
from iceberg_ops.catalog.foreign.taken import ForeignCatalog
from iceberg_ops.config.catalog_properties import relative_place, unread
from iceberg_ops.config.document import Document
from iceberg_ops.config.document_problems import whole_document
from iceberg_ops.config.given_text import check_place
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.config.variables import variable
from iceberg_ops.errors import OptionError

log = logging.getLogger(__name__)

CATALOGS_VARIABLE = "ICEBERG_OPS_CATALOGS"
DEFAULT_FILE = "catalogs.yml"
_FOREIGN = re.compile(r"(pyiceberg|spark)(?::(.+))?", re.DOTALL)


class CatalogFile(Document, frozen=True):
    """The whole file."""

    catalogs: list[CatalogConfig] = []  # noqa: RUF012 - msgspec copies it
    also_read: list[str] = []  # noqa: RUF012 - msgspec copies it


@dataclass(frozen=True, slots=True)
class _Configured:
    """``files``: what is read, in order."""

    files: list[Path]
    own: list[CatalogConfig]
    foreign: list[ForeignCatalog]


def read_catalogs(environment: Mapping[str, str] = os.environ) -> list[CatalogConfig]:
    """All catalogs that can be used; an empty list if there is no file. Raises OptionError for a wrong file, or a named file that
    is missing."""
    configured = _configured(environment)
    return [*configured.own, *(other.config for other in configured.foreign if other.config is not None)]


def find_catalog(name: str, environment: Mapping[str, str] = os.environ) -> CatalogConfig:
    """The catalog of that name. Logs, once, which of its settings have no effect. Raises OptionError that lists the known names, or
    says why the catalog cannot be used."""
    configured = _configured(environment)
    for config in configured.own:
        if config.name == name:
            for key in unread(config.type, config.properties):
                _warn(f"catalog {name}: property {key} has no effect here")
            is_elsewhere = configured.files[0].parent.resolve() != Path.cwd()
            if is_elsewhere and (problem := relative_place(config.type, config.properties)):
                _warn(f"catalog {name}: {problem}")
            return config
    for other in configured.foreign:
        if other.name == name:
            config = other.usable()
            for note in (*other.notes, relative_place(config.type, config.properties)):
                if note is not None:
                    _warn(f"catalog {name} of {other.source}: {note}")
            return config
    known = [c.name for c in configured.own] + [other.name for other in configured.foreign]
    names = ", ".join(sorted(known)) or f"none (set {CATALOGS_VARIABLE}, or write {DEFAULT_FILE})"
    raise OptionError(f"catalog {name!r} is not configured{did_you_mean(name, known)}: known are {names}")


def configuration_files(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The files that configure the catalogs. Raises OptionError."""
    return _configured(environment).files


def _configured(environment: Mapping[str, str]) -> _Configured:
    named = variable(CATALOGS_VARIABLE, environment)
    if named and _FOREIGN.fullmatch(named):
        files, foreign = _foreign(named, environment, CATALOGS_VARIABLE)
        return _Configured(files, [], foreign)
    path = Path(named or DEFAULT_FILE)
    if not path.is_file():
        if named:
            raise OptionError(f"{CATALOGS_VARIABLE} = {named!r}: there is no such file")
        return _Configured([], [], [])
    document = whole_document(path.read_bytes(), CatalogFile, str(path))
    names = [c.name for c in document.catalogs]
    if repeated := sorted({n for n in names if names.count(n) > 1}):
        raise OptionError(f"{path}: catalog {repeated[0]!r} is defined more than once")
    files, foreign = [path], list[ForeignCatalog]()
    for source in document.also_read:
        more, catalogs = _foreign(source, environment, f"{path}: also-read")
        files += more
        foreign += _without(names, foreign, catalogs)
    return _Configured(files, document.catalogs, foreign)


def _without(own_names: list[str], known: list[ForeignCatalog], catalogs: list[ForeignCatalog]) -> Iterator[ForeignCatalog]:
    """The catalogs that the file itself does not define. Raises OptionError for one that two sources define."""
    sources = {other.name: other.source for other in known}
    for entry in (other for other in catalogs if other.name not in own_names):
        if entry.name in sources:
            raise OptionError(
                f"catalog {entry.name!r} is defined by {sources[entry.name]} and by {entry.source}: define it under 'catalogs', "
                "which counts before both, or read only one of them"
            )
        yield entry


def _foreign(source: str, environment: Mapping[str, str], where: str) -> tuple[list[Path], list[ForeignCatalog]]:
    """The files and catalogs of a value such as ``pyiceberg`` or ``spark:FILE``. Raises OptionError."""
    if (m := _FOREIGN.fullmatch(source)) is None:
        raise OptionError(
            f"{where}: {source!r} must be pyiceberg or spark, or one of them with a file, as in spark:/etc/spark-defaults.conf"
        )
    check_place(where, m[2] or "")
    if m[1] == "pyiceberg":
        return pyiceberg_catalogs(environment, Path(m[2]) if m[2] else None)
    path = Path(m[2]) if m[2] else spark_file(environment)
    return [path], spark_catalogs(path, environment)


@cache
def _warn(text: str) -> None:
    log.warning("%s", text)
