"""A table whose owner wants it encrypted (``encryption.key-id``) gets no plain file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.errors import UnsupportedError
from tests.actions.rows_place import RowsPlace
from tests.builders import SCHEMA, data_file

REFUSED = r"not supported: writing files of table .*, because it is encrypted \(table property encryption.key-id\)"
KEYS = UpdateProperties(updates={"encryption.key-id": "master"})
ROW = {"id": 1, "data": "secret", "region": "x"}


def files(place: RowsPlace) -> set[str]:
    return {str(p) for p in place.folder.rglob("*") if p.is_file() and "/iceberg-ops/" not in str(p)}


def rows(place: RowsPlace, job: str, **parts: Any) -> None:
    place.run(job, source=place.source([ROW], arrow_schema(SCHEMA)), **parts)


WRITERS: dict[str, Callable[[RowsPlace], object]] = {
    "append": lambda place: rows(place, "append"),
    "overwrite": lambda place: rows(place, "overwrite"),
    "upsert": lambda place: rows(place, "upsert", options={"upsert-keys": "id"}),
    "delete": lambda place: place.run("delete", where="id = 1"),
    "delete of whole files": lambda place: place.run("delete", where="true"),
    "update": lambda place: place.run("update", where="id = 1", change=RowChange(mode="merge-on-read", set={"data": "'b'"})),
    "compaction": lambda place: place.run("rewrite_data_files", options={"rewrite-all": "true"}),
    "manifests": lambda place: place.run("rewrite_manifests"),
    "python": lambda place: commit(place.catalog, place.table(), AppendFiles(added=(data_file("a"),))),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_plain_file_is_written(tmp_path: Path, writer: str, version: int) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(SCHEMA, **{"format-version": str(version)})
    for _ in range(2):
        rows(place, "append")
    commit(place.catalog, place.table(), KEYS)
    known, metadata = files(place), place.table().metadata
    with pytest.raises(UnsupportedError, match=REFUSED):
        WRITERS[writer](place)
    assert {f for f in files(place) - known if "/source-" not in f} == set()
    assert place.table().metadata == metadata


def test_its_owner_may_change_that(tmp_path: Path) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(SCHEMA, **{"encryption.key-id": "master"})
    commit(place.catalog, place.table(), UpdateProperties(removals=("encryption.key-id",)))
    rows(place, "append")
    assert place.rows() == [ROW]
