"""A job that has no right or no way to list, read or write a file: the error names the file, and is not INTERNAL."""

from __future__ import annotations

import errno
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import TerminalError
from iceberg_ops.io import local
from iceberg_ops.io.machine_limits import typed_os_errors
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace

RIGHTS = pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS], ids=errno.errorcode.get)


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    found = RowsPlace.at(tmp_path)
    found.create(Schema.of(NestedField(1, "id", LONG)))
    append(found, 1)
    append(found, 2)
    return found


def append(place: RowsPlace, value: int, **parts: Any) -> ActionReport:
    return place.run("append", source=place.source([{"id": value}], pa.schema({"id": pa.int64()})), **parts)


@RIGHTS
@pytest.mark.parametrize(
    ("job", "options"), [("append", {}), ("rewrite_data_files", {"rewrite-all": "true"}), ("rewrite_manifests", {})]
)
def test_what_may_not_be_written_is_named(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, job: str, options: dict[str, str], number: int
) -> None:
    create = local._create

    def refuse(path: str) -> Any:
        if "report.json" in path or "/iceberg-ops/" in path:  # the job's own notes
            return create(path)
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(local, "_create", refuse)
    report = place.folder / "report.json"
    run = partial(append, place, 3) if job == "append" else partial(place.run, job, options=options)
    with pytest.raises(TerminalError, match=rf"warehouse/db/t/.*: {os.strerror(number)}: the user of this process may not"):
        run(report=str(report))
    assert json.loads(report.read_bytes())["error"]["code"] == "TERMINAL"
    assert place.rows() == [{"id": 1}, {"id": 2}]


@RIGHTS
@pytest.mark.parametrize("job", ["add_files", "remove_orphan_files"])
def test_a_folder_that_may_not_be_listed_is_named(place: RowsPlace, monkeypatch: pytest.MonkeyPatch, job: str, number: int) -> None:
    folder, scandir = place.folder / "source", os.scandir
    folder.mkdir()
    refused = folder if job == "add_files" else place.folder / "warehouse" / "db" / "t" / "data"

    def refuse(path: Any = ".") -> Any:
        if os.fspath(path) == str(refused):
            raise OSError(number, os.strerror(number), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(TerminalError, match=rf"{refused}: {os.strerror(number)}: the user of this process may not"):
        place.run(job, options={"source-path": str(folder)} if job == "add_files" else {})


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
@pytest.mark.parametrize(("path", "says"), [("file/below", "Not a directory"), ("x" * 300, "File name too long")])
def test_a_folder_that_cannot_be_is_named(place: RowsPlace, key: str, path: str, says: str) -> None:
    (place.folder / "file").write_text("x")
    commit(place.catalog, place.table(), UpdateProperties(updates={key: str(place.folder / path)}))
    with pytest.raises(TerminalError, match=rf"{place.folder}/{path}.*: {says}: nothing can be listed, read or written there"):
        append(place, 3)
    assert place.rows() == [{"id": 1}, {"id": 2}]


def test_other_errors_of_the_system_stay_what_they_are() -> None:
    with pytest.raises(FileNotFoundError), typed_os_errors():
        raise FileNotFoundError(errno.ENOENT, "no such file", "/x")
    with pytest.raises(PermissionError), typed_os_errors():
        raise PermissionError
    with pytest.raises(TerminalError, match=r"^Permission denied: the user"), typed_os_errors():
        raise PermissionError(errno.EACCES, "no")
