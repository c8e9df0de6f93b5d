"""Several engines that write one table at the same time, and what must be there afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tests.interop.lake import Lake, same
from tests.interop.test_concurrent_java import until_committed

COMMITS = 25
"""Of each writer."""
PROPERTIES = (
    "'format-version'='2', 'write.delete.mode'='merge-on-read', 'commit.retry.num-retries'='100', 'commit.retry.min-wait-ms'='5', "
    "'commit.retry.max-wait-ms'='500'"
)
"""Of a table that many write at once."""


def all_at_once(lake: Lake, pyiceberg: Callable[[], Any], *, with_pyiceberg: bool = True) -> None:
    """Java appends and deletes, pyiceberg appends, this package appends and compacts. Then all three read the same rows: those that
    were acknowledged. ``pyiceberg`` gives its catalog. The table is made here."""
    rows, errors = set[int](), list[BaseException]()

    def java() -> None:
        for n in range(COMMITS):
            if n % 5 == 4:
                until_committed(lake, f"DELETE FROM {{T}} WHERE id = {n - 1}")
                rows.discard(n - 1)
            else:
                lake.run_java(f"INSERT INTO {{T}} VALUES ({n}, 'java')")
                rows.add(n)

    def theirs() -> None:
        table = pyiceberg().load_table("ns.t")
        for n in range(1000, 1000 + COMMITS):
            table.append(pa.table({"id": pa.array([n], pa.int64()), "who": ["pyiceberg"]}))
            rows.add(n)

    def ours() -> None:
        for n in range(2000, 2000 + COMMITS):
            lake.append([(n, "we")])
            rows.add(n)

    def compact() -> None:
        for _ in range(COMMITS // 5):
            lake.maintain("rewrite_data_files", min_input_files=2)

    def kept(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 - raised in the test
            errors.append(e)

    works = [java, ours, compact, *([theirs] if with_pyiceberg else [])]
    threads = [threading.Thread(target=kept, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    ids = sorted(int(text.split("'id': ")[1].split(",")[0]) for text in lake.our_rows())
    assert ids == sorted(rows)
    same(lake.java_rows(), lake.our_rows(), "at the end")
    assert sorted(pyiceberg().load_table("ns.t").scan().to_arrow().column("id").to_pylist()) == ids
