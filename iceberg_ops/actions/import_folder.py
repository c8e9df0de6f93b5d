"""Creates a table over the Parquet files of a folder (Iceberg: the ``snapshot`` and ``migrate`` procedures).

The table and its files are created in one commit: no reader ever sees the table without them, and an import that fails or dies
leaves no table. A dead import leaves only metadata files that nothing refers to; a repeated import ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace as with_fields

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.import_shape import shape_of_folder
from iceberg_ops.actions.workers.runner import ProgressCallback
from iceberg_ops.catalog.catalog import Catalog, StagesTables
from iceberg_ops.catalog.staged import CatalogWithStagedTable
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.properties import FORMAT_VERSION, NAME_MAPPING
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.table_name import TableName
from iceberg_ops.errors import AlreadyExistsError, UnsupportedError
from iceberg_ops.io.locations import folder_identity, identity_under
from iceberg_ops.serde.json.name_mapping_json import name_mapping_to_json
from iceberg_ops.spec.name_mapping import create_name_mapping


def import_folder(
    catalog: Catalog,
    config: CatalogConfig,
    table: str,
    folder: str,
    *,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    parallelism: int = 8,
    progress: ProgressCallback | None = None,
) -> ActionReport:
    """Create ``table`` (catalog.namespace.name) with the files below ``folder``; ``location`` None: the catalog's default location.

    Raises AlreadyExistsError, NoSuchNamespaceError, DataError, SchemaError, UnsupportedError and the errors of the committer.
    """
    if not isinstance(catalog, StagesTables):
        raise UnsupportedError(f"not supported: import into catalog {catalog.name}, because it cannot create a table with content")
    identifier = TableName.parse(table).identifier
    if catalog.table_exists(identifier):
        raise AlreadyExistsError(f"table {table} already exists: files are added to it by add_files")
    catalog.namespace_properties(identifier[:-1])
    schema, spec = shape_of_folder(catalog.io, folder, FORMAT_VERSION.of(properties or {}))
    if config.type == "filesystem" and location is not None:
        _check_location(catalog, table, location, catalog.stage_table(identifier, schema).location)
    staged = catalog.stage_table(identifier, schema, spec=spec, location=location, properties=properties)
    job = JobSpec(
        job="add_files",
        table=table,
        catalog=config,
        options={"source-path": folder, "parallelism": str(parallelism)},
    )
    with_table = CatalogWithStagedTable(catalog, staged)
    report = run_job(job, catalog=with_table, progress=progress)
    if report.status == "nothing-to-do":
        # The files have no rows: nothing is added, but the table is still created.
        mapping = name_mapping_to_json(create_name_mapping(staged.schema))
        commit(with_table, with_table.load_table(identifier), UpdateProperties(updates={NAME_MAPPING.name: mapping}))
        report = with_fields(report, status="committed")
    return report


def _check_location(catalog: Catalog, table: str, location: str, origin: str) -> None:
    """Raise UnsupportedError if a table of a filesystem catalog, which must be in its folder ``own``, gets another location."""
    identity = identity_under(catalog.io)
    if folder_identity(identity, location) != folder_identity(identity, origin):
        raise UnsupportedError(
            f"not supported: table {table} in {location}, because in a filesystem catalog a table is its folder, {origin}: import "
            "the files in place (--mode snapshot), or move them into that folder first"
        )
