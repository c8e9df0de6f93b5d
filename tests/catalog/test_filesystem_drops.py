"""A dropped table of a filesystem catalog stays dropped, and a new table with its name stays the only one, however late a writer
is."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.versions import DropMark
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    CorruptTableError,
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
    with pytest.raises(CommitFailedError, match="is now a different table"):
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
    assert (metadata.parent / "v3.metadata.json").exists(), "only its writer may delete it"
    (metadata.parent / "v9.metadata.json").write_bytes(late)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"new"}


def of_java(others: FileSystemCatalog, catalog: FileSystemCatalog, versions: int) -> Table:
    """A table that Iceberg Java made under the name after a drop: it begins at version 1."""
    shutil.move(f"{others._root}/.iceberg-ops", f"{others._root}/marks")
    table = with_rows(others, *(f"java {n}" for n in range(2, versions + 1)))
    shutil.move(f"{others._root}/marks", f"{others._root}/.iceberg-ops")
    assert catalog.load_table(IDENTIFIER).metadata_location.endswith(f"/v{versions}.metadata.json")
    return table


def test_a_leftover_of_a_dropped_table_in_the_place_of_the_next_version_is_an_error_that_names_it(
    catalog: FileSystemCatalog, others: FileSystemCatalog
) -> None:
    old = with_rows(catalog, "a", "b", "c")
    late = catalog.io.read(old.metadata_location)
    catalog.drop_table(IDENTIFIER, purge=True)
    new = of_java(others, catalog, 2)
    leftover = f"{new.location}/metadata/v3.metadata.json"
    catalog.io.write(leftover, late)
    with pytest.raises(CorruptTableError, match=r"v3\.metadata\.json is a version of a table of this name that was dropped"):
        commit(catalog, new, AppendFiles(added=(data_file("more"),)), sleep=lambda _: None)
    assert catalog.io.read(leftover) == late
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"java 2"}
    os.unlink(leftover)
    assert live_paths(commit(catalog, new, AppendFiles(added=(data_file("more"),))).table) == {"java 2", "more"}


def test_nobody_deletes_a_leftover_whose_name_an_acknowledged_commit_may_have_taken(
    tmp_path: Path, catalog: FileSystemCatalog, others: FileSystemCatalog
) -> None:
    """Two writers meet a leftover that its own writer is about to take away."""

    def meanwhile(_: float) -> None:
        if os.path.exists(leftover):
            os.unlink(leftover)
            commit(others, others.load_table(IDENTIFIER), AppendFiles(added=(data_file("acknowledged"),)))

    sleeper = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh"), sleep=meanwhile)
    old = with_rows(others, "a", "b", "c")
    late = others.io.read(old.metadata_location)
    others.drop_table(IDENTIFIER, purge=True)
    new = of_java(others, catalog, 2)
    leftover = f"{new.location}/metadata/v3.metadata.json"
    others.io.write(leftover, late)
    commit(sleeper, new, AppendFiles(added=(data_file("mine"),)), sleep=lambda _: None)
    assert live_paths(others.load_table(IDENTIFIER)) == {"java 2", "acknowledged", "mine"}


@pytest.mark.parametrize("versions", [1, 3])
def test_a_table_whose_creation_was_under_way_begins_above_one_that_was_dropped_meanwhile(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls, versions: int
) -> None:
    def meanwhile() -> None:
        with_rows(others, *(f"old {n}" for n in range(2, versions + 1)))
        others.drop_table(IDENTIFIER, purge=True)

    io.at, io.do = "v1.metadata.json", meanwhile
    table = with_rows(catalog, "new")
    assert table.metadata_location.endswith(f"/v{versions + 3}.metadata.json")
    assert sorted(n for n in os.listdir(f"{table.location}/metadata") if n.endswith(".metadata.json")) == [
        f"v{versions + 2}.metadata.json",
        f"v{versions + 3}.metadata.json",
    ]
    assert live_paths(others.load_table(IDENTIFIER)) == {"new"}


def test_a_first_version_that_others_have_built_on_stays_though_it_is_below_a_dropped_tables(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_names = io.list_names
    building: list[str] = []

    def meanwhile() -> None:
        make_table(others)
        others.drop_table(IDENTIFIER, purge=True)
        building.append("theirs")

    def builds(location: str) -> list[str]:
        if building and others.table_exists(IDENTIFIER):
            commit(others, others.load_table(IDENTIFIER), AppendFiles(added=(data_file(building.pop()),)))
        return list_names(location)

    monkeypatch.setattr(io, "list_names", builds)
    io.at, io.do = "v1.metadata.json", meanwhile
    table = make_table(catalog)
    now = others.load_table(IDENTIFIER)
    assert (now.metadata.table_uuid, live_paths(now)) == (table.metadata.table_uuid, {"theirs"})
    assert live_paths(commit(catalog, table, AppendFiles(added=(data_file("mine"),))).table) == {"theirs", "mine"}


@pytest.mark.parametrize("listed", [True, False], ids=["there when the drop listed versions", "later"])
def test_a_version_of_a_dropped_table_is_deleted_by_its_writer_or_by_the_drop_and_not_by_both(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    old = with_rows(others, "a")
    by_writers: list[str] = []
    monkeypatch.setattr("iceberg_ops.catalog.filesystem.discard_refused_metadata", lambda _, at: by_writers.append(at))
    versions, uuid = others._versions(IDENTIFIER), old.metadata.table_uuid
    names = frozenset({"v1.metadata.json", "v2.metadata.json", *(["v3.metadata.json"] if listed else [])})

    def marked() -> None:
        versions.mark_dropped(uuid, DropMark(3))
        versions.mark_dropped(uuid, DropMark(3, names), again=True)

    io.at, io.do, io.after = "v3.metadata.json", marked, True
    with pytest.raises(CommitFailedError if listed else CommitStateUnknownError):
        catalog.commit_table(old, [], [SetProperties({"a": "1"})])
    assert by_writers == ([] if listed else [f"{versions.folder}/v3.metadata.json"])


def test_a_version_that_comes_while_the_drop_lists_versions_is_left_where_it_is(
    catalog: FileSystemCatalog, others: FileSystemCatalog, io: Stalls
) -> None:
    old = with_rows(others, "a")
    versions = others._versions(IDENTIFIER)
    io.at, io.do = "v3.metadata.json", lambda: versions.mark_dropped(old.metadata.table_uuid, DropMark(3))
    with pytest.raises(CommitFailedError, match="was written too late: the table was dropped"):
        catalog.commit_table(old, [], [SetProperties({"a": "1"})])
    assert "v3.metadata.json" in os.listdir(versions.folder)
    assert not others.table_exists(IDENTIFIER)


def test_a_lost_version_is_noticed_also_below_the_versions_of_a_dropped_table(
    catalog: FileSystemCatalog, others: FileSystemCatalog
) -> None:
    with_rows(catalog, *"abcdefg")
    catalog.drop_table(IDENTIFIER, purge=True)
    new = of_java(others, catalog, 4)
    os.unlink(new.metadata_location)
    with pytest.raises(CorruptTableError, match="says version 4, but the highest version there is 3"):
        catalog.load_table(IDENTIFIER)
    with pytest.raises(CorruptTableError, match="says version 4"):
        catalog.commit_table(new, [], [SetProperties({"a": "1"})])


@pytest.mark.parametrize(("version", "gone"), [(2, True), (9, False)], ids=["passed", "to come"])
def test_the_orphan_job_knows_versions_of_dropped_tables(catalog: FileSystemCatalog, version: int, gone: bool) -> None:
    old = with_rows(catalog, "a")
    late = catalog.io.read(old.metadata_location)
    catalog.drop_table(IDENTIFIER, purge=True)
    new = with_rows(catalog, "/elsewhere/new")
    leftover = f"{new.location}/metadata/v{version}.metadata.json"
    catalog.io.write(leftover, late)
    os.utime(leftover, (1, 1))
    config = CatalogConfig(name="fs", type="filesystem")
    report = run_job(JobSpec(job="remove_orphan_files", table="fs.ns.t", catalog=config, options={}), catalog=catalog)
    assert (report.files, os.path.exists(leftover)) == (([leftover], False) if gone else ([], True))
    if not gone:
        assert [s.reason for s in report.skipped] == ["it is a version of a table of this name that was dropped"]
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"/elsewhere/new"}


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
        *(f"v{n}.metadata.json" for n in (1, 2, 3)),
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

    def full() -> None:
        raise CatalogUnavailableError("Injected: full") from OSError(errno.ENOSPC, "Injected: full")

    io.at, io.do = table.metadata.table_uuid, full
    with pytest.raises(CatalogUnavailableError, match="nothing was committed"):
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
    with pytest.raises(UnsupportedError, match=r"its folder is inside the folder of table other\.t"):
        make_table(catalog, identifier=("other", "t", "data", "y"))
