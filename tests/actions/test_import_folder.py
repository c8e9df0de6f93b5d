"""An import is one commit: if it dies, there is no table or the whole table, the folder is unchanged, and a rerun finishes the
import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.import_folder import import_folder
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.pointer import PointerCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitStateUnknownError,
    DataError,
    NoSuchNamespaceError,
    SchemaError,
    UnsupportedError,
)
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.catalog.wrappers import Wrapped
from tests.commit.test_crashes import Died, Mortal, MortalSql, open_catalog

ROWS = [(0, "eu"), (1, "eu"), (2, "us"), (3, "us")]


class DiesAtTheInsert(MortalSql):
    """Dies around the one statement that makes the table, too."""

    def _insert_pointer(self, identifier: tuple[str, ...], location: str) -> None:
        insert = super()._insert_pointer
        step = self.io._step if isinstance(self.io, Mortal) else lambda action: action()
        step(lambda: insert(identifier, location))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for n, region in enumerate(("eu", "us")):
        at = tmp_path / "old" / f"region={region}"
        at.mkdir(parents=True)
        pq.write_table(pa.table({"id": [n * 2, n * 2 + 1]}), at / "part-0.parquet")
    return tmp_path / "old"


def opened(kind: str, root: Path, io: LocalFileIO) -> Any:
    if kind == "filesystem":
        return open_catalog(kind, root, io)
    return DiesAtTheInsert("c", f"sqlite:///{root / 'c.db'}", io, warehouse=str(root / "wh"), sleep=lambda _: None)


def imported(catalog: Catalog, folder: Path, mode: str) -> ActionReport:
    properties = {"gc.enabled": "false"} if mode == "snapshot" else {}
    config = CatalogConfig(name="c", type="sql")
    location = str(folder) if mode == "migrate" else None
    return import_folder(catalog, config, "c.ns.t", str(folder), location=location, properties=properties)


def rows(catalog: Catalog) -> list[tuple[Any, ...]]:
    return sorted((r["id"], r["region"]) for r in scan_table(catalog.load_table(("ns", "t"))).to_pylist())


@pytest.mark.parametrize(("kind", "mode"), [("sql", "snapshot"), ("sql", "migrate"), ("filesystem", "snapshot")])
def test_wherever_an_import_dies_there_is_no_table_or_all_of_it(kind: str, mode: str, folder: Path, tmp_path: Path) -> None:
    sources = {p: p.read_bytes() for p in folder.rglob("*.parquet")}
    opened(kind, tmp_path, LocalFileIO()).create_namespace(("ns",))
    deaths = 0
    for left in range(60):
        io = Mortal()
        io.left = left
        try:
            imported(opened(kind, tmp_path, io), folder, mode)
        except (Died, CommitStateUnknownError):
            deaths += 1
        else:
            break
        catalog = opened(kind, tmp_path, LocalFileIO())
        assert {p: p.read_bytes() for p in folder.rglob("*.parquet")} == sources
        if catalog.table_exists(("ns", "t")):
            assert rows(catalog) == ROWS
            if kind == "filesystem":
                commit(catalog, catalog.load_table(("ns", "t")), UpdateProperties(updates={"gc.enabled": "true"}))
            catalog.drop_table(("ns", "t"), purge=kind == "filesystem")
        assert not catalog.table_exists(("ns", "t"))
    assert deaths >= 6
    assert rows(opened(kind, tmp_path, LocalFileIO())) == ROWS
    (snapshot,) = opened(kind, tmp_path, LocalFileIO()).load_table(("ns", "t")).metadata.snapshots
    assert snapshot.summary["added-data-files"] == "2"


def test_what_fails_leaves_neither_table_nor_metadata(folder: Path, tmp_path: Path) -> None:
    (folder / "region=us" / "part-1.parquet").write_bytes(b"no")
    catalog = opened("sql", tmp_path, LocalFileIO())
    catalog.create_namespace(("ns",))
    with pytest.raises(DataError, match=r"part-1\.parquet is not a whole Parquet file"):
        imported(catalog, folder, "snapshot")
    assert not catalog.table_exists(("ns", "t"))
    assert not list((tmp_path / "wh").rglob("*.*"))


def test_a_table_of_that_name_that_came_meanwhile_stays_as_it_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = opened("sql", tmp_path, LocalFileIO())
    catalog.create_namespace(("ns",))
    real = PointerCatalog._publish_first

    def late(self: Any, identifier: Any, metadata: Any, tried: Any) -> str:
        monkeypatch.setattr(PointerCatalog, "_publish_first", real)
        catalog.create_table(("ns", "t"), metadata.schema)
        return real(self, identifier, metadata, tried)

    monkeypatch.setattr(PointerCatalog, "_publish_first", late)
    with pytest.raises(AlreadyExistsError):
        imported(catalog, folder, "snapshot")
    table = catalog.load_table(("ns", "t"))
    assert table.metadata.snapshots == ()
    left = {p.name for p in (tmp_path / "wh").rglob("*") if p.is_file()} - {table.metadata_location.rpartition("/")[2]}
    assert left, "the table of that name is another one, so that nothing of this import is proven to be nobody's"
    assert not [name for name in left if name.endswith(".json")]


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize("happens", [True, False])
def test_an_answer_that_is_lost_is_found_out_or_said_to_be_unknown(happens: bool, folder: Path, tmp_path: Path) -> None:
    class LosesTheInsert(MortalSql):
        def _insert_pointer(self, identifier: tuple[str, ...], location: str) -> None:
            if happens:
                super()._insert_pointer(identifier, location)
            raise CatalogUnavailableError("no answer")

    catalog = LosesTheInsert("c", f"sqlite:///{tmp_path / 'c.db'}", LocalFileIO(), warehouse=str(tmp_path / "wh"))
    catalog.create_namespace(("ns",))
    if happens:
        assert imported(catalog, folder, "snapshot").status == "committed"
        assert rows(catalog) == ROWS
        return
    with pytest.raises(CommitStateUnknownError):
        imported(catalog, folder, "snapshot")
    assert not catalog.table_exists(("ns", "t"))


def test_a_catalog_that_can_not_create_with_content_is_refused(folder: Path, tmp_path: Path) -> None:
    class Plain(Wrapped):
        def __getattr__(self, name: str) -> Any:
            if name == "stage_table":
                raise AttributeError(name)
            return super().__getattr__(name)

    catalog = opened("sql", tmp_path, LocalFileIO())
    with pytest.raises(UnsupportedError, match="cannot create a table with content"):
        imported(Plain(catalog), folder, "snapshot")


def test_a_name_that_is_taken_or_has_no_namespace_is_told_before_a_footer_is_read(folder: Path, tmp_path: Path) -> None:
    catalog = opened("sql", tmp_path, LocalFileIO())
    with pytest.raises(NoSuchNamespaceError):
        imported(catalog, tmp_path / "none", "snapshot")
    catalog.create_namespace(("ns",))
    imported(catalog, folder, "snapshot")
    with pytest.raises(AlreadyExistsError, match="add_files"):
        imported(catalog, tmp_path / "none", "snapshot")


def test_a_table_of_a_filesystem_catalog_lives_in_its_own_folder(folder: Path, tmp_path: Path) -> None:
    """It was said to have been copied."""
    catalog = opened("filesystem", tmp_path, LocalFileIO())
    config = CatalogConfig(name="c", type="filesystem", properties={})
    catalog.create_namespace(("ns",))
    with pytest.raises(UnsupportedError, match=r"a table is its folder, .*/ns/t: import the files in place"):
        import_folder(catalog, config, "c.ns.t", str(folder), location=str(folder))
    assert not catalog.table_exists(("ns", "t"))
    own = Path(catalog.stage_table(("ns", "t"), Schema.of(NestedField(1, "id", LONG))).location.removeprefix("file://"))
    own.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), own / "a.parquet")
    assert import_folder(catalog, config, "c.ns.t", str(own), location=str(own)).status == "committed"
    assert scan_table(catalog.load_table(("ns", "t")))["id"].to_pylist() == [1, 2]


def a_new_table(tmp_path: Path, files: dict[str, pa.Table], **properties: str) -> Catalog:
    """Files by their names, imported as table ``c.ns.t``."""
    (tmp_path / "old").mkdir()
    for name, rows in files.items():
        pq.write_table(rows, tmp_path / "old" / name)
    catalog: Catalog = opened("sql", tmp_path, LocalFileIO())
    catalog.create_namespace(("ns",))
    report = import_folder(catalog, CatalogConfig(name="c", type="sql"), "c.ns.t", str(tmp_path / "old"), properties=properties)
    assert report.status == "committed"
    return catalog


def test_files_whose_names_differ_in_case_have_one_column(tmp_path: Path) -> None:
    """The table had two, which no statement could name."""
    files = {"a.parquet": pa.table({"id": [1], "City": ["x"]}), "b.parquet": pa.table({"ID": [2], "city": ["y"]})}
    table = a_new_table(tmp_path, files).load_table(("ns", "t"))
    assert [f.name for f in table.schema.fields] == ["id", "City"]
    assert sorted(scan_table(table).to_pylist(), key=lambda r: r["id"]) == [{"id": 1, "City": "x"}, {"id": 2, "City": "y"}]


def test_a_file_that_has_two_names_which_differ_in_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"file .*/a\.parquet: columns 'id' and 'Id' differ only in case"):
        a_new_table(tmp_path, {"a.parquet": pa.table({"id": [1], "Id": [2]})})


def test_nanoseconds_make_a_table_of_version_3_and_no_other(tmp_path: Path) -> None:
    """They were refused whatever format version the new table was to have."""
    files = {"a.parquet": pa.table({"at": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))})}
    table = a_new_table(tmp_path, files, **{"format-version": "3"}).load_table(("ns", "t"))
    assert (table.metadata.format_version, str(table.schema.fields[0].type)) == (3, "timestamp_ns")
    assert scan_table(table)["at"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789]
    (tmp_path / "second").mkdir()
    with pytest.raises(SchemaError, match=r"a\.parquet: column 'at': type timestamp_ns is not supported until v3"):
        a_new_table(tmp_path / "second", files)


def test_files_without_rows_make_a_table_that_more_files_are_added_to(tmp_path: Path) -> None:
    """The import was done, and there was no table."""
    empty = pa.table({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    catalog = a_new_table(tmp_path, {"a.parquet": empty, "b.parquet": empty})
    table = catalog.load_table(("ns", "t"))
    assert (table.metadata.current_snapshot, [f.name for f in table.schema.fields]) == (None, ["id", "name"])
    (tmp_path / "more").mkdir()
    pq.write_table(pa.table({"name": ["x"], "id": [1]}), tmp_path / "more" / "a.parquet")
    options = {"source-path": str(tmp_path / "more")}
    run_job(JobSpec(job="add_files", table="c.ns.t", catalog=CatalogConfig(name="c", type="sql"), options=options), catalog=catalog)
    assert scan_table(catalog.load_table(("ns", "t"))).to_pylist() == [{"id": 1, "name": "x"}]
