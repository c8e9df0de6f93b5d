"""Filesystem catalogs: versions and hints in every state, and what a table without a newest version is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    CorruptTableError,
    OptionError,
    TerminalError,
)
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.updates import SetProperties
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    return catalog


def _with_versions(catalog: Any, n: int) -> tuple[Table, Path]:
    table = make_table(catalog)
    for i in range(2, n + 1):
        table = commit(catalog, table, UpdateProperties(updates={"n": str(i)})).table
    return table, Path(table.location) / "metadata"


@pytest.mark.parametrize(
    "hint",
    [None, b"", b"abc", b"1", b"3", b"5", b"9" * 5000, b"9" * 12, "²".encode(), "٣".encode(), b"\xff"],
    ids=lambda h: str(h)[:20],
)
def test_whatever_the_hint_says_the_newest_version_is_loaded(catalog: FileSystemCatalog, hint: bytes | None) -> None:
    _, folder = _with_versions(catalog, 5)
    (folder / "version-hint.text").unlink()
    if hint is not None:
        (folder / "version-hint.text").write_bytes(hint)
    assert catalog.load_table(IDENTIFIER).metadata_location.endswith("/v5.metadata.json")


@pytest.mark.parametrize("kind", ["folder", "link in a circle", "link to nothing"])
def test_a_hint_that_is_no_file_says_nothing(catalog: FileSystemCatalog, kind: str) -> None:
    table, folder = _with_versions(catalog, 3)
    hint = folder / "version-hint.text"
    hint.unlink()
    if kind == "folder":
        hint.mkdir()
    else:
        hint.symlink_to(hint if kind == "link in a circle" else folder / "nothing")
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata
    assert commit(catalog, table, UpdateProperties(updates={"n": "4"})).table.metadata_location.endswith("/v4.metadata.json")
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)


def test_a_hint_that_may_not_be_read_says_nothing(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    """As HDFS says it; Iceberg Java then lists the versions, too."""

    class NotForMe(LocalFileIO):
        def read(self, location: str) -> bytes:
            if location.endswith("version-hint.text"):
                raise TerminalError("refused: no right")
            return super().read(location)

    _with_versions(catalog, 3)
    mine = FileSystemCatalog("fs", NotForMe(), warehouse=str(tmp_path), sleep=lambda _: None)
    assert mine.load_table(IDENTIFIER).metadata_location.endswith("/v3.metadata.json")
    commit(mine, mine.load_table(IDENTIFIER), UpdateProperties(updates={"n": "4"}))
    assert catalog.load_table(IDENTIFIER).metadata_location.endswith("/v4.metadata.json")


def test_a_hint_above_every_version_is_an_error_and_nothing_is_committed_below_it(catalog: FileSystemCatalog) -> None:
    table, folder = _with_versions(catalog, 4)
    (folder / "v4.metadata.json").rename(folder / "lost")
    with pytest.raises(
        CorruptTableError, match=r"says version 4, but the highest version there is 3: the metadata file of version 4 is"
    ):
        catalog.load_table(IDENTIFIER)
    with pytest.raises(CorruptTableError, match="says version 4"):
        catalog.commit_table(table, [], [SetProperties({"n": "5"})])
    assert catalog.table_exists(IDENTIFIER)
    assert catalog.list_tables(IDENTIFIER[:-1]) == [IDENTIFIER]
    (folder / "lost").rename(folder / "v4.metadata.json")
    assert catalog.load_table(IDENTIFIER).metadata_location.endswith("/v4.metadata.json")


def test_a_stale_hint_beside_an_old_version_that_was_left_over_does_not_serve_it(catalog: FileSystemCatalog) -> None:
    _, folder = _with_versions(catalog, 6)
    (folder / "version-hint.text").write_text("2")
    for version in (3, 4):
        (folder / f"v{version}.metadata.json").unlink()
    assert catalog.load_table(IDENTIFIER).metadata_location.endswith("/v6.metadata.json")
    table = commit(catalog, catalog.load_table(IDENTIFIER), UpdateProperties(updates={"n": "7"})).table
    assert table.metadata_location.endswith("/v7.metadata.json")


def test_two_files_of_the_newest_version_are_an_error(catalog: FileSystemCatalog) -> None:
    _, folder = _with_versions(catalog, 3)
    (folder / "v3.gz.metadata.json").write_bytes(b"")
    with pytest.raises(CorruptTableError, match="holds version 3 twice"):
        catalog.load_table(IDENTIFIER)


def test_a_version_that_stays_empty_is_an_error_that_names_it(catalog: FileSystemCatalog) -> None:
    """Its writer died on a disk without hard links and exclusive renames; or a power failure emptied it."""
    table, folder = _with_versions(catalog, 3)
    empty = folder / "v4.metadata.json"
    empty.write_bytes(b"")
    says = r"v4\.metadata\.json is empty: its writer died before it wrote version 4, or its content .* move it away to continue"
    for work in (
        lambda: catalog.load_table(IDENTIFIER),
        lambda: commit(catalog, table, UpdateProperties(updates={"n": "4"}), sleep=lambda _: None),
        lambda: catalog.drop_table(IDENTIFIER, purge=True),
    ):
        with pytest.raises(CorruptTableError, match=says):
            work()
    empty.unlink()
    assert commit(catalog, table, UpdateProperties(updates={"n": "4"})).table.metadata_location.endswith("/v4.metadata.json")


def test_a_version_that_is_empty_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path), sleep=lambda _: write())
    catalog.create_namespace(("ns",))
    _, folder = _with_versions(catalog, 3)
    latest = folder / "v3.metadata.json"
    content = latest.read_bytes()
    latest.write_bytes(b"")

    def write() -> None:
        latest.write_bytes(content)

    assert catalog.load_table(IDENTIFIER).properties["n"] == "3"


def test_a_version_that_is_a_folder_is_an_error_that_names_it(catalog: FileSystemCatalog) -> None:
    _, folder = _with_versions(catalog, 3)
    (folder / "v4.metadata.json").mkdir()
    with pytest.raises(CorruptTableError, match=r"v4\.metadata\.json cannot be read: Is a directory"):
        catalog.load_table(IDENTIFIER)


def test_a_namespace_whose_folder_holds_a_file_is_not_dropped(catalog: FileSystemCatalog, tmp_path: Path) -> None:
    (tmp_path / "ns" / "stray").write_text("x")
    with pytest.raises(BadInputError, match=r"namespace ns is not empty: its folder holds .*/ns/stray"):
        catalog.drop_namespace(("ns",))
    (tmp_path / "ns" / "stray").unlink()
    (tmp_path / "ns" / "empty").mkdir()
    with pytest.raises(BadInputError, match=r"namespace ns is not empty: it holds ns\.empty"):
        catalog.drop_namespace(("ns",))
    (tmp_path / "ns" / "empty").rmdir()
    catalog.drop_namespace(("ns",))
    assert catalog.list_namespaces() == []


@pytest.mark.parametrize("below", [(), ("inner",), ("metadata", "inner")], ids=".".join)
def test_no_namespace_is_made_at_or_in_a_table(catalog: FileSystemCatalog, below: tuple[str, ...]) -> None:
    make_table(catalog)
    with pytest.raises(AlreadyExistsError, match=r"would be inside the folder of table ns\.t"):
        catalog.create_namespace((*IDENTIFIER, *below))
    assert catalog.list_namespaces(("ns",)) == []


def test_a_missing_version_in_between_does_not_hide_the_newest_one(catalog: FileSystemCatalog) -> None:
    _, folder = _with_versions(catalog, 6)
    (folder / "version-hint.text").write_text("2")
    (folder / "v4.metadata.json").unlink()
    assert catalog.load_table(IDENTIFIER).metadata_location.endswith("/v6.metadata.json")


def test_a_version_is_committed_once(catalog: FileSystemCatalog) -> None:
    table, _ = _with_versions(catalog, 1)
    metadata = table.metadata
    catalog._publish_next(IDENTIFIER, table.metadata_location, metadata, metadata, lambda _: None)
    with pytest.raises(CommitFailedError, match="another writer committed this version"):
        catalog._publish_next(IDENTIFIER, table.metadata_location, metadata, metadata, lambda _: None)


def test_a_writer_that_slept_through_the_cleaning_of_its_version_does_not_fork_the_table(catalog: FileSystemCatalog) -> None:
    table, folder = _with_versions(catalog, 5)
    sleeper = catalog.io.read(f"{folder}/v2.metadata.json")
    old = catalog.load_table(IDENTIFIER)
    (folder / "v3.metadata.json").unlink()
    with pytest.raises(CommitFailedError, match=r"version 3 .* is outdated"):
        catalog._publish_next(IDENTIFIER, f"{folder}/v2.metadata.json", old.metadata, old.metadata, lambda _: None)
    assert sleeper
    assert not (folder / "v3.metadata.json").exists()
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata


def test_compressed_metadata_is_written_and_found(catalog: FileSystemCatalog) -> None:
    table = make_table(catalog, properties={"write.metadata.compression-codec": "gzip"})
    assert table.metadata_location.endswith("/v1.gz.metadata.json")
    table = commit(catalog, table, AppendFiles(added=(data_file("a"),))).table
    assert table.metadata_location.endswith("/v2.gz.metadata.json")
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


def test_two_writers_who_disagree_on_the_codec_meet_at_one_name(catalog: FileSystemCatalog) -> None:
    table = make_table(catalog)
    turned = catalog.commit_table(table, [], [SetProperties({"write.metadata.compression-codec": "gzip"})])
    assert turned.metadata_location.endswith("/v2.metadata.json")
    assert commit(catalog, turned, AppendFiles(added=(data_file("a"),))).table.metadata_location.endswith("/v3.gz.metadata.json")


def test_a_codec_by_which_no_later_version_could_be_named_is_not_set(catalog: FileSystemCatalog) -> None:
    """No commit could take it back: the next version's name ends as the current one says."""
    table = make_table(catalog)
    with pytest.raises(OptionError, match=r"write\.metadata\.compression-codec = 'zstd'"):
        catalog.commit_table(table, [], [SetProperties({"write.metadata.compression-codec": "zstd"})])
    assert live_paths(commit(catalog, table, AppendFiles(added=(data_file("a"),))).table) == {"a"}


class _Flaky(LocalFileIO):
    """Metadata files are written (or not), and the answer is lost."""

    def __init__(self, losses: int, *, happens: bool) -> None:
        super().__init__()
        self.losses, self.happens = losses, happens

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        if self.losses and location.endswith("v2.metadata.json"):
            self.losses -= 1
            if self.happens:
                super().write(location, data, overwrite=overwrite)
            raise CatalogUnavailableError("Injected: no answer")
        super().write(location, data, overwrite=overwrite)


@pytest.mark.parametrize("happens", [True, False])
def test_a_lost_answer_of_the_store_is_found_out_by_writing_the_same_bytes_again(tmp_path: Path, happens: bool) -> None:
    io = _Flaky(0, happens=happens)
    catalog = FileSystemCatalog("fs", io, warehouse=str(tmp_path), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    io.losses = 1
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    assert done.attempts == 1
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


def test_a_store_that_never_answers_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    io = _Flaky(0, happens=False)
    catalog = FileSystemCatalog("fs", io, warehouse=str(tmp_path), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    io.losses = 100
    with pytest.raises(CommitStateUnknownError, match=r"the outcome of creating .* is unknown"):
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])


def test_a_link_that_leads_back_gives_tables_no_second_name(tmp_path: Path) -> None:
    """Two links to their own folder made 2^40 namespaces, one gave each table 41 names."""
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh"))
    for name in ("a", "b"):
        catalog.create_namespace((name,))
    (tmp_path / "disk" / "ns").mkdir(parents=True)
    links = {"a/x": ".", "a/y": ".", "a/up": "..", "a/root": "/", "b/a": "../a", "c": "../disk", "d": "../disk", "c/ns/back": ".."}
    for link, target in links.items():
        (tmp_path / "wh" / link).symlink_to(target)
    assert catalog.list_namespaces() == [("a",), ("b",), ("c",)]
    assert catalog.list_namespaces(("a",)) == catalog.list_namespaces(("b",)) == []
    assert catalog.list_namespaces(("c",)) == [("c", "ns")]
    assert catalog.list_namespaces(("c", "ns")) == []
