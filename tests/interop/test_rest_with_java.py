"""Iceberg Java in Spark and this package on one REST server: each reads what the other commits, and commits on top of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, Source
from iceberg_ops.data.reading.reader import scan_table
from tests.interop.catalogs import Shared, shared_catalog
from tests.interop.lake import Java

pytestmark = [pytest.mark.java, pytest.mark.oracle, pytest.mark.slow]


@dataclass(frozen=True)
class BothSides:
    """``name`` is the catalog's in Spark and here."""

    shared: Shared

    @property
    def java(self) -> Java:
        return self.shared.java

    @property
    def name(self) -> str:
        return self.shared.config.name

    def java_rows(self) -> list[Any]:
        return sorted(tuple(row.values()) for row in self.java.rows(f"SELECT * FROM {self.name}.ns.t").to_pylist())

    def our_rows(self) -> list[Any]:
        found = scan_table(self.shared.catalog.load_table(("ns", "t")))
        return sorted(tuple(row.values()) for row in found.to_pylist())

    def run(self, job: str, **fields: Any) -> Any:
        return run_job(JobSpec(job=job, table=f"{self.name}.ns.t", catalog=self.shared.config, lane="local", **fields))


@pytest.fixture
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> BothSides:
    return BothSides(shared_catalog("rest", request.getfixturevalue, tmp_path))


@pytest.mark.parametrize("version", [2, 3])
def test_java_and_we_write_one_table_in_turns(shared: BothSides, version: int, tmp_path: Any) -> None:
    java, name = shared.java, shared.name
    java(f"CREATE TABLE {name}.ns.t (id bigint, city string) TBLPROPERTIES ('format-version'='{version}')")
    expected: list[tuple[int, str]] = []

    def ours(n: int) -> None:
        (tmp_path / f"{n}.csv").write_text(f"id,city\n{n},ours\n")
        source = Source(format="csv", paths=[str(tmp_path / f"{n}.csv")], options={"header": "true"})
        assert shared.run("append", source=source, run_key=f"r{n}").status == "committed"
        expected.append((n, "ours"))

    def theirs(n: int) -> None:
        java(f"INSERT INTO {name}.ns.t VALUES ({n}, 'java')")
        expected.append((n, "java"))

    turns: list[Callable[[int], None]] = [ours, theirs, ours, theirs, ours, theirs]
    for n, turn in enumerate(turns):
        turn(n)
        assert shared.java_rows() == shared.our_rows() == sorted(expected)
    java(f"DELETE FROM {name}.ns.t WHERE id = 1")
    assert shared.run("delete", where="id = 2").status == "committed"
    expected = [row for row in expected if row[0] not in (1, 2)]
    assert shared.java_rows() == shared.our_rows() == sorted(expected)
    assert shared.run("rewrite_data_files", options={"rewrite-all": "true"}).status == "committed"
    assert shared.java_rows() == shared.our_rows() == sorted(expected)
    report = shared.run("expire_snapshots", options={"older-than": "2100-01-01T00:00:00Z", "retain-last": "1"})
    assert report.status == "committed", report
    assert shared.java_rows() == shared.our_rows() == sorted(expected)
    assert java.rows(f"SELECT count(*) AS n FROM {name}.ns.t.snapshots").to_pylist() == [{"n": 1}]
    java(f"ALTER TABLE {name}.ns.t ADD COLUMN more int")
    theirs_and_more = [(*row, None) for row in expected]
    assert shared.java_rows() == shared.our_rows() == sorted(theirs_and_more)
