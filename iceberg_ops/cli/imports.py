"""``iceberg-ops import`` and ``iceberg-ops register``: existing data becomes a table, and nothing is copied.

``import`` creates a table over the Parquet files of a folder (Iceberg: the ``snapshot`` and ``migrate`` procedures); to import
files into an existing table, use ``run add_files``. ``register`` adds a metadata file to a catalog.
"""

from __future__ import annotations

import sys

import click

from iceberg_ops.cli.completion import table_argument
from iceberg_ops.cli.target import ensure_namespace, find_catalog_and_identifier, json_option, parse_options


@click.command()
@table_argument
@click.argument("metadata_file", metavar="METADATA_FILE")
@json_option
def register(target: str, metadata_file: str, as_json: bool) -> None:
    """Add TABLE to its catalog from an existing METADATA_FILE. Its files are not moved."""
    from iceberg_ops.cli.standard_output import output_of_done_work
    from iceberg_ops.cli.table_view import show_table

    catalog, name = find_catalog_and_identifier(target)
    table = catalog.register_table(name, metadata_file)
    with output_of_done_work():
        show_table(target, table.metadata, as_json, "registered")


@click.command("import")
@table_argument
@click.argument("folder", metavar="FOLDER")
@click.option(
    "--mode",
    type=click.Choice(["snapshot", "migrate"]),
    default="snapshot",
    show_default=True,
    help="snapshot: the table never deletes the folder's files. migrate: the folder is the table's location, and owns its files.",
)
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A table property (repeatable).")
@click.option(
    "--parallelism", type=click.IntRange(min=1), default=8, show_default=True, help="Number of footers to read at a time."
)
@click.option("--create-namespace", is_flag=True, help="Create the namespace too, if it is missing.")
@json_option
def import_folder(
    target: str, folder: str, mode: str, properties: tuple[str, ...], parallelism: int, create_namespace: bool, as_json: bool
) -> int:
    """Create TABLE from the Parquet files of FOLDER, with Hive-style partitions (name=value) or without.

    The columns are those of all files together; partition columns come from the folder names.
    """
    from iceberg_ops.actions.import_folder import import_folder as imported
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.cli.maintenance import show_report
    from iceberg_ops.cli.progress import progress_line
    from iceberg_ops.config.known_properties import check_values
    from iceberg_ops.io.locations import absolute_under

    catalog, name = find_catalog_and_identifier(target)
    folder = absolute_under(catalog.io, folder).rstrip("/")
    ensure_namespace(catalog, target, name[:-1], create=create_namespace)
    set_properties = parse_options(properties, "--property")
    check_values(set_properties)
    table_properties = ({"gc.enabled": "false"} if mode == "snapshot" else {}) | set_properties
    with progress_line(terminal=sys.stderr.isatty()) as progress:
        report = imported(
            catalog,
            find_catalog(target.partition(".")[0]),
            target,
            folder,
            location=folder if mode == "migrate" else None,
            properties=table_properties,
            parallelism=parallelism,
            progress=progress,
        )
    show_report(report, as_json)
    return 0
