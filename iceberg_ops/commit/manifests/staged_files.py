"""Commits files that were written for the commit, and leaves none of them behind if the commit is known not to have happened.

The gate (``iceberg_ops.deletion``) deletes them: only if the table does not refer to them, and never after an unknown outcome.
Files that stay are left for remove_orphan_files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.protocol.operation import Committed, Operation
from iceberg_ops.deletion.gate import Deletion, discard_staged
from iceberg_ops.table.table import Table

OnCommit = Callable[[Committed], object]
Check = Callable[[Collection[str]], None]
"""Receives the locations of the staged files right before each swap, and raises if the swap must not be tried."""


def unchecked(staged: Collection[str]) -> None:
    """The check for a commit whose files need no lease."""


def commit_staged(
    catalog: Catalog,
    table: Table,
    operation: Operation,
    staged: Sequence[str],
    *,
    mark: str = "",
    check: Check = unchecked,
    on_commit: OnCommit = lambda _: None,
) -> Committed:
    """Commit ``operation``. The files at ``staged`` are deleted if it is refused, or if an earlier run with its key has won.
    ``mark`` is that of the run's own lease. ``on_commit`` receives the commit at once (see ``commit``), before unused files are
    deleted: a later interrupt does not hide it. Raises the errors of ``commit`` and ``check``."""
    try:
        committed = commit(catalog, table, operation, before_swap=lambda: check(staged), on_commit=on_commit)
    except BaseException as e:
        discard(catalog, table, staged, mark=mark, after=e)
        raise
    unused = staged if committed.already_committed else [path for path in staged if path in committed.unused]
    discard(catalog, table, unused, mark=mark)
    return committed


def discard(
    catalog: Catalog,
    table: Table,
    staged: Sequence[str],
    *,
    mark: str = "",
    after: BaseException | None = None,
    seen: Table | None = None,
) -> Deletion:
    """Delete files written for a commit that did not happen, as ``discard_staged`` does; ``table`` is the table before they were
    written, ``seen`` the table as last seen."""
    return discard_staged(table, lambda: catalog.load_table(table.identifier[1:]), staged, mark=mark, after=after, seen=seen)
