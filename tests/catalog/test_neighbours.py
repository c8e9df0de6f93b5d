"""Orphan removal with tables of one catalog in nested locations: another table's files are never treated as orphans."""

from __future__ import annotations

import itertools
import shutil
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog import neighbours
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import CorruptTableError, NoSuchTableError, UnsupportedError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later, plant
from tests.builders import SCHEMA, make_catalog, make_table
from tests.catalog.wrappers import Wrapped


def another(lake: Lake, identifier: tuple[str, ...], location: str | None = None, **properties: str) -> Lake:
    """A table beside the lake's, with ten rows."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    if len(identifier) > 2 or identifier[0] != lake.identifier[0]:
        lake.catalog.create_namespace(identifier[:-1])
    if location is None:
        make_table(lake.catalog, identifier=identifier, properties=named)
    else:
        lake.catalog.create_table(identifier, Schema(SCHEMA.struct), location=location, properties={"format-version": "2", **named})
    other = Lake(lake.catalog, identifier, itertools.count(100))
    other.append(numbered(0, 10))
    return other


def cleaned(lake: Lake, **options: Any) -> set[str]:
    return set(lake.run("remove_orphan_files", now=lambda: later(4), **options).files)


@pytest.mark.parametrize("identifier", [("ns", "other"), ("ns", "deep", "other")], ids=["its namespace", "a namespace below"])
def test_data_that_another_table_writes_below_the_location_stays(identifier: tuple[str, ...]) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    place = f"{lake.table.location}/lent"
    other = another(lake, identifier, write_data_path=place)
    rows, stray = other.rows(), plant(lake)
    theirs = f"{place}/stray-of-theirs.parquet"
    lake.table.io.write(theirs, b"x")
    report = lake.run("remove_orphan_files", now=lambda: later(4))
    assert set(report.files) == {stray}
    assert other.rows() == rows
    reasons = {s.file_path: s.reason for s in report.skipped}
    assert reasons[theirs] == f"it is stored with the files of table test.{'.'.join(identifier)}"


def test_a_folder_whose_name_only_begins_alike_is_nobodys() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    another(lake, ("ns", "other"), write_data_path=f"{lake.table.location}/data/le")
    stray = plant(lake, "data/lent/stray.parquet")
    assert cleaned(lake) == {stray}


def test_what_a_table_around_it_refers_to_stays_and_no_more() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    root = lake.table.location.rsplit("/", 1)[0]
    around = another(lake, ("ns", "around"), f"{root}/", write_data_path=f"{lake.table.location}/data")
    rows, stray = around.rows(), plant(lake)
    assert cleaned(lake, location=f"{lake.table.location}/data") == {stray}
    assert around.rows() == rows


def test_a_table_that_can_not_be_read_ends_the_job_before_a_file_goes() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    other = another(lake, ("ns", "other"))
    stray = plant(lake)
    other.table.io.write(other.table.metadata_location, b"{", overwrite=True)
    with pytest.raises(CorruptTableError):
        lake.run("remove_orphan_files", now=lambda: later(4))
    assert stray in lake.paths()


def test_no_other_table_is_read_where_nothing_would_go() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    other = another(lake, ("ns", "other"))
    other.table.io.write(other.table.metadata_location, b"{", overwrite=True)
    assert cleaned(lake) == set()


def test_every_table_is_compared_nearest_first() -> None:
    lake = make_lake()
    for identifier in (("ns", "deep", "c"), ("ns", "a"), ("ns", "b")):
        another(lake, identifier)
    lake.catalog.create_namespace(("elsewhere",))
    make_table(lake.catalog, identifier=("elsewhere", "d"))
    names = [other.name for other in neighbours.other_tables(lake.catalog, lake.table)]
    assert names == ["test.ns.a", "test.ns.b", "test.ns.deep.c", "test.elsewhere.d"]


def test_the_last_of_very_many_tables_is_compared_too() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    for n in range(1_050):
        make_table(lake.catalog, identifier=("ns", f"n{n:04d}"))
    place = f"{lake.table.location}/lent"
    last = another(lake, ("ns", "zz"), write_data_path=place)
    rows = last.rows()
    theirs = f"{place}/stray-of-theirs.parquet"
    lake.table.io.write(theirs, b"x")
    assert cleaned(lake) == set()
    assert last.rows() == rows
    assert lake.table.io.exists(theirs)


def test_a_table_that_is_dropped_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    another(lake, ("ns", "a"))
    load = lake.catalog.load_table
    table = lake.table

    def gone(identifier: tuple[str, ...]) -> Table:
        if identifier == ("ns", "a"):
            raise NoSuchTableError("gone")
        return load(identifier)

    monkeypatch.setattr(lake.catalog, "load_table", gone)
    assert list(neighbours.other_tables(lake.catalog, table)) == []


def test_relative_folders_are_below_the_table() -> None:
    lake = make_lake()
    commit(lake.catalog, lake.table, UpdateProperties(updates={"write.folder-storage.path": "files"}))
    assert neighbours.folders_of(lake.table) == [lake.table.location, f"{lake.table.location}/files"]


def inside(tmp_path: Path, **properties: str) -> tuple[Lake, Lake]:
    """A table of a filesystem catalog, and one in its folder, as another engine may put it there."""
    catalog, away = (FileSystemCatalog("test", LocalFileIO(), warehouse=str(tmp_path / w)) for w in ("wh", "wh/ns"))
    catalog.create_namespace(("ns",))
    away.create_namespace(("t", "deep"))
    make_table(away, identifier=("t", "deep", "inner"), properties=properties)
    shutil.move(tmp_path / "wh" / "ns" / "t", tmp_path / "aside")
    make_table(catalog)
    shutil.copytree(tmp_path / "aside", tmp_path / "wh" / "ns" / "t", dirs_exist_ok=True)
    outer, inner = Lake(catalog), Lake(catalog, ("ns", "t", "deep", "inner"), itertools.count(100))
    outer.append(numbered(0, 10))
    inner.append(numbered(0, 10))
    return outer, inner


def aged_strays(*folders: str) -> list[str]:
    paths = [f"{folder}/stray.parquet" for folder in folders]
    for path in paths:
        Path(path).write_bytes(b"x")
    return paths


def test_files_of_a_table_in_the_folder_of_another_are_never_orphans_of_that(tmp_path: Path) -> None:
    outer, inner = inside(tmp_path)
    rows, place = inner.rows(), f"{inner.table.location}/data"
    (theirs,) = aged_strays(place)
    assert cleaned(outer, location=place) == set()
    assert cleaned(outer, location=f"{outer.table.location}/deep/inner/data") == set()
    with pytest.raises(UnsupportedError, match="below a location that holds another table"):
        outer.run("remove_orphan_files", now=lambda: later(4))
    assert Path(theirs).exists()
    assert inner.rows() == rows
    assert cleaned(inner, location=place) == {theirs}


def test_data_that_a_table_in_the_folder_of_another_writes_elsewhere_in_that_stays(tmp_path: Path) -> None:
    place = str(tmp_path / "wh" / "ns" / "t" / "lent")
    outer, inner = inside(tmp_path, **{"write.data.path": f"{place}/data"})
    rows = inner.rows()
    theirs, mine = aged_strays(f"{place}/data", place)
    assert cleaned(outer, location=place) == {mine}
    assert Path(theirs).exists()
    assert inner.rows() == rows


def test_an_import_into_a_table_does_not_take_files_of_one_in_its_folder(tmp_path: Path) -> None:
    outer, inner = inside(tmp_path)
    with pytest.raises(UnsupportedError, match=r"a folder of table test\.ns\.t\.deep\.inner"):
        outer.run("add_files", source_path=f"{inner.table.location}/data")


class _Renames(Wrapped):
    """Renames the table ``other`` to each of ``names``, one after the other, right before it is loaded."""

    def __init__(self, inner: Any, *names: str) -> None:
        super().__init__(inner)
        self.now, self.names = ("ns", "other"), list(names)

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        if identifier == self.now and self.names:
            self.now = ("ns", self.names.pop(0))
            self.inner.rename_table(identifier, self.now)
        loaded: Table = self.inner.load_table(identifier)
        return loaded


@pytest.mark.parametrize("names", [["renamed"], ["a", "b"], ["a", "other"]], ids=["once", "twice", "and back"])
def test_files_of_a_table_that_is_renamed_while_others_are_looked_at_stay(names: list[str]) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    other = another(lake, ("ns", "other"), write_data_path=f"{lake.table.location}/lent")
    rows, stray = other.rows(), plant(lake)
    report = lake.run("remove_orphan_files", now=lambda: later(4), catalog=_Renames(lake.catalog, *names))
    assert set(report.files) == {stray}
    other.identifier = ("ns", names[-1])
    assert other.rows() == rows


class _Gives(Wrapped):
    """Gives names to other tables by ``between``, once ``a`` was looked at and before ``b`` is; and by ``afterwards`` when the look
    at the catalog's tables has ended."""

    def __init__(self, inner: Any, between: Callable[[Any], None], afterwards: Callable[[Any], None]) -> None:
        super().__init__(inner)
        self.between, self.afterwards = [between], [afterwards]
        self.a_looked_at, self.loads_of_a = threading.Event(), itertools.count(1)

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        is_look = threading.current_thread().name.startswith("neighbours")
        if is_look and identifier == ("ns", "b") and self.between:
            assert self.a_looked_at.wait(10)
            self.between.pop()(self.inner)
        if not is_look and not self.between and self.afterwards:
            self.afterwards.pop()(self.inner)
        loaded: Table = self.inner.load_table(identifier)
        if is_look and identifier == ("ns", "a") and next(self.loads_of_a) == 2:
            self.a_looked_at.set()
        return loaded


def _swap(one: str, other: str) -> Callable[[Any], None]:
    def swap(catalog: Any) -> None:
        for old, new in ((one, "x"), (other, one), ("x", other)):
            catalog.rename_table(("ns", old), ("ns", new))

    return swap


def _replace_a_by_b(catalog: Any) -> None:
    catalog.drop_table(("ns", "a"))
    catalog.rename_table(("ns", "b"), ("ns", "a"))


def _nothing(catalog: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("between", "afterwards", "name"),
    [(_swap("a", "b"), _nothing, "a"), (_replace_a_by_b, _nothing, "a"), (_swap("t", "b"), _swap("t", "b"), "b")],
    ids=["two are swapped", "one is dropped for it", "swapped with the searched one and back"],
)
def test_files_of_a_table_that_gets_the_name_of_another_meanwhile_stay(
    between: Callable[[Any], None], afterwards: Callable[[Any], None], name: str
) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    another(lake, ("ns", "a"))
    other = another(lake, ("ns", "b"), write_data_path=f"{lake.table.location}/lent")
    rows, stray = other.rows(), plant(lake)
    report = lake.run("remove_orphan_files", now=lambda: later(4), catalog=_Gives(lake.catalog, between, afterwards))
    assert set(report.files) == {stray}
    other.identifier = ("ns", name)
    assert other.rows() == rows


def test_a_table_that_moves_to_a_namespace_that_was_listed_already_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    other = another(lake, ("far", "other"), write_data_path=f"{lake.table.location}/lent")
    rows, stray = other.rows(), plant(lake)
    listed = lake.catalog.list_tables

    def moved(namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        found = listed(namespace)
        if namespace == ("ns",) and lake.catalog.table_exists(("far", "other")):
            lake.catalog.rename_table(("far", "other"), ("ns", "near"))
        return found

    monkeypatch.setattr(lake.catalog, "list_tables", moved)
    assert cleaned(lake) == {stray}
    other.identifier = ("ns", "near")
    assert other.rows() == rows


class _Commits(Wrapped):
    """Another job commits twice to the table ``other`` right before each look at it. Its log keeps one former state."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.looks = 0

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        if identifier == ("ns", "other") and threading.current_thread().name.startswith("neighbours"):
            self.looks += 1
            for n in range(2):
                commit(self.inner, self.inner.load_table(identifier), UpdateProperties(updates={"n": f"{self.looks}.{n}"}))
        loaded: Table = self.inner.load_table(identifier)
        return loaded


@pytest.mark.parametrize(("deletes", "looks"), [("false", 3), ("true", 4)], ids=["its former states are there", "and gone"])
def test_a_table_whose_log_does_not_show_the_state_of_before_does_not_hold_up_the_look(deletes: str, looks: int) -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    short = {"write_metadata_previous-versions-max": "1", "write_metadata_delete-after-commit_enabled": deletes}
    other = another(lake, ("ns", "other"), write_data_path=f"{lake.table.location}/lent", **short)
    rows, stray, busy = other.rows(), plant(lake), _Commits(lake.catalog)
    assert set(lake.run("remove_orphan_files", now=lambda: later(4), catalog=busy).files) == {stray}
    assert other.rows() == rows
    assert busy.looks == looks, "two reads of each table that is found, one that shows it has not changed"


def test_the_metadata_of_other_tables_is_not_kept() -> None:
    """A catalog may have ten thousand tables, some of them with tens of megabytes of metadata."""
    catalog, size, tables = make_catalog(), 1 << 20, 40
    first = make_table(catalog)
    for n in range(tables):
        make_table(catalog, identifier=("ns", f"other{n:02}"), properties={"large": "x" * size})
    tracemalloc.start()
    try:
        kept = [tracemalloc.get_traced_memory()[0] for _ in neighbours.other_tables(catalog, first)]
    finally:
        tracemalloc.stop()
    assert len(kept) == tables
    assert kept[-1] < tables * size / 2


class _Lists(Wrapped):
    """Lists the namespace ``odd`` ``times`` times, and says each time that there is no such namespace."""

    def __init__(self, inner: Any, times: int) -> None:
        super().__init__(inner)
        self.left = times

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        self.left -= not parent
        return [*self.inner.list_namespaces(parent), *([("odd",)] if not parent and self.left >= 0 else [])]


def test_a_namespace_that_is_listed_and_not_found_has_unknown_tables() -> None:
    """A name that a client cannot spell, for example. One that was dropped meanwhile has none."""
    lake = make_lake()
    lake.append(numbered(0, 10))
    stray = plant(lake)
    lake.catalog = _Lists(lake.catalog, 99)
    with pytest.raises(UnsupportedError, match="lists namespace odd, and has no such namespace"):
        cleaned(lake)
    lake.catalog = _Lists(lake.catalog.inner, 1)
    assert cleaned(lake) == {stray}
