"""The catalogs file: errors in its structure are reported with the line, the path and the rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_ops.catalog.configuration import CATALOGS_VARIABLE, read_catalogs
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
        ("catalog: []\n", ":1: catalog: unknown key (did you mean 'catalogs'?): the keys are catalogs"),
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
