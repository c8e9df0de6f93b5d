"""The files of a source on lane local: all of them are read completely, and none of the table's own files."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.local import source_files, source_in_memory
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import (
    CatalogUnavailableError,
    DataError,
    IcebergOpsError,
    MachineLimitError,
    RetryableError,
    UnsupportedError,
)
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace
from tests.builders import IDENTIFIER, make_catalog

JOBS: dict[str, dict[str, Any]] = {
    "append": {},
    "overwrite": {},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {"change": RowChange(on="target.id = source.id", clauses=[MergeClause(when="not-matched", action="insert")])},
}
EVERY_JOB = pytest.mark.parametrize("job", JOBS)


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    """A table of ids 1 and 2, of which 1 is deleted; a source of two folders, with ids 10 and 20."""
    found = RowsPlace.at(tmp_path)
    found.create(Schema.of(NestedField(1, "id", LONG)), write_delete_mode="merge-on-read")
    found.run("append", source=found.source([{"id": 1}, {"id": 2}], pa.schema({"id": pa.int64()})))
    found.run("delete", where="id = 1")
    for folder, value in (("a", 10), ("b", 20)):
        write(tmp_path / "source" / folder / "part.parquet", value)
    return found


def write(path: Path, *ids: int, rows_of_a_group: int = 100) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path, row_group_size=rows_of_a_group)


def run(place: RowsPlace, job: str, path: Path | str, **parts: Any) -> None:
    place.run(job, source=Source(format="parquet", paths=[str(path)]), **JOBS[job], **parts)


def unlistable(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    scandir = os.scandir

    def refuse(path: Any = ".") -> Any:
        if os.fspath(path) == str(folder):
            raise OSError(number, os.strerror(number), str(folder))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)


@EVERY_JOB
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, DataError),
        (errno.EIO, CatalogUnavailableError),
        (errno.EMFILE, MachineLimitError),
        (errno.ENOENT, RetryableError),
    ],
)
def test_a_folder_of_the_source_that_cannot_be_listed_is_an_error_and_not_left_out(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, job: str, dry_run: bool, number: int, kind: type[IcebergOpsError]
) -> None:
    source = place.folder / "source"
    unlistable(monkeypatch, source / "b", number)
    with pytest.raises(kind, match="source/b" if kind is not MachineLimitError else "open files"):
        run(place, job, source, dry_run=dry_run)
    assert place.rows() == [{"id": 2}]


@EVERY_JOB
def test_a_path_that_the_system_refuses_is_bad_data(place: RowsPlace, job: str) -> None:
    with pytest.raises(DataError, match="File name too long"):
        run(place, job, place.folder / ("x" * 300))


def replaced(path: Path) -> None:
    write(path.with_name("new"), *range(100, 106), rows_of_a_group=2)
    path.with_name("new").replace(path)


def overwritten(path: Path) -> None:
    write(path, *range(100, 106), rows_of_a_group=2)


def of_other_columns(path: Path) -> None:
    pq.write_table(pa.table({"other": [1.5]}), path)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@EVERY_JOB
@pytest.mark.parametrize("change", [replaced, overwritten, of_other_columns, cut_short, Path.unlink])
@pytest.mark.parametrize("late", [False, True])
def test_a_file_that_changes_while_it_is_read_is_not_read_in_part(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, job: str, change: Callable[[Path], None], late: bool
) -> None:
    path = place.folder / "source" / "a" / "part.parquet"
    read_parts = source_files.read_parts

    def meddled(*given: Any) -> Iterator[pa.RecordBatch]:
        if not late:
            change(path)
        yield from read_parts(*given)
        if late:
            change(path)

    monkeypatch.setattr(source_files, "read_parts", meddled)
    monkeypatch.setattr(source_in_memory, "read_parts", meddled)
    with pytest.raises(RetryableError, match=r"a/part\.parquet.* while it was read, so nothing was committed"):
        run(place, job, place.folder / "source")
    assert place.rows() == [{"id": 2}]
    assert len(place.data_on_disk()) == 2  # what was written of it is gone
    if change in (replaced, overwritten):
        monkeypatch.undo()
        run(place, job, place.folder / "source")
        assert {"id": 105} in place.rows()


@EVERY_JOB
def test_a_large_file_that_is_cut_while_it_is_read_is_an_error_and_not_the_end_of_the_process(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """One that is mapped into memory ended the process (SIGBUS)."""
    path = place.folder / "source" / "a" / "part.parquet"
    write(path, *random.Random(1).sample(range(1 << 62), 200_000), rows_of_a_group=20_000)
    assert path.stat().st_size > 1 << 20
    read_parts = source_files.read_parts

    def meddled(*given: Any) -> Iterator[pa.RecordBatch]:
        for batch in read_parts(*given):
            os.truncate(path, 0)
            yield batch

    monkeypatch.setattr(source_files, "read_parts", meddled)
    monkeypatch.setattr(source_in_memory, "read_parts", meddled)
    with pytest.raises(RetryableError, match=r"a/part\.parquet.* while it was read, so nothing was committed"):
        run(place, job, place.folder / "source")
    assert place.rows() == [{"id": 2}]


def its_folder(place: RowsPlace, link: Path) -> Path:
    link.symlink_to(place.folder / "warehouse" / "db" / "t" / "data")
    return link


def the_warehouse(place: RowsPlace, link: Path) -> Path:
    link.symlink_to(place.folder / "warehouse")
    return link / "db" / "t" / "data"


def around_it(place: RowsPlace, link: Path) -> Path:
    link.symlink_to(place.folder / "warehouse")
    return link / "db"


def one_of_its_files(place: RowsPlace, link: Path) -> Path:
    link.symlink_to(next((place.folder / "warehouse").rglob("*-00001.parquet")))
    return link


def a_folder_with_one(place: RowsPlace, link: Path) -> Path:
    link.mkdir()
    (link / "again").symlink_to(link / "first")
    one_of_its_files(place, link / "first")
    return link


@EVERY_JOB
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("way", [its_folder, the_warehouse, around_it, one_of_its_files, a_folder_with_one])
def test_the_tables_own_files_are_no_source_by_whatever_link(
    place: RowsPlace, job: str, dry_run: bool, way: Callable[[RowsPlace, Path], Path]
) -> None:
    with pytest.raises(DataError, match="own folder"):
        run(place, job, way(place, place.folder / "link"), dry_run=dry_run)
    assert place.rows() == [{"id": 2}]


@EVERY_JOB
def test_files_in_a_folder_that_the_table_had_before_are_no_source(place: RowsPlace, job: str) -> None:
    for folder in ("one", "two"):
        commit(place.catalog, place.table(), UpdateProperties(updates={"write.data.path": str(place.folder / folder)}))
        run(place, "append", place.folder / "source")
    with pytest.raises(DataError, match="own folder"):
        run(place, job, place.folder / "one")


@EVERY_JOB
def test_a_file_of_spark_2_without_dates_is_read(place: RowsPlace, tmp_path: Path, job: str) -> None:
    rows = pa.table({"id": [10]}).replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
    pq.write_table(rows, tmp_path / "old.parquet")
    run(place, job, tmp_path / "old.parquet")
    assert 10 in [row["id"] for row in place.rows()]


@EVERY_JOB
def test_a_link_to_a_file_of_somebody_else_is_read(place: RowsPlace, job: str) -> None:
    link = place.folder / "link"
    link.symlink_to(place.folder / "source" / "a" / "part.parquet")
    run(place, job, link)
    assert {"id": 10} in place.rows()


@EVERY_JOB
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_file_whose_name_is_no_utf_8_is_refused_by_name(place: RowsPlace, job: str, dry_run: bool) -> None:
    odd = os.fsencode(place.folder / "source" / "a") + b"/x\xff.parquet"
    os.rename(place.folder / "source" / "a" / "part.parquet", odd)
    with pytest.raises(DataError, match=r"'a/x\\udcff.parquet' in it is not UTF-8"):
        run(place, job, place.folder / "source", dry_run=dry_run)


@EVERY_JOB
def test_paths_of_a_source_are_this_machines_whatever_mapping_the_table_has(place: RowsPlace, job: str) -> None:
    """``location-mapping`` is about the table's own locations: the rows were those of a file below the other prefix."""
    old, new = place.folder, place.folder.with_name(place.folder.name + "-copy")
    shutil.copytree(old, new)
    write(new / "source" / "a" / "part.parquet", 100, 101)
    mapping = {"location-mapping": json.dumps([[str(old), str(new)]])}
    config = CatalogConfig(name="test", type="filesystem", properties={**place.config.properties, **mapping})
    copy = RowsPlace(new, config, load_catalog(config))
    run(copy, job, old / "source" / "a")
    assert {"id": 10} in copy.rows()
    assert {"id": 100} not in copy.rows()
    run(copy, job, new / "source" / "a" / "part.parquet")
    assert {"id": 100} in copy.rows()
    with pytest.raises(DataError, match="own folder"):
        run(copy, job, new / "warehouse" / "db" / "t" / "data")


@EVERY_JOB
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("way", ["its folder", "its file", "a link"])
def test_the_tables_own_files_are_no_source_where_they_lie_though_that_place_is_mapped_itself(
    place: RowsPlace, job: str, dry_run: bool, way: str
) -> None:
    """A disk that was moved to the place of another one, which was moved as well."""
    first, second, third = place.folder, place.folder.with_name(place.folder.name + "-2"), place.folder.with_name("third")
    shutil.move(first, second)
    mapping = {"location-mapping": json.dumps([[str(first), str(second)], [str(second), str(third)]])}
    config = CatalogConfig(name="test", type="filesystem", properties={**place.config.properties, **mapping})
    moved = RowsPlace(second, config, load_catalog(config))
    assert moved.rows() == [{"id": 2}]
    source = second / "warehouse" / "db" / "t" / "data"
    if way != "its folder":
        source = next(source.rglob("*-00001.parquet"))
    if way == "a link":
        (second / "link").symlink_to(source)
        source = second / "link"
    with pytest.raises(DataError, match="own folder"):
        run(moved, job, source, dry_run=dry_run)
    assert moved.rows() == [{"id": 2}]
    run(moved, job, second / "source")
    assert {"id": 10} in moved.rows()


@pytest.mark.parametrize("job", ["append", "merge"])
def test_a_table_in_another_store_takes_files_of_this_machine(place: RowsPlace, job: str) -> None:
    catalog = make_catalog()
    catalog.create_table(IDENTIFIER, Schema.of(NestedField(1, "id", LONG)))
    config = CatalogConfig(name=catalog.name, type="memory")
    source = Source(format="parquet", paths=[str(place.folder / "source")])
    name = ".".join((catalog.name, *IDENTIFIER))
    run_job(JobSpec(job=job, table=name, catalog=config, lane="local", source=source, **JOBS[job]), catalog=catalog)
    assert sorted(scan_table(catalog.load_table(IDENTIFIER), Scan()).column(0).to_pylist()) == [10, 20]


@EVERY_JOB
@pytest.mark.parametrize("dry_run", [True, False])
def test_hidden_links_are_no_data_as_hidden_files_are_none(place: RowsPlace, job: str, dry_run: bool) -> None:
    """A volume of Kubernetes is made of them; editors leave them."""
    folder = place.folder / "source" / "a"
    (folder / "part.parquet").rename(place.folder / "kept")
    (folder / "..2026_11_23").mkdir()
    (place.folder / "kept").rename(folder / "..2026_11_23" / "part.parquet")
    (folder / "..data").symlink_to("..2026_11_23")
    (folder / "part.parquet").symlink_to("..data/part.parquet")
    (folder / "_latest").symlink_to(place.folder / "source" / "b")
    (folder / ".#part").symlink_to("somebody@host.1234")
    run(place, job, place.folder / "source", dry_run=dry_run)
    assert ({"id": 10} in place.rows()) is not dry_run
    (folder / "latest").symlink_to("_latest")
    with pytest.raises(UnsupportedError, match="a/latest to a folder"):
        run(place, job, place.folder / "source", dry_run=dry_run)


@EVERY_JOB
@pytest.mark.parametrize(
    "uri", ["hdfs:{}", "hdfs://node:8020{}", "viewfs:{}", "webhdfs://node{}", "file://elsewhere{}", "s3://bucket{}"]
)
def test_a_source_elsewhere_is_not_the_folder_of_that_path_on_this_machine(place: RowsPlace, job: str, uri: str) -> None:
    with pytest.raises(UnsupportedError, match="is not on this machine: run it with --lane spark"):
        run(place, job, uri.format(place.folder / "source"))
    assert place.rows() == [{"id": 2}]


@pytest.mark.parametrize("uri", ["{}", "file:{}", "file://{}", "file://localhost{}", "FILE:{}", "{}/../source", "{}//a/"])
def test_a_source_on_this_machine_is_found_however_it_is_written(place: RowsPlace, uri: str) -> None:
    run(place, "append", uri.format(place.folder / "source"))
    assert {"id": 10} in place.rows()


@EVERY_JOB
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("names", [("a", "a"), ("", "a/1.parquet"), ("a/1.parquet", "a/../a/1.parquet"), ("a", "of-a"), ("of-1",)])
def test_a_file_that_two_paths_or_a_link_lead_to_is_refused_by_name(
    place: RowsPlace, job: str, dry_run: bool, names: tuple[str, ...]
) -> None:
    source = place.folder / "source"
    write(source / "a" / "1.parquet", 1)
    (place.folder / "source" / "of-1").mkdir()
    (source / "of-1" / "2.parquet").symlink_to(source / "a" / "1.parquet")
    (source / "of-1" / "3.parquet").symlink_to(source / "a" / "1.parquet")
    (place.folder / "of-a").symlink_to(source / "a")
    paths = [str(place.folder / "of-a" if name == "of-a" else source / name) for name in names]
    with pytest.raises(DataError, match=r"\.parquet would be read twice"):
        place.run(job, source=Source(format="parquet", paths=paths), **JOBS[job], dry_run=dry_run)


@EVERY_JOB
@pytest.mark.parametrize("pattern", ["*/part.parquet", "a/par?.parquet", "[ab]", "{a,b}/part.parquet"])
def test_a_pattern_is_for_spark(place: RowsPlace, job: str, pattern: str) -> None:
    source = Source(format="parquet", paths=[f"{place.folder}/source/{pattern}"])
    with pytest.raises(UnsupportedError, match="--lane spark"):
        place.run(job, source=source, **JOBS[job])


@EVERY_JOB
def test_a_file_with_a_name_like_a_pattern_is_read(place: RowsPlace, job: str) -> None:
    write(place.folder / "part[1].parquet", 30)
    place.run(job, source=Source(format="parquet", paths=[f"{place.folder}/part[1].parquet"]), **JOBS[job])
    assert {"id": 30} in place.rows()


@EVERY_JOB
@pytest.mark.parametrize("beside", [(), (7,)], ids=["alone", "beside rows"])
def test_a_file_without_rows_holds_no_null_for_a_required_column(tmp_path: Path, job: str, beside: tuple[int, ...]) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(Schema.of(NestedField(1, "id", LONG, True)))
    folder = tmp_path / "day"
    write(folder / "0.parquet")
    if beside:
        write(folder / "1.parquet", *beside)
    run(place, job, folder)
    assert [row["id"] for row in place.rows()] == list(beside)
