"""Finds the configuration of a catalog by its name, in a YAML file with a list of CatalogConfig.

The environment variable ``ICEBERG_OPS_CATALOGS`` names the file; the default is ``catalogs.yml`` in the working folder::

    catalogs:
      - name: lake
        type: sql
        properties: {uri: "sqlite:////data/catalog.db", warehouse: "file:///data/warehouse"}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from iceberg_ops.config.document import Document
from iceberg_ops.config.document_problems import whole_document
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import OptionError

CATALOGS_VARIABLE = "ICEBERG_OPS_CATALOGS"
DEFAULT_FILE = "catalogs.yml"


class CatalogFile(Document, frozen=True):
    """The whole file."""

    catalogs: list[CatalogConfig] = []  # noqa: RUF012 - msgspec copies it


def read_catalogs(environment: Mapping[str, str] = os.environ) -> list[CatalogConfig]:
    """All configured catalogs; an empty list if there is no file. Raises OptionError for a wrong file, or a named file that is
    missing."""
    named = environment.get(CATALOGS_VARIABLE)
    path = Path(named or DEFAULT_FILE)
    if not path.is_file():
        if named:
            raise OptionError(f"{CATALOGS_VARIABLE} = {named!r}: there is no such file")
        return []
    found = whole_document(path.read_bytes(), CatalogFile, str(path)).catalogs
    names = [c.name for c in found]
    if repeated := sorted({n for n in names if names.count(n) > 1}):
        raise OptionError(f"{path}: catalog {repeated[0]!r} is defined more than once")
    return found


def find_catalog(name: str, environment: Mapping[str, str] = os.environ) -> CatalogConfig:
    """The catalog of that name. Raises OptionError that lists the known names."""
    known = read_catalogs(environment)
    for config in known:
        if config.name == name:
            return config
    names = ", ".join(sorted(c.name for c in known)) or f"none (set {CATALOGS_VARIABLE}, or write {DEFAULT_FILE})"
    raise OptionError(f"catalog {name!r} is not configured{did_you_mean(name, [c.name for c in known])}: known are {names}")
