"""``.pyiceberg.yaml`` and PYICEBERG_CATALOG__*: pyiceberg itself says what they mean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import infer_catalog_type
from pyiceberg.catalog import load_catalog as pyiceberg_load
from pyiceberg.utils.config import Config

from iceberg_ops.catalog.configuration import CATALOGS_VARIABLE, find_catalog, read_catalogs
from iceberg_ops.catalog.foreign.pyiceberg_settings import FILE, pyiceberg_catalogs
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.errors import OptionError

LAKE = "catalog:\n  lake:\n    uri: http://file\n    warehouse: prod\n"

WORLDS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "nothing": ({}, {}),
    "home": ({"home": LAKE}, {}),
    "PYICEBERG_HOME comes first": ({"named": LAKE.replace("file", "named"), "home": LAKE}, {}),
    "home comes before the working folder": ({"home": LAKE, "here": LAKE.replace("file", "here")}, {}),
    "the working folder": ({"here": LAKE}, {}),
    "variables override": ({"home": LAKE}, {"PYICEBERG_CATALOG__LAKE__URI": "http://variable"}),
    "variables add": (
        {"home": LAKE},
        {"PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID": "AKIA", "PYICEBERG_CATALOG__LAKE__TYPE": "REST"},
    ),
    "variables alone": ({}, {"PYICEBERG_CATALOG__MY_LAKE__URI": "sqlite:///x.db", "pyiceberg_catalog__other__uri": "thrift://h:1"}),
    "an empty variable": ({"home": LAKE}, {"PYICEBERG_CATALOG__LAKE__WAREHOUSE": ""}),
    "scalars are texts": (
        {"home": "catalog:\n  lake:\n    uri: http://h\n    s3.anonymous: true\n    s3.region: 0123\n    prefix: 1e3\n"},
        {},
    ),
    "keys in any case": ({"home": "CATALOG:\n  lake:\n    URI: http://h\n    S3.Endpoint: http://s3\n"}, {}),
    "several": ({"home": f"default-catalog: lake\n{LAKE}  other:\n    type: sql\n    uri: postgresql+psycopg2://u:p@h/d\n"}, {}),
}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("named", "home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "named"))
    return tmp_path


def write(folders: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folders / name / FILE).write_text(text)


def ours() -> dict[str, dict[str, str]]:
    _, found = pyiceberg_catalogs(os.environ)
    return {one.name: {"type": one.usable().type, **one.usable().properties} for one in found}


@pytest.mark.parametrize("world", WORLDS)
def test_the_catalogs_are_those_of_pyiceberg(world: str, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, variables = WORLDS[world]
    write(folders, files)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    theirs: dict[str, Any] = {}
    for name in Config().get_known_catalogs():
        settings = dict(Config().get_catalog_config(name) or {})
        kind = settings.pop("type", "").lower() or infer_catalog_type(name, settings).value  # type: ignore[union-attr]
        theirs[name] = {"type": kind, **{key: value for key, value in settings.items() if value}}
    assert ours() == theirs
    assert world == "nothing" or theirs, "a world that shows nothing proves nothing"


def test_a_sql_catalog_shows_the_tables_of_pyiceberg(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        folders,
        {"home": f"catalog:\n  Lake:\n    type: sql\n    uri: sqlite:///{folders}/c.db\n    warehouse: file://{folders}/wh\n"},
    )
    theirs = pyiceberg_load("Lake", **dict(Config().get_catalog_config("Lake") or {}))  # type: ignore[arg-type]
    theirs.create_namespace("shop")
    monkeypatch.setenv(CATALOGS_VARIABLE, "pyiceberg")
    (config,) = read_catalogs()
    assert config.name == "Lake"
    assert load_catalog(config).list_namespaces() == [("shop",)]


@pytest.mark.parametrize(
    ("settings", "properties", "notes"),
    [
        ("uri: http://h\n    s3.force-virtual-addressing: 'true'", {"s3.path-style-access": "false"}, []),
        (
            "uri: http://h\n    s3.server-side-encryption: aws:kms\n    s3.sse-kms-key-id: k",
            {"s3.sse.type": "kms", "s3.sse.key": "k"},
            [],
        ),
        ("uri: http://h\n    py-io-impl: pyiceberg.io.fsspec.FsspecFileIO", {}, []),
        (
            "uri: http://h\n    py-io-impl: my.FileIO",
            {},
            ["py-io-impl my.FileIO has no effect here: files are read by the scheme of their location"],
        ),
        ("uri: http://h\n    s3.connect-timeout: 60", {}, ["s3.connect-timeout has no effect here"]),
        ("uri: http://h\n    warehous: x", {}, ["warehous has no effect here"]),  # pyiceberg works without it, too
        ("uri: http://h\n    ssl:\n      cabundle: /ca", {}, ["ssl has no effect here, because it is not text"]),
        ("uri: http://h\n    auth:\n      type: noop", {"rest.auth.type": "none"}, []),
        (
            "uri: http://h\n    auth:\n      type: basic\n      basic:\n        username: me\n        password: s3cret",
            {"rest.auth.type": "basic", "rest.auth.basic.username": "me", "rest.auth.basic.password": "s3cret"},
            [],
        ),
        (
            "uri: http://h\n    auth:\n      type: oauth2\n      oauth2:\n        client_id: me\n        client_secret: s3cret\n"
            "        token_url: http://t\n        scope: all",
            {"credential": "me:s3cret", "oauth2-server-uri": "http://t", "scope": "all"},
            [],
        ),
        ("uri: http://h\n    py-catalog-impl: pyiceberg.catalog.rest.RestCatalog", {}, []),
        ("uri: http://h\n    type: rest\n    py-catalog-impl: my.Catalog", {}, ["py-catalog-impl has no effect beside type"]),
    ],
)
def test_names_that_differ_are_mapped_and_what_is_lost_is_noted(
    settings: str, properties: dict[str, str], notes: list[str], folders: Path
) -> None:
    write(folders, {"home": f"catalog:\n  lake:\n    {settings}\n"})
    _, (found,) = pyiceberg_catalogs({"HOME": str(folders / "home")})
    assert found.usable().properties == {"uri": "http://h", **properties}
    assert list(found.notes) == notes


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("type: dynamodb", "a catalog of type 'dynamodb' is not supported"),
        ("warehouse: geheim", "neither type nor the scheme of its uri says what kind of catalog it is"),
        ("uri: geheim://x", "neither type nor the scheme of its uri says what kind of catalog it is"),
        ("py-catalog-impl: my.Catalog", "py-catalog-impl 'my.Catalog' is not a class that is known here"),
        (
            "uri: http://h\n    auth:\n      type: google\n      google:\n        token: geheim",
            "auth.type 'google' is not supported",
        ),
    ],
)
def test_a_catalog_that_cannot_be_used_says_why_when_it_is_asked_for(settings: str, said: str, folders: Path) -> None:
    write(folders, {"home": f"catalog:\n  lake:\n    {settings}\n  other:\n    uri: http://h\n"})
    environment = {"HOME": str(folders / "home"), CATALOGS_VARIABLE: "pyiceberg"}
    assert [config.name for config in read_catalogs(environment)] == ["other"]
    with pytest.raises(OptionError) as caught:
        find_catalog("lake", environment)
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "variables", "said"),
    [
        ("catalog: geheim\n", {}, "catalog must be a mapping of names to settings"),
        ("- geheim\n", {}, "must be a mapping of keys to values"),
        ("catalog:\n  lake:\n    uri: a\n    URI: geheim\n", {}, "key 'URI' is given twice, in another case"),
        ("catalog:\n  lake:\n    uri: geheim\n    uri: b\n", {}, "line 4: key 'uri' is given twice, first in line 3"),
        ("catalog:\n  lake: {uri: [}\n", {}, "not YAML: line 2"),
        ("", {"PYICEBERG_CATALOG__LAKE": "geheim"}, "PYICEBERG_CATALOG__LAKE must be PYICEBERG_CATALOG__NAME__KEY"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_without_its_values(
    text: str, variables: dict[str, str], said: str, folders: Path
) -> None:
    write(folders, {"home": text})
    with pytest.raises(OptionError) as caught:
        pyiceberg_catalogs({"HOME": str(folders / "home"), **variables})
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)
