"""A catalog in which one table does not exist yet, and comes to be with the first commit to it.

Operations are written for tables that are there. Seen through this, a staged table is one: what is committed to it creates it,
content and all, in one step of the catalog. Whoever dies before has left files, and no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.errors import NoSuchTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.requirements import AssertCreate, TableRequirement
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table.table import Table


class CatalogWithStagedTable:
    """``inner`` with ``staged`` (of its ``stage_table``); everything else is passed on."""

    def __init__(self, inner: Catalog, staged: Table) -> None:
        self._inner = inner
        self._staged = staged

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def io(self) -> FileIO:
        return self._inner.io

    def load_table(self, identifier: Identifier) -> Table:
        """The table as it is; the staged one as long as there is none of its name."""
        try:
            return self._inner.load_table(identifier)
        except NoSuchTableError:
            if identifier != self._staged.identifier[1:]:
                raise
            return self._staged

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        """Create the staged table with ``updates`` in it; a table that is there is committed to. Raises AlreadyExistsError."""
        if table is self._staged:
            return self._inner.commit_table(table, (AssertCreate(),), updates)
        return self._inner.commit_table(table, requirements, updates)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
