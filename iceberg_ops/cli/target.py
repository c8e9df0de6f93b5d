"""The TABLE argument of the command line, and the options that go with it.

TABLE is ``catalog.namespace.name`` (catalogs come from ``ICEBERG_OPS_CATALOGS`` or ./catalogs.yml), or a path to a table folder
or a metadata file. A path is opened through a read-only FileIO: the table's owner has its catalog, and commits belong there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from iceberg_ops.cli.completion import table_argument
from iceberg_ops.config.secrets import is_secret
from iceberg_ops.config.table_name import TableName
from iceberg_ops.errors import AlreadyExistsError, NoSuchNamespaceError, NoSuchTableError, OptionError

if TYPE_CHECKING:
    from iceberg_ops.catalog.catalog import Catalog
    from iceberg_ops.expressions.predicates import Expression
    from iceberg_ops.io.file_io import FileIO
    from iceberg_ops.table.table import Table

F = TypeVar("F", bound=Callable[..., Any])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")

map_location_option = click.option(
    "--map-location",
    "locations",
    multiple=True,
    metavar="FROM=TO",
    help="Read files recorded below FROM from TO instead (repeatable; the longest FROM wins).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def target_options(command: F) -> F:
    """The TABLE argument and ``--map-location``."""
    return table_argument(map_location_option(command))


def snapshot_options(command: F) -> F:
    """``--snapshot-id``, ``--ref`` and ``--as-of``; at most one of them."""
    command = click.option(
        "--as-of", metavar="ISO", help="Read the snapshot that was current at this time (UTC if it has no offset)."
    )(command)
    command = click.option("--ref", metavar="NAME", help="Read a branch or tag.")(command)
    return click.option("--snapshot-id", type=int, metavar="N", help="Read one snapshot.")(command)


def parse_mapping(texts: Sequence[str]) -> list[tuple[str, str]]:
    """``FROM=TO`` pairs. Raises OptionError."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        recorded, equals, actual = text.partition("=")
        if not (recorded and equals and actual):
            raise OptionError(f"--map-location {text!r}: must be FROM=TO")
        if recorded in dict(pairs):
            raise OptionError(f"--map-location {recorded}: is given twice, as {dict(pairs)[recorded]!r} and {actual!r}")
        pairs.append((recorded, actual))
    return pairs


def parse_options(texts: Sequence[str], name: str = "--option") -> dict[str, str]:
    """``KEY=VALUE`` texts of option ``name``. Raises OptionError for one without ``=``, and for a key given twice."""
    options: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise OptionError(f"{name} {text!r}: must be KEY=VALUE")
        if key in options:
            both = "" if is_secret(key) else f", as {options[key]!r} and {value!r}"
            raise OptionError(f"{name} {key}: is given twice{both}")
        options[key] = value
    return options


def check_takes_mapping(target: str, locations: Sequence[str]) -> None:
    """Raise OptionError for ``--map-location`` with a table that a job opens through its catalog."""
    if locations and not is_path(target):
        raise OptionError("--map-location: only for a table given by its path; a catalog's table is where its catalog says")


def is_path(target: str) -> bool:
    """Whether TABLE is a path and not catalog.namespace.name. ``v3.metadata.json`` is a path, unless the first part is the name of
    a configured catalog: then it is the table named ``json``."""
    if "/" in target or os.sep in target or _SCHEME.match(target):
        return True
    if target.count(".") < 2:
        return target.endswith(".json") or os.path.exists(target)
    return target.endswith(".json") and not _is_configured(target.partition(".")[0])


def _is_configured(name: str) -> bool:
    from iceberg_ops.catalog.configuration import read_catalogs

    return any(config.name == name for config in read_catalogs())


def open_table(target: str, locations: Sequence[str] = ()) -> Table:
    """The table to read. Raises NoSuchTableError, OptionError, CorruptTableError."""
    mapping = parse_mapping(locations)
    if is_path(target):
        return _table_at(target, mapping)
    _, table = open_in_catalog(target)
    return replace(table, io=_mapped(table.io, mapping)) if mapping else table


def open_in_catalog(target: str) -> tuple[Catalog, Table]:
    """The catalog and the table, for commands that change it. Raises OptionError for a path, NoSuchTableError."""
    from iceberg_ops.catalog.near_tables import load_named

    catalog, identifier = find_catalog_and_identifier(target)
    return catalog, load_named(catalog, identifier)


def ensure_namespace(catalog: Catalog, target: str, namespace: tuple[str, ...], *, create: bool) -> None:
    """Create the namespace of a new table if it is missing and ``create`` is set. Raises NoSuchNamespaceError."""
    try:
        catalog.namespace_properties(namespace)
    except NoSuchNamespaceError as e:
        if not create:
            command = shlex.join(["iceberg-ops", "namespace", target.rpartition(".")[0], "--create"])
            raise NoSuchNamespaceError(f"{e}: give --create-namespace, or run {command}") from None
        with suppress(AlreadyExistsError):  # another command created it meanwhile
            catalog.create_namespace(namespace)


def find_catalog_and_identifier(target: str) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog of TABLE and the identifier in it. Raises OptionError for a path or an unknown catalog."""
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.catalog.load import load_catalog

    if is_path(target):
        raise OptionError(f"{target}: a table given by its path is only read; name it as catalog.namespace.name to change it")
    try:
        name = TableName.parse(target)
    except OptionError:
        raise NoSuchTableError(f"no table {target!r}: must be catalog.namespace.name or an existing path") from None
    return load_catalog(find_catalog(name.catalog)), name.identifier


def _table_at(path: str, mapping: list[tuple[str, str]]) -> Table:
    from iceberg_ops.io.load import load_file_io
    from iceberg_ops.io.read_only import ReadOnlyFileIO
    from iceberg_ops.table.metadata_files import table_from_path

    io = ReadOnlyFileIO(_mapped(load_file_io({}), mapping))
    return table_from_path(path, io)


def _mapped(io: FileIO, mapping: list[tuple[str, str]]) -> FileIO:
    from iceberg_ops.io.mapped import MappedFileIO

    return MappedFileIO(io, mapping) if mapping else io


def parse_instant(text: str | None, option: str = "--as-of") -> int | None:
    """Converts the ISO 8601 text of an option to milliseconds since the epoch, UTC by default. Raises OptionError."""
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"{option} {text!r}: must be an ISO 8601 date or time") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def parse_optional_where(text: str | None) -> Expression:
    """A WHERE as an expression; without one, every row. Raises WhereError."""
    from iceberg_ops.expressions.predicates import ALWAYS_TRUE

    if text is None:
        return ALWAYS_TRUE
    from iceberg_ops.expressions.where import parse_where

    return parse_where(text)
