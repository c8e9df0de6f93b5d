"""Make a table over the Parquet files of a folder (Iceberg: the ``snapshot`` and ``migrate`` procedures).

The table and the files in it are one commit: nobody ever sees it without them, and an import that fails or dies leaves no table.
What one leaves that died are files of metadata that nothing refers to; importing again passes them by.
"""

from __future__ import annotations

from collections.abc import Mapping

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.import_shape import shape_of_folder
from iceberg_ops.actions.runner import ProgressCallback
from iceberg_ops.catalog.catalog import Catalog, StagesTables
from iceberg_ops.catalog.staged import CatalogWithStagedTable
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import AlreadyExistsError, UnsupportedError


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
    """Create ``table`` (catalog.namespace.name) with the files below ``folder``; ``location`` None: the catalog's place for it.

    Raises AlreadyExistsError, NoSuchNamespaceError, DataError, SchemaError, UnsupportedError and what the committer raises.
    """
    if not isinstance(catalog, StagesTables):
        raise UnsupportedError(f"not supported: import into catalog {catalog.name}, because it can not create a table with content")
    identifier = tuple(table.split(".")[1:])
    if catalog.table_exists(identifier):
        raise AlreadyExistsError(f"table {table} already exists: files are added to it by add_files")
    catalog.namespace_properties(identifier[:-1])
    schema, spec = shape_of_folder(catalog.io, folder)
    staged = catalog.stage_table(identifier, schema, spec=spec, location=location, properties=properties)
    job = JobSpec(
        job="add_files",
        table=table,
        catalog=config,
        options={"source-path": folder, "parallelism": str(parallelism)},
    )
    return run_job(job, catalog=CatalogWithStagedTable(catalog, staged), progress=progress)
