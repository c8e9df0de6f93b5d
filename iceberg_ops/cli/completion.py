"""Shell completion for the Tab key: tables of the configured catalogs, actions, topics, and options (click's own).

A name without a dot completes to catalogs; if only one matches, its tables are offered at once. A shell cannot show an
error: names that cannot be listed are not offered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from iceberg_ops.errors import IcebergOpsError

F = TypeVar("F", bound=Callable[..., Any])
_MOST = 1000
"""The most names that are offered: more are not readable, and listing a large catalog takes long."""


def table_argument(command: F) -> F:
    """The argument TABLE."""
    return click.argument("target", metavar="TABLE", shell_complete=tables)(command)


def tables(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Tables whose full names begin with the text, or catalogs; paths if it begins like one."""
    if begun.startswith(("/", ".", "~")) or "/" in begun:
        return [CompletionItem(begun, type="file")]
    try:
        return [CompletionItem(name) for name in itertools.islice(_names(begun), _MOST)]
    except (IcebergOpsError, OSError):
        return []


def complete_from(names: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Those of ``names`` that begin with the typed text."""
    return lambda _, __, begun: [CompletionItem(name) for name in names if name.startswith(begun)]


def actions_or_tables(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The first of two arguments, in either order; after an action only tables are offered."""
    from iceberg_ops.config.actions import ACTIONS

    actions = [] if parameter.name == "target" and "." not in str(context.params.get("action")) else [*ACTIONS]
    offered = complete_from(actions)(context, parameter, begun.replace("-", "_"))
    return [*offered, *tables(context, parameter, begun)]


def _names(begun: str) -> Iterator[str]:
    from iceberg_ops.catalog.configuration import read_catalogs
    from iceberg_ops.catalog.load import load_catalog
    from iceberg_ops.cli.table_names import names_that_begin

    first, dot, _ = begun.partition(".")
    catalogs = [c for c in read_catalogs() if c.name == first or (not dot and c.name.startswith(first))]
    if len(catalogs) > 1:
        yield from (c.name for c in catalogs)
    elif catalogs:
        yield from names_that_begin(load_catalog(catalogs[0]), begun)
