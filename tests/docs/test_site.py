"""The reference pages agree with the registries, and the pages look the same on the site (`make docs`) and on GitHub.

The site's own check of links runs with the site; `test_docs.py` checks the same links and anchors in every test run.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from iceberg_ops.config.actions import ACTIONS, Action
from iceberg_ops.config.known_properties import PROPERTIES
from iceberg_ops.config.properties import OF_COLUMNS
from iceberg_ops.errors import IcebergOpsError
from tests.docs.markdown import ROOT, prose
from tests.docs.reference import DOCS, pages

SITE_PAGES = sorted(DOCS.glob("*.md"))
RULES = {
    "bytes": "must be a whole number of bytes",
    "true or false": "must be true or false",
    "time or age": "must be an ISO 8601 time",
    "a word": "must be one of",
    "share, to 1": "must be a number above 0 and at most 1",
    "factor": "must be a number above 0",
    "pairs": "must be from=to pairs",
    "ids": "must be whole numbers separated by commas",
    **dict.fromkeys(("files", "groups", "commits", "snapshots", "tasks", "partitions", "an id"), "must be a whole number, "),
}
OTHERWISE = {
    "max-overlap-depth": "must be a number above 0",
    "max-output-size": "must be a w",
    "var-length-contribution": "must be a w",
}
NEEDED = {"add_files": {"source-path": "/x"}}


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_reference_page_is_what_the_registry_gives(name: str) -> None:
    assert (DOCS / name).read_text() == pages()[name], "run python -m tests.docs.reference"


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.name)
def test_the_unit_of_an_option_is_what_its_parser_takes(action: Action) -> None:
    for option in action.options:
        rule = OTHERWISE.get(option.name) or RULES.get(option.unit)
        if rule is not None:
            with pytest.raises(IcebergOpsError, match=re.escape(rule)):
                action.parse({**NEEDED.get(action.name, {}), option.name: "?"}, {}, 1_800_000_000_000)
        else:
            assert option.unit in ("SQL", "names", "a name", "a location"), option.name


def test_every_property_says_what_it_means() -> None:
    assert [name for name, found in {**PROPERTIES, **OF_COLUMNS}.items() if not found.meaning] == []


def test_the_navigation_has_every_page_once() -> None:
    listed = re.findall(r"^ +- [^:\n]+: ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == [page.name for page in SITE_PAGES]


@pytest.mark.parametrize("page", SITE_PAGES, ids=lambda page: page.name)
def test_a_page_has_one_title(page: Path) -> None:
    """With two, the site shows no table of contents."""
    assert len(re.findall(r"^# ", prose(page), re.MULTILINE)) == 1


@pytest.mark.parametrize("page", SITE_PAGES, ids=lambda page: page.name)
def test_a_list_or_table_is_set_off_from_the_text_before_it(page: Path) -> None:
    """The site would show it as a part of the paragraph."""
    lines = prose(page).splitlines()
    joined = [
        line
        for before, line in pairwise(lines)
        if re.match(r"([-*] |\d+\. |\|)", line) and before and not re.match(r"([-*] |\d+\. |\||#|  )", before)
    ]
    assert joined == []
