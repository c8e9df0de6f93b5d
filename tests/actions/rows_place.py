"""A catalog on disk and row operations of lane local on its tables, for tests of these operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.updates import LAST_ADDED, AddSchema, SetCurrentSchema
from iceberg_ops.table.table import Table
from tests.catalog.wrappers import Meddles


@dataclass
class RowsPlace:
    """Tables ``test.db.NAME``."""

    folder: Path
    config: CatalogConfig
    catalog: Catalog
    _names: Any = field(default_factory=itertools.count)

    @classmethod
    def at(cls, folder: Path) -> RowsPlace:
        config = CatalogConfig(name="test", type="filesystem", properties={"warehouse": str(folder / "warehouse")})
        catalog = load_catalog(config)
        catalog.create_namespace(("db",))
        return cls(folder, config, catalog)

    def create(self, schema: Schema, spec: PartitionSpec = UNPARTITIONED, name: str = "t", **properties: str) -> Table:
        named = {key.replace("__", "-").replace("_", "."): value for key, value in properties.items()}
        return self.catalog.create_table(("db", name), schema, spec=spec, properties=named)

    def table(self, name: str = "t") -> Table:
        return self.catalog.load_table(("db", name))

    def source(self, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> Source:
        path = self.folder / f"source-{next(self._names)}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows), schema), path)
        return Source(format="parquet", paths=[str(path)])

    def run(self, job: str, *others: Callable[[], object], name: str = "t", **parts: Any) -> ActionReport:
        """Run a job; each of ``others`` happens right before one of its swaps."""
        spec = JobSpec(job=job, table=f"test.db.{name}", catalog=self.config, lane="local", **parts)
        return run_job(spec, catalog=Meddles(self.catalog, *others))

    def update(self, mode: str, set_: dict[str, str], where: str | None = None, **parts: Any) -> ActionReport:
        return self.run("update", where=where, change=RowChange(mode=mode, set=set_), **parts)  # type: ignore[arg-type]

    def merge(self, mode: str, source: Source, on: str, *clauses: MergeClause, **parts: Any) -> ActionReport:
        change = RowChange(mode=mode, on=on, clauses=list(clauses))  # type: ignore[arg-type]
        return self.run("merge", *parts.pop("others", ()), source=source, change=change, **parts)

    def rows(self, name: str = "t", columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Live rows, in the order of their text."""
        found = scan_table(self.table(name), Scan(), columns=columns).to_pylist()
        return sorted(found, key=lambda r: [(v is None, str(v)) for v in r.values()])

    def set_schema(self, schema: Schema, name: str = "t") -> None:
        """As another writer does it, which asks for nothing."""
        self.catalog.commit_table(self.table(name), (), (AddSchema(schema), SetCurrentSchema(LAST_ADDED)))

    def data_on_disk(self, name: str = "t") -> set[str]:
        """Files below the table's data folder."""
        location = Path(self.table(name).location.removeprefix("file://").removeprefix("file:"))
        return {str(p.relative_to(location)) for p in (location / "data").rglob("*") if p.is_file()}
