"""What the tests of the catalog in Nessie share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from tests.builders import IDENTIFIER, data_file

Open = Callable[..., NessieCatalog]


def append(catalog: Any, path: str, identifier: tuple[str, ...] = IDENTIFIER, **options: Any) -> None:
    commit(catalog, catalog.load_table(identifier), AppendFiles(added=(data_file(path),), **options), sleep=lambda _: None)


def metadata_files(catalog: NessieCatalog) -> set[str]:
    warehouse = str(catalog._warehouse)
    return {i.location for i in catalog.io.list_prefix(warehouse) if i.location.endswith("metadata.json")}
