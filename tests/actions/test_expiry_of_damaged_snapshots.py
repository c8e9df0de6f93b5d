"""One damaged file does not stop an expiry: the files that it may refer to stay and are reported, and all other files are
deleted."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import IncompleteError
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import CACHE, manifests_of
from tests.actions.lake import Lake, make_lake, numbered

ALL: dict[str, Any] = {"older_than": "2100-01-01T00:00:00Z", "retain_last": "1"}


def rewritten(version: int = 2) -> Lake:
    """Two appends, of which nothing is live any more after a rewrite."""
    lake = make_lake(version=version)
    for first in (0, 10):
        lake.append(numbered(first, 3))
    lake.run("rewrite_data_files", rewrite_all=True)
    return lake


def damage(lake: Lake, location: str) -> None:
    io = lake.table.io
    io.write(location, io.read(location)[:200], overwrite=True)


def damage_list(lake: Lake, snapshot: Snapshot) -> str:
    assert snapshot.manifest_list is not None
    damage(lake, snapshot.manifest_list)
    return snapshot.manifest_list


def kept(report: ActionReport) -> list[tuple[str, bool]]:
    return [(s.file_path, s.reason.startswith("it is damaged: ")) for s in report.skipped]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_damaged_manifest_list_of_an_expired_snapshot_stays_and_the_rest_goes(version: int) -> None:
    lake = rewritten(version)
    rows, first = lake.rows(), lake.table.metadata.snapshots[0]
    lost = damage_list(lake, first)
    planned = lake.run("expire_snapshots", dry_run=True, **ALL)
    report = lake.run("expire_snapshots", **ALL)
    assert (report.status, lake.rows()) == ("committed", rows)
    assert kept(report) == kept(planned) == [(lost, True)]
    assert report.metrics["deleted-data-files-count"] == planned.metrics["deleted-data-files-count"] == 2
    assert report.metrics["deleted-manifest-lists-count"] == 1
    assert lost in lake.paths()
    lake.append(numbered(20, 3))
    again = lake.run("expire_snapshots", **ALL)
    assert (again.status, again.metrics["expired-snapshots-count"], len(lake.table.metadata.snapshots)) == ("committed", 1, 1)


def test_a_damaged_manifest_of_an_expired_snapshot_stays_with_its_files_and_what_leads_to_it() -> None:
    lake = rewritten()
    first = lake.table.metadata.snapshots[0]
    (manifest,) = manifests_of(lake.table, first)
    damage(lake, manifest.manifest_path)
    CACHE.clear()
    before = set(lake.paths())
    report = lake.run("expire_snapshots", **ALL)
    assert (report.status, kept(report)) == ("committed", [(manifest.manifest_path, True)])
    assert {manifest.manifest_path, first.manifest_list} <= set(lake.paths())
    assert report.metrics["deleted-data-files-count"] == 1
    assert before - set(lake.paths())


def test_a_damaged_snapshot_that_was_retained_once_can_expire_later() -> None:
    lake = rewritten()
    damage_list(lake, lake.table.metadata.snapshots[1])
    first = str(lake.table.metadata.snapshots[0].snapshot_id)
    with pytest.raises(IncompleteError):
        lake.run("expire_snapshots", snapshot_ids=first, older_than="2000-01-01T00:00:00Z")
    assert len(lake.table.metadata.snapshots) == 2
    rows = lake.rows()
    for _ in range(2):
        lake.append(numbered(20, 3))
        report = lake.run("expire_snapshots", **ALL)
    assert (report.status, len(lake.table.metadata.snapshots)) == ("committed", 1)
    assert [row for row in lake.rows() if row[0] < 20] == rows
