"""``iceberg-ops catalog test``: tries whether a catalog and the store of its tables support what jobs need."""

from __future__ import annotations

from functools import partial

import click

from iceberg_ops.cli.known_secrets import known_secrets
from iceberg_ops.cli.output import print_json, print_rows
from iceberg_ops.cli.target import json_option
from iceberg_ops.config.secrets import hide
from iceberg_ops.config.table_name import TableName
from iceberg_ops.errors import OptionError


@click.group()
def catalog() -> None:
    """Test catalogs."""


@catalog.command("test")
@click.argument("name", metavar="CATALOG")
@click.option("--table", metavar="TABLE", help="The table to load; default: the first that is listed.")
@click.option("--location", metavar="FOLDER", help="Where a file is written and deleted; default: the table's metadata folder.")
@json_option
def test(name: str, table: str | None, location: str | None, as_json: bool) -> int:
    """Try each operation that jobs need of a catalog and its store, and show which one fails, and why.

    Steps: connect, list, load a table, read one of its files, write a small file, try to create it again, delete it. Exit code 1 if
    a step fails.
    """
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.catalog.load import load_catalog
    from iceberg_ops.catalog.probe import probe, verdict

    identifier = None
    if table is not None:
        table_name = TableName.parse(table, "--table")
        if table_name.catalog != name:
            raise OptionError(f"--table {table!r} is not in catalog {name!r}")
        identifier = table_name.identifier
    config = find_catalog(name)
    steps = probe(partial(load_catalog, config), table=identifier, location=location)
    failed = next((step for step in steps if step.outcome == "failed"), None)
    details = [hide(s.detail, known_secrets()) for s in steps]
    if as_json:
        rows = [
            {"step": s.name, "outcome": s.outcome, "code": s.code or None, "detail": detail}
            for s, detail in zip(steps, details, strict=True)
        ]
        print_json({"catalog": name, "type": config.type, "works": failed is None, "steps": rows})
    else:
        shown = [{"step": s.name, "outcome": s.outcome, "detail": d} for s, d in zip(steps, details, strict=True)]
        title = verdict(f"catalog {name} ({config.type})", steps)
        print_rows(shown, title=title, empty=title)
    return 0 if failed is None else 1
