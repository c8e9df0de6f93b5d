"""Our compaction beside a Java writer on one table of one SQL catalog: every commit that Java acknowledged is in the table, for
both readers.

While Java runs a statement (an append, or a merge-on-read delete), one of our threads compacts the same files: one compaction for
each statement of Java, so that they always overlap. Java itself refuses a delete that it planned on files which we then replaced,
and the test repeats it as a user would.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from queue import SimpleQueue

import pytest

from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import IcebergOpsError
from tests.interop.lake import JavaError, Lake, same
from tests.interop.test_we_read_java import create, modes

pytestmark = [pytest.mark.oracle, pytest.mark.java]

TURNS = 5
ROWS = 40
"""Of one append."""
MOST_TRIES = 10
REFUSED = (
    "Cannot commit, missing data files",
    "Found concurrently added DV",
    "Cannot delete file where some, but not all, rows match filter",
)
"""The last one: Java saw that each file has only rows to delete, and then a compaction put them beside others."""


@dataclass
class Compactor:
    """Compacts everything once for each ``go`` (False: stop)."""

    lake: Lake
    reports: list[ActionReport] = field(default_factory=list)
    errors: list[IcebergOpsError] = field(default_factory=list)
    go: SimpleQueue[bool] = field(default_factory=SimpleQueue)

    def run(self) -> None:
        while self.go.get():
            try:
                self.reports.append(self.lake.maintain("rewrite_data_files", rewrite_all="true"))
            except IcebergOpsError as e:
                self.errors.append(e)

    @property
    def statuses(self) -> Counter[str]:
        return Counter(report.status for report in self.reports)


def until_committed(lake: Lake, statement: str) -> int:
    """Run it in Java, again where Java refuses it because of a compaction; how often it was refused."""
    for refusals in range(MOST_TRIES):
        try:
            lake.run_java(statement)
        except JavaError as e:
            if not any(text in str(e) for text in REFUSED):
                raise
        else:
            return refusals
    raise AssertionError(f"Java was refused {MOST_TRIES} times: {statement}")


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_a_java_writer_beside_our_compaction_loses_nothing(lake: Lake, version: int) -> None:
    create(lake, version, **modes("merge-on-read"), commit_retry_num__retries="50", commit_retry_min__wait__ms="5")
    lake.run_java(f"INSERT INTO {{T}} SELECT id, 'first', 'a' FROM range({ROWS})")
    compactor = Compactor(lake)
    thread = threading.Thread(target=compactor.run, name="compactor", daemon=True)
    rows, refusals = set(range(ROWS)), 0
    thread.start()
    try:
        for turn in range(1, TURNS + 1):
            first = ROWS * turn
            compactor.go.put(True)
            lake.run_java(f"INSERT INTO {{T}} SELECT id, 'turn {turn}', 'a' FROM range({first}, {first + ROWS})")
            rows |= set(range(first, first + ROWS))
            compactor.go.put(True)
            refusals += until_committed(lake, f"DELETE FROM {{T}} WHERE id % 9 = {turn % 9}")
            rows -= {i for i in rows if i % 9 == turn % 9}
    finally:
        compactor.go.put(False)
        thread.join(60)
    assert not thread.is_alive()
    assert compactor.errors == []
    assert compactor.statuses == {"committed": 2 * TURNS}
    ids = sorted(scan_table(lake.table, columns=["id"]).column("id").to_pylist())
    assert ids == sorted(rows), f"{refusals} deletes of Java were refused and repeated"
    same(lake.java_rows(), lake.our_rows(), "at the end")
    head = lake.table.metadata.current_snapshot
    assert head is not None
    assert int(head.summary["total-records"]) - int(head.summary["total-position-deletes"]) == len(rows)
