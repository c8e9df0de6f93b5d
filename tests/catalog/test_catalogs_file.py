"""The catalogs file: errors in its structure are reported with the line, the path and the rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_ops.catalog import configuration
from iceberg_ops.catalog.configuration import CATALOGS_VARIABLE, configuration_files, find_catalog, read_catalogs
from iceberg_ops.errors import OptionError

LAKE = "catalogs:\n- {name: lake, type: sql, properties: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("catalogs:\n  lake: {type: sql}\n", ":1: catalogs: must be a list: every item begins with '- '"),
        ("- {name: lake, type: sql}\n", ":1: the document: must be a mapping of keys to values"),
        ("catalogs:\n- lake\n", ":2: catalogs[0]: must be a mapping of keys to values"),
        (
            "catalogs:\n- name: lake\n  type: sql\n  uri: geheim\n  warehouse: geheim\n",
            ":4: catalogs[0].uri: unknown key: the keys are name, type, properties. Properties go below 'properties' "
            "(1 more problem below)",
        ),
        ("catalog: []\n", ":1: catalog: unknown key (did you mean 'catalogs'?): the keys are catalogs, also-read"),
        ("catalogs:\n- name: lake\n", ":2: catalogs[0]: key 'type' is missing"),
        (
            f"{LAKE}{{uri: 5}}}}\n",
            ":2: catalogs[0].properties.uri: expected `str`, got `int`",
        ),
        (
            f"{LAKE}{{uri: ''}}}}\n",
            ": properties.uri is blank: leave it out, or give it a value",
        ),
    ],
)
def test_a_wrong_shape_is_told_with_its_line_and_shows_no_value(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "lakes.yml"
    path.write_text(text)
    with pytest.raises(OptionError) as caught:
        read_catalogs({CATALOGS_VARIABLE: str(path)})
    assert str(caught.value) == f"{path}{said}"
    assert "geheim" not in str(caught.value)


def test_an_empty_file_has_no_catalogs(tmp_path: Path) -> None:
    path = tmp_path / "lakes.yml"
    path.write_text("# nothing yet\n")
    assert read_catalogs({CATALOGS_VARIABLE: str(path)}) == []


def test_what_has_no_effect_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lakes.yml"
    path.write_text(f"{LAKE}{{uri: 'sqlite:////x', pool: geheim}}}}\n")
    for _ in range(2):
        assert find_catalog("lake", {CATALOGS_VARIABLE: str(path)}).properties["pool"] == "geheim"
    assert [r.getMessage() for r in caplog.records] == ["catalog lake: property pool has no effect here"]


@pytest.mark.parametrize("warehouse", ["wh", "./wh", "../wh", "file:wh"])
def test_a_relative_warehouse_is_warned_of(warehouse: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From another folder, the lake seemed to be empty."""
    path = tmp_path / "lakes.yml"
    path.write_text(f"catalogs:\n- {{name: {tmp_path.name}, type: filesystem, properties: {{warehouse: {warehouse}}}}}\n")
    find_catalog(tmp_path.name, {CATALOGS_VARIABLE: str(path)})
    assert f"warehouse '{warehouse}' is relative to the working folder" in caplog.text


def test_a_relative_database_is_warned_of_also_in_the_settings_of_another_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A listing from another folder made a new database, and found nothing."""
    name = f"of-{tmp_path.name}"
    begun = f"spark.sql.catalog.{name}"
    path = tmp_path / "spark.conf"
    path.write_text(f"{begun} org.apache.iceberg.spark.SparkCatalog\n{begun}.type jdbc\n{begun}.uri jdbc:sqlite:lake.db\n")
    find_catalog(name, {CATALOGS_VARIABLE: f"spark:{path}"})
    assert "the database file of its uri (not shown) is relative to the working folder" in caplog.text


def test_a_relative_warehouse_of_a_file_in_the_working_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("catalogs.yml").write_text("catalogs:\n- {name: lake, type: filesystem, properties: {warehouse: wh}}\n")
    find_catalog("lake", {})
    find_catalog("lake", {CATALOGS_VARIABLE: str(tmp_path / "catalogs.yml")})
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("kind", "warehouse"), [("filesystem", "/wh"), ("filesystem", "file:/wh"), ("sql", "s3://b"), ("rest", "prod")]
)
def test_other_warehouses_are_not(kind: str, warehouse: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lakes.yml"
    path.write_text(f"catalogs:\n- {{name: lake, type: {kind}, properties: {{warehouse: '{warehouse}'}}}}\n")
    find_catalog("lake", {CATALOGS_VARIABLE: str(path)})
    assert caplog.text == ""


def _spark(folder: Path, name: str, catalog: str) -> Path:
    path = folder / name
    begun = f"spark.sql.catalog.{catalog}"
    path.write_text(
        f"{begun} org.apache.iceberg.spark.SparkCatalog\n{begun}.type hadoop\n{begun}.warehouse /wh\n{begun}.x s3cret\n"
    )
    return path


def test_a_file_takes_over_catalogs_and_its_own_come_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = _spark(tmp_path, "one.conf", "one"), _spark(tmp_path, "two.conf", "lake")
    path = tmp_path / "lakes.yml"
    path.write_text(
        "catalogs:\n- {name: lake, type: filesystem, properties: {warehouse: /own}}\n"
        f"also-read: ['spark:{one}', 'spark:{two}', 'spark:{two}']\n"
    )
    environment = {CATALOGS_VARIABLE: str(path)}
    assert [(c.name, c.properties["warehouse"]) for c in read_catalogs(environment)] == [("lake", "/own"), ("one", "/wh")]
    assert configuration_files(environment) == [path, one, two, two]
    with caplog.at_level("WARNING", logger=configuration.__name__):
        assert find_catalog("one", environment) == find_catalog("one", environment)
    said = [record.getMessage() for record in caplog.records if record.name == configuration.__name__]
    assert said == [f"catalog one of Spark ({one}): x has no effect here"]


def test_the_variable_may_name_the_configuration_of_another_program(tmp_path: Path) -> None:
    conf = _spark(tmp_path, "spark-defaults.conf", "lake")
    for named, more in ((f"spark:{conf}", {}), ("spark", {"SPARK_CONF_DIR": str(tmp_path)})):
        environment = {CATALOGS_VARIABLE: named, **more}
        assert [c.name for c in read_catalogs(environment)] == ["lake"]
        assert configuration_files(environment) == [conf]


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (["hive"], "also-read: 'hive' must be pyiceberg or spark"),
        (["spark:~/spark.conf"], "begins with ~"),
        (["spark:/nowhere"], "spark:/nowhere: there is no such file"),
        (["pyiceberg:/nowhere"], "pyiceberg:/nowhere: there is no such file"),
        (["spark:ONE", "spark:TWO"], "catalog 'one' is defined by Spark"),
    ],
)
def test_a_source_that_cannot_be_read_is_named(sources: list[str], said: str, tmp_path: Path) -> None:
    one, two = _spark(tmp_path, "one.conf", "one"), _spark(tmp_path, "two.conf", "one")
    path = tmp_path / "lakes.yml"
    path.write_text(f"also-read: {[s.replace('ONE', str(one)).replace('TWO', str(two)) for s in sources]}\n")
    with pytest.raises(OptionError) as caught:
        read_catalogs({CATALOGS_VARIABLE: str(path)})
    assert said in str(caught.value)
