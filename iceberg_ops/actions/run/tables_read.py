"""Tables that a job reads, and whether one of them lost snapshots to an expiry: then a missing file of it is no damage.

The job's own table has a lease, and so is read to the end in most cases. Another table (a source, one that SQL text names) gets
none: who reads a table need not be allowed to write into its folders.
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
    """Each as the job has loaded it, with what loads it again."""

    _found: list[tuple[Table, Reload]] = field(default_factory=list)

    def load(self, load: Reload) -> Table:
        """The table that ``load`` gives, which the job reads from now on."""
        table = load()
        self.add(table, load)
        return table

    def add(self, table: Table, reload: Reload) -> None:
        self._found.append((table, reload))

    def lost_to_an_expiry(self, job: str, error: BaseException) -> CommitFailedError | None:
        """The error to raise instead of ``error`` where that is a file of a table whose snapshots have expired since it was loaded.
        Only for a job that has changed nothing."""
        if not isinstance(error, CorruptTableError):
            return None
        for table, reload in self._found:
            if has_lost_snapshots(reload, table):
                return CommitFailedError(
                    f"table {table.name}: another job expired snapshots that {job} was reading, and a file of it is gone "
                    f"({error}); nothing was changed: run it again"
                )
        return None


def has_lost_snapshots(reload: Reload, table: Table) -> bool:
    """Whether a snapshot of ``table`` has expired since it was loaded. An error in looking does not take the place of the one that
    is being handled."""
    try:
        now = reload()
    except (IcebergOpsError, OSError) as e:
        log.warning("whether snapshots of %s have expired is not known: %s", table.name, e)
        return False
    return same_table(table, now) and not table.metadata.snapshots_by_id.keys() <= now.metadata.snapshots_by_id.keys()
