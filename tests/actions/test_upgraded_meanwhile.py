"""The table becomes v3 while a job writes deletes for v2. The job's input was valid, so this is a conflict and not bad input; if
the job can write the deletes again, it does."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpgradeFormatVersion
from iceberg_ops.errors import ValidationError
from tests.actions.lake import Lake, make_lake, numbered
from tests.catalog.wrappers import Meddles

JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "rewrite of position deletes": ("rewrite_position_delete_files", {"rewrite_all": "true"}),
    "conversion": ("convert_equality_deletes", {}),
    "conversion in batches": ("convert_equality_deletes", {"partial_progress.enabled": "true"}),
}


def upgrade(lake: Lake) -> None:
    commit(lake.catalog, lake.table, UpgradeFormatVersion(format_version=3))


@pytest.mark.parametrize("name", JOBS)
def test_a_rewrite_of_deletes_that_an_upgrade_came_before_is_a_conflict_and_right_when_run_again(name: str) -> None:
    action, options = JOBS[name]
    lake = make_lake(version=2)
    lake.append(numbered(1, 5), numbered(11, 5))
    if name == "rewrite of position deletes":
        for position in range(3):
            lake.delete_positions((lake.tasks()[0], [position]))
    else:
        lake.delete_ids(2, 12)
    rows, files = lake.rows(), {path for path in lake.paths() if "/data/" in path}
    with pytest.raises(ValidationError, match="the table was upgraded from v2 to v3: Must use DVs"):
        lake.run(action, catalog=Meddles(lake.catalog, lambda: upgrade(lake)), **options)
    assert {path for path in lake.paths() if "/data/" in path} == files
    assert lake.run(action, **options).status == "committed"
    assert lake.rows() == rows


def test_deletes_that_a_compaction_carried_over_are_written_again_for_an_upgraded_table() -> None:
    lake = make_lake(version=2)
    lake.append(numbered(1, 5))
    lake.append(numbered(11, 5))
    others = (lambda: lake.delete_positions((lake.tasks()[0], [1])), lambda: upgrade(lake))
    expected = len(lake.rows()) - 1
    report = lake.run("rewrite_data_files", catalog=Meddles(lake.catalog, *others), rewrite_all="true")
    assert report.status == "committed"
    assert (report.metrics["carried-over-deletes-count"], report.metrics["carried-over-rounds-count"]) == (1, 2)
    assert [d.is_deletion_vector for task in lake.tasks() for d in task.deletes] == [True]
    assert len(lake.rows()) == expected
