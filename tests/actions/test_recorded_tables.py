"""Maintenance of tables that other engines wrote: after every action the rows are the same, and no delete is left to apply."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import IcebergOpsError, UnsupportedError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.table.metadata_files import table_from_path
from iceberg_ops.table.table import Table
from tests.fixture_paths import FIXTURES, requires_fixtures

LARGEST = 30_000_000
ACTIONS = (
    ("convert_equality_deletes", {}),
    ("rewrite_position_delete_files", {"rewrite-all": "true"}),
    ("rewrite_data_files", {"rewrite-all": "true"}),
    ("rewrite_manifests", {}),
    ("expire_snapshots", {"older-than": "0s"}),
)


def recorded_tables() -> list[Path]:
    """Folders that hold a table's ``metadata`` folder, one of each recording, small ones only."""
    if FIXTURES is None:
        return []
    found = []
    for recording in sorted(p for p in Path(FIXTURES).iterdir() if p.is_dir() and p.name != "golden"):
        folders = sorted(p.parent for p in recording.rglob("metadata") if p.is_dir())
        if folders and sum(p.stat().st_size for p in recording.rglob("*") if p.is_file()) < LARGEST:
            found.append(folders[0])
    return found


def label(folder: Path) -> str:
    return str(folder.relative_to(FIXTURES)) if FIXTURES else folder.name


def rows(table: Table) -> Counter[str]:
    found = scan_table(table)
    return Counter(map(repr, zip(*(column.to_pylist() for column in found.columns), strict=True)))


@requires_fixtures
@pytest.mark.fixtures
@pytest.mark.parametrize("folder", recorded_tables(), ids=label)
def test_every_action_keeps_the_rows_of_a_recorded_table(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, copy_function=shutil.copyfile)
    location = table_from_path(str(copy), LocalFileIO()).location
    io = MappedFileIO(LocalFileIO(), [(location, str(copy))])
    table = table_from_path(str(copy), io)
    try:
        before = rows(table)
    except IcebergOpsError:
        # Recordings of metadata only, or of what no reader reads; what is refused is held by the reader's tests.
        return
    catalog = MemoryCatalog("m", io)
    catalog.create_namespace(("ns",))
    catalog.register_table(("ns", "t"), f"{location.rstrip('/')}/metadata/{table.metadata_location.rsplit('/', 1)[-1]}")
    for action, options in ACTIONS:
        job = JobSpec(job=action, table="m.ns.t", catalog=CatalogConfig(name="m", type="memory"), options=options)
        if table.properties.get("write.format.default") == "orc" and action.startswith("rewrite_") and "manifests" not in action:
            # Only ORC input is read; writing it is refused, and where there is nothing to write nothing is refused.
            with suppress(UnsupportedError):
                run_job(job, catalog=catalog, runner=LocalRunner(workers=1))
            continue
        report = run_job(job, catalog=catalog, runner=LocalRunner(workers=1))
        assert rows(catalog.load_table(("ns", "t"))) == before, action
        if action == "rewrite_data_files" and report.status == "committed":
            assert report.after is not None
            assert report.after.delete_files == 0
