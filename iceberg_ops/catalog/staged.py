"""A catalog in which one table does not exist yet; the first commit to the table creates it.

Operations expect an existing table. Through this catalog a staged table looks like one: the first commit creates it together with
its content, in one step of the catalog. A process that dies before that leaves files, and no table.
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
    """``inner`` plus the table ``staged`` (from its ``stage_table``); all other calls are passed on."""

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
        """The current table; the staged one as long as no table has its name."""
        try:
            return self._inner.load_table(identifier)
        except NoSuchTableError:
            if identifier != self._staged.identifier[1:]:
                raise
            return self._staged

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        """Create the staged table with ``updates`` in it, or commit to an existing table. Raises AlreadyExistsError."""
        if table is self._staged:
            return self._inner.commit_table(table, (AssertCreate(),), updates)
        return self._inner.commit_table(table, requirements, updates)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
