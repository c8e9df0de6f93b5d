"""A table or namespace never leaves the folder of its name, and an unusual name is refused with a typed error when it is
created."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.neighbours import other_tables
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import BadInputError, NoSuchNamespaceError, NoSuchTableError
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table, sql_catalog
from tests.catalog.every_catalog import CATALOGS

ODD = ["..", ".", "../..", "a/b", "/", "/etc", ".hidden", "\0", "a\0b", "x\ny", "\x1b[31m", "t\udc80", "a" * 256, "é" * 128]


@pytest.fixture(params=CATALOGS, ids=str)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return CATALOGS[request.param](tmp_path)


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_name_that_is_no_plain_folder_name_is_refused_where_it_is_made(catalog: Any, name: str) -> None:
    calls = [
        lambda: make_table(catalog, identifier=("ns", name)),
        lambda: make_table(catalog, identifier=(name, "t")),
        lambda: catalog.stage_table(("ns", name), make_table(catalog).schema),
        lambda: catalog.create_namespace((name,)),
        lambda: catalog.create_namespace(("ns", name)),
    ]
    for call in calls:
        with pytest.raises(BadInputError, match=r"^name ") as e:
            call()
        str(e.value).encode()
    assert catalog.list_namespaces() == [("ns",)]


@pytest.mark.parametrize("name", [n for n in ODD if n not in ("/",)], ids=ascii)
def test_looking_up_an_odd_name_finds_nothing(catalog: Any, name: str) -> None:
    assert not catalog.table_exists(("ns", name))
    for call in (lambda: catalog.load_table(("ns", name)), lambda: catalog.drop_table(("ns", name), purge=True)):
        with pytest.raises(NoSuchTableError) as e:
            call()
        str(e.value).encode()
    for call in (lambda: catalog.list_tables((name,)), lambda: catalog.drop_namespace(("ns", name))):
        with pytest.raises(NoSuchNamespaceError):
            call()
    catalog.list_namespaces((name,))


@pytest.mark.parametrize("name", ["a" * 255, "é" * 127, "a b", "a%2Fb", "a'b\"c", "metadata", "data", "тест", "x.y"])
def test_other_names_are_taken_and_found(catalog: Any, name: str) -> None:
    table = make_table(catalog, identifier=("ns", name))
    assert catalog.list_tables(("ns",)) == [("ns", name)]
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    assert live_paths(catalog.load_table(("ns", name))) == {"a"}
    assert done.table.location.endswith(f"/{name}")
    catalog.drop_table(("ns", name), purge=True)
    assert catalog.list_tables(("ns",)) == []


def test_dropping_never_leaves_the_warehouse(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / "metadata").mkdir()
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path / "wh"))
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    (tmp_path / "metadata" / "v1.metadata.json").write_bytes(catalog.io.read(table.metadata_location))
    for name in ("../..", "../../wh/ns/t"):
        with pytest.raises(NoSuchTableError):
            catalog.drop_table(("ns", name), purge=True)
    assert (tmp_path / "precious").exists()
    assert catalog.table_exists(IDENTIFIER)


def test_folders_that_a_table_cannot_be_made_in_are_listed_past(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path))
    catalog.create_namespace(("ns",))
    make_table(catalog)
    for name in (b"\xff\xfe", b"a\nb", b".hidden"):
        os.mkdir(os.fsencode(tmp_path / "ns") + b"/" + name)
    os.symlink("loop", tmp_path / "ns" / "loop")
    assert catalog.list_tables(("ns",)) == [IDENTIFIER]
    for namespace in catalog.list_namespaces(("ns",)):
        ".".join(namespace).encode()


@pytest.mark.parametrize("kind", ["filesystem", "sql"])
@pytest.mark.parametrize("warehouse", ["wh", "./wh", "file:wh"])
def test_a_relative_warehouse_is_recorded_absolutely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, warehouse: str
) -> None:
    monkeypatch.chdir(tmp_path)
    catalog: Any
    if kind == "filesystem":
        catalog = FileSystemCatalog("c", LocalFileIO(), warehouse=warehouse)
    else:
        catalog = SqlCatalog("c", f"sqlite:///{tmp_path}/c.db", LocalFileIO(), warehouse=warehouse)
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    assert table.location == f"{'file:' if warehouse.startswith('file:') else ''}{tmp_path}/wh/ns/t"
    monkeypatch.chdir("/")
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata
    if kind == "sql":
        monkeypatch.chdir(tmp_path)
        placed = catalog.create_table(("ns", "placed"), table.schema, location="elsewhere/t/")
        assert placed.location == f"{tmp_path}/elsewhere/t"


def test_a_table_that_was_made_in_a_relative_warehouse_is_still_committed_to_and_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = FileSystemCatalog("c", LocalFileIO(), warehouse="wh")
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    text = catalog.io.read(table.metadata_location).replace(f'"{table.location}"'.encode(), b'"wh/ns/t"')
    Path(table.metadata_location).write_bytes(text)
    table = catalog.load_table(IDENTIFIER)
    assert table.location == "wh/ns/t"
    commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not [path for path in (tmp_path / "wh" / "ns").rglob("*") if path.is_file()]


def test_a_level_of_a_namespace_with_a_dot_is_refused_and_names_nothing(tmp_path: Path) -> None:
    """The database has levels joined by dots: the table would be found as one of another namespace, too."""
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    catalog.create_namespace(("a", "b"))
    table = make_table(catalog)
    dotted = ("a.b", "t")
    for make in (
        lambda: catalog.create_namespace(("a.b",)),
        lambda: catalog.create_namespace(("x", "a.b")),
        lambda: make_table(catalog, identifier=dotted),
        lambda: catalog.rename_table(IDENTIFIER, dotted),
        lambda: catalog.register_table(dotted, table.metadata_location),
    ):
        with pytest.raises(BadInputError, match=r"name 'a\.b': a level of a namespace must not have a dot in a SQL catalog"):
            make()
    make_table(catalog, identifier=("a", "b", "t"))
    assert not catalog.table_exists(dotted)
    for look in (catalog.load_table, catalog.drop_table):
        with pytest.raises(NoSuchTableError):
            look(dotted)
    for look_for in (catalog.list_tables, catalog.drop_namespace, catalog.namespace_properties):
        with pytest.raises(NoSuchNamespaceError):
            look_for(("a.b",))
    assert catalog.list_tables(("a", "b")) == [("a", "b", "t")]


@pytest.mark.parametrize("name", ["v1.metadata.json", "v20.gz.metadata.json", "version-hint.text"])
def test_no_name_makes_a_namespace_look_like_a_table(tmp_path: Path, name: str) -> None:
    """``sales/metadata/v1.metadata.json`` would be the first version of a table ``sales``."""
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path), sleep=lambda _: None)
    catalog.create_namespace(("sales", "metadata"))
    table = make_table(catalog, identifier=("sales", "orders"))
    for make in (
        lambda: make_table(catalog, identifier=("sales", "metadata", name)),
        lambda: catalog.create_namespace(("sales", "metadata", name)),
        lambda: catalog.create_namespace(("sales", "metadata", name, "below")),
    ):
        with pytest.raises(BadInputError, match="a filesystem catalog finds tables by files of this name"):
            make()
    assert catalog.list_tables(("sales",)) == [("sales", "orders")]
    assert list(other_tables(catalog, table)) == []
