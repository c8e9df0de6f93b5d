"""A catalog with the one table that was named by its path: sufficient for planning, without any change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.table.table import Table

NAMESPACE = "path"


def job_table(table: Table) -> str:
    """A name for a job spec: ``path.files.<folder>``."""
    folder = re.sub(r"[^\w-]+", "_", table.location.rstrip("/").rsplit("/", 1)[-1]) or "table"
    return f"{NAMESPACE}.files.{folder}"


class PathCatalog:
    """Returns one table; every method that would change it is refused."""

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

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        return iter(())

    def list_tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        return []

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return []

    def namespace_properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        return {}

    def _refused(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(f"not supported: changing {self._table.location}, because a table given by its path is only read")

    # Missing methods are not supported by this catalog; isinstance checks of protocols then give the right answer.
    commit_table = create_table = drop_table = rename_table = register_table = create_namespace = drop_namespace = _refused
