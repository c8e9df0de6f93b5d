"""A commit of files that were written for it, of which none is left behind where it is known not to have happened.

After an unknown outcome, or an exception that says nothing about the swap, they stay: the orphan job finds what is not referenced.
"""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.operation import Committed, Operation
from iceberg_ops.errors import CommitStateUnknownError, IcebergOpsError
from iceberg_ops.table.table import Table


def commit_staged(catalog: Catalog, table: Table, operation: Operation, staged: Sequence[str]) -> Committed:
    """Commit ``operation``; the files at ``staged`` are deleted when it is refused, or an earlier run with its key won. Raises what
    ``commit`` raises."""
    try:
        committed = commit(catalog, table, operation)
    except CommitStateUnknownError:
        raise
    except IcebergOpsError:
        table.io.delete_many(staged)
        raise
    if committed.already_committed:
        table.io.delete_many(staged)
    return committed
