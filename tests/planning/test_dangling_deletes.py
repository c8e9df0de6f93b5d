"""Delete files that apply to nothing once files are replaced."""

from __future__ import annotations

from iceberg_ops.planning.dangling_deletes import attached_to_nothing, deletes_of_only
from iceberg_ops.scan.tasks import DeleteFile
from tests.builders import position_deletes
from tests.planning.planning_cases import task

SHARED = position_deletes("/t/shared", rows=3)
OWN = position_deletes("/t/own", "/t/f.parquet")


def test_a_delete_dangles_when_every_file_it_applies_to_is_replaced() -> None:
    tasks = [task("f", 1, deletes=(SHARED, OWN)), task("g", 1, deletes=(SHARED,)), task("h", 1)]
    assert deletes_of_only(tasks, {"/t/f.parquet"}) == (OWN,)
    assert set(deletes_of_only(tasks, {"/t/f.parquet", "/t/g.parquet"})) == {OWN, SHARED}
    assert deletes_of_only(tasks, {"/t/h.parquet"}) == ()


def test_a_delete_attached_to_no_file_dangles_already() -> None:
    live = [DeleteFile(SHARED, 2), DeleteFile(OWN, 2)]
    assert attached_to_nothing(live, [task("f", 1, deletes=(OWN,))]) == (SHARED,)
