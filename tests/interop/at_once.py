"""Iceberg Java and three processes of this package that change one table at the same time, and what must be there afterwards."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, RowChange
from iceberg_ops.errors import CommitFailedError, ValidationError
from tests.actions.lake import Lake as OurLake
from tests.interop.catalogs import Shared
from tests.interop.lake import Lake, same
from tests.interop.test_concurrent_java import until_committed
from tests.torture.killed_operations import write_rows

COMMITS = 25 if "ICEBERG_OPS_TORTURE" in os.environ else 5
"""Of each process."""
OURS = 3
"""Processes of this package."""
PROPERTIES = (
    "'format-version'='2', 'write.delete.mode'='merge-on-read', 'commit.retry.num-retries'='100', 'commit.retry.min-wait-ms'='5', "
    "'commit.retry.max-wait-ms'='500'"
)
"""Of a table that many write at once."""
_MOST_TRIES = 50

Done = tuple[str, int, str]
"""An acknowledged commit: ``has`` or ``gone`` with a row and its text, ``set`` with a writer and the value of its property,
``compacted``."""
Processes = list[ProcessPoolExecutor]


@contextmanager
def processes() -> Iterator[Processes]:
    """For one test after the other: each of the executors is one process."""
    with ExitStack() as until_the_end:
        context = get_context("spawn")
        yield [until_the_end.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(OURS)]


def mixed(config: CatalogConfig, worker: int) -> list[Done]:
    """``COMMITS`` of a process: of five, three append a row, one deletes or updates a row of its own, one sets a property. In the
    first process, one of the three compacts instead."""
    lake = OurLake(load_catalog(config))

    def job(name: str, number: str, **fields: Any) -> str:
        spec = JobSpec(job=name, table=f"{config.name}.ns.t", catalog=config, lane="local", run_key=number, **fields)
        return until_done(lambda: run_job(spec, catalog=lake.catalog).status)

    done: list[Done] = []
    for n in range(COMMITS):
        row, name = worker * 1_000 + n, f"{worker}-{n}"
        match n % 5:
            case 4:
                commit(lake.catalog, lake.table, UpdateProperties(updates={f"by.{worker}": name}))
                done.append(("set", worker, name))
            case 3 if (worker + n) % 2:
                assert job("delete", name, where=f"id = {row - 1}") == "committed"
                done.append(("gone", row - 1, ""))
            case 3:
                assert job("update", name, where=f"id = {row - 1}", change=RowChange(set={"data": f"'{name}'"})) == "committed"
                done.append(("has", row - 1, name))
            case 1 if worker == 1:
                if job("rewrite_data_files", name, options={"min-input-files": "2"}) == "committed":
                    done.append(("compacted", 0, ""))
            case _:
                commit(lake.catalog, lake.table, AppendFiles(added=write_rows(lake, [(row, name, "a")], name), run_key=name))
                done.append(("has", row, name))
    return done


def until_done(attempt: Callable[[], str]) -> str:
    """The result; a commit that is refused because of another one is tried again under its run key, as a scheduler does it."""
    for _ in range(_MOST_TRIES - 1):
        try:
            return attempt()
        except (CommitFailedError, ValidationError):
            continue
    return attempt()


def _java(lake: Lake) -> list[Done]:
    """As many of Java: rows are appended and deleted, a property is set."""
    done: list[Done] = []
    for n in range(COMMITS):
        match n % 5:
            case 4:
                lake.run_java(f"ALTER TABLE {{T}} SET TBLPROPERTIES ('by.0' = '{n}')")
                done.append(("set", 0, str(n)))
            case 3:
                until_committed(lake, f"DELETE FROM {{T}} WHERE id = {n - 1}")
                done.append(("gone", n - 1, ""))
            case _:
                lake.run_java(f"INSERT INTO {{T}} VALUES ({n}, 'java', 'b')")
                done.append(("has", n, "java"))
    return done


def _pyiceberg(table: Any) -> list[Done]:
    """As many of pyiceberg: appends."""
    done: list[Done] = []
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("data", pa.string()), pa.field("region", pa.string())])
    for n in range(9_000, 9_000 + COMMITS):
        table.append(pa.table({"id": [n], "data": ["pyiceberg"], "region": ["c"]}, schema))
        done.append(("has", n, "pyiceberg"))
    return done


def all_at_once(shared: Shared, ours: Processes, pyiceberg: Callable[[], Any] | None = None, more: str = "") -> None:
    """Each writes to one new table; so does pyiceberg, where ``pyiceberg`` opens its catalog. Afterwards each acknowledged change
    of rows is one snapshot, each acknowledged commit one version of the table, and every reader finds all rows and properties.
    ``more``: of the table's properties."""
    lake = Lake(shared.java, shared.catalog, "t")
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT NOT NULL, data STRING, region STRING) TBLPROPERTIES ({PROPERTIES}{more})")
    first = _version(lake)
    writers = [process.submit(mixed, shared.config, worker) for worker, process in enumerate(ours, 1)]
    with ThreadPoolExecutor() as threads:
        others = [threads.submit(_java, lake)]
        others += [threads.submit(_pyiceberg, pyiceberg().load_table("ns.t"))] if pyiceberg else []
        done = [one for writer in (*others, *writers) for one in writer.result()]
    rows = {row: text for what, row, text in done if what == "has"}
    rows = {row: text for row, text in rows.items() if ("gone", row, "") not in done}
    assert len(done) >= COMMITS * (len(writers) + len(others)) - COMMITS // 5, "a compaction may have found nothing to do"
    assert [row[:2] for row in OurLake(lake.catalog).rows()] == sorted(rows.items())
    same(lake.java_rows(), lake.our_rows(), "at the end")
    table = lake.table
    if table.location.startswith("file:"):  # pyiceberg's HDFS needs Hadoop's libraries.
        theirs = pyiceberg().load_table("ns.t") if pyiceberg else StaticTable.from_metadata(str(table.metadata_location))
        assert sorted(theirs.scan().to_arrow().column("id").to_pylist()) == sorted(rows)
    assert table.properties.items() >= {f"by.{worker}": text for what, worker, text in done if what == "set"}.items()
    of_rows = sum(what != "set" for what, _, _ in done)
    assert [s.sequence_number for s in table.metadata.snapshots] == list(range(1, of_rows + 1))
    assert _version(lake) - first == len(done)


def _version(lake: Lake) -> int:
    """The number in the name of the current metadata file, which every writer counts on."""
    found = re.match(r"v?(\d+)", str(lake.table.metadata_location).rpartition("/")[2])
    assert found is not None
    return int(found[1])
