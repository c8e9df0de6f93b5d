"""Finds tables by name: one, all of a namespace or a catalog, all that a glob matches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from iceberg_ops.cli.table_names import names_that_begin
from iceberg_ops.cli.target import is_path
from iceberg_ops.config.globs import glob_problem, may_match
from iceberg_ops.errors import NoSuchTableError, OptionError

if TYPE_CHECKING:
    from iceberg_ops.config.job_spec import CatalogConfig

_OF_GLOBS = frozenset("*?[")


def expand_targets(targets: Iterable[str]) -> list[str]:
    """The tables of the targets, each once: a table or a path is itself, ``lake.web`` and ``lake`` are all tables in them,
    also in nested namespaces, ``lake.web.*`` those that the glob matches, if no table has that exact name. Raises OptionError for
    an invalid glob, and NoSuchTableError if a place contains no table."""
    return list(dict.fromkeys(name for target in targets for name in _expand_target(target)))


def _expand_target(target: str) -> Iterator[str]:
    if is_path(target):
        yield target
    elif not _OF_GLOBS.isdisjoint(target):
        yield from _matched(target)
    elif target.count(".") > 1:
        yield target
    else:
        catalog, _, namespace = target.partition(".")
        yield from _require_some(
            _names(_configured(catalog), f"{target}." if namespace else f"{catalog}."), f"no table in {target}"
        )


def _matched(glob: str) -> Iterator[str]:
    from iceberg_ops.catalog.configuration import read_catalogs

    problem, catalog = glob_problem(glob), glob.partition(".")[0]
    asked = [c for c in read_catalogs() if c.name == catalog or (problem is None and may_match(glob, c.name))]
    begun = re.split(r"[*?[]", glob, maxsplit=1)[0]
    names = [name for c in asked for name in _names(_configured(c.name), max(begun, f"{c.name}.", key=len))]
    called_so = [name for name in names if name == glob or name.startswith(f"{glob}.")]
    if problem is not None and not called_so:
        raise OptionError(f"{glob!r}: {problem}")
    yield from _require_some(called_so or (name for name in names if fnmatchcase(name, glob)), f"no table matches {glob!r}")


def _require_some(names: Iterable[str], otherwise: str) -> list[str]:
    matching = sorted(names)
    if not matching:
        raise NoSuchTableError(otherwise)
    return matching


def _names(config: CatalogConfig, begun: str) -> Iterator[str]:
    from iceberg_ops.catalog.load import load_catalog

    return names_that_begin(load_catalog(config), begun)


def _configured(name: str) -> CatalogConfig:
    from iceberg_ops.catalog.configuration import find_catalog

    return find_catalog(name)
