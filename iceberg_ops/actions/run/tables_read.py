"""The tables that a job reads, and whether an expiry removed snapshots of one: then a missing file of it is not damage.

The job's own table has a lease, and so can be read to the end in most cases. Another table (a source, one that SQL text names) gets
no lease: a job that reads a table may have no permission to write into its folders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from iceberg_ops.errors import CommitFailedError, CorruptTableError, IcebergOpsError
from iceberg_ops.table.same_table import same_table
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

Reload = Callable[[], Table]


@dataclass(slots=True)
class TablesRead:
    """Each table as the job has loaded it, with a function that loads it again."""

    _tables: list[tuple[Table, Reload]] = field(default_factory=list)

    def load(self, load: Reload) -> Table:
        """The table that ``load`` returns; the job reads it from now on."""
        table = load()
        self.add(table, load)
        return table

    def add(self, table: Table, reload: Reload) -> None:
        self._tables.append((table, reload))

    def lost_to_an_expiry(self, job: str, error: BaseException) -> CommitFailedError | None:
        """The error to raise instead of ``error`` if that is about a file of a table whose snapshots have expired since it was
        loaded. Only for a job that has changed nothing."""
        if not isinstance(error, CorruptTableError):
            return None
        for table, reload in self._tables:
            if has_lost_snapshots(reload, table):
                return CommitFailedError(
                    f"table {table.name}: another job expired snapshots that {job} was reading, and a file of it is gone "
                    f"({error}); nothing was changed: run it again"
                )
        return None


def has_lost_snapshots(reload: Reload, table: Table) -> bool:
    """Whether a snapshot of ``table`` has expired since it was loaded. An error of this check does not replace the one that is
    being handled."""
    try:
        now = reload()
    except (IcebergOpsError, OSError) as e:
        log.warning("it is not known whether snapshots of %s have expired: %s", table.name, e)
        return False
    return same_table(table, now) and not table.metadata.snapshots_by_id.keys() <= now.metadata.snapshots_by_id.keys()
