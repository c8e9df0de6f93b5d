"""Dropping a table with its files, the same in every catalog: first find the tables that may need the files, then drop the name,
then delete.

Each catalog defines how it drops a name. Files that cannot be proven to belong only to the table stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.neighbours import claims_of_all
from iceberg_ops.catalog.outcomes import dropped_in_part, state_if_interrupted
from iceberg_ops.catalog.second_catalogs import forbid_second_catalog
from iceberg_ops.config.properties import GC_ENABLED
from iceberg_ops.deletion.gate import Deletion, KeptFile
from iceberg_ops.deletion.notes import purge_noted
from iceberg_ops.deletion.purge import purge as purge_files
from iceberg_ops.errors import (
    GcDisabledError,
    IcebergOpsError,
    MachineLimitError,
    RetryableError,
    UnsupportedError,
    ValidationError,
)
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

WITHOUT_PURGE = "Drop it without purge: then only the name goes"
"""What to do if a table cannot be dropped with its files."""


def drop_with_files(
    catalog: Catalog,
    table: Table,
    *,
    forget: Callable[[], None],
    folders: Sequence[str],
    files_of: Callable[[], tuple[str, ...]],
    shares_folder: bool = False,
    way_out: str = WITHOUT_PURGE,
) -> Deletion:
    """Drop ``table``, the state whose files are deleted, and return the result of the deletion.

    ``forget`` drops the name, and raises if the table is no longer in that state. ``folders`` are those in which a purge
    deletes; the first is the table's location. ``files_of`` returns the files to delete. ``shares_folder``: the purge deletes every
    file in the folder.

    Raises GcDisabledError, UnsupportedError (a second catalog, or a name with the same files), the errors of ``forget``, and
    RetryableError and CorruptTableError before anything is changed."""
    if not GC_ENABLED.of(table.properties):
        raise GcDisabledError(
            f"cannot drop table {table.name} with its files: gc.enabled is false, because other tables may have them. Set the "
            "property to true first where none has; files that were imported from elsewhere stay in any case"
        )
    forbid_second_catalog(catalog, table, shares_folder=shares_folder)
    files = files_of()
    try:
        claimed = claims_of_all(catalog, table, folders) if files else None
    except (RetryableError, MachineLimitError):
        raise  # Nothing is changed yet, and a retry may find the answer.
    except ValidationError as e:
        raise UnsupportedError(
            f"not supported: dropping table {table.name} with its files, because {e} and needs them. {way_out}"
        ) from e
    except IcebergOpsError as e:
        log.warning(
            "table %s is dropped without its files, because the owners of the files cannot be identified: %s", table.name, e
        )
        claimed = None
    if claimed is None:
        forget()
        return Deletion(kept=tuple(KeptFile(file, "its owners cannot be identified") for file in files))
    with state_if_interrupted(dropped_in_part(table.identifier)) as happened, purge_noted(table, folders) as note:
        forget()
        happened()
        try:
            return purge_files(table, files, folders, claimed, note)
        except Exception as e:  # noqa: BLE001 - the table is dropped, whatever becomes of its files
            log.warning("table %s was dropped, but not all of its files: %s", table.name, e)
            return Deletion(failures=tuple(DeleteFailure(file, str(e)) for file in files))
