"""``iceberg-ops ls``, ``drop``, ``rename`` and ``namespace``: the content of a catalog, and its names."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from iceberg_ops.cli.completion import table_argument, tables
from iceberg_ops.cli.output import print_json, print_rows
from iceberg_ops.cli.standard_output import only_shows, output_of_done_work
from iceberg_ops.cli.target import find_catalog_and_identifier, json_option, open_in_catalog, parse_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.secrets import without_secrets
from iceberg_ops.errors import CorruptTableError, NoSuchNamespaceError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_ops.catalog.catalog import Catalog


@click.command()
@click.argument("place", metavar="[CATALOG[.NAMESPACE]]", required=False, shell_complete=tables)
@click.option("-r", "--recursive", is_flag=True, help="Also list the namespaces below it.")
@json_option
def ls(place: str | None, recursive: bool, as_json: bool) -> None:
    """List catalogs, or the namespaces and tables of one."""
    if place is None:
        if recursive:
            raise OptionError("--recursive needs a catalog: iceberg-ops ls -r CATALOG")
        rows, title = _catalogs(), "catalogs"
    else:
        catalog, namespace = _parse_namespace(place)
        rows, title = list(_within(catalog, namespace, recursive)), place
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, title=title, empty=f"{title}: nothing is there")


def _catalogs() -> list[dict[str, str]]:
    from iceberg_ops.catalog.configuration import CATALOGS_VARIABLE, DEFAULT_FILE, read_catalogs

    shown = ((c, without_secrets(c.properties)) for c in read_catalogs())
    rows = [{"name": c.name, "type": c.type, "warehouse": properties.get("warehouse", "")} for c, properties in shown]
    if not rows:
        raise OptionError(f"no catalog is configured: set {CATALOGS_VARIABLE} to a catalogs file, or write {DEFAULT_FILE}")
    return rows


def _within(catalog: Catalog, namespace: tuple[str, ...], recursive: bool) -> Iterator[dict[str, str]]:
    """Namespaces and tables directly below ``namespace``; with ``recursive`` also those below its namespaces, each after its
    namespace."""
    for child in catalog.list_namespaces(namespace):
        yield {"type": "namespace", "name": _name(catalog, child)}
        if recursive:
            yield from _within(catalog, child, recursive)
    for identifier in catalog.list_tables(namespace) if namespace else ():
        yield {"type": "table", "name": _name(catalog, identifier)}


@click.command()
@table_argument
@click.option("--purge", is_flag=True, help="Also delete its files. They cannot be restored.")
@click.option("--yes", is_flag=True, help="Do not ask before a purge.")
@json_option
def drop(target: str, purge: bool, yes: bool, as_json: bool) -> None:
    """Drop a table. Its files stay unless --purge is given, and `register` brings it back."""
    from iceberg_ops.deletion.gate import check_same_table

    try:
        catalog, table = open_in_catalog(target)
    except CorruptTableError as e:
        if purge:
            raise
        _drop_unread(target, e, as_json)
        return
    if purge and not yes:
        _ask_to_purge(target)
        check_same_table(table, catalog.load_table(table.identifier[1:]))  # another table may have taken its name meanwhile
    dropped = catalog.drop_table(table.identifier[1:], purge=purge)
    # A commit may have come since the table was loaded: the command must not lose it.
    location = dropped.undone_by or table.metadata_location
    undo = ["iceberg-ops", "register", target, location]
    with output_of_done_work():
        if as_json:
            document = {"table": target, "dropped": True, "purged": purge and not dropped.left, "files-left": list(dropped.left)}
            print_json({**document, "metadata-location": location})
        elif purge:
            stay = f"; {len(dropped.left)} stay, as warnings say" if dropped.left else ""
            click.echo(f"{target}: dropped; {counted(len(dropped.deleted), 'file')} deleted{stay}")
        else:
            click.echo(f"{target}: dropped; its files stay. To undo: {shlex.join(undo)}")


def _ask_to_purge(target: str) -> None:
    try:
        click.confirm(f"Delete {target} and all of its files?", abort=True, err=True)
    except click.Abort as e:
        if sys.stdin.isatty() or isinstance(e.__context__, KeyboardInterrupt):
            raise
        click.echo(err=True)
        raise OptionError(
            f"drop --purge asks before it deletes {target}, and standard input did not answer yes: use --yes"
        ) from None


def _drop_unread(target: str, why: CorruptTableError, as_json: bool) -> None:
    """Drop a table whose metadata file cannot be read; it cannot be restored."""
    catalog, identifier = find_catalog_and_identifier(target)
    catalog.drop_table(identifier)
    with output_of_done_work():
        if as_json:
            print_json({"table": target, "dropped": True, "purged": False, "files-left": [], "metadata-location": None})
        else:
            click.echo(f"{target}: dropped; its files stay. No command undoes it, because its metadata could not be read: {why}")


@click.command()
@table_argument
@click.argument("new", metavar="NEW")
@json_option
def rename(target: str, new: str, as_json: bool) -> None:
    """Rename a table in its catalog. Its files are not moved.

    NEW is catalog.namespace.name.
    """
    catalog, table = open_in_catalog(target)
    other, identifier = find_catalog_and_identifier(new)
    if other.name != catalog.name:
        raise OptionError(
            f"{new}: a table stays in its catalog, {catalog.name}; register its metadata file in {other.name} instead"
        )
    catalog.rename_table(table.identifier[1:], identifier)
    with output_of_done_work():
        if as_json:
            print_json({"table": new, "renamed-from": target})
        else:
            click.echo(f"{target} -> {new}. To undo: {shlex.join(['iceberg-ops', 'rename', new, target])}")


@click.command()
@click.argument("place", metavar="CATALOG.NAMESPACE")
@click.option("--create", is_flag=True, help="Create it.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of the new namespace (repeatable).")
@click.option("--drop", "drops", is_flag=True, help="Drop it. It must be empty.")
@json_option
def namespace(place: str, create: bool, properties: tuple[str, ...], drops: bool, as_json: bool) -> None:
    """Show a namespace's properties, create it, or drop it."""
    if create and drops:
        raise OptionError("--create and --drop were given: choose one")
    if properties and not create:
        raise OptionError("--property: only a new namespace takes properties: give --create, too")
    catalog, name = _parse_namespace(place)
    if not name:
        raise OptionError(f"{place}: must be CATALOG.NAMESPACE")
    if create:
        catalog.create_namespace(name, parse_options(properties, "--property"))
    elif drops:
        catalog.drop_namespace(name)
    else:
        only_shows()
    with output_of_done_work():
        if drops:
            if as_json:
                print_json({"namespace": place, "dropped": True})
            else:
                click.echo(f"{place}: dropped")
            return
        stored = dict(catalog.namespace_properties(name))
        if as_json:
            print_json({"namespace": place, "properties": stored})
        elif create:
            click.echo(f"{place}: created")
        else:
            rows = [{"name": key, "value": value} for key, value in sorted(stored.items())]
            print_rows(rows, title=place, empty=f"{place}: it has no properties")


def _parse_namespace(place: str) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog, and the namespace in it; for only a catalog the empty one. Raises OptionError, NoSuchNamespaceError for a name
    with an empty part."""
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.catalog.load import load_catalog

    name, *parts = place.split(".")
    if not all(parts):
        raise NoSuchNamespaceError(f"no namespace {place!r}: a part of its name is empty")
    return load_catalog(find_catalog(name)), tuple(parts)


def _name(catalog: Catalog, identifier: tuple[str, ...]) -> str:
    return ".".join((catalog.name, *identifier))
