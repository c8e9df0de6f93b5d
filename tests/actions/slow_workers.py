"""A program that rewrites a table in worker processes: python slow_workers.py FOLDER [stops]. Its workers write their files at once
and then sleep; each leaves a note in FOLDER/notes, and a file in its temporary folder. With ``stops`` the program is interrupted
when it has the first answer, while it waits for no worker."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers import local_runner
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import GroupFailure, Progress
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import Lake, numbered
from tests.builders import make_table


def slow(work: GroupWork) -> GroupResult | GroupFailure:
    """Called in a worker."""
    result = rewrite_group(work)
    notes = Path(os.environ["NOTES"])
    spilled = tempfile.mkdtemp(prefix="iceberg-ops-sort-")
    (notes / f"{os.getpid()}").write_text(spilled)
    if work.group_id.startswith("g0001"):
        while len(list(notes.iterdir())) < 3:  # or this worker could take a second group before another one has begun
            time.sleep(0.01)
        return result
    time.sleep(120)
    return result


def stop(progress: Progress) -> None:
    raise KeyboardInterrupt


def main(folder: Path, *, stops: bool) -> None:
    catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=str(folder / "wh"))
    catalog.create_namespace(("ns",))
    make_table(catalog, partitioned=True)
    lake = Lake(catalog)
    for i, region in enumerate("abc"):
        lake.append(*(numbered(1000 * i + 10 * j, 10, region) for j in range(5)))
    print(lake.table.location, flush=True)
    local_runner.attempt = importlib.import_module("tests.actions.slow_workers").slow  # a worker cannot find what is in __main__
    config = CatalogConfig(name="test", type="filesystem", properties={"warehouse": str(folder / "wh")})
    job = JobSpec(job="rewrite_data_files", table=".".join(lake.table.identifier), catalog=config)
    run_job(job, runner=LocalRunner(workers=3, inline_bytes=0), progress=stop if stops else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), stops=sys.argv[2:] == ["stops"])
