"""A catalog of the one table that was named by its path: enough to plan, never to change anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from iceberg_ops.errors import NoSuchTableError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.table.table import Table

NAMESPACE = "path"


def job_table(table: Table) -> str:
    """A name for a job spec: ``path.files.<folder>``."""
    folder = re.sub(r"[^\w-]+", "_", table.location.rstrip("/").rsplit("/", 1)[-1]) or "table"
    return f"{NAMESPACE}.files.{folder}"


class PathCatalog:
    """Hands out one table; everything that would change it is refused."""

    name = NAMESPACE

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def io(self) -> FileIO:
        return self._table.io

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        return self._table

    def table_exists(self, identifier: tuple[str, ...]) -> bool:
        return True

    def commit_table(self, table: Table, requirements: Sequence[Any], updates: Sequence[Any]) -> Table:
        raise UnsupportedError(f"not supported: changing {table.location}, because a table given by its path is only read")

    def list_tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        return []

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return []

    def __getattr__(self, name: str) -> Any:
        raise NoSuchTableError(f"a table given by its path has no catalog that could {name.replace('_', ' ')}")
