"""Announces a new table to jobs of other tables that may be about to delete its files.

Files of a table that its catalog does not have look like orphans. If they lie in a folder of another table, or around one, an
orphan removal of that table reads all tables of the catalog, and then deletes the files that none of them claims. A table that is
registered in between would lose live files. So registration first puts a lease for the table's folders at the other table, and then
checks that no deletion is running there: a deletion writes its note and then reads the leases. Imports use the same protocol
(``deletion.notes``). The lease is not released, because the orphan removal may have read the tables hours ago: it expires by
itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from iceberg_ops.deletion.leases import REGISTRATION, Lease, acquire_lease, release_lease
from iceberg_ops.deletion.notes import forbid_registration_while_deleting
from iceberg_ops.errors import CommitStateUnknownError, TerminalError, UnsupportedError
from iceberg_ops.io.machine_limits import limit_error
from iceberg_ops.table.own_folders import folders_of, former_folders
from iceberg_ops.table.table import Table

ANNOUNCED_MS = 24 * 3600 * 1000
"""How long the lease of a registration lasts: an orphan removal may run for hours after its listing."""


@contextmanager
def announced(table: Table, others: Sequence[Table]) -> Iterator[None]:
    """Within this context, ``table`` may be registered. ``others``: tables of the catalog whose folders lie in or around its own.

    Raises CatalogUnavailableError while files are being deleted, and TerminalError if no lease can be written to another table's
    folder."""
    lease = Lease(
        holder=f"register {table.name}",
        snapshot_id=None,
        expires_at_ms=time.time_ns() // 1_000_000 + ANNOUNCED_MS,
        folders=tuple(dict.fromkeys((*folders_of(table), *former_folders(table)))),
        action=REGISTRATION,
    )
    tried: list[Table] = []
    try:
        for other in others:
            tried.append(other)
            if not _takes(table, other, lease):
                tried.pop()
        for reached in (table, *tried):
            forbid_registration_while_deleting(table, reached)
        yield
    except CommitStateUnknownError:
        raise
    except Exception:
        for other in tried:
            release_lease(other, lease)
        raise


def _takes(table: Table, other: Table, lease: Lease) -> bool:
    """Put the lease at the other table; False if no job of this catalog reaches its folder."""
    try:
        acquire_lease(other, lease)
    except UnsupportedError:
        return False
    except OSError as e:
        raise limit_error(e) or TerminalError(
            f"table {table.name} was not registered: its files lie in or around a folder of table {other.name}, and the note that "
            f"warns jobs of that table cannot be written: {e}. Let the job write there, or move the files"
        ) from e
    return True
