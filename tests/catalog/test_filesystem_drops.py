"""A dropped table of a filesystem catalog stays dropped, and a new one of its name stays the only one, however late a writer is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.metadata_updates import UpdateProperties
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    IcebergOpsError,
    NoSuchTableError,
    UnsupportedError,
    ValidationError,
)
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.updates import SetProperties
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.wrappers import Meddles

NOW = 1_900_000_000_000


class Stalls(LocalFileIO):
    """Somebody else gets a turn right before (or after) a file of a name is written."""

    def __init__(self) -> None:
        super().__init__()
        self.at: str | None = None
        self.do: Callable[[], object] = lambda: None
        self.after = False

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        if self.at is None or not location.endswith(self.at):
            super().write(location, data, overwrite=overwrite)
            return
        self.at = None
        if self.after:
            super().write(location, data, overwrite=overwrite)
            self.do()
        else:
            self.do()
            super().write(location, data, overwrite=overwrite)


@pytest.fixture
def io() -> Stalls:
    return Stalls()


@pytest.fixture
def catalog(tmp_path: Path, io: Stalls) -> FileSystemCatalog:
    catalog = FileSystemCatalog("fs", io, warehouse=str(tmp_path / "wh"), sleep=lambda _: None, clock=lambda: NOW)
    catalog.create_namespace(("ns",))
    return catalog


@pytest.fixture
def others(tmp_path: Path, catalog: FileSystemCatalog) -> FileSystemCatalog:
    return FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh"), sleep=lambda _: None, clock=lambda: NOW)


def with_rows(catalog: Any, *paths: str, **options: Any) -> Table:
    table = make_table(catalog, **options)
    for path in paths:
        table = commit(catalog, table, AppendFiles(added=(data_file(path),))).table
    return table


def as_java_drops(catalog: FileSystemCatalog) -> None:
    """Iceberg Java deletes the folder and leaves no mark."""
    shutil.rmtree(f"{catalog._root}/ns/t")


def by_this_package(catalog: FileSystemCatalog) -> None:
    catalog.drop_table(IDENTIFIER, purge=True)


DROPS: dict[str, Callable[[FileSystemCatalog], None]] = {"this package": by_this_package, "Iceberg Java": as_java_drops}


@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
def test_a_commit_to_a_dropped_table_never_replaces_the_one_that_was_made_after_it(catalog: FileSystemCatalog, drop: Any) -> None:
    old = with_rows(catalog, "old")

    def meanwhile() -> None:
        drop(catalog)
        with_rows(catalog, "new")

    with pytest.raises(ValidationError, match="is not the one this work was planned on"):
        commit(Meddles(catalog, meanwhile), old, AppendFiles(added=(data_file("late"),)), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"new"}
    with pytest.raises(CommitFailedError, match="is another one now"):
        catalog.commit_table(old, [], [SetProperties({"a": "1"})])


@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
@pytest.mark.parametrize("new", [None, 1, 3, 4, 6], ids=lambda n: "no new table" if n is None else f"new table with {n} versions")
def test_a_version_that_comes_after_a_drop_is_refused(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls, drop: Any, new: int | None
) -> None:
    old = with_rows(others, "a", "b", "c")
    paths = [f"new {n}" for n in range(2, (new or 1) + 1)]

    def meanwhile() -> None:
        drop(others)
        if new is not None:
            with_rows(others, *paths)

    io.at, io.do = "v5.metadata.json", meanwhile
    with pytest.raises((NoSuchTableError, ValidationError)):
        commit(catalog, old, AppendFiles(added=(data_file("late"),)), sleep=lambda _: None)
    if new is None:
        assert not others.table_exists(IDENTIFIER)
        assert not list(Path(others._root).rglob("*.metadata.json"))
    else:
        now = others.load_table(IDENTIFIER)
        assert live_paths(now) == set(paths)
        assert live_paths(commit(others, now, AppendFiles(added=(data_file("more"),))).table) == {*paths, "more"}


def test_a_version_of_a_dropped_table_does_not_count_though_its_writer_died_before_it_could_take_it_away(
    catalog: FileSystemCatalog,
) -> None:
    old = with_rows(catalog, "a")
    metadata = Path(old.metadata_location)
    late = metadata.read_bytes()
    catalog.drop_table(IDENTIFIER, purge=True)
    metadata.parent.mkdir(parents=True)
    (metadata.parent / "v3.metadata.json").write_bytes(late)
    (metadata.parent / "version-hint.text").write_text("3")
    assert not catalog.table_exists(IDENTIFIER)
    assert catalog.list_tables(("ns",)) == []
    with pytest.raises(NoSuchTableError):
        catalog.load_table(IDENTIFIER)
    new = with_rows(catalog, "new")
    assert new.metadata_location.endswith("/v5.metadata.json")
    assert not (metadata.parent / "v3.metadata.json").exists(), "the orphan job would take it for another table's"
    (metadata.parent / "v9.metadata.json").write_bytes(late)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"new"}


def test_a_leftover_of_a_dropped_table_keeps_no_version_from_being_committed(catalog: FileSystemCatalog) -> None:
    old = with_rows(catalog, "a")
    late = catalog.io.read(old.metadata_location)
    catalog.drop_table(IDENTIFIER, purge=True)
    new = with_rows(catalog, "new")
    catalog.io.write(new.metadata_location.replace("v5.", "v6."), late)
    done = commit(catalog, new, AppendFiles(added=(data_file("more"),)), sleep=lambda _: None)
    assert (done.attempts, live_paths(done.table)) == (2, {"new", "more"})


def test_commits_that_come_before_the_mark_raise_the_version_that_a_new_table_begins_at(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    table = with_rows(others, "a")

    def meanwhile() -> None:
        for n in range(3):
            commit(others, table, AppendFiles(added=(data_file(f"b{n}"),)))

    io.at, io.do = table.metadata.table_uuid, meanwhile
    catalog.drop_table(IDENTIFIER, purge=True)
    assert make_table(others).metadata_location.endswith("/v7.metadata.json")


def test_a_hint_that_a_late_writer_leaves_does_not_make_the_new_table_look_damaged(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    old = with_rows(others, "a", "b", "c")

    def meanwhile() -> None:
        others.drop_table(IDENTIFIER, purge=True)
        with_rows(others, "new")

    io.at, io.do = "version-hint.text", meanwhile
    assert commit(catalog, old, AppendFiles(added=(data_file("just in time"),))).snapshot is not None
    assert live_paths(others.load_table(IDENTIFIER)) == {"new"}


def test_a_commit_that_comes_while_its_table_is_dropped_is_dropped_with_it(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    table = with_rows(others, "a")
    io.at, io.do = table.metadata.table_uuid, lambda: commit(others, table, AppendFiles(added=(data_file("b"),)))
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not others.table_exists(IDENTIFIER)
    assert not list(Path(others._root).rglob("*.metadata.json"))


def test_a_table_is_dropped_once(catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls) -> None:
    table = with_rows(others, "a")

    def meanwhile() -> None:
        others.drop_table(IDENTIFIER, purge=True)
        with_rows(others, "new")

    io.at, io.do = table.metadata.table_uuid, meanwhile
    with pytest.raises(NoSuchTableError):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert live_paths(others.load_table(IDENTIFIER)) == {"new"}


def test_a_drop_that_dies_after_its_mark_leaves_no_table_and_no_obstacle(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    table = with_rows(others, "a", "b")

    def dies() -> None:
        raise KeyboardInterrupt

    io.at, io.do, io.after = table.metadata.table_uuid, dies, True
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert not others.table_exists(IDENTIFIER)
    with_rows(others, "new")
    assert live_paths(others.load_table(IDENTIFIER)) == {"new"}
    assert sorted(p.name for p in Path(table.location, "metadata").glob("*.metadata.json")) == [
        "v5.metadata.json",
        "v6.metadata.json",
    ]


def test_what_marks_drops_is_no_namespace_and_does_not_keep_one_from_being_dropped(catalog: FileSystemCatalog) -> None:
    with_rows(catalog, "a")
    catalog.drop_table(IDENTIFIER, purge=True)
    assert catalog.list_namespaces() == [("ns",)]
    assert catalog.list_namespaces(("ns",)) == []
    catalog.drop_namespace(("ns",))
    assert catalog.list_namespaces() == []


def test_a_table_made_twice_at_one_moment_with_two_codecs_is_made_once(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    zipped = {"write.metadata.compression-codec": "gzip"}
    io.at, io.do = "v1.gz.metadata.json", lambda: make_table(others)
    with pytest.raises(AlreadyExistsError):
        make_table(catalog, properties=zipped)
    assert others.load_table(IDENTIFIER).metadata_location.endswith("/v1.metadata.json")


def test_a_change_that_shares_its_millisecond_with_one_that_was_cleaned_away_is_not_acknowledged(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    cleaned = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}
    table = make_table(others, properties=cleaned)

    def meanwhile() -> None:
        for n in range(4):
            commit(others, others.load_table(IDENTIFIER), UpdateProperties(updates={"n": str(n)}))

    io.at, io.do = "v2.metadata.json", meanwhile
    with pytest.raises(IcebergOpsError) as e:
        commit(catalog, table, UpdateProperties(updates={"wanted": "yes"}), sleep=lambda _: None)
    assert isinstance(e.value, CommitFailedError | CommitStateUnknownError)
    assert others.load_table(IDENTIFIER).properties["n"] == "3"


def test_a_change_that_others_built_on_before_its_writer_looked_is_acknowledged(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    table = make_table(others, properties={"write.metadata.previous-versions-max": "3"})

    def meanwhile() -> None:
        for n in range(3):
            commit(others, others.load_table(IDENTIFIER), UpdateProperties(updates={"n": str(n)}))

    io.at, io.do, io.after = "v2.metadata.json", meanwhile, True
    done = commit(catalog, table, UpdateProperties(updates={"wanted": "yes"}), sleep=lambda _: None)
    assert done.attempts == 1
    assert others.load_table(IDENTIFIER).properties["wanted"] == "yes"


def test_a_version_that_cannot_be_taken_away_again_is_an_unknown_outcome(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = with_rows(others, "a")
    io.at, io.do = "v3.metadata.json", lambda: as_java_drops(others)
    monkeypatch.setattr("iceberg_ops.catalog.filesystem.discard_refused_metadata", lambda *_: None)
    with pytest.raises(CommitStateUnknownError):
        catalog.commit_table(old, [], [SetProperties({"a": "1"})])


def test_a_mark_that_cannot_be_written_leaves_the_table_as_it_was(catalog: FileSystemCatalog, io: Stalls) -> None:
    table = with_rows(catalog, "a")

    def down() -> None:
        raise CatalogUnavailableError("Injected: down")

    io.at, io.do = table.metadata.table_uuid, down
    with pytest.raises(CatalogUnavailableError):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


@pytest.mark.parametrize("inner", [("metadata",), ("sub",), ("data", "y"), ("metadata", "metadata")], ids=".".join)
def test_a_drop_leaves_a_table_alone_that_lies_in_the_folder_of_the_dropped_one(inner: tuple[str, ...], tmp_path: Path) -> None:
    """Another engine may have put it there; this package refuses to, whichever of the two comes first."""
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh"))
    away = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh" / "ns"))
    catalog.create_namespace(("ns",))
    name = ("t", *inner)
    away.create_namespace(name[:-1])
    lives = make_table(away, identifier=name)
    path = f"{lives.location}/data/a.parquet"
    lives.io.write(path, b"PAR1")
    lives = commit(away, lives, AppendFiles(added=(data_file(path),))).table
    shutil.move(tmp_path / "wh" / "ns" / "t", tmp_path / "inner")
    outer = make_table(catalog)
    shutil.copytree(tmp_path / "inner", tmp_path / "wh" / "ns" / "t", dirs_exist_ok=True)
    assert lives.location.startswith(f"{outer.location}/")
    catalog.drop_table(IDENTIFIER, purge=True)
    now = away.load_table(name)
    assert now.metadata == lives.metadata
    assert lives.io.exists(path)
    assert now.metadata.current_snapshot is not None
    assert lives.io.exists(str(now.metadata.current_snapshot.manifest_list))
    with pytest.raises(UnsupportedError, match="its folder holds another table, at "):
        make_table(catalog)
    catalog.create_namespace(("other",))
    make_table(catalog, identifier=("other", "t"))
    os.makedirs(tmp_path / "wh" / "other" / "t" / "data")
    with pytest.raises(UnsupportedError, match=r"its folder lies in that of table other\.t"):
        make_table(catalog, identifier=("other", "t", "data", "y"))
