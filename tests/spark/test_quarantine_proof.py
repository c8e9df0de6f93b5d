"""If a run wrote no file of rows, its run key proves whether the quarantine may be deleted. No Spark session is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iceberg_ops.actions.rows import source_commits
from iceberg_ops.actions.rows.row_engine import WrittenSource
from iceberg_ops.actions.run.context import Outcome
from iceberg_ops.actions.run.run_identity import job_run_identity
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.protocol.run_keys import find_run
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.io.local import LocalFileIO
from tests.builders import make_table

OPERATION = "0123456789abcdef0123456789abcdef"


class Lake:
    """A table, and a quarantine file of a run that wrote nothing else."""

    def __init__(self, folder: Path) -> None:
        self.catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=str(folder))
        self.catalog.create_namespace(("ns",))
        self.table = make_table(self.catalog)
        place = Path(self.table.location.removeprefix("file://")) / "quarantine" / f"00000-{OPERATION}-bad.jsonl"
        place.parent.mkdir(parents=True)
        place.write_text('{"bad": 1}\n')
        self.quarantine = place
        config = CatalogConfig(name="test", type="filesystem", properties={"warehouse": str(folder)})
        source = Source(format="csv", paths=["/in"])
        self.job = JobSpec(job="append", table="test.ns.t", catalog=config, run_key="day-1", source=source)

    def remember(self, outcome: Outcome) -> None:
        @contextmanager
        def step(_: str) -> Iterator[None]:
            yield

        run: Any = SimpleNamespace(
            job=self.job, catalog=self.catalog, table=self.table, outcome=outcome, lease_mark=OPERATION, step=step
        )
        bad = SkippedFile(file_path=str(self.quarantine), reason="bad rows")
        source_commits.remember(run, WrittenSource(schema=self.table.schema, files=(), quarantined=[bad], rows_quarantined=1))


class Stops(Outcome):
    def record(self, committed: object) -> None:
        raise KeyboardInterrupt


def test_the_quarantine_stays_where_the_run_key_is_remembered(tmp_path: Path) -> None:
    """An interrupt between the commit and its record: a repeated run finds its key, and would not write the rows again."""
    lake = Lake(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        lake.remember(Stops())
    assert find_run(lake.catalog.load_table(("ns", "t")), job_run_identity(lake.job)) is not None
    assert lake.quarantine.exists()


def test_the_quarantine_goes_where_the_run_key_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)

    def stops(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(source_commits, "commit", stops)
    with pytest.raises(KeyboardInterrupt):
        lake.remember(Outcome())
    assert not lake.quarantine.exists()


def test_the_quarantine_stays_where_the_table_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)

    def fails(*_: object) -> None:
        raise OSError("no answer")

    monkeypatch.setattr(lake.catalog, "load_table", fails)
    with pytest.raises(OSError, match="no answer"):
        lake.remember(Outcome())
    assert lake.quarantine.exists()
