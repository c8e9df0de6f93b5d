"""The demo's tables by the product's own metadata: current sizes, and retained snapshots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from demo.datasets import DATASETS, NAMESPACE
from demo.places import Places
from demo.stack import CATALOG, Stack
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.report import ActionReport, TableState
from iceberg_ops.table.state import table_state


@dataclass(frozen=True, slots=True)
class Report:
    """An action report and its path."""

    path: Path
    report: ActionReport


def catalog_config(stack: Stack) -> CatalogConfig:
    """The demo's catalog in the form of job specs."""
    return CatalogConfig(name=CATALOG, type="sql", properties=stack.catalog_properties())


def states(stack: Stack) -> dict[str, TableState]:
    """Size of every table at its current snapshot."""
    catalog = _catalog(stack)
    found = {}
    for name in DATASETS:
        table = catalog.load_table((NAMESPACE, name))
        found[name] = table_state(table, table.metadata.current_snapshot)
    return found


def snapshot_ids(stack: Stack, name: str) -> list[int]:
    """Every retained snapshot of a table, oldest first."""
    metadata = _catalog(stack).load_table((NAMESPACE, name)).metadata
    return [s.snapshot_id for s in sorted(metadata.snapshots, key=lambda s: s.timestamp_ms)]


def table_folder(stack: Stack, name: str) -> Path:
    """The folder of the table's files."""
    return stack.file_of(_catalog(stack).load_table((NAMESPACE, name)).location)


def reports(places: Places, dag_id: str) -> list[Report]:
    """Every action report of a DAG, by start."""
    found = [
        Report(p, from_json(p.read_bytes(), ActionReport, str(p))) for p in sorted((places.jobs / dag_id).rglob("report.json"))
    ]
    return sorted(found, key=lambda r: r.report.started_at)


def job_of(report: Report) -> dict[str, object]:
    """The job spec a report belongs to."""
    return dict(json.loads((report.path.parent / "job.json").read_text()))


def _catalog(stack: Stack) -> Catalog:
    return load_catalog(catalog_config(stack))
